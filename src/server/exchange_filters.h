// What is wrapped around an exchange on its way to an endpoint.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/http.h"

namespace tokamak::server {

// One line of the log. `body` is empty unless bodies are asked for.
struct RequestLogEntry {
  std::string peer, method, path, body;
  int status = 200;
  double seconds = 0;       // until the answer was complete
  bool is_cut_off = false;  // the client left before that
};
using RequestLog = std::function<void(const RequestLogEntry& entry)>;  // any thread; must not block

// Adds the headers of cross-origin requests to every answer. `origin` empty: the exchange as it is.
std::shared_ptr<Exchange> with_cors(std::shared_ptr<Exchange> exchange, const std::string& origin);
// Calls `log` when the answer is complete: for every POST and every error. Empty: the exchange as it is.
std::shared_ptr<Exchange> with_log(std::shared_ptr<Exchange> exchange, const RequestLog& log, bool with_body);

}  // namespace tokamak::server

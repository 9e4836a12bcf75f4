// HTTP/1.1 with server-sent events: bytes in, requests out; answers back. Knows nothing about models.
//
// One thread runs all sockets. A handler gets an Exchange and answers now or later, from any thread. Limits bound what
// a client can hold: bytes of header and body, time for both, connections, text waiting for a slow reader. Non-goals:
// HTTP/2, proxies, compression.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tokamak::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;                  // 0: any free one, see HttpServer::port
  std::string tls_certificate, tls_key;  // PEM files; both or none
  uint64_t max_body_bytes = uint64_t{64} << 20;
  uint64_t max_bodies_bytes = uint64_t{1} << 30;  // of all requests that are read or answered now; then status 503
  uint32_t max_header_bytes = 32 << 10;
  int64_t max_connections = 4096;
  double read_seconds = 30;   // for a whole header, and between two pieces of a body
  double idle_seconds = 75;   // between two requests of a connection
  double write_seconds = 30;  // for one piece of an answer
  double ping_seconds = 15;   // a comment keeps a silent event stream open; 0: never
};

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method, path;                    // path without query, percent-decoded
  std::map<std::string, std::string> query;    // decoded; the last of equal names
  std::map<std::string, std::string> headers;  // names in lower case; the last of equal ones
  std::string body;
  std::string peer;  // address of the client

  std::string_view header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : found->second;
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers = {};
};

// One request and its answer. Thread-safe. Exactly one of respond() and begin_events() takes effect; when the last
// owner lets go without an answer, the client gets status 500.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;
  virtual void respond(HttpResponse response) = 0;
  // Status 200 and text/event-stream; then pieces as they come.
  virtual void begin_events(Headers headers = {}) = 0;
  // `text` is one or more whole events ("data: ...\n\n"). False: the client is gone, or reads so slowly that too much
  // waits for it (it is cut off then). No event is ever left out.
  virtual bool send_event(std::string text) = 0;
  virtual void end_events() = 0;
  // Called once, on the socket thread, if the client leaves before the answer is complete; at once if it has left.
  virtual void on_disconnect(std::function<void()> callback) = 0;
};

// On the socket thread: must not block.
using HttpHandler = std::function<void(std::shared_ptr<Exchange>)>;
// A malformed or oversized request never reaches the handler: this makes the body for its status. A late one is cut
// off.
using HttpErrorBody = std::function<HttpResponse(int status, std::string_view path, std::string_view what)>;

class HttpServer {
 public:
  // Listens. Errors: bad_argument (address), io_failed or bad_file (port in use, certificate), naming host and port.
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, HttpHandler handler,
                                                   HttpErrorBody error_body);
  virtual ~HttpServer() = default;
  virtual uint16_t port() const = 0;
  virtual int64_t n_connections() const = 0;
  // Stops accepting; connections end with their answer. stop() cuts them off and joins the thread.
  virtual void close_listener() = 0;
  virtual void stop() = 0;
};

// "a%20b+c" -> "a b c" (plus: only in queries). Nothing for malformed escapes and bytes that are no UTF-8.
std::optional<std::string> percent_decode(std::string_view text, bool is_query);
// "/x?a=1&b" -> path and query. Nothing when malformed.
bool split_target(std::string_view target, std::string& path, std::map<std::string, std::string>& query);

}  // namespace tokamak::server

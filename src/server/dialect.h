// How each family of endpoints words errors.
#pragma once

#include <string_view>

#include "base/result.h"
#include "server/http.h"

namespace tokamak::server {

struct ServerContext;

enum class Dialect : uint8_t {
  openai,     // {"error": {"message", "type", "param", "code"}}
  anthropic,  // {"type": "error", "error": {"type", "message"}}
};

// Of the endpoint at `path`; openai for unknown paths.
Dialect dialect_of(std::string_view path);

// The error's HTTP status and body. `param` is Error::where when it names a field. A full queue says when to come back.
HttpResponse error_response(Dialect dialect, const Error& error, int64_t retry_after_seconds = 0);
// Answers with the error, and says when to come back if the queue is full.
void respond_error(Exchange& exchange, const ServerContext& context, Dialect dialect, const Error& error);
// An error that has no code of the engine: unknown paths, bad keys, malformed HTTP.
HttpResponse error_response(Dialect dialect, int status, std::string_view message);
// The `data:` of an error inside an event stream.
std::string error_data(Dialect dialect, const Error& error);

}  // namespace tokamak::server

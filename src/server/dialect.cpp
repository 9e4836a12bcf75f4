#include "server/dialect.h"

#include "base/error.h"
#include "server/generation.h"

namespace tokamak::server {

namespace {
// By HTTP status: OpenAI's and Anthropic's names for it.
struct StatusRow {
  int status;
  std::string_view openai, anthropic;
};
constexpr auto kStatuses = std::to_array<StatusRow>({
    {400, "invalid_request_error", "invalid_request_error"},
    {401, "authentication_error", "authentication_error"},
    {403, "permission_error", "permission_error"},
    {404, "not_found_error", "not_found_error"},
    {413, "invalid_request_error", "request_too_large"},
    {422, "invalid_request_error", "invalid_request_error"},
    {429, "rate_limit_error", "rate_limit_error"},
    {503, "server_error", "overloaded_error"},
    {500, "server_error", "api_error"},
});
const StatusRow& status_row(int status) {
  for (const StatusRow& row : kStatuses)
    if (row.status == status) return row;
  return status < 500 ? kStatuses.front() : kStatuses.back();
}

// Error::where as a field of the request, or nothing: places of other kinds hold spaces, slashes or are empty.
bool is_field(std::string_view where) { return !where.empty() && where.find_first_of(" /-") == where.npos; }

Json error_json(Dialect dialect, int status, std::string_view message, std::string_view param, std::string_view code) {
  if (dialect == Dialect::anthropic)
    return {{"type", "error"}, {"error", {{"type", status_row(status).anthropic}, {"message", message}}}};
  Json inner = {{"message", message}, {"type", status_row(status).openai}};
  inner["param"] = param.empty() ? Json(nullptr) : Json(param);
  inner["code"] = code.empty() ? Json(nullptr) : Json(code);
  return {{"error", std::move(inner)}};
}

// Clients look for this exact code when a prompt is too long.
std::string_view code_name(const Error& error) {
  return error.code == ErrorCode::context_full ? "context_length_exceeded" : error_row(error.code).name;
}

Json error_json(Dialect dialect, const Error& error) {
  // Anthropic has no code for it: its clients look for these words.
  const bool is_too_long = dialect == Dialect::anthropic && error.code == ErrorCode::context_full;
  return error_json(dialect, error_row(error.code).http_status,
                    (is_too_long ? "prompt is too long: " : "") + error.message(),
                    is_field(error.where) ? std::string_view(error.where) : std::string_view(), code_name(error));
}
}  // namespace

Dialect dialect_of(std::string_view path) {
  return path.starts_with("/v1/messages") ? Dialect::anthropic : Dialect::openai;
}

HttpResponse error_response(Dialect dialect, const Error& error, int64_t retry_after_seconds) {
  HttpResponse response{.status = error_row(error.code).http_status, .body = dump(error_json(dialect, error))};
  if (retry_after_seconds > 0) response.headers = {{"Retry-After", std::to_string(retry_after_seconds)}};
  return response;
}

void respond_error(Exchange& exchange, const ServerContext& context, Dialect dialect, const Error& error) {
  const bool busy = error.code == ErrorCode::queue_full;
  exchange.respond(error_response(dialect, error, busy ? context.service.retry_after_seconds() : 0));
}

HttpResponse error_response(Dialect dialect, int status, std::string_view message) {
  return {.status = status, .body = dump(error_json(dialect, status, message, {}, {}))};
}

std::string error_data(Dialect dialect, const Error& error) { return dump(error_json(dialect, error)); }

}  // namespace tokamak::server

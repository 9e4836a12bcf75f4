#include <fmt/format.h>

#include <algorithm>

#include "server/dialect.h"
#include "server/endpoints.h"
#include "server/exchange_filters.h"

namespace tokamak::server {

namespace {

constexpr auto kEndpoints = std::to_array<EndpointRow>({
    {"GET", "/health /v1/health", health, true, false, "whether requests are taken"},
    {"GET", "/v1/models /models", models, true, false, "the loaded model"},
    {"POST", "/v1/chat/completions /chat/completions", chat_completions, false, true, "OpenAI chat"},
    {"POST", "/v1/chat/completions/input_tokens /chat/completions/input_tokens", chat_input_tokens, false, true,
     "a chat request's number of prompt tokens"},
    {"POST", "/v1/chat/completions/control /chat/completions/control", chat_control, false, true,
     "ends the thought of an answer that is under way"},
    {"POST", "/v1/responses /responses", responses, false, true, "OpenAI responses"},
    {"POST", "/v1/responses/input_tokens /responses/input_tokens", responses_input_tokens, false, true,
     "a responses request's number of prompt tokens"},
    {"POST", "/v1/messages", messages, false, true, "Anthropic messages"},
    {"POST", "/v1/messages/count_tokens", messages_count_tokens, false, true,
     "a messages request's number of prompt tokens"},
    {"POST", "/v1/completions", completions, false, true, "OpenAI text completion"},
    {"POST", "/completion /completions", native_completion, false, true, "text completion with all settings"},
    {"POST", "/infill", infill, false, true, "text between two others; for models of code"},
    {"POST", "/v1/embeddings /embeddings", embeddings, false, true, "OpenAI embeddings"},
    {"POST", "/embedding", native_embedding, false, true, "embeddings as lists of rows; pooling none: one per token"},
    {"POST", "/v1/rerank /rerank /reranking /v1/reranking", rerank, false, true, "how well documents answer a query"},
    {"POST", "/tokenize", tokenize, false, true, "text to token ids"},
    {"POST", "/detokenize", detokenize, false, true, "token ids to text"},
    {"POST", "/apply-template", apply_template, false, true, "a chat request's prompt"},
    {"GET", "/props", props, false, false, "the model, its template, and what memory is reserved"},
    {"POST", "/props", set_props, false, false, "refused: properties do not change while the server runs"},
    {"GET", "/slots", slots, false, false, "what each slot does and holds; fail_on_no_slot=1: 503 when all are busy"},
    {"POST", "/slots/{id}", slot_action, false, true,
     "action=save, restore or erase: a slot's tokens to a file and back"},
    {"GET", "/lora-adapters", lora_adapters, false, false, "an empty list: adapters are not built"},
    {"POST", "/lora-adapters", set_lora_adapters, false, true, "refuses all but an empty list"},
    {"GET", "/metrics", metrics, false, false, "counters in Prometheus' form"},
    {"GET", "/ /favicon.ico /page/{file}", web_page, true, false,
     "the page for chatting and its files; its own requests bring the key"},
});

// "/slots/{id}": the end of the path may be any word.
bool matches(std::string_view pattern, std::string_view path) {
  const size_t word = pattern.find('{');
  if (word == pattern.npos) return pattern == path;
  pattern = pattern.substr(0, word);
  return path.starts_with(pattern) && path.size() > pattern.size() && path.find('/', pattern.size()) == path.npos;
}

bool has_path(const EndpointRow& row, std::string_view path) {
  std::string_view rest = row.paths;
  while (!rest.empty()) {
    const size_t end = rest.find(' ');
    if (matches(rest.substr(0, end), path)) return true;
    rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
  }
  return false;
}

void refuse(Exchange& exchange, int status, std::string_view message) {
  exchange.respond(error_response(dialect_of(exchange.request().path), status, message));
}

}  // namespace

std::span<const EndpointRow> endpoints() { return kEndpoints; }

std::string endpoints_markdown() {
  std::string out =
      "# Endpoints\n\nPrinted by the program from `src/server/router.cpp`.\n\n| method | paths | key | what "
      "|\n|---|---|---|---|\n";
  for (const EndpointRow& row : kEndpoints) {
    std::string paths(row.paths);
    for (size_t at = 0; (at = paths.find(' ', at)) != paths.npos; at += 4) paths.replace(at, 1, "`, `");
    out += fmt::format("| {} | `{}` | {} | {} |\n", row.method, paths, row.is_public ? "not asked for" : "asked for",
                       row.meaning);
  }
  return out;
}

void route(const std::shared_ptr<Exchange>& plain, ServerContext& context, Workers& workers) {
  const ServerOptions& options = context.options;
  const std::shared_ptr<Exchange> exchange =
      with_log(with_cors(plain, options.cors_origin), options.log, options.log_bodies);
  const HttpRequest& request = exchange->request();
  if (request.method == "OPTIONS" && !options.cors_origin.empty())
    return exchange->respond({.status = 204, .content_type = ""});
  if (const std::string why = context.access.why_foreign(request); !why.empty()) return refuse(*exchange, 403, why);
  // http_server leaves out the body of HEAD.
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  const EndpointRow* found = nullptr;
  bool other_method = false;
  for (const EndpointRow& row : kEndpoints) {
    if (!has_path(row, request.path)) continue;
    if (row.method == method)
      found = &row;
    else
      other_method = true;
  }
  if (!found && other_method) return refuse(*exchange, 405, "this path does not take " + request.method);
  if (!found) return refuse(*exchange, 404, "there is no " + request.path);
  if (!found->is_public && !context.access.has_key(request))
    return refuse(*exchange, 401, "the API key is missing or wrong");
  if (!found->is_work) return found->run(exchange, context);
  workers.post([exchange, &context, run = found->run] { run(exchange, context); });
}

}  // namespace tokamak::server

#include <fmt/format.h>

#include <algorithm>

#include "server/dialect.h"
#include "server/endpoints.h"

namespace tokamak::server {

namespace {

constexpr auto kEndpoints = std::to_array<EndpointRow>({
    {"GET", "/health /v1/health", health, true, false, "whether requests are taken"},
    {"GET", "/v1/models /models", models, true, false, "the loaded model"},
    {"POST", "/v1/chat/completions /chat/completions", chat_completions, false, true, "OpenAI chat"},
    {"POST", "/v1/chat/completions/input_tokens /chat/completions/input_tokens", chat_input_tokens, false, true,
     "a chat request's number of prompt tokens"},
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

// Takes the same time whatever the first difference is.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

bool has_key(const HttpRequest& request, const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  std::string_view given = request.header("authorization");
  constexpr std::string_view kBearer = "Bearer ";
  given = given.starts_with(kBearer) ? given.substr(kBearer.size()) : request.header("x-api-key");
  bool found = false;
  for (const std::string& key : keys) found |= equal_in_constant_time(given, key);
  return found;
}

// Adds the headers of cross-origin requests to every answer.
class CorsExchange : public Exchange {
 public:
  CorsExchange(std::shared_ptr<Exchange> inner, std::string origin)
      : inner_(std::move(inner)), origin_(std::move(origin)) {}
  const HttpRequest& request() const override { return inner_->request(); }
  void respond(HttpResponse response) override {
    add(response.headers);
    inner_->respond(std::move(response));
  }
  void begin_events(Headers headers) override {
    add(headers);
    inner_->begin_events(std::move(headers));
  }
  bool send_event(std::string text) override { return inner_->send_event(std::move(text)); }
  void end_events() override { inner_->end_events(); }
  void on_disconnect(std::function<void()> callback) override { inner_->on_disconnect(std::move(callback)); }

 private:
  void add(Headers& headers) const {
    headers.emplace_back("Access-Control-Allow-Origin", origin_);
    headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key");
    headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  }
  std::shared_ptr<Exchange> inner_;
  std::string origin_;
};

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
  const std::string& origin = context.options.cors_origin;
  const std::shared_ptr<Exchange> exchange = origin.empty() ? plain : std::make_shared<CorsExchange>(plain, origin);
  const HttpRequest& request = exchange->request();
  if (request.method == "OPTIONS" && !origin.empty()) return exchange->respond({.status = 204, .content_type = ""});
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
  if (!found->is_public && !has_key(request, context.options.api_keys))
    return refuse(*exchange, 401, "the API key is missing or wrong");
  if (!found->is_work) return found->run(exchange, context);
  workers.post([exchange, &context, run = found->run] { run(exchange, context); });
}

}  // namespace tokamak::server

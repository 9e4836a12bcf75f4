#include "server/server.h"

#include "chat/tool_fallback.h"
#include "server/dialect.h"
#include "server/endpoints.h"
#include "server/reply.h"

namespace tokamak::server {

namespace {
constexpr int kWorkers = 2;
constexpr std::chrono::milliseconds kMaskBudget{2000};

void set_reply_format(ServerContext& context) {
  ReplyFormat& format = context.reply_format;
  if (context.chat_template) {
    format = find_reply_format(*context.chat_template);
    if (!context.chat_template->abilities().shows_tools)
      format.calls = find_reply_format(tool_fallback_template()).calls;
  }
  if (!context.options.reasoning_start.empty()) {
    format.reasoning_start = context.options.reasoning_start;
    format.reasoning_end = context.options.reasoning_end;
  }
  context.reply_tokens = reply_tokens(format, context.tokenizer());
}
}  // namespace

Result<std::unique_ptr<Server>> Server::start(std::unique_ptr<Session> session, Result<ChatTemplate> chat_template,
                                              const ServiceOptions& service_options, ServerOptions options) {
  std::unique_ptr<Server> server(new Server());
  server->service_ = TRY(Service::create(std::move(session), service_options));
  const Model& model = server->service_->model();
  std::string name = options.alias.empty() ? model.name() : options.alias;
  const HttpOptions http = options.http;
  const std::vector<std::string> keys = options.api_keys;
  const std::string cors_origin = options.cors_origin;
  server->workers_ = std::make_unique<Workers>(kWorkers);
  server->file_workers_ = std::make_unique<Workers>(1);
  server->slot_store_ = std::make_unique<SlotStore>(*server->service_, options.slot_folder, service_options.n_parallel);
  server->context_ = std::make_unique<ServerContext>(
      ServerContext{.options = std::move(options),
                    .service = *server->service_,
                    .workers = *server->workers_,
                    .access = Access(keys, cors_origin, http.host),
                    .file_workers = *server->file_workers_,
                    .slot_store = *server->slot_store_,
                    .model = model,
                    .chat_template = std::move(chat_template),
                    .model_name = std::move(name),
                    .created = unix_seconds(),
                    .n_parallel = service_options.n_parallel,
                    .grammar = {.tokenizer = model.tokenizer(), .trie = VocabTrie::create(model.tokenizer())}});
  set_reply_format(*server->context_);
  server->http_ = TRY(HttpServer::start(
      http,
      [&context = *server->context_, &workers = *server->workers_](const std::shared_ptr<Exchange>& exchange) {
        route(exchange, context, workers);
      },
      [](int status, std::string_view path, std::string_view what) {
        return error_response(dialect_of(path), status, what);
      }));
  // Last: had anything failed above, the context would be gone before this work is over.
  server->workers_->post([&tools = server->context_->grammar] {
    // The states of JSON texts, which all schemas share.
    if (const auto any = Grammar::any_json_object()) prepare_masks(*any, *tools.trie, kMaskBudget);
  });
  return server;
}

// What was said last still has to leave; connections end with their answers.
void Server::wait_for_connections() const {
  constexpr std::chrono::milliseconds kMost{500}, kPause{5};
  const auto end = std::chrono::steady_clock::now() + kMost;
  while (http_->n_connections() > 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kPause);
}

bool Server::shut_down(double timeout_seconds) {
  http_->close_listener();
  const bool clean = service_->drain(timeout_seconds);
  wait_for_connections();
  workers_->stop();
  file_workers_->stop();
  http_->stop();
  is_down_ = true;
  return clean;
}

Server::~Server() {
  if (http_ && !is_down_) static_cast<void>(shut_down(0));
}

}  // namespace tokamak::server

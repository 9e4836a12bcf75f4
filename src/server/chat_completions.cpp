// POST /v1/chat/completions.
#include "server/chat_prompt.h"
#include "server/endpoints.h"
#include "server/generation.h"

namespace tokamak::server {

namespace {

struct ChatHead {
  std::string id = new_id("chatcmpl-");
  int64_t created = unix_seconds();
  std::string model;
};

// Text and thoughts of some events.
struct Parts {
  std::string content, reasoning;
  void add(const std::vector<OutputEvent>& events) {
    for (const OutputEvent& e : events) {
      if (e.kind == OutputKind::text || e.kind == OutputKind::payload) content += e.text;
      if (e.kind == OutputKind::reasoning) reasoning += e.text;
    }
  }
};

class ChatAnswer : public AnswerWriter {
 public:
  ChatAnswer(std::shared_ptr<Exchange> exchange, const ServerContext& context, ChatHead head, bool logprobs)
      : exchange_(std::move(exchange)), context_(context), head_(std::move(head)), logprobs_(logprobs) {}

  bool tokens(const TokensEvent& event) override {
    parts_.add(event.text);
    if (logprobs_) tokens_.insert(tokens_.end(), event.tokens.begin(), event.tokens.end());
    return true;
  }
  void finished(const Finished& finished) override {
    if (finished.reason == FinishReason::cancelled) return;
    Json message = {{"role", "assistant"}, {"content", parts_.content}};
    if (!parts_.reasoning.empty()) message["reasoning_content"] = parts_.reasoning;
    Json choice = {{"index", 0},
                   {"message", std::move(message)},
                   {"logprobs", logprobs_ ? chat_logprobs(tokens_, context_.tokenizer()) : Json(nullptr)},
                   {"finish_reason", openai_finish_reason(finished.reason)}};
    if (finished.matched_stop) choice["stop_reason"] = *finished.matched_stop;
    Json json = {{"id", head_.id},
                 {"object", "chat.completion"},
                 {"created", head_.created},
                 {"model", head_.model},
                 {"choices", Json::array({std::move(choice)})},
                 {"usage", usage_json(finished.timings)},
                 {"timings", timings_json(finished.timings)}};
    exchange_->respond({.body = dump(json)});
  }
  void failed(const Error& error) override { exchange_->respond(error_response(Dialect::openai, error)); }

 private:
  std::shared_ptr<Exchange> exchange_;
  const ServerContext& context_;
  ChatHead head_;
  bool logprobs_;
  Parts parts_;
  std::vector<GeneratedToken> tokens_;
};

struct StreamOptions {
  bool logprobs = false, usage = false, timings = false;
};

class ChatStream : public AnswerWriter {
 public:
  ChatStream(std::shared_ptr<Exchange> exchange, const ServerContext& context, ChatHead head, StreamOptions options)
      : stream_(std::move(exchange)), context_(context), head_(std::move(head)), options_(options) {}

  bool progress(const PromptProgress& progress) override {
    Json chunk = make_chunk(Json::object(), nullptr);
    chunk["prompt_progress"] = progress_json(progress);
    return send(chunk);
  }
  bool tokens(const TokensEvent& event) override {
    Parts parts;
    parts.add(event.text);
    if (options_.logprobs) pending_.insert(pending_.end(), event.tokens.begin(), event.tokens.end());
    if (parts.content.empty() && parts.reasoning.empty()) return open();
    Json delta = Json::object();
    if (!parts.reasoning.empty()) delta["reasoning_content"] = parts.reasoning;
    if (!parts.content.empty()) delta["content"] = parts.content;
    Json chunk = make_chunk(std::move(delta), nullptr);
    if (options_.logprobs) {
      chunk["choices"][0]["logprobs"] = chat_logprobs(pending_, context_.tokenizer());
      pending_.clear();
    }
    if (options_.timings) chunk["timings"] = timings_json(event.timings);
    return send(chunk);
  }
  void finished(const Finished& finished) override {
    Json chunk = make_chunk(Json::object(), Json(openai_finish_reason(finished.reason)));
    if (options_.logprobs && !pending_.empty())
      chunk["choices"][0]["logprobs"] = chat_logprobs(pending_, context_.tokenizer());
    chunk["timings"] = timings_json(finished.timings);
    send(chunk);
    if (options_.usage) send(usage_chunk(make_chunk(Json::object(), nullptr), finished.timings));
    stream_.end(true);
  }
  void failed(const Error& error) override { stream_.fail(error); }

 private:
  Json make_chunk(Json delta, Json finish_reason) const {
    Json choice = {{"index", 0}, {"delta", std::move(delta)}, {"finish_reason", std::move(finish_reason)}};
    return {{"id", head_.id},
            {"object", "chat.completion.chunk"},
            {"created", head_.created},
            {"model", head_.model},
            {"choices", Json::array({std::move(choice)})}};
  }
  // The first event names the role.
  bool open() {
    return stream_.is_open() || stream_.send(make_chunk({{"role", "assistant"}, {"content", ""}}, nullptr));
  }
  bool send(const Json& chunk) { return open() && stream_.send(chunk); }

  AnswerStream stream_;
  const ServerContext& context_;
  ChatHead head_;
  StreamOptions options_;
  std::vector<GeneratedToken> pending_;  // not shown yet: their text is held back
};

Result<void> run(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const Fields fields = TRY(Fields::parse(exchange->request().body, kChat));
  const std::string prompt = TRY(render_chat(fields, context));
  GenerationRequest request = TRY(read_generation(fields, kChat, context));
  set_reasoning_tags(request.output, context, prompt);
  request.prompt = context.tokenizer().encode(prompt, {.add_special = false, .parse_special = true});
  ChatHead head{.model = fields.text("model", context.model_name)};
  const bool logprobs = request.logprobs;
  std::unique_ptr<AnswerWriter> writer;
  if (fields.flag("stream", false)) {
    writer = std::make_unique<ChatStream>(
        exchange, context, std::move(head),
        StreamOptions{
            .logprobs = logprobs, .usage = wants_usage(fields), .timings = fields.flag("timings_per_token", false)});
  } else {
    request.return_progress = false;
    writer = std::make_unique<ChatAnswer>(exchange, context, std::move(head), logprobs);
  }
  submit(exchange, context, std::move(request), std::move(writer), Dialect::openai);
  return {};
}

}  // namespace

void chat_completions(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run(exchange, context); !ok) exchange->respond(error_response(Dialect::openai, ok.error()));
}

}  // namespace tokamak::server

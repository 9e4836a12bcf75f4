// POST /v1/chat/completions.
#include "server/chat_fields.h"
#include "server/endpoints.h"

namespace tokamak::server {

namespace {

struct ChatHead {
  std::string id = new_id("chatcmpl-");
  int64_t created = unix_seconds();
  std::string model;
};

std::string_view finish_reason(const Finished& finished, int n_calls) {
  const std::string_view reason = openai_finish_reason(finished.reason);
  return n_calls > 0 && reason == "stop" ? "tool_calls" : reason;
}

Json call_json(const Reply::Call& call) {
  return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

Json message_json(const Reply& reply) {
  const bool only_calls = reply.content.empty() && !reply.calls.empty();
  Json message = {{"role", "assistant"}, {"content", only_calls ? Json(nullptr) : Json(reply.content)}};
  if (!reply.reasoning.empty()) message["reasoning_content"] = reply.reasoning;
  for (const Reply::Call& call : reply.calls) message["tool_calls"].push_back(call_json(call));
  return message;
}

class ChatAnswer : public ReplyWriter {
 public:
  ChatAnswer(AnswerStream stream, const ServerContext& context, ChatHead head, size_t n_choices, bool logprobs)
      : stream_(std::move(stream)),
        context_(context),
        head_(std::move(head)),
        logprobs_(logprobs),
        replies_(n_choices),
        tokens_(n_choices),
        choices_(Json::array()) {
    for (size_t i = 0; i < n_choices; ++i) choices_.push_back(nullptr);
  }

  bool deltas(size_t choice, const std::vector<ReplyDelta>& deltas, const TokensEvent& event) override {
    replies_[choice].add(deltas);
    if (logprobs_) tokens_[choice].insert(tokens_[choice].end(), event.tokens.begin(), event.tokens.end());
    return true;
  }
  void finished(size_t index, const Finished& finished, int n_calls) override {
    Json choice = {{"index", index},
                   {"message", message_json(replies_[index])},
                   {"logprobs", logprobs_ ? chat_logprobs(tokens_[index], context_.tokenizer()) : Json(nullptr)},
                   {"finish_reason", finish_reason(finished, n_calls)}};
    if (finished.matched_stop) choice["stop_reason"] = *finished.matched_stop;
    choices_[index] = std::move(choice);
  }
  void all_finished(const RequestTimings& total) override {
    stream_.respond({{"id", head_.id},
                     {"object", "chat.completion"},
                     {"created", head_.created},
                     {"model", head_.model},
                     {"choices", std::move(choices_)},
                     {"usage", usage_json(total)},
                     {"timings", timings_json(total)}});
  }
  void failed(const Error& error) override { stream_.fail(error); }

 private:
  AnswerStream stream_;
  const ServerContext& context_;
  ChatHead head_;
  bool logprobs_;
  std::vector<Reply> replies_;
  std::vector<std::vector<GeneratedToken>> tokens_;
  Json choices_;
};

struct StreamOptions {
  bool logprobs = false, usage = false, timings = false;
};

class ChatStream : public ReplyWriter {
 public:
  ChatStream(AnswerStream stream, const ServerContext& context, ChatHead head, size_t n_choices, StreamOptions options)
      : stream_(std::move(stream)), context_(context), head_(std::move(head)), options_(options), choices_(n_choices) {}

  bool progress(size_t choice, const PromptProgress& progress) override {
    Json chunk = make_chunk(choice, Json::object(), nullptr);
    chunk["prompt_progress"] = progress_json(progress);
    return send(choice, chunk);
  }
  bool deltas(size_t index, const std::vector<ReplyDelta>& deltas, const TokensEvent& event) override {
    std::vector<GeneratedToken>& pending = choices_[index].pending;
    if (options_.logprobs) pending.insert(pending.end(), event.tokens.begin(), event.tokens.end());
    for (size_t i = 0; i < deltas.size(); ++i) {
      Json chunk = make_chunk(index, delta_json(deltas[i]), nullptr);
      if (options_.logprobs && i + 1 == deltas.size())
        chunk["choices"][0]["logprobs"] = chat_logprobs(std::exchange(pending, {}), context_.tokenizer());
      if (options_.timings) chunk["timings"] = timings_json(event.timings);
      if (!send(index, chunk)) return false;
    }
    return open(index);
  }
  void finished(size_t index, const Finished& finished, int n_calls) override {
    Json chunk = make_chunk(index, Json::object(), Json(finish_reason(finished, n_calls)));
    if (std::vector<GeneratedToken>& pending = choices_[index].pending; !pending.empty())
      chunk["choices"][0]["logprobs"] = chat_logprobs(pending, context_.tokenizer());
    if (finished.matched_stop) chunk["choices"][0]["stop_reason"] = *finished.matched_stop;
    chunk["timings"] = timings_json(finished.timings);
    send(index, chunk);
  }
  void all_finished(const RequestTimings& total) override {
    if (options_.usage) stream_.send(usage_chunk(make_chunk(0, Json::object(), nullptr), total));
    stream_.end(true);
  }
  void failed(const Error& error) override { stream_.fail(error); }

 private:
  struct Choice {
    bool is_open = false;
    std::vector<GeneratedToken> pending;  // not shown yet: their text is held back
  };

  static Json delta_json(const ReplyDelta& delta) {
    switch (delta.kind) {
      case ReplyDelta::Kind::reasoning:
        return {{"reasoning_content", delta.text}};
      case ReplyDelta::Kind::content:
        return {{"content", delta.text}};
      case ReplyDelta::Kind::call: {
        Json call = call_json({.id = delta.id, .name = delta.name, .arguments = ""});
        call["index"] = delta.call;
        return {{"tool_calls", Json::array({std::move(call)})}};
      }
      case ReplyDelta::Kind::arguments:
        break;
    }
    Json call = {{"index", delta.call}, {"function", {{"arguments", delta.text}}}};
    return {{"tool_calls", Json::array({std::move(call)})}};
  }
  Json make_chunk(size_t index, Json delta, Json finish_reason) const {
    Json choice = {{"index", index}, {"delta", std::move(delta)}, {"finish_reason", std::move(finish_reason)}};
    return {{"id", head_.id},
            {"object", "chat.completion.chunk"},
            {"created", head_.created},
            {"model", head_.model},
            {"choices", Json::array({std::move(choice)})}};
  }
  // The first event of a choice names the role.
  bool open(size_t index) {
    if (std::exchange(choices_[index].is_open, true)) return true;
    return stream_.send(make_chunk(index, {{"role", "assistant"}, {"content", ""}}, nullptr));
  }
  bool send(size_t index, const Json& chunk) { return open(index) && stream_.send(chunk); }

  AnswerStream stream_;
  const ServerContext& context_;
  ChatHead head_;
  StreamOptions options_;
  std::vector<Choice> choices_;
};

Result<void> run(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const Fields fields = TRY(Fields::parse(exchange->request().body, kChat));
  ChatTask task = TRY(read_chat(fields, context));
  const bool logprobs = task.generation.logprobs, stream = fields.flag("stream", false);
  if (!stream) task.generation.return_progress = false;
  PreparedChat chat = TRY(prepare_chat(std::move(task), context));
  ChatHead head{.model = fields.text("model", context.model_name)};
  chat.id = head.id;
  AnswerStream out(exchange, chat.headers);
  const size_t n = chat.requests.size();
  std::unique_ptr<ReplyWriter> writer;
  if (stream) {
    const StreamOptions options{
        .logprobs = logprobs, .usage = wants_usage(fields), .timings = fields.flag("timings_per_token", false)};
    writer = std::make_unique<ChatStream>(std::move(out), context, std::move(head), n, options);
  } else {
    writer = std::make_unique<ChatAnswer>(std::move(out), context, std::move(head), n, logprobs);
  }
  submit_chat(exchange, context, std::move(chat), std::move(writer), Dialect::openai);
  return {};
}

}  // namespace

void chat_completions(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run(exchange, context); !ok) exchange->respond(error_response(Dialect::openai, ok.error()));
}

}  // namespace tokamak::server

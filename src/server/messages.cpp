// POST /v1/messages.
#include "server/endpoints.h"
#include "server/message_object.h"
#include "server/messages_request.h"

namespace tokamak::server {

namespace {

class MessagesWriter : public ReplyWriter {
 public:
  MessagesWriter(AnswerStream stream, MessagesTask task)
      : stream_(std::move(stream)),
        is_streamed_(task.stream),
        with_timings_(task.timings),
        object_(std::move(task.model), task.stream) {}

  std::string id() const { return object_.json()["id"]; }
  bool progress(size_t, const PromptProgress& progress) override {
    if (object_.is_started())
      object_.ping();
    else
      object_.start({.n_prompt = progress.total - progress.cache, .n_cached = progress.cache});
    return send({{"prompt_progress", progress_json(progress)}});
  }
  bool deltas(size_t, const std::vector<ReplyDelta>& deltas, const TokensEvent& event) override {
    object_.start(event.timings);
    for (const ReplyDelta& delta : deltas) object_.add(delta);
    return send(with_timings_ ? Json{{"timings", timings_json(event.timings)}} : Json::object());
  }
  void finished(size_t, const Finished& finished, int n_calls) override {
    object_.finish(finished, n_calls);
    const Json timings = {{"timings", timings_json(finished.timings)}};
    if (is_streamed_) {
      send(timings);
      return stream_.end(false);
    }
    Json whole = object_.json();
    whole.update(timings);
    stream_.respond(whole);
  }
  void all_finished(const RequestTimings&) override {}
  void failed(const Error& error) override { stream_.fail(error, Dialect::anthropic); }

 private:
  // The events since the last call; the last of them carries `more`.
  bool send(const Json& more) {
    std::vector<Json> events = object_.take_events();
    if (!events.empty()) events.back().update(more);
    bool is_there = true;
    for (const Json& event : events)
      is_there = is_there && stream_.send(event["type"].get_ref<const std::string&>(), event);
    return is_there;
  }

  AnswerStream stream_;
  bool is_streamed_, with_timings_;
  MessageObject object_;
};

Result<void> run(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const Fields fields = TRY(Fields::parse(exchange->request().body, kMessages));
  if (!fields.has("max_tokens")) return bad_field("max_tokens", "is missing");
  MessagesTask task = TRY(read_messages(fields, context));
  PreparedChat chat = TRY(prepare_chat(std::move(task.chat), context));
  auto writer = std::make_unique<MessagesWriter>(AnswerStream(exchange, chat.headers), std::move(task));
  chat.id = writer->id();
  submit_chat(exchange, context, std::move(chat), std::move(writer), Dialect::anthropic);
  return {};
}

}  // namespace

void messages(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run(exchange, context); !ok) respond_error(*exchange, context, Dialect::anthropic, ok.error());
}

}  // namespace tokamak::server

// POST /v1/responses.
#include "server/endpoints.h"
#include "server/response_object.h"
#include "server/responses_request.h"
#include "server/token_split.h"

namespace tokamak::server {

namespace {

class ResponsesWriter : public ReplyWriter {
 public:
  ResponsesWriter(AnswerStream stream, const ServerContext& context, ResponsesTask task)
      : stream_(std::move(stream)),
        context_(context),
        is_streamed_(task.stream),
        with_timings_(task.timings),
        with_logprobs_(task.logprobs),
        object_(std::move(task.head), task.stream) {}

  bool progress(size_t, const PromptProgress& progress) override {
    object_.go_on();
    return send({{"prompt_progress", progress_json(progress)}});
  }
  bool deltas(size_t, const std::vector<ReplyDelta>& deltas, const TokensEvent& event) override {
    object_.start();
    split_.add(event);
    for (const ReplyDelta& delta : deltas) {
      const std::vector<GeneratedToken> tokens = split_.take(delta.kind);
      object_.add(delta, with_logprobs_ ? chat_logprobs(tokens, context_.tokenizer())["content"] : Json::array());
    }
    return send(with_timings_ ? Json{{"timings", timings_json(event.timings)}} : Json::object());
  }
  void finished(size_t, const Finished& finished, int) override {
    object_.finish(finished, split_.n_reasoning());
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
  void failed(const Error& error) override {
    if (!stream_.is_open()) return stream_.fail(error);
    object_.fail(error);
    send(Json::object());
    stream_.end(false);
  }

 private:
  // The events since the last call; the last of them carries `more`.
  bool send(const Json& more) {
    std::vector<ResponseObject::Event> events = object_.take_events();
    if (!events.empty()) events.back().data.update(more);
    bool is_there = true;
    for (const ResponseObject::Event& event : events) is_there = is_there && stream_.send(event.type, event.data);
    return is_there;
  }

  AnswerStream stream_;
  const ServerContext& context_;
  bool is_streamed_, with_timings_, with_logprobs_;
  ResponseObject object_;
  TokenSplit split_;
};

Result<void> run(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const Fields fields = TRY(Fields::parse(exchange->request().body, kResponses));
  ResponsesTask task = TRY(read_responses(fields, context));
  PreparedChat chat = TRY(prepare_chat(std::move(task.chat), context));
  chat.id = task.head["id"];
  auto writer = std::make_unique<ResponsesWriter>(AnswerStream(exchange, chat.headers), context, std::move(task));
  submit_chat(exchange, context, std::move(chat), std::move(writer), Dialect::openai);
  return {};
}

}  // namespace

void responses(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run(exchange, context); !ok) respond_error(*exchange, context, Dialect::openai, ok.error());
}

}  // namespace tokamak::server

// Prompt tokens of a request that is not run, in the dialects of the chat
// endpoints.
#include "server/chat_fields.h"
#include "server/endpoints.h"
#include "server/messages_request.h"
#include "server/responses_request.h"

namespace tokamak::server {

namespace {

// `read`: fields and context to a task.
template <class Read>
void count(const std::shared_ptr<Exchange>& exchange, const ServerContext& context, Api api, Dialect dialect,
           Read read) {
  const auto run = [&]() -> Result<Json> {
    const Fields fields = TRY(Fields::parse(exchange->request().body, api));
    const ChatTask task = TRY(read(fields, context));
    const size_t n_tokens = TRY(make_chat_prompt(task, context)).tokens.size();
    if (dialect == Dialect::anthropic) return Json{{"input_tokens", n_tokens}};
    return Json{{"object", "response.input_tokens"}, {"input_tokens", n_tokens}};
  };
  const Result<Json> answer = run();
  if (!answer) return respond_error(*exchange, context, dialect, answer.error());
  exchange->respond({.body = dump(*answer)});
}

}  // namespace

void chat_input_tokens(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  count(exchange, context, kChat, Dialect::openai, read_chat);
}

void responses_input_tokens(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  count(exchange, context, kResponses, Dialect::openai,
        [](const Fields& fields, const ServerContext& c) -> Result<ChatTask> {
          return TRY(read_responses(fields, c)).chat;
        });
}

void messages_count_tokens(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  count(exchange, context, kMessages, Dialect::anthropic,
        [](const Fields& fields, const ServerContext& c) -> Result<ChatTask> {
          return TRY(read_messages(fields, c)).chat;
        });
}

}  // namespace tokamak::server

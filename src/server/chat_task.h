// One chat request, whatever its dialect: from what the endpoint read to requests of the engine, and from their events
// to the pieces of answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/generation.h"
#include "server/reply.h"
#include "server/tool_constraint.h"

namespace tokamak::server {

// What an endpoint reads from its fields.
struct ChatTask {
  ChatRequest chat;      // chat.tools is set by prepare_chat from `tool_use`
  ToolUse tool_use;      // tools in OpenAI's form
  OutputGrammar output;  // structured output
  // All but prompt, constraint and output tags (read_generation).
  GenerationRequest generation;
  size_t n_answers = 1;
  bool separate_reasoning = true;  // false: thoughts and their tags are part of the content
  Headers headers;                 // for the answer
};

// The fields that all chat endpoints share: sampling and limits, structured output, template arguments, reasoning
// budget. The endpoint adds messages and tools.
Result<ChatTask> read_chat_task(const Fields& fields, Api api, const ServerContext& context);

// An effort as arguments of the template: reasoning_effort and enable_thinking, unless they are there.
void set_reasoning_effort(Json& template_kwargs, const std::string& effort);

// The prompt of a request: text and tokens. Errors: those of ChatTemplate::render; bad_template when there is none.
struct ChatPrompt {
  std::string text;
  std::vector<int32_t> tokens;
};
Result<ChatPrompt> make_chat_prompt(const ChatTask& task, const ServerContext& context);

struct PreparedChat {
  std::string id;                           // of the answer, for RunningAnswers; set by the endpoint
  std::vector<GenerationRequest> requests;  // one per answer
  std::vector<Json> tools;
  ReplyFormat format;
  bool wants_calls = false;
  int max_calls = 0;
  Headers headers;  // of the answer: schema keywords that are not enforced
};
// Renders, makes tokens, compiles grammars: for worker threads.
Result<PreparedChat> prepare_chat(ChatTask task, const ServerContext& context);

// What the events of a chat's answers do. The rules are those of AnswerWriter.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  virtual bool progress(size_t, const PromptProgress&) { return true; }
  // `deltas` may be empty: a token whose text is held back.
  virtual bool deltas(size_t choice, const std::vector<ReplyDelta>& deltas, const TokensEvent& event) = 0;
  // n_calls > 0: the answer ends with calls.
  virtual void finished(size_t choice, const Finished& finished, int n_calls) = 0;
  virtual void all_finished(const RequestTimings& total) = 0;
  virtual void failed(const Error& error) = 0;
};

void submit_chat(const std::shared_ptr<Exchange>& exchange, ServerContext& context, PreparedChat chat,
                 std::unique_ptr<ReplyWriter> writer, Dialect dialect);

// A whole answer put together.
struct Reply {
  struct Call {
    std::string id, name, arguments;  // arguments: JSON text
  };
  std::string reasoning, content;
  std::vector<Call> calls;
  void add(const std::vector<ReplyDelta>& deltas);
};

}  // namespace tokamak::server

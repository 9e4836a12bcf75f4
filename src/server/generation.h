// From fields to a request of the engine, and from its events to the pieces that answers are made of.
#pragma once

#include <memory>
#include <string>

#include "server/context.h"
#include "server/dialect.h"

namespace tokamak::server {

// Everything but the prompt: sampling, limits, stops, log-probabilities, client.
Result<GenerationRequest> read_generation(const Fields& fields, Api api, const ServerContext& context);

// A prompt as text or token ids, or both mixed. Errors name the index.
Result<std::vector<int32_t>> read_prompt(const Json& json, const Tokenizer& tokenizer);

// The field of the dialect: "stop" or "length".
std::string_view openai_finish_reason(FinishReason reason);
Json usage_json(const RequestTimings& timings);
Json timings_json(const RequestTimings& timings);
Json progress_json(const PromptProgress& progress);

// OpenAI's forms of log-probabilities: chat {"content": [...]}, completions {"tokens": [...], ...}.
Json chat_logprobs(const std::vector<GeneratedToken>& tokens, const Tokenizer& tokenizer);
struct TextLogprobs {
  Json tokens = Json::array(), token_logprobs = Json::array(), top_logprobs = Json::array(),
       text_offset = Json::array();
  void add(const GeneratedToken& token, size_t offset, const Tokenizer& tokenizer, bool is_first_of_prompt = false);
  Json json() const;
};

std::string dump(const Json& json);
// "data: JSON\n\n"
std::string event(const Json& json);

// What a request's events do to an answer. Called on the engine thread, one event at a time.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual bool progress(const PromptProgress&) { return true; }
  virtual bool scores(const PromptScores&) { return true; }
  virtual bool tokens(const TokensEvent& tokens) = 0;
  virtual void finished(const Finished& finished) = 0;
  // An error after the request was accepted.
  virtual void failed(const Error& error) = 0;
};

// The event stream of one answer: opened by the first event, closed once. Errors before that are a plain response.
class AnswerStream {
 public:
  explicit AnswerStream(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  bool is_open() const { return is_open_; }
  bool send(const Json& chunk);
  // Instead of a stream.
  void respond(const Json& whole) { exchange_->respond({.body = dump(whole)}); }
  void fail(const Error& error);
  void end(bool with_done_event);

 private:
  std::shared_ptr<Exchange> exchange_;
  bool is_open_ = false;
};
// OpenAI's last chunk: no choices, the usage.
Json usage_chunk(Json chunk, const RequestTimings& timings);
// stream_options.include_usage.
bool wants_usage(const Fields& fields);

// Submits; the writer lives as long as the request. A client that leaves cancels it. Errors before the request is
// accepted are answered here.
void submit(const std::shared_ptr<Exchange>& exchange, ServerContext& context, GenerationRequest request,
            std::unique_ptr<AnswerWriter> writer, Dialect dialect);

}  // namespace tokamak::server

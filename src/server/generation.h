// From fields to a request of the engine, and from its events to the pieces that answers are made of.
#pragma once

#include <memory>
#include <string>

#include "server/context.h"
#include "server/dialect.h"

namespace tokamak::server {

// Everything but the prompt: sampling, limits, stops, log-probabilities, client.
Result<GenerationRequest> read_generation(const Fields& fields, Api api, const ServerContext& context);

// A text, or a list of token ids and texts; not empty. Errors name `where` and the index.
Result<std::vector<int32_t>> read_one_prompt(const Json& json, const std::string& where, const Tokenizer& tokenizer);

// The sampling parameters under their names in requests.
Json sampling_json(const SamplerParams& params);

// A text, a list of token ids, or a list that mixes both is one prompt; a list of texts or of lists are several. At
// least one comes back, none is empty. Errors name the index.
Result<std::vector<std::vector<int32_t>>> read_prompts(const Json& json, const Tokenizer& tokenizer);

inline constexpr size_t kMaxPrompts = 256;  // of one request
inline constexpr size_t kMaxAnswers = 256;  // of one request, to all its prompts

// To be asked before repeat() copies what is too much: errors bad_argument (more than kMaxAnswers), context_full (a
// prompt longer than the context).
Result<void> check_answers(std::span<const std::vector<int32_t>> prompts, size_t n, const ServerContext& context);

// n requests like `request`, whose seeds differ; each with its own constraint: any of the grammars (none: no
// constraint).
std::vector<GenerationRequest> repeat(const GenerationRequest& request, size_t n,
                                      std::span<const OutputGrammar> grammars, const ServerContext& context,
                                      int32_t thought_token = -1);

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

// What the events of an answer's choices (its generations: n answers to each of several prompts) do to it. Called for
// one event at a time, on the engine thread.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual bool progress(size_t, const PromptProgress&) { return true; }
  virtual bool scores(size_t, const PromptScores&) { return true; }
  virtual bool tokens(size_t choice, const TokensEvent& tokens) = 0;
  virtual void finished(size_t choice, const Finished& finished) = 0;
  // After the last choice. `total` is for usage: the prompts and tokens of all, each prompt counted once.
  virtual void all_finished(const RequestTimings& total) = 0;
  // An error after the request was accepted: ends the whole answer.
  virtual void failed(const Error& error) = 0;
};

// The event stream of one answer: opened by the first event, closed once. Errors before that are a plain response.
class AnswerStream {
 public:
  explicit AnswerStream(std::shared_ptr<Exchange> exchange, Headers headers = {})
      : exchange_(std::move(exchange)), headers_(std::move(headers)) {}
  bool is_open() const { return is_open_; }
  bool send(const Json& chunk);
  // With the name of the event: "event: NAME".
  bool send(std::string_view name, const Json& chunk);
  // Instead of a stream.
  void respond(const Json& whole) { exchange_->respond({.body = dump(whole), .headers = headers_}); }
  void fail(const Error& error, Dialect dialect = Dialect::openai);
  void end(bool with_done_event);

 private:
  void open();
  std::shared_ptr<Exchange> exchange_;
  Headers headers_;
  bool is_open_ = false;
};
// OpenAI's last chunk: no choices, the usage.
Json usage_chunk(Json chunk, const RequestTimings& timings);
// stream_options.include_usage.
bool wants_usage(const Fields& fields);

// Submits all; the writer lives as long as they do. A client that leaves cancels them. Errors before they are accepted
// are answered here. `n_per_prompt`: so many neighbours have the same prompt. `id`: for RunningAnswers; empty: not
// there.
void submit(const std::shared_ptr<Exchange>& exchange, ServerContext& context, std::vector<GenerationRequest> requests,
            size_t n_per_prompt, std::unique_ptr<AnswerWriter> writer, Dialect dialect, std::string id = {});

}  // namespace tokamak::server

// One request of the service, from its tokens to the events its sink gets. Knows nothing of other requests.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <vector>

#include "engine/service.h"

namespace tokamak {

class ServedRequest {
 public:
  // Errors: bad_argument (token ids, sampling, stops, empty prompt), context_full.
  static Result<std::unique_ptr<ServedRequest>> create(uint64_t id, const Model& model, int64_t n_ctx,
                                                       GenerationRequest request, EventSink sink);

  uint64_t id() const { return id_; }
  int64_t slot() const { return slot_; }  // -1: it has not run yet
  void set_slot(int64_t slot) { slot_ = slot; }
  const GenerationRequest& request() const { return request_; }
  TokenConstraint* constraint() const { return request_.constraint.get(); }
  // Prompt and what was generated, whose last token may not be processed yet.
  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t n_prompt() const { return n_prompt_; }
  int64_t n_generated() const { return static_cast<int64_t>(tokens_.size()) - n_prompt_; }
  const RequestTimings& timings() const { return timings_; }
  bool wants_hidden() const { return request_.embeddings != EmbeddingMode::none; }
  // Every row of the prompt is read, so that nothing of it can come from the cache.
  bool reads_prompt() const { return wants_hidden() || request_.prompt_logprobs; }
  // Which rows of a part of the prompt are wanted.
  Logits rows_of(int64_t first, bool last) const;

  // Whether the best logits of its next row are enough.
  bool takes_top() const;
  // What all logits of its rows are wanted for, if they are; for the log.
  std::string_view why_all() const;

  // It has a sequence that holds the first n_cached tokens.
  void started(int64_t n_cached, int64_t first_difference);
  // Rows of tokens [first, ...) as rows_of said; the last one may be its best logits only if takes_top() said so, else
  // it may be overwritten.
  // n_done: tokens processed now. All of these return false when the request is over.
  bool take_logits(int64_t first, int64_t n_done, bool last, std::span<const LogitRow> rows);
  bool take_hidden(int64_t first, int64_t n_done, bool last, std::span<const float> rows);

  // Closes the thought under way, if there is one.
  void close_thought();
  // The last event, if none of this kind was sent: nothing happens after it.
  void finish(FinishReason reason);
  void fail(Error error);
  bool over() const { return over_; }
  std::optional<FinishReason> reason() const { return reason_; }  // none: not over, failed or given up by the sink
  bool failed() const { return failed_; }

 private:
  using Clock = std::chrono::steady_clock;

  ServedRequest(uint64_t id, const Model& model, int64_t n_ctx, GenerationRequest request, EventSink sink,
                Sampler sampler, OutputMachine machine);
  bool emit(Event event);
  bool emit_progress(int64_t n_done);
  bool emit_scores(int64_t first, std::span<const LogitRow> rows);
  Result<int32_t> choose(const LogitRow& row, uint64_t position);
  void constrain(std::span<float> logits) const;
  TokensEvent add_token(int32_t id, std::span<const float> logits);
  bool is_constrained() const;
  std::vector<OutputEvent> text_of(int32_t id);
  void watch_thought();
  std::optional<FinishReason> reason_to_end() const;
  RequestTimings current_timings() const;

  uint64_t id_;
  int64_t slot_ = -1;
  const Model& model_;
  int64_t n_ctx_;
  GenerationRequest request_;
  EventSink sink_;
  Sampler sampler_;
  OutputMachine machine_;
  std::vector<int32_t> tokens_;
  int64_t n_prompt_;
  std::vector<float> unmasked_;  // logits before the constraint, when log-probabilities are wanted
  Logprobs final_probs_;         // of the last token, with post_sampling
  std::deque<int32_t> forced_;   // tokens to come, whatever the model says
  bool in_thought_ = false, thought_was_closed_ = false;
  int64_t n_thought_ = 0;  // tokens of the thought under way
  int64_t n_read_ = 0;     // tokens whose rows were read already, before the request had to give way
  std::vector<float> embedding_;
  int64_t n_embedding_rows_ = 0;

  Clock::time_point submitted_ = Clock::now(), started_{}, first_token_{};
  RequestTimings timings_;
  int64_t n_processed_ = 0;
  bool has_started_ = false, over_ = false, failed_ = false;
  std::optional<FinishReason> reason_;
};

}  // namespace tokamak

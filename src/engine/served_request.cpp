#include "engine/served_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tokamak {

namespace {
using std::chrono::duration;
using Millis = duration<double, std::milli>;

Result<void> check_prompt(const Model& model, int64_t n_ctx, const GenerationRequest& request) {
  if (request.prompt.empty())
    return Error{.code = ErrorCode::bad_argument, .what = "the prompt is empty", .hint = "give at least one token"};
  const auto n = static_cast<int64_t>(request.prompt.size());
  if (n > n_ctx)
    return Error{.code = ErrorCode::context_full,
                 .what = fmt::format("the prompt has {} tokens, the context holds {}", n, n_ctx),
                 .hint = "shorten the prompt or raise --ctx-size"};
  const int64_t n_vocab = model.hparams().n_vocab;
  for (const int32_t id : request.prompt)
    if (id < 0 || id >= n_vocab)
      return Error{.code = ErrorCode::bad_argument,
                   .what = fmt::format("token id {} is outside 0..{}", id, n_vocab - 1),
                   .where = "prompt"};
  for (const int32_t id : request.reasoning_close)
    if (id < 0 || id >= n_vocab)
      return Error{.code = ErrorCode::bad_argument,
                   .what = fmt::format("token id {} is outside 0..{}", id, n_vocab - 1),
                   .where = "reasoning_close"};
  return {};
}
}  // namespace

ServedRequest::ServedRequest(uint64_t id, const Model& model, int64_t n_ctx, GenerationRequest request, EventSink sink,
                             Sampler sampler, OutputMachine machine)
    : id_(id),
      model_(model),
      n_ctx_(n_ctx),
      request_(std::move(request)),
      sink_(std::move(sink)),
      sampler_(std::move(sampler)),
      machine_(std::move(machine)),
      tokens_(request_.prompt),
      n_prompt_(static_cast<int64_t>(tokens_.size())) {
  for (const int32_t token : tokens_) sampler_.accept(token);
  in_thought_ = request_.output.starts_in_reasoning;
  if (in_thought_ && request_.reasoning_budget == 0) close_thought();
}

Result<std::unique_ptr<ServedRequest>> ServedRequest::create(uint64_t id, const Model& model, int64_t n_ctx,
                                                             GenerationRequest request, EventSink sink) {
  TRY(check_prompt(model, n_ctx, request));
  if (request.embeddings != EmbeddingMode::none) request.n_predict = 0;
  if (request.n_probs > 0) request.logprobs = true;
  Sampler sampler = TRY(make_sampler(model, request.sampling));
  OutputMachine machine = TRY(OutputMachine::create(request.output));
  return std::unique_ptr<ServedRequest>(
      new ServedRequest(id, model, n_ctx, std::move(request), std::move(sink), std::move(sampler), std::move(machine)));
}

Logits ServedRequest::rows_of(int64_t first, bool last) const {
  const bool in_prompt = first < n_prompt_ && n_generated() == 0;
  if (in_prompt && request_.prompt_logprobs) return Logits::all;
  switch (request_.embeddings) {
    case EmbeddingMode::all:
    case EmbeddingMode::mean:
      return Logits::all;
    case EmbeddingMode::cls:
      return first == 0 ? Logits::all : Logits::none;
    case EmbeddingMode::last:
    case EmbeddingMode::none:
      break;
  }
  return last ? Logits::last : Logits::none;
}

bool ServedRequest::takes_top() const {
  const bool scores =
      (request_.logprobs && !request_.post_sampling) || (request_.prompt_logprobs && n_generated() == 0);
  return sampler_.n_top() > 0 && !scores && !is_constrained();
}

std::string_view ServedRequest::why_all() const {
  if (request_.constraint) return "a grammar";
  if ((request_.logprobs && !request_.post_sampling) || request_.prompt_logprobs) return "log-probabilities";
  return sampler_.why_all();
}

void ServedRequest::started(int64_t n_cached, int64_t first_difference) {
  if (has_started_) {  // it had to give way before
    timings_.n_recomputed += std::max<int64_t>(n_processed_ - n_cached, 0);
    return;
  }
  has_started_ = true;
  started_ = Clock::now();
  timings_.queue_ms = Millis(started_ - submitted_).count();
  timings_.n_cached = n_cached;
  timings_.n_prompt = n_prompt_ - n_cached;
  timings_.first_difference = std::min(first_difference, n_prompt_);
  emit_progress(n_cached);
}

bool ServedRequest::emit(Event event) {
  if (over_) return false;
  if (sink_(std::move(event))) return true;
  over_ = true;
  sink_ = nullptr;
  return false;
}

bool ServedRequest::emit_progress(int64_t n_done) {
  if (!request_.return_progress || n_generated() > 0) return !over_;
  return emit(PromptProgress{.total = n_prompt_,
                             .cache = timings_.n_cached,
                             .processed = n_done,
                             .time_ms = Millis(Clock::now() - started_).count()});
}

bool ServedRequest::emit_scores(int64_t first, std::span<const LogitRow> rows) {
  PromptScores scores{.first = first + 1, .tokens = {}};
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t scored = static_cast<size_t>(first) + i + 1;
    if (scored >= static_cast<size_t>(n_prompt_)) break;
    Logprobs probs = top_logprobs(rows[i].all, request_.n_probs, tokens_[scored]);
    scores.tokens.push_back({.id = tokens_[scored], .logprob = probs.chosen, .top = std::move(probs.top)});
  }
  return scores.tokens.empty() || emit(std::move(scores));
}

bool ServedRequest::take_logits(int64_t first, int64_t n_done, bool last, std::span<const LogitRow> rows) {
  n_processed_ = std::max(n_processed_, n_done);
  if (over_) return false;
  if (n_generated() == 0) {
    const int64_t n_skip = std::min(std::max<int64_t>(n_read_ - first, 0), n_done - first);
    if (request_.prompt_logprobs && !emit_scores(first + n_skip, rows.subspan(static_cast<size_t>(n_skip))))
      return false;
    n_read_ = n_processed_;
    if (!emit_progress(n_processed_)) return false;
  }
  if (!last) return true;
  if (n_generated() == 0 && first_token_ == Clock::time_point{}) {
    first_token_ = Clock::now();
    timings_.prompt_ms = Millis(first_token_ - started_).count();
  }
  if (request_.n_predict == 0) return finish(FinishReason::length), false;
  const LogitRow& row = rows.back();
  const Result<int32_t> chosen = choose(row, static_cast<uint64_t>(n_done));
  if (!chosen) return fail(chosen.error()), false;
  if (model_.tokenizer().is_eog(*chosen)) return finish(FinishReason::end_of_text), false;
  const bool masked = !unmasked_.empty();
  if (!emit(add_token(*chosen, masked ? unmasked_ : std::span<const float>(row.all)))) return false;
  if (const auto reason = reason_to_end()) return finish(*reason), false;
  return true;
}

std::optional<FinishReason> ServedRequest::reason_to_end() const {
  if (machine_.stopped()) return FinishReason::stop_string;
  if (request_.n_predict >= 0 && n_generated() >= request_.n_predict) return FinishReason::length;
  if (static_cast<int64_t>(tokens_.size()) > n_ctx_) return FinishReason::context_full;
  if (request_.max_seconds > 0 && duration<double>(Clock::now() - first_token_).count() >= request_.max_seconds)
    return FinishReason::time_limit;
  return std::nullopt;
}

bool ServedRequest::is_constrained() const {
  return request_.constraint != nullptr && (request_.constrain_reasoning || !in_thought_);
}

// Forbids what the constraint does not allow, and the end of the answer where it may not end.
void ServedRequest::constrain(std::span<float> logits) const {
  const std::span<const int32_t> ends = model_.tokenizer().eog_tokens();
  std::vector<float> end_logits;
  for (const int32_t id : ends) end_logits.push_back(logits[static_cast<size_t>(id)]);
  request_.constraint->mask(logits);
  const bool can_end = request_.constraint->can_end();
  for (size_t i = 0; i < ends.size(); ++i) logits[static_cast<size_t>(ends[i])] = can_end ? end_logits[i] : kForbidden;
}

Result<int32_t> ServedRequest::choose(const LogitRow& row, uint64_t position) {
  unmasked_.clear();
  const bool constrained = is_constrained();
  const std::span<const int32_t> ends = model_.tokenizer().eog_tokens();
  if (constrained) {
    if (request_.logprobs) unmasked_.assign(row.all.begin(), row.all.end());
    constrain(row.all);
  }
  int32_t id = 0;
  if (forced_.empty()) {
    const auto sampled = row.top.empty() ? sampler_.sample(row.all, position) : sampler_.sample_top(row.top, position);
    if (sampled) {
      id = sampled->id;
      if (request_.post_sampling) final_probs_ = sampler_.last_logprobs(request_.n_probs, id);
    } else if (sampled.error().code == ErrorCode::no_token_left && constrained && request_.constraint->can_end() &&
               !ends.empty()) {
      return ends[0];  // the answer is complete
    } else {
      return sampled.error();
    }
  } else {
    id = forced_.front();
    forced_.pop_front();
    final_probs_ = {};
    if (request_.n_probs > 0) final_probs_.top = {{id, 0}};
  }
  sampler_.accept(id);
  if (constrained && !model_.tokenizer().is_eog(id) && !request_.constraint->accept(id))
    return Error{.code = ErrorCode::no_token_left,
                 .what = fmt::format("token {} does not fit the grammar", id),
                 .hint = "the grammar must allow the end of a thought"};
  return id;
}

std::vector<OutputEvent> ServedRequest::text_of(int32_t id) {
  const TokenType type = model_.tokenizer().type(id);
  const bool is_kept =
      request_.keep_special || std::binary_search(request_.kept_tokens.begin(), request_.kept_tokens.end(), id);
  if (!is_kept && (type == TokenType::control || type == TokenType::unknown)) return {};
  return machine_.push(model_.tokenizer().token_bytes(id));
}

void ServedRequest::close_thought() {
  if (!in_thought_ || thought_was_closed_) return;
  thought_was_closed_ = true;
  forced_.assign(request_.reasoning_close.begin(), request_.reasoning_close.end());
}

// Counts the tokens of a thought and closes it when there are too many.
void ServedRequest::watch_thought() {
  const bool was_in_thought = std::exchange(in_thought_, machine_.channel() == OutputKind::reasoning);
  if (!in_thought_) thought_was_closed_ = false;
  n_thought_ = in_thought_ && was_in_thought ? n_thought_ + 1 : 0;
  if (request_.reasoning_budget >= 0 && n_thought_ >= request_.reasoning_budget) close_thought();
}

TokensEvent ServedRequest::add_token(int32_t id, std::span<const float> logits) {
  tokens_.push_back(id);
  GeneratedToken token{.id = id};
  if (request_.logprobs) {
    Logprobs probs = request_.post_sampling ? std::move(final_probs_) : top_logprobs(logits, request_.n_probs, id);
    token.logprob = probs.chosen;
    token.top = std::move(probs.top);
  }
  TokensEvent event{.text = text_of(id), .tokens = {}, .timings = current_timings()};
  event.tokens.push_back(std::move(token));
  watch_thought();
  return event;
}

bool ServedRequest::take_hidden(int64_t first, int64_t n_done, bool last, std::span<const float> rows) {
  n_processed_ = std::max(n_processed_, n_done);
  if (over_ || !emit_progress(n_processed_)) return false;
  const int64_t n_embd = model_.hparams().n_embd;
  if (!rows.empty() && rows_of(first, last) == Logits::all)
    rows = rows.subspan(static_cast<size_t>(std::min(std::max<int64_t>(n_read_ - first, 0), n_done - first) * n_embd));
  n_read_ = n_processed_;
  const auto n_rows = static_cast<int64_t>(rows.size()) / n_embd;
  switch (request_.embeddings) {
    case EmbeddingMode::all:
      embedding_.insert(embedding_.end(), rows.begin(), rows.end());
      n_embedding_rows_ += n_rows;
      break;
    case EmbeddingMode::mean:
      embedding_.resize(static_cast<size_t>(n_embd));
      for (size_t i = 0; i < rows.size(); ++i) embedding_[i % static_cast<size_t>(n_embd)] += rows[i];
      break;
    case EmbeddingMode::cls:
      if (first == 0 && n_rows > 0) embedding_.assign(rows.begin(), rows.begin() + n_embd);
      break;
    case EmbeddingMode::last:
    case EmbeddingMode::none:
      if (last) embedding_.assign(rows.begin(), rows.end());
      break;
  }
  if (!last) return true;
  timings_.prompt_ms = Millis(Clock::now() - started_).count();
  first_token_ = Clock::now();
  if (request_.embeddings == EmbeddingMode::mean)
    for (float& value : embedding_) value /= static_cast<float>(n_prompt_);
  if (request_.embeddings != EmbeddingMode::all) n_embedding_rows_ = 1;
  if (emit(EmbeddingEvent{.values = std::move(embedding_), .n_rows = n_embedding_rows_, .n_embd = n_embd}))
    finish(FinishReason::length);
  return false;
}

RequestTimings ServedRequest::current_timings() const {
  RequestTimings out = timings_;
  out.n_generated = n_generated();
  if (first_token_ != Clock::time_point{}) out.decode_ms = Millis(Clock::now() - first_token_).count();
  return out;
}

void ServedRequest::finish(FinishReason reason) {
  if (over_) return;
  if (std::vector<OutputEvent> rest = machine_.finish(); !rest.empty())
    if (!emit(TokensEvent{.text = std::move(rest), .tokens = {}, .timings = current_timings()})) return;
  Finished event{.reason = reason, .timings = current_timings(), .seed = sampler_.seed(), .slot = slot_};
  timings_ = event.timings;
  if (const auto index = machine_.matched_stop()) event.matched_stop = request_.output.stops[*index];
  reason_ = reason;
  emit(std::move(event));
  over_ = true;
  sink_ = nullptr;
}

void ServedRequest::fail(Error error) {
  if (over_) return;
  failed_ = true;
  timings_ = current_timings();
  emit(Failed{std::move(error)});
  over_ = true;
  sink_ = nullptr;
}

}  // namespace tokamak

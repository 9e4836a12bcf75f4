#include "engine/generate.h"

#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "base/log.h"

namespace tokamak {

namespace {
using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The bytes of generated tokens through the output machine to the reader.
class Writer {
 public:
  Writer(const Tokenizer& tokenizer, OutputMachine machine, const GenerateOptions& options,
         const GenerateCallbacks& callbacks)
      : tokenizer_(tokenizer), machine_(std::move(machine)), options_(options), callbacks_(callbacks) {}

  void push(int32_t token) {
    const TokenType type = tokenizer_.type(token);
    if (!options_.keep_special && (type == TokenType::control || type == TokenType::unknown)) return;
    emit(machine_.push(tokenizer_.token_bytes(token)));
  }
  void finish() { emit(machine_.finish()); }
  bool cancelled() const { return cancelled_; }
  bool stopped() const { return machine_.stopped(); }
  std::optional<std::string> matched_stop() const {
    const auto index = machine_.matched_stop();
    return index ? std::optional(options_.output.stops[*index]) : std::nullopt;
  }

 private:
  void emit(const std::vector<OutputEvent>& events) {
    for (const OutputEvent& event : events)
      if (callbacks_.output && !callbacks_.output(event)) cancelled_ = true;
  }

  const Tokenizer& tokenizer_;
  OutputMachine machine_;
  const GenerateOptions& options_;
  const GenerateCallbacks& callbacks_;
  bool cancelled_ = false;
};

void keep_token(GenerateResult& result, int32_t id, std::span<const float> logits, const GenerateOptions& options) {
  GeneratedToken& token = result.tokens.emplace_back(GeneratedToken{.id = id});
  if (options.n_probs == 0) return;
  Logprobs probs = top_logprobs(logits, options.n_probs, id);
  token.logprob = probs.chosen;
  token.top = std::move(probs.top);
}

constexpr auto kFinishReasons = std::to_array<std::string_view>(
    {"end_of_text", "stop_string", "length", "context_full", "cancelled", "time_limit"});
}  // namespace

Result<Sampler> make_sampler(const Model& model, SamplerParams params) {
  const std::shared_ptr<const Tokenizer> tokenizer = model.shared_tokenizer();
  params.suppress_tokens.insert(params.suppress_tokens.end(), tokenizer->suppress_tokens().begin(),
                                tokenizer->suppress_tokens().end());
  const auto ends = tokenizer->eog_tokens();
  return Sampler::create(std::move(params), {.n_vocab = static_cast<size_t>(model.hparams().n_vocab),
                                             .end_of_generation = {ends.begin(), ends.end()},
                                             .text = [tokenizer](int32_t id) { return tokenizer->token_bytes(id); }});
}

std::string_view finish_reason_name(FinishReason reason) { return kFinishReasons[static_cast<size_t>(reason)]; }

Result<GenerateResult> generate(Session& session, int32_t seq_id, std::span<const int32_t> history,
                                std::span<const int32_t> prompt, const GenerateOptions& options,
                                const GenerateCallbacks& callbacks) {
  const Model& model = session.model();
  Sampler sampler = TRY(make_sampler(model, options.sampling));
  Writer writer(model.tokenizer(), TRY(OutputMachine::create(options.output)), options, callbacks);
  for (std::span<const int32_t> part : {history, prompt})
    for (int32_t token : part) sampler.accept(token);

  GenerateResult result{.n_cached = session.n_tokens(seq_id), .seed = sampler.seed()};
  const auto start = Clock::now();
  auto prefilled = session.prefill(seq_id, prompt, callbacks.prompt_progress);
  if (!prefilled) return std::move(prefilled.error());
  std::span<const float> logits = *prefilled;
  std::span<const TopLogit> top;  // instead of them, where they are enough
  const bool only_top = options.n_probs == 0 && sampler.n_top() > 0;
  result.n_prompt = static_cast<int64_t>(prompt.size());
  result.prefill_seconds = seconds_since(start);

  const auto decode_start = Clock::now();
  const auto enough = [&] {
    return options.n_predict >= 0 && static_cast<int64_t>(result.tokens.size()) >= options.n_predict;
  };
  result.reason = FinishReason::length;
  while (!enough()) {
    const auto position = static_cast<uint64_t>(session.n_tokens(seq_id));
    const SampledToken next = TRY(top.empty() ? sampler.sample(logits, position) : sampler.sample_top(top, position));
    sampler.accept(next.id);
    if (model.tokenizer().is_eog(next.id)) {
      result.reason = FinishReason::end_of_text;
      break;
    }
    keep_token(result, next.id, logits, options);
    writer.push(next.id);
    const bool cancelled = writer.cancelled() || (callbacks.proceed && !callbacks.proceed());
    if (writer.stopped() || cancelled) {
      result.reason = writer.stopped() ? FinishReason::stop_string : FinishReason::cancelled;
      break;
    }
    if (enough()) break;  // the last token's keys are not asked for
    if (session.n_tokens(seq_id) >= session.n_ctx()) {
      result.reason = FinishReason::context_full;
      break;
    }
    const SequenceTokens one{seq_id, {&next.id, 1}, Logits::last, only_top};
    const LogitRow row = TRY(session.step({&one, 1})).front();
    logits = row.all;
    top = row.top;
  }
  if (session.selects_top() && !only_top)
    log_line(LogLevel::debug, fmt::format("all logits left the device: for {}",
                                          options.n_probs > 0 ? "log-probabilities" : sampler.why_all()));
  writer.finish();
  result.matched_stop = writer.matched_stop();
  result.decode_seconds = seconds_since(decode_start);
  return result;
}

Result<GenerateResult> generate_reusing(Session& session, int32_t seq_id, std::vector<int32_t>& held,
                                        std::span<const int32_t> prompt, const GenerateOptions& options,
                                        const GenerateCallbacks& callbacks) {
  const auto common = static_cast<size_t>(std::ranges::mismatch(held, prompt).in1 - held.begin());
  const size_t n_wanted = std::min(common, prompt.empty() ? 0 : prompt.size() - 1);
  const auto n_kept = static_cast<size_t>(session.truncate(seq_id, static_cast<int64_t>(n_wanted)));
  auto result = generate(session, seq_id, prompt.first(n_kept), prompt.subspan(n_kept), options, callbacks);
  held.assign(prompt.begin(), prompt.end());
  if (result)
    for (const GeneratedToken& token : result->tokens) held.push_back(token.id);
  // After an error in the middle the sequence may hold tokens that nobody was told of.
  if (session.n_tokens(seq_id) > static_cast<int64_t>(held.size()))
    static_cast<void>(session.truncate(seq_id, static_cast<int64_t>(held.size())));
  held.resize(static_cast<size_t>(session.n_tokens(seq_id)));
  return result;
}

}  // namespace tokamak

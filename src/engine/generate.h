// One answer: prompt tokens in, text events out, until something ends it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/output/output_machine.h"
#include "engine/sampling/sampler.h"
#include "engine/session.h"

namespace tokamak {

struct GenerateOptions {
  SamplerParams sampling;
  int64_t n_predict = -1;  // most tokens to generate; -1: until the model ends or the context is full
  OutputOptions output;
  bool keep_special = false;  // print control tokens as text
  size_t n_probs = 0;         // keep the log-probabilities of this many best tokens per step
};

enum class FinishReason : uint8_t { end_of_text, stop_string, length, context_full, cancelled, time_limit };
std::string_view finish_reason_name(FinishReason reason);

struct GeneratedToken {
  int32_t id = 0;
  float logprob = 0;  // of the model's own distribution, unless the request says otherwise; 0 unless n_probs > 0
  std::vector<TokenLogprob> top;
};

struct GenerateResult {
  FinishReason reason = FinishReason::end_of_text;
  std::vector<GeneratedToken> tokens;  // without the end token
  std::optional<std::string> matched_stop;
  int64_t n_prompt = 0, n_cached = 0;  // prompt tokens computed now; those already in the cache
  double prefill_seconds = 0, decode_seconds = 0;
  uint64_t seed = 0;
};

// What happens while generating. Returning false cancels; every callback may be empty.
struct GenerateCallbacks {
  std::function<bool(double fraction)> prompt_progress;
  std::function<bool(const OutputEvent& event)> output;
  std::function<bool()> proceed;  // asked before every step, also while tokens make no output
};

// A sampler over the model's vocabulary. Errors: bad_argument, `where` is the JSON field.
Result<Sampler> make_sampler(const Model& model, SamplerParams params);

// Continues sequence `seq_id` with `prompt` and generates. Afterwards the sequence holds the prompt and all generated
// tokens but the last (whose keys nobody has asked for). `history`: tokens already in the sequence, for penalties.
// Errors: bad_argument, context_full (the prompt does not fit: nothing was done), no_token_left, device_failed.
Result<GenerateResult> generate(Session& session, int32_t seq_id, std::span<const int32_t> history,
                                std::span<const int32_t> prompt, const GenerateOptions& options,
                                const GenerateCallbacks& callbacks);

// The same for a whole prompt, of which the sequence may hold a beginning already: `held` are its tokens, and the
// longest common beginning is kept (at least one token is computed). Afterwards, and after an error, `held` is what the
// sequence holds.
Result<GenerateResult> generate_reusing(Session& session, int32_t seq_id, std::vector<int32_t>& held,
                                        std::span<const int32_t> prompt, const GenerateOptions& options,
                                        const GenerateCallbacks& callbacks);

}  // namespace tokamak

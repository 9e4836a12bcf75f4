// From logits to the next token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/sampling/adaptive_p.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/history.h"
#include "engine/sampling/mirostat.h"
#include "engine/sampling/params.h"
#include "engine/sampling/vocab.h"

namespace tokamak {

// Log-probabilities, whose is said where they are made.
struct TokenLogprob {
  int32_t id;
  float logprob;
};
struct Logprobs {
  float chosen = 0;               // of the chosen token; 0 if none was named
  std::vector<TokenLogprob> top;  // the n best, best first, ties by lowest id
};

struct SampledToken {
  int32_t id;
  float prob;     // after the whole chain; 1 when greedy
  float logprob;  // ln(prob)
};

// One per sequence. Order of work: bias, ignore_eos and suppress_tokens; then the chain; then the draw, a function of
// (seed, position) alone.
// - Greedy (SamplerParams::greedy) takes the best after bias, penalties and DRY, ties by lowest id; filters, which
//   never change the best but for xtc and typ_p, are skipped. A chain with infill runs whole: then the best is taken.
// - Mirostat replaces the filters; penalties, DRY and temperature still apply where the chain names them.
// - Adaptive-p chooses, after the whole chain, when it has a target (named in the chain or not) and Mirostat is off.
// - A logit of -infinity forbids its token (so masks are written into the logits); NaN and +infinity are refused.
// Memory is allocated by the first steps and kept. Copyable: a copy continues independently from the same state.
class Sampler {
 public:
  // Validates. Errors: bad_argument, `where` is the JSON field.
  static Result<Sampler> create(SamplerParams params, SamplerVocab vocab);

  // logits f32 [n_vocab]. `position` is that of the token to be chosen in its sequence.
  // Errors: no_token_left, device_failed (logits that no healthy model yields).
  Result<SampledToken> sample(std::span<const float> logits, uint64_t position);
  // How many of the best logits decide by themselves: 1 when greedy, top_k when no other sampler works before it, and
  // those that are forbidden. 0: it takes all of them, and why_all() names what for.
  size_t n_top() const { return top_.n; }
  std::string_view why_all() const { return top_.why_all; }
  // The same token from the best kTopLogits, as Program::run_top gives them. CHECKs n_top() > 0.
  Result<SampledToken> sample_top(std::span<const TopLogit> top, uint64_t position);
  // Tells the penalties that `token` (of the prompt or chosen) is now part of the text. Ids outside the vocabulary
  // are ignored.
  void accept(int32_t token);
  // Forgets the accepted tokens; the seed stays.
  void reset();

  // The tokens that were left in the last step, with their final probabilities.
  std::span<const Candidate> last_candidates() const { return candidates_.final_list(); }
  // The same as log-probabilities; a chosen token that is not among them has -infinity.
  Logprobs last_logprobs(size_t n, int32_t chosen) const;
  const SamplerParams& params() const { return params_; }
  uint64_t seed() const { return seed_; }  // the one drawn if the request named none

 private:
  Sampler(SamplerParams params, SamplerVocab vocab);
  struct TopNeed {
    size_t n = 0;
    std::string_view why_all;
  };
  TopNeed find_top_need() const;
  void apply_bias();
  Result<SampledToken> choose_token(uint64_t position);
  size_t choose(double u);

  SamplerParams params_;
  SamplerVocab vocab_;
  std::vector<LogitBias> biases_;  // all that forbids or favours
  TopNeed top_;
  uint64_t seed_;
  History history_;
  Candidates candidates_;
  Mirostat mirostat_;
  AdaptiveP adaptive_p_;
};

// Under softmax of the logits as the model gave them (before any sampler). Sums in f64.
Logprobs top_logprobs(std::span<const float> logits, size_t n, int32_t chosen = -1);

}  // namespace tokamak

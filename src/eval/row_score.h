// Scores of one position: what a row of logits says about the token that follows, and about another row.
#pragma once

#include <cstdint>
#include <span>

namespace tokamak {

struct LogNormalizer {
  float highest = 0;      // of the logits
  double log_sum = 0;     // ln sum exp(logit - highest)
  int32_t top = 0;        // the lowest index of `highest`
  bool is_finite = true;  // all logits are

  double log_prob(float logit) const { return double{logit} - double{highest} - log_sum; }
};

// logits not empty.
LogNormalizer normalize(std::span<const float> logits);

// KL(base || other) = sum b ln(b / p) of the softmaxes, nats; exactly 0 for equal logits, otherwise within rounding
// (about 1e-12) of a number >= 0. Same sizes; both finite.
double divergence(std::span<const float> base, const LogNormalizer& base_norm, std::span<const float> other,
                  const LogNormalizer& other_norm);

}  // namespace tokamak

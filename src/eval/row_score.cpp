#include "eval/row_score.h"

#include <cmath>

#include "base/check.h"

namespace tokamak {

LogNormalizer normalize(std::span<const float> logits) {
  CHECK(!logits.empty());
  LogNormalizer out{.highest = logits[0]};
  for (size_t i = 0; i < logits.size(); ++i) {
    out.is_finite = out.is_finite && std::isfinite(logits[i]);
    if (logits[i] > out.highest) {
      out.highest = logits[i];
      out.top = static_cast<int32_t>(i);
    }
  }
  if (!out.is_finite) return out;
  double sum = 0;
  for (float logit : logits) sum += std::exp(double{logit} - double{out.highest});
  out.log_sum = std::log(sum);
  return out;
}

double divergence(std::span<const float> base, const LogNormalizer& base_norm, std::span<const float> other,
                  const LogNormalizer& other_norm) {
  CHECK(base.size() == other.size(), base.size(), other.size());
  double sum = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    const double log_b = base_norm.log_prob(base[i]);
    sum += std::exp(log_b) * (log_b - other_norm.log_prob(other[i]));
  }
  return sum;
}

}  // namespace tokamak

#include "eval/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tokamak {

Estimate RunningMean::estimate() const {
  const auto n = static_cast<double>(n_);
  return {mean_, n_ < 2 ? 0 : std::sqrt(squares_ / (n - 1) / n)};
}

Estimate exp_of(Estimate mean) {
  const double value = std::exp(mean.value);
  return {value, value * mean.error};
}

Estimate share_of(int64_t n_hits, int64_t n) {
  CHECK(n > 0 && n_hits >= 0 && n_hits <= n, n_hits, n);
  const double p = static_cast<double>(n_hits) / static_cast<double>(n);
  return {p, n < 2 ? 0 : std::sqrt(p * (1 - p) / static_cast<double>(n - 1))};
}

double quantile(std::span<const float> sorted, double fraction) {
  CHECK(!sorted.empty() && fraction >= 0 && fraction <= 1, sorted.size(), fraction);
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = place - static_cast<double>(below);
  return double{sorted[below]} * (1 - weight) + double{sorted[above]} * weight;
}

}  // namespace tokamak

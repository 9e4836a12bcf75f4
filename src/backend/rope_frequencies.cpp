#include "backend/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tokamak {

std::vector<double> rope_frequencies(const RopeFrequencyParams& p, std::span<const float> factors) {
  const auto n_rot = static_cast<double>(p.n_rot);
  const auto pair_of_turns = [&](double turns) {  // the pair that makes `turns` turns over the original context
    return n_rot * std::log(static_cast<double>(p.n_ctx_orig) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(p.theta));
  };
  double low = 0, high = 1;
  if (p.ext_factor != 0) {
    low = pair_of_turns(p.beta_fast);
    high = pair_of_turns(p.beta_slow);
    if (p.round_range) low = std::floor(low), high = std::ceil(high);
    low = std::max(0.0, low);
    high = std::min(n_rot - 1, high);
  }
  std::vector<double> out(static_cast<size_t>(p.n_rot / 2));
  for (size_t i = 0; i < out.size(); ++i) {
    double extrapolated = std::pow(p.theta, -2.0 * static_cast<double>(i) / n_rot);
    if (!factors.empty()) extrapolated /= double{factors[i]};
    const double interpolated = p.freq_scale * extrapolated;
    const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(0.001, high - low), 0.0, 1.0);
    const double keep = (1 - ramp) * p.ext_factor;
    out[i] = p.ext_factor == 0 ? interpolated : interpolated * (1 - keep) + extrapolated * keep;
  }
  return out;
}

}  // namespace tokamak

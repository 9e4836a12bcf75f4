#include "engine/sampling/adaptive_p.h"

#include <algorithm>
#include <cmath>

#include "engine/sampling/mirostat.h"

namespace tokamak {

void AdaptiveP::reset() {
  weighted_sum = std::max(target, 0.0) / (1 - decay);
  total_weight = 1 / (1 - decay);
}

double AdaptiveP::adapted() const { return std::clamp(2 * target - weighted_sum / total_weight, 0.0, 1.0); }

size_t AdaptiveP::choose(Candidates& candidates, double u) {
  constexpr double kPeak = 5, kSharpness = 10, kWidth = 0.3;
  candidates.softmax();
  if (target < 0) return draw(candidates.list(), u);
  const double aim = adapted();
  for (Candidate& c : candidates.list()) c.key = c.prob;  // the distribution before the change
  candidates.rescore([&](const Candidate& c) {
    const double distance = std::abs(c.key - aim) / kWidth;
    return static_cast<float>(kPeak - kSharpness * distance * distance / (1 + distance));
  });
  candidates.softmax();
  const size_t choice = draw(candidates.list(), u);
  weighted_sum = decay * weighted_sum + candidates.list()[choice].key;
  total_weight = decay * total_weight + 1;
  return choice;
}

}  // namespace tokamak

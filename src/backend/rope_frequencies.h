// Frequencies of rotary position embeddings, the same for every backend.
// Source: Su et al. 2021 (arXiv:2104.09864); YaRN: Peng et al. 2023 (arXiv:2309.00071), section 3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tokamak {

struct RopeFrequencyParams {
  int64_t n_rot = 0;  // rotated dimensions, even
  double theta = 10000, freq_scale = 1, ext_factor = 0, beta_fast = 32, beta_slow = 1;
  int64_t n_ctx_orig = 0;   // tokens; used with ext_factor != 0
  bool round_range = true;  // YaRN: the correction range is whole pairs
};

// Radians per position of each of the n_rot / 2 pairs. factors: empty, or n_rot / 2 divisors of the frequencies.
std::vector<double> rope_frequencies(const RopeFrequencyParams& params, std::span<const float> factors);

}  // namespace tokamak

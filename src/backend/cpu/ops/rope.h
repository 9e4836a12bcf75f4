// Rotary position embedding: angles and their table. The rotation itself is an op kernel (ops.h).
// Source: Su et al. 2021 (arXiv:2104.09864); YaRN: Peng et al. 2023 (arXiv:2309.00071), section 3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/rope_frequencies.h"

namespace tokamak::cpu {

enum class RopePairing : uint8_t { norm, neox };  // rotates dimensions (2i, 2i+1) or (i, i + n_rot / 2)

struct RopeParams {
  RopeFrequencyParams frequency;  // n_rot: the first dimensions (CHECKed to be even)
  RopePairing pairing = RopePairing::norm;
  double attn_factor = 1;
};

// cos and sin of every position of a step, shared by all heads and by all layers with the same parameters.
//
// Rule: frequencies and angles in f64. The angle of position p splits into 64 a + b; cos and sin come from f64 sine
// and cosine of both parts and the addition theorem, rounded to f32 once. So a row depends on p alone, and its error
// is that one rounding (f64 angles: below 1e-9 even at p = 10^6).
class RopeTable {
 public:
  // factors: empty, or n_rot / 2 divisors of the frequencies.
  RopeTable(const RopeParams& params, std::span<const float> factors);

  const RopeParams& params() const { return params_; }
  int64_t row_floats() const { return 2 * params_.frequency.n_rot; }
  double frequency(int64_t pair) const { return frequencies_[static_cast<size_t>(pair)]; }  // radians per position

  // Rows [begin, end) of the table, one per token: rows[t][0..n_rot) factors of the dimension itself, then
  // rows[t][n_rot..2 n_rot) factors of its partner: y[i] = x[i] * row[i] + x[partner(i)] * row[n_rot + i].
  //   positions  [n_tokens], >= 0
  //   rows       f32 [n_tokens, row_floats()]
  // Thread-safe on distinct rows.
  void fill(std::span<const int32_t> positions, float* rows, int64_t begin, int64_t end) const;

 private:
  struct Turn {
    double cosine, sine;
  };
  void fill_row(std::span<const Turn> base, int64_t low, float* row) const;

  RopeParams params_;
  std::vector<double> frequencies_;  // [n_rot / 2]
  std::vector<Turn> low_;            // [64][n_rot / 2], of positions 0..63
};

}  // namespace tokamak::cpu

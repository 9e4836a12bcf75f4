// The elements an encoder works on: scaled by a power of two so that no search can overflow or lose them, with the
// weights of their squared errors.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/half.h"
#include "quant/block_loops.h"

namespace tokamak {

// n elements of one block. x is the input times 2^-exponent, its largest magnitude in [0.5, 1) (or all 0).
// w is the importance over its largest value, at least kLeastWeight (an element without importance still wants a
// sane code); 1 where there is no importance. wx = w * x.
template <int n>
struct Samples {
  static constexpr float kLeastWeight = 1e-6f;

  alignas(16) float x[n] = {};
  alignas(16) float w[n] = {};
  alignas(16) float wx[n] = {};
  int exponent = 0;
  float largest = 0.0f;  // max |x|, scaled

  // importance: null or n weights >= 0.
  Samples(const float* input, const float* importance) {
    const float magnitude = max_magnitude(input, n);
    if (magnitude > 0.0f) std::frexp(magnitude, &exponent);
    const double unit = std::ldexp(1.0, -exponent);
    for (int i = 0; i < n; ++i) x[i] = static_cast<float>(input[i] * unit);
    largest = static_cast<float>(magnitude * unit);
    fill_weights(importance);
    for (int i = 0; i < n; ++i) wx[i] = w[i] * x[i];
  }

 private:
  void fill_weights(const float* importance) {
    const float heaviest = importance ? std::fmin(max_magnitude(importance, n), FLT_MAX) : 0.0f;
    if (!(heaviest > 0.0f)) {
      std::fill_n(w, n, 1.0f);
      return;
    }
    for (int i = 0; i < n; ++i) {
      const float share = std::fmin(importance[i], FLT_MAX) / heaviest;
      w[i] = share > kLeastWeight ? share : kLeastWeight;
    }
  }
};

// A scale as it will be decoded: rounded to f16, and again in the scaled units of the samples.
struct F16Scale {
  uint16_t code = 0;
  float value = 0.0f;  // inf when the input is too large for f16: the block's fault function then refuses it
};
inline F16Scale rounded_scale(double scale, int exponent) {
  const uint16_t code = f32_to_f16(static_cast<float>(std::ldexp(scale, exponent)));
  return {code, static_cast<float>(std::ldexp(static_cast<double>(f16_to_f32(code)), -exponent))};
}

// encode_block(const Samples<n>&, Block&) for every block of n elements.
template <int n, class Block, DType type, class EncodeBlock>
void encode_samples(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks,
                    EncodeBlock&& encode_block) {
  static_assert(n == dtype_row(type).block_elems);
  encode_blocks<Block, type>(x, n_blocks, blocks, [&](const float* xb, Block& block) {
    const Samples<n> samples(xb, importance ? importance + (xb - x) : nullptr);
    encode_block(samples, block);
  });
}

}  // namespace tokamak

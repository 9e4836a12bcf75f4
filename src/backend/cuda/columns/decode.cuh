// Weights of this folder's fragments: those of gemm/half.h but for four-bit floats, which come out in the order
// HalfOrder::eights with fewer operations of the integer pipe, the bottleneck of their kernels.
#pragma once

#include "backend/cuda/columns/halves.h"
#include "backend/cuda/gemm/half.h"

namespace tokamak::cuda {

// value of a weight = half * kColumnsFactor<P>.
template <class P>
inline constexpr float kColumnsFactor = kHalfFactor<P>;
template <>
inline constexpr float kColumnsFactor<NVFP4> = 0x1p8f;  // 2^14 of its codes, 2^-6 of its scales

// A nibble at the top of a half: its sign, then exponent and mantissa at their places give value * 2^-14.
TOKAMAK_HD void e2m1_eight(uint32_t codes, uint32_t (&out)[4]) {
  for (int m = 0; m < 4; ++m) {
    const uint32_t low = m < 3 ? codes << (9 - 4 * m) : codes >> 3;
    out[m] = (codes << (12 - 4 * m) & 0x80008000) | (low & 0x0E000E00);
  }
}

// Weights 16h .. 16h + 15 of block `at`: words 2i and 2i + 1 are a thread's part of step 4h + i.
template <class P, int h, class Prepared>
TOKAMAK_HD void columns_halves(const typename P::Codes (&c)[kUnitsPerBlock<P>], const Prepared& s, int row,
                               Lookup lookup, uint32_t (&out)[8]) {
  if constexpr (!P::kQuantized) {
    plain_halves<P>(c[h], out);
  } else if constexpr (!kIsE2m1<P>) {
    quantized_halves<P, h>(c[0], s, row, lookup, out);
  } else {
    uint32_t scale;
    if constexpr (kHalves<typename P::Decoded>)
      scale = half2_mul(nvfp4_scale<h>(s, row), 0x74007400);  // 2^14: products are exact
    else
      scale = half2_twice(P::decode(c[0], s, row, lookup).d * 16.0f);
    for (int i = 0; i < 2; ++i) {
      uint32_t w[4];
      e2m1_eight(c[0].w[2 * h + i], w);
      for (int m = 0; m < 4; ++m) {
        if constexpr (!kHalves<typename P::Decoded>) w[m] = half2_mul(w[m], half2_int(256));
        out[4 * i + m] = half2_mul(w[m], scale);
      }
    }
  }
}

}  // namespace tokamak::cuda

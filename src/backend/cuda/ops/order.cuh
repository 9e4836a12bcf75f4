// Numbers by their bits, for the integer instructions that compare over a warp. For .cu files only.
#pragma once

#include <cstdint>

namespace tokamak::cuda {

// Orders as the values do; both zeros are one. Not for NaN.
__device__ inline uint32_t order_of_bits(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return bits ^ (bits >> 31 ? ~0u : 1u << 31);
}

}  // namespace tokamak::cuda

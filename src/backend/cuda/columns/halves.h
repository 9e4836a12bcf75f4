// Activations of the kernels in this folder. No includes of the project: device code is compiled by nvcc.
#pragma once

#include <cstdint>

namespace tokamak::cuda {

// A column of k activations: binary16, k rounded up to a multiple of 128 (zeros), then the factor: value = half *
// factor, a power of two that brings the largest magnitude of the column to [2^14, 2^15). Within each four, in the
// order 0, 2, 1, 3: what a thread's B fragments are beside A fragments of gemm/half.h.
constexpr int64_t halves_padded(int64_t k) { return (k + 127) / 128 * 128; }
constexpr int64_t halves_column_bytes(int64_t k) { return 2 * halves_padded(k) + 16; }

}  // namespace tokamak::cuda

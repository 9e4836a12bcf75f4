// Activations of the kernels in this folder. No includes of the project: device code is compiled by nvcc.
#pragma once

#include <cstdint>

namespace tokamak::cuda {

// A column of k activations: binary16, k rounded up to a multiple of 128 (zeros), then the factor: value = half *
// factor, a power of two that brings the largest magnitude of the column to [2^14, 2^15).
constexpr int64_t halves_padded(int64_t k) { return (k + 127) / 128 * 128; }
constexpr int64_t halves_column_bytes(int64_t k) { return 2 * halves_padded(k) + 16; }

// Where elements lie, so that a thread's B fragments are beside each other in the order in which its weights come out
// of decoding: fours in the order 0, 2, 1, 3, or eights in the order 0, 4, 1, 5, 2, 6, 3, 7.
enum class HalfOrder : uint8_t { fours, eights };

}  // namespace tokamak::cuda

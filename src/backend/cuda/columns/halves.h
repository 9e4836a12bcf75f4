// Activations of the kernels in this folder. No includes of the project: device code is compiled by nvcc.
#pragma once

#include <cstdint>

namespace tokamak::cuda {

// n_cols columns of k activations as binary16: k rounded up to a multiple of 256 (zeros), columns to one of 8 (whatever
// was there), in the order in which the lanes of a warp read B fragments beside A fragments of gemm/half.h. Then a
// factor for each column: value = half * factor, a power of two that brings the largest magnitude of the column to
// [2^14, 2^15).
//
// Of 8 columns and 128 k, lane 4g + t reads elements 32t .. 32t + 31 of column g, 8 at a time: so the 16 bytes of
// elements 32t + 8p .. of column g are number 32p + 4g + t of the 128.
constexpr int64_t halves_padded(int64_t k) { return (k + 255) / 256 * 256; }
constexpr int64_t halves_of_eight_bytes(int64_t k) { return 16 * halves_padded(k); }
constexpr int64_t halves_factors_at(int64_t k, int64_t n_cols) { return (n_cols + 7) / 8 * halves_of_eight_bytes(k); }
constexpr int64_t halves_bytes(int64_t k, int64_t n_cols) {
  return halves_factors_at(k, n_cols) + (4 * n_cols + 15) / 16 * 16;
}
// Bytes from the start to elements 8i .. 8i + 7 of a column.
constexpr int64_t halves_place(int64_t k, int64_t col, int64_t i) {
  return col / 8 * halves_of_eight_bytes(k) + (i / 16 * 128 + i % 4 * 32 + col % 8 * 4 + i / 4 % 4) * 16;
}

}  // namespace tokamak::cuda

// The layouts of weights on the device: one row per type of kMatvecTypes. Host code only; needs no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/dtypes.h"

namespace tokamak::cuda {

// What a kernel reads on the activation side: rows of f32, or columns of quantize_q8 (activations.h), with their low
// bytes (q15) or without.
enum class ActivationForm : uint8_t { f32, q8, q15 };

struct PackMatricesTask {
  const std::byte* rows = nullptr;  // file rows, n_matrices x n_rows of them, contiguous
  int64_t n_matrices = 1, n_rows = 0, k = 0;
  std::byte* out = nullptr;  // packed_bytes(...), 16-byte aligned (on the device 256)
  // Row blocks [begin, end) of n_matrices * ceil(n_rows / row_block); end < 0: all. Threads take disjoint ranges.
  int64_t block_begin = 0, block_end = -1;
};

struct MatvecLayout {
  DType dtype;
  std::string_view kernel;  // for reports: "matvec_nvfp4"
  ActivationForm activations;
  int row_block;  // rows that lie together: matrices of n_rows % row_block == 0 may be concatenated
  uint64_t (*packed_bytes)(int64_t n_matrices, int64_t n_rows, int64_t k);
  void (*pack)(const PackMatricesTask& task);
  // The kernel's arithmetic on the host, for tests: y[n_rows] of matrix `matrix` with one column of activations, codes
  // and scales decoded by the code that the GPU runs. `x`: k floats, or a q8 column.
  void (*multiply)(const std::byte* packed, int64_t matrix, int64_t n_rows, int64_t k, const void* x, float* y);
};

// F32, F16, BF16 and every quantized type of weights.
std::span<const MatvecLayout> matvec_layouts();
const MatvecLayout* find_matvec_layout(DType dtype);

// k is any multiple of the type's block.
inline bool has_matvec(DType dtype) { return find_matvec_layout(dtype) != nullptr; }
// CHECKs has_matvec.
uint64_t packed_bytes(DType dtype, int64_t n_matrices, int64_t n_rows, int64_t k);
void pack_matrices(DType dtype, const PackMatricesTask& task);
ActivationForm activation_of(DType dtype);

// Host twin of the device's quantize_q8: one column, k a multiple of 32, out q8_column_bytes(k). Same bytes; what lies
// behind the groups is written with `low` only.
void quantize_q8_column(const float* x, int64_t k, std::byte* out, bool low = true);

}  // namespace tokamak::cuda

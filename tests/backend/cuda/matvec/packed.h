// Matrices as they lie on the device, for tests and benches.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/cuda/matvec/layout.h"

namespace tokamak::cuda {

// rows: of the file, [n_matrices * n_rows, k].
inline std::vector<std::byte> pack(DType dtype, std::span<const std::byte> rows, int64_t n_matrices, int64_t n_rows,
                                   int64_t k) {
  std::vector<std::byte> packed(packed_bytes(dtype, n_matrices, n_rows, k));
  pack_matrices(dtype, {rows.data(), n_matrices, n_rows, k, packed.data()});
  return packed;
}

}  // namespace tokamak::cuda

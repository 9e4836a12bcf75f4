// What a tensor of the file becomes on the device: its forms one after the other, made in pieces that threads can work
// on independently. Host code only; needs no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "backend/backend.h"

namespace tokamak::cuda {

// How a graph uses a weight.
struct WeightUse {
  bool matmul = false, rows = false, values = false;
};

// Bytes of each form, in this order; multiples of kWeightAlignment, 0: no use needs it.
//   packed  matvec/layout.h: products, and rows of quantized tables
//   rows    as in the file, or f32 for types without a layout: rows of tables, products without a layout
//   values  f32, for element-wise ops
struct WeightForms {
  uint64_t packed = 0, rows = 0, values = 0;

  uint64_t total() const { return packed + rows + values; }
};
inline constexpr uint64_t kWeightAlignment = 256;
WeightForms forms_of(const WeightSource& source, const WeightUse& use);

// The type of WeightForms::rows: f32, f16 or bf16.
DType row_dtype(DType dtype);

// Bytes [offset, offset + n_bytes) of an image. `make` writes them; pieces can be made at the same time.
struct ImagePiece {
  uint64_t offset = 0, n_bytes = 0;
  std::function<void(std::byte* out)> make;
};

// All forms of the tensor from byte `offset` of the image on, in ascending order, each about a megabyte. What lies
// between the end of a form and the next is nobody's. The bytes of `source` must outlive the pieces.
std::vector<ImagePiece> pieces_of(const WeightSource& source, const WeightForms& forms, uint64_t offset);

}  // namespace tokamak::cuda

#include "backend/cuda/weight_image.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/matvec/layout.h"
#include "base/round_up.h"
#include "quant/codec.h"

namespace tokamak::cuda {

namespace {
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

uint64_t aligned(uint64_t n_bytes) { return round_up(n_bytes, kWeightAlignment); }

int64_t n_matrices(const Shape& shape) { return shape.rank() == 3 ? shape[0] : 1; }
int64_t matrix_rows(const Shape& shape) { return shape.n_rows() / n_matrices(shape); }

bool is_plain(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

// How many of n items of item_bytes each make a piece.
int64_t items_per_piece(uint64_t item_bytes) {
  return static_cast<int64_t>(std::max<uint64_t>(kPieceBytes / std::max<uint64_t>(item_bytes, 1), 1));
}

void add_packed(const WeightSource& source, uint64_t offset, std::vector<ImagePiece>& out) {
  const Shape& shape = source.shape;
  const int64_t k = shape.row_elems(), n_rows = matrix_rows(shape),
                row_block = find_matvec_layout(source.dtype)->row_block;
  const int64_t n_blocks = n_matrices(shape) * div_round_up(n_rows, row_block);
  // Blocks lie one after the other behind the type's table, which goes with the first.
  const auto begin_of = [&](int64_t block) {
    return block == 0 ? 0 : packed_bytes(source.dtype, 1, block * row_block, k);
  };
  const int64_t step = items_per_piece(begin_of(2) - begin_of(1));
  for (int64_t block = 0; block < n_blocks; block += step) {
    const int64_t end = std::min(block + step, n_blocks);
    const uint64_t begin = begin_of(block);
    const PackMatricesTask task{.rows = source.data.data(),
                                .n_matrices = n_matrices(shape),
                                .n_rows = n_rows,
                                .k = k,
                                .block_begin = block,
                                .block_end = end};
    out.push_back({.offset = offset + begin,
                   .n_bytes = begin_of(end) - begin,
                   .make = [task, begin, dtype = source.dtype](std::byte* to) {
                     PackMatricesTask part = task;  // which counts from the first block
                     part.out = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(to) - begin);
                     pack_matrices(dtype, part);
                   }});
  }
}

void add_copy(const WeightSource& source, uint64_t offset, std::vector<ImagePiece>& out) {
  for (uint64_t begin = 0; begin < source.data.size(); begin += kPieceBytes) {
    const auto part = source.data.subspan(begin, std::min(kPieceBytes, source.data.size() - begin));
    out.push_back({.offset = offset + begin, .n_bytes = part.size(), .make = [part](std::byte* to) {
                     std::memcpy(to, part.data(), part.size());
                   }});
  }
}

void add_floats(const WeightSource& source, uint64_t offset, std::vector<ImagePiece>& out) {
  const int64_t row_elems = source.shape.row_elems(), n_rows = source.shape.n_rows();
  const uint64_t row_bytes = static_cast<uint64_t>(row_elems) * sizeof(float);
  const int64_t step = items_per_piece(row_bytes);
  for (int64_t row = 0; row < n_rows; row += step) {
    const int64_t n = std::min(step, n_rows - row) * row_elems;
    const std::byte* from = source.data.data() + dtype_bytes(source.dtype, static_cast<uint64_t>(row * row_elems));
    out.push_back({.offset = offset + static_cast<uint64_t>(row) * row_bytes,
                   .n_bytes = static_cast<uint64_t>(n) * sizeof(float),
                   .make = [from, n, dtype = source.dtype](std::byte* to) {
                     decode_row(dtype, from, n, reinterpret_cast<float*>(to));
                   }});
  }
}
}  // namespace

DType row_dtype(DType dtype) { return is_plain(dtype) ? dtype : DType::f32; }

WeightForms forms_of(const WeightSource& source, const WeightUse& use) {
  WeightForms out;
  const auto n = static_cast<uint64_t>(source.shape.n_elements());
  const bool has_layout = has_matvec(source.dtype);
  const bool packed = has_layout && (use.matmul || (use.rows && !is_plain(source.dtype)));
  if (packed)
    out.packed = aligned(
        packed_bytes(source.dtype, n_matrices(source.shape), matrix_rows(source.shape), source.shape.row_elems()));
  if ((use.rows || use.matmul) && !packed) out.rows = aligned(dtype_bytes(row_dtype(source.dtype), n));
  if (use.values) out.values = aligned(n * sizeof(float));
  return out;
}

std::vector<ImagePiece> pieces_of(const WeightSource& source, const WeightForms& forms, uint64_t offset) {
  std::vector<ImagePiece> out;
  if (forms.packed > 0) add_packed(source, offset, out);
  offset += forms.packed;
  if (forms.rows > 0) is_plain(source.dtype) ? add_copy(source, offset, out) : add_floats(source, offset, out);
  offset += forms.rows;
  if (forms.values > 0) add_floats(source, offset, out);
  return out;
}

}  // namespace tokamak::cuda

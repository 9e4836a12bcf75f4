// Where the values of a GGUF tensor stand in the checkpoint: rows and columns picked by counting loops, perhaps
// transposed. Every arch::WeightOrder is such a choice.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "convert/model_config.h"
#include "tensor/shape.h"

namespace tokamak::convert {

// first + i * strides[0] + j * strides[1] + k * strides[2] for all i, j, k below counts, k fastest.
struct IndexLoops {
  int64_t first = 0;
  std::array<int64_t, 3> counts{1, 1, 1}, strides{0, 0, 0};
};

// Of each of n_matrices equal matrices [n_rows, n_cols] that the checkpoint holds one behind the other. A vector is a
// matrix of one column.
struct TensorOrder {
  int64_t n_matrices = 1, n_rows = 1, n_cols = 1;
  std::vector<IndexLoops> rows, cols;  // those that the GGUF holds; empty: all, as they stand
  bool transposed = false;             // the picked columns become rows

  int64_t n_picked_rows() const;
  int64_t n_picked_cols() const;
  // Of a matrix of the GGUF.
  int64_t n_out_rows() const { return transposed ? n_picked_cols() : n_picked_rows(); }
  int64_t n_out_cols() const { return transposed ? n_picked_rows() : n_picked_cols(); }
  // Whether rows come whole, so that codes need no decoding.
  bool keeps_rows() const { return !transposed && cols.empty(); }
  // Indices within a matrix, in the order of the GGUF.
  std::vector<int64_t> row_indices() const;
  std::vector<int64_t> col_indices() const;
};

TensorOrder make_order(arch::WeightOrder order, int64_t n_matrices, int64_t n_rows, int64_t n_cols,
                       const ModelConfig& model);
// The same picks for a bias, a vector beside the matrix: those of the rows that the GGUF has.
TensorOrder order_of_bias(const TensorOrder& order);

}  // namespace tokamak::convert

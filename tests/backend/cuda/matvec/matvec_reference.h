// A random product and what must come out, in double, for the activations as the kernel reads them.
#pragma once

#include <cmath>
#include <vector>

#include "backend/cuda/matvec/activations.h"
#include "backend/cuda/matvec/packed.h"
#include "backend/cuda/matvec/random_weights.h"
#include "quant/codec.h"

namespace tokamak::cuda {

struct Expected {
  double value, tolerance;
};

struct ReferenceCase {
  DType dtype;
  int64_t n_matrices, n_rows, k, n_cols;
  std::vector<std::byte> rows;  // the file's
  std::vector<float> weights;   // decoded
  std::vector<float> x;         // [n_cols, k]
  std::vector<std::byte> q8;    // [n_cols, q8_column_bytes(k)], of quantized types
  std::vector<double> exact_x;  // [n_cols, k]: what the kernel multiplies with

  const void* column(int64_t c) const {
    return q8.empty() ? static_cast<const void*>(x.data() + c * k) : q8.data() + c * q8_column_bytes(k);
  }
  // The bound: every kernel adds exact integer sums of units of 32, so roundings are a few per unit (decode, scale,
  // fold) and one per addition: 5 lanes, then the slices. An offset or minimum may cancel within a unit: a unit counts
  // as twice its largest weight times the sum of |x|. Higham 2002, 3.1.
  Expected expect(int64_t matrix, int64_t row, int64_t col) const {
    const float* w = weights.data() + (matrix * n_rows + row) * k;
    const double* a = exact_x.data() + col * k;
    double sum = 0.0, magnitude = 0.0;
    for (int64_t first = 0; first < k; first += 32) {
      double largest = 0.0, total = 0.0;
      for (int64_t i = first; i < std::min(first + 32, k); ++i) {
        sum += w[i] * a[i];
        largest = std::max(largest, std::fabs(static_cast<double>(w[i])));
        total += std::fabs(a[i]);
      }
      magnitude += 2.0 * largest * total;
    }
    const double n_roundings = 24.0 + static_cast<double>(k) / 512.0;
    return {sum, n_roundings * 0x1p-24 * magnitude + 1e-37};
  }
};

inline std::vector<std::byte> packed_of(const ReferenceCase& c) {
  return pack(c.dtype, c.rows, c.n_matrices, c.n_rows, c.k);
}

inline ReferenceCase make_case(DType dtype, int64_t n_matrices, int64_t n_rows, int64_t k, int64_t n_cols,
                               uint64_t seed) {
  ReferenceCase c{dtype, n_matrices, n_rows, k, n_cols, {}, {}, {}, {}, {}};
  c.rows = tokamak::testing::random_rows(dtype, n_matrices * n_rows, k, seed);
  c.weights.resize(static_cast<size_t>(n_matrices * n_rows * k));
  decode_row(dtype, c.rows.data(), n_matrices * n_rows * k, c.weights.data());
  c.x = tokamak::testing::random_floats(static_cast<size_t>(n_cols * k), seed + 1);
  c.exact_x.assign(c.x.begin(), c.x.end());
  if (activation_of(dtype) == ActivationForm::f32) return c;
  c.q8.resize(static_cast<size_t>(n_cols * q8_column_bytes(k)));
  for (int64_t col = 0; col < n_cols; ++col) {
    std::byte* column = c.q8.data() + col * q8_column_bytes(k);
    quantize_q8_column(c.x.data() + col * k, k, column);
    for (int64_t i = 0; i < k; ++i) {
      GroupQ8 group;
      std::memcpy(&group, column + k + i / 32 * 8, sizeof group);
      double code = static_cast<int8_t>(column[i]);
      if (activation_of(dtype) == ActivationForm::q15)
        code += static_cast<int8_t>(column[q8_low_offset(k) + i]) / 128.0;
      c.exact_x[static_cast<size_t>(col * k + i)] = static_cast<double>(group.d) * code;
    }
  }
  return c;
}

}  // namespace tokamak::cuda

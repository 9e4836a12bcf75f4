#include "backend/cpu/matmul_helpers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/half.h"
#include "quant/codec.h"

namespace tokamak::cpu::test {
namespace {

// Byte offsets of the f16 scales in a block; the second one of a pair is the min's.
struct ScaleOffsets {
  DType dtype;
  std::vector<int> f16;
  double max_min_factor;  // |min| <= factor * |second f16|
};
const ScaleOffsets& scale_offsets(DType dtype) {
  static const std::vector<ScaleOffsets> kRows = {
      {DType::q8_0, {0}, 0},    {DType::q4_0, {0}, 0},       {DType::q4_1, {0, 2}, 1},  {DType::q5_0, {0}, 0},
      {DType::q5_1, {0, 2}, 1}, {DType::q4_k, {0, 2}, 63},   {DType::q5_k, {0, 2}, 63}, {DType::q6_k, {208}, 0},
      {DType::iq4_nl, {0}, 0},  {DType::q2_k, {80, 82}, 15}, {DType::tq2_0, {64}, 0},   {DType::q2_0, {0}, 0},
      {DType::iq4_xs, {0}, 0},  {DType::q3_k, {108}, 0},     {DType::tq1_0, {52}, 0},   {DType::q1_0, {0}, 0},
      {DType::iq2_xxs, {0}, 0}, {DType::iq2_xs, {0}, 0},     {DType::iq2_s, {0}, 0},    {DType::iq3_xxs, {0}, 0},
      {DType::iq3_s, {0}, 0},   {DType::iq1_s, {0}, 0},      {DType::q8_1, {0, 2}, 0},
  };
  for (const ScaleOffsets& row : kRows)
    if (row.dtype == dtype) return row;
  static const ScaleOffsets kNone{DType::f32, {}, 0};
  return kNone;
}

template <class T>
T load(const std::byte* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

void fill_plain(Matrix& m, std::mt19937& random) {
  std::normal_distribution<float> normal;
  const size_t n = static_cast<size_t>(m.n_rows * m.k);
  for (size_t i = 0; i < n; ++i) {
    const float x = normal(random);
    const uint16_t h = m.dtype == DType::f16 ? f32_to_f16(x) : f32_to_bf16(x);
    if (m.dtype == DType::f32)
      std::memcpy(&m.rows[4 * i], &x, 4);
    else
      std::memcpy(&m.rows[2 * i], &h, 2);
  }
}

}  // namespace

Matrix make_matrix(DType dtype, int64_t n_rows, int64_t k, uint32_t seed, Fill fill) {
  std::mt19937 random(seed);
  Matrix m{dtype, n_rows, k, {}};
  m.rows.resize(static_cast<size_t>(n_rows) * m.row_bytes());
  if (!is_quantized(dtype)) {
    fill_plain(m, random);
    return m;
  }
  for (std::byte& b : m.rows)
    b = fill == Fill::random     ? static_cast<std::byte>(random())
        : fill == Fill::all_ones ? std::byte{255}
                                 : std::byte{0};
  std::uniform_real_distribution<float> scale(0.01f, 0.02f);
  for (size_t at = 0; at < m.rows.size(); at += dtype_row(dtype).block_bytes) {
    for (int offset : scale_offsets(dtype).f16) {
      const uint16_t h = f32_to_f16(scale(random) * (random() % 2 ? 1.0f : -1.0f));
      std::memcpy(&m.rows[at + static_cast<size_t>(offset)], &h, 2);
    }
    if (dtype == DType::iq1_m) {  // the f16 is spread over the top nibbles of four words
      const uint16_t h = f32_to_f16(scale(random));
      for (size_t i = 0; i < 4; ++i) {
        std::byte& high = m.rows[at + 49 + 2 * i];
        high = (high & std::byte{15}) | static_cast<std::byte>(((h >> (4 * i)) & 15) << 4);
      }
    }
    if (dtype == DType::mxfp4) m.rows[at] = static_cast<std::byte>(110 + random() % 20);  // an exponent
  }
  return m;
}

AlignedBytes pack(const Matrix& m) {
  AlignedBytes out(static_cast<size_t>(packed_bytes(m.dtype, m.n_rows, m.k)));
  pack_weights(m.dtype, {m.rows.data(), m.row_bytes(), m.n_rows, m.k, 0, n_panels(m.n_rows), out.data()});
  return out;
}

std::vector<float> random_floats(size_t n, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

AlignedBytes pack_columns(ActivationKind kind, Isa isa, const std::vector<float>& x, int64_t n_cols, int64_t k) {
  AlignedBytes out(static_cast<size_t>(activation_bytes(kind, n_cols, k)));
  pack_activations(kind, isa, {x.data(), k, n_cols, k, 0, n_cols, out.data()});
  return out;
}

std::vector<double> unpack_columns(ActivationKind kind, const AlignedBytes& packed, int64_t n_cols, int64_t k) {
  std::vector<double> x(static_cast<size_t>(n_cols * k));
  for (int64_t col = 0; col < n_cols; ++col) {
    const int64_t first = col / kPanelCols * kPanelCols, n = std::min<int64_t>(kPanelCols, n_cols - first),
                  c = col - first;
    const std::byte* panel = packed.data() + first * activation_bytes(kind, 1, k);
    for (int64_t i = 0; i < k; ++i) {
      double value = 0;
      if (kind == ActivationKind::f32) {
        value = load<float>(panel + 4 * (i * n + c));
      } else {
        const std::byte* group = panel + i / 32 * activation_format(kind).group_bytes_per_col * n;
        int code = load<int8_t>(group + 32 * c + i % 32);
        if (kind == ActivationKind::int16) code = 128 * code + load<int8_t>(group + 32 * (n + c) + i % 32);
        value = double{load<float>(group + (kind == ActivationKind::int16 ? 64 : 32) * n + 4 * c)} * code;
      }
      x[static_cast<size_t>(col * k + i)] = value;
    }
  }
  return x;
}

std::vector<float> run(const GemmKernel& kernel, const Matrix& m, const AlignedBytes& weights,
                       const AlignedBytes& columns, int64_t n_cols) {
  std::vector<float> y(static_cast<size_t>(n_cols * m.n_rows), std::nanf(""));
  AlignedBytes scratch(gemm_scratch_bytes(m.dtype, m.k, false));
  gemm(kernel, m.dtype,
       {.weights = weights.data(),
        .activations = columns.data(),
        .n_rows = m.n_rows,
        .n_cols = n_cols,
        .k = m.k,
        .panel_begin = 0,
        .panel_end = n_panels(m.n_rows),
        .y = y.data(),
        .y_stride_elems = m.n_rows,
        .scratch = scratch.data()});
  return y;
}

Reference reference(const Matrix& m, const std::vector<double>& columns, int64_t n_cols) {
  Reference r;
  r.y.resize(static_cast<size_t>(n_cols * m.n_rows));
  r.magnitude.resize(r.y.size());
  const ScaleOffsets& scales = scale_offsets(m.dtype);
  std::vector<float> w(static_cast<size_t>(m.k));
  for (int64_t row = 0; row < m.n_rows; ++row) {
    const std::byte* bytes = m.rows.data() + static_cast<size_t>(row) * m.row_bytes();
    decode_row(m.dtype, bytes, m.k, w.data());
    for (int64_t col = 0; col < n_cols; ++col) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < m.k; ++k) {
        const std::byte* block = bytes + k / dtype_row(m.dtype).block_elems * dtype_row(m.dtype).block_bytes;
        const double x = columns[static_cast<size_t>(col * m.k + k)], weight = double{w[static_cast<size_t>(k)]};
        double min = 0;
        if (scales.max_min_factor > 0)
          min = scales.max_min_factor * std::abs(f16_to_f32(load<uint16_t>(block + scales.f16[1])));
        sum += weight * x;
        magnitude += (std::abs(weight) + 2 * min) * std::abs(x);  // |d q| + |min| <= |w| + 2 |min|
      }
      r.y[static_cast<size_t>(col * m.n_rows + row)] = sum;
      r.magnitude[static_cast<size_t>(col * m.n_rows + row)] = magnitude;
    }
  }
  return r;
}

double error_bound(ActivationKind kind, int64_t k, double magnitude) {
  const double steps = kind == ActivationKind::f32 ? static_cast<double>(k) : 3.0 * static_cast<double>(k) / 32;
  const double n = steps + 8, u = 0x1p-24;
  return n * u / (1 - n * u) * magnitude + 1e-30;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

GluValue glu_value(GemmGlu kind, double gate, double up, double alpha, double limit) {
  double z = 0;  // act(gate) = gate * sigmoid(z)
  if (kind == GemmGlu::reglu) z = gate > 0 ? 1e9 : -1e9;
  if (kind == GemmGlu::swiglu) z = gate;
  if (kind == GemmGlu::geglu) z = 2 * std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate);
  if (kind == GemmGlu::geglu_quick) z = 1.702 * gate;
  if (kind == GemmGlu::swiglu_oai) {
    gate = std::min(gate, limit);
    up = std::clamp(up, -limit, limit) + 1;
    z = alpha * gate;
  }
  const bool erf = kind == GemmGlu::geglu_erf;
  const double y = (erf ? 0.5 * gate * std::erfc(-gate / std::sqrt(2)) : gate / (1 + std::exp(-z))) * up;
  // e^-z: 3 ulp, and 4 roundings of its argument weigh |z| each; below e^-87 it is clamped (absolute term). erf: 40 u
  // (math_template.h). The rest are single roundings.
  const double u = 0x1p-24, relative = erf ? 44 : 12 + 4 * std::min(88.0, std::abs(z));
  return {y, std::abs(y) * relative * u + std::abs(gate * up) * 1e-37};
}

std::vector<GemmKernel> runnable_kernels() {
  std::vector<GemmKernel> rows;
  for (const GemmKernel& row : gemm_kernels()) {
    if (isa_available(row.isa))
      rows.push_back(row);
    else
      std::printf("skipped: %s needs %s\n", row.name.data(), kIsas[static_cast<size_t>(row.isa)].needs.data());
  }
  return rows;
}

}  // namespace tokamak::cpu::test

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cpu/matmul_helpers.h"
#include "quant/codec.h"

namespace tokamak::cpu::test {
namespace {

// k: one block, an odd number of blocks of 32 (a half-filled chunk), several blocks.
std::vector<int64_t> some_k(DType dtype) {
  if (dtype_row(dtype).block_elems == 256) return {256, 768};
  if (dtype_row(dtype).block_elems == 1) return {1, 7, 250};
  if (dtype_row(dtype).block_elems == 128) return {128, 384, 640};
  return {dtype_row(dtype).block_elems, 96 * (dtype_row(dtype).block_elems / 32), 576};
}

void expect_close(const std::vector<float>& y, const Reference& r, const Matrix& m, ActivationKind kind) {
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_LE(std::abs(double{y[i]} - r.y[i]), error_bound(kind, m.k, r.magnitude[i]))
        << "element " << i << " is " << y[i] << ", exact " << r.y[i];
}

class MatmulKernels : public testing::TestWithParam<GemmKernel> {};

TEST_P(MatmulKernels, AgreesWithF64Reference) {
  const DType dtype = GetParam().dtype;
  for (int64_t k : some_k(dtype))
    for (int64_t n_rows : {1, 15, 16, 17, 40}) {
      SCOPED_TRACE("rows " + std::to_string(n_rows) + ", k " + std::to_string(k));
      const Matrix m = make_matrix(dtype, n_rows, k, 7);
      const int64_t n_cols = 9;
      const AlignedBytes columns = pack_columns(GetParam().activation, Isa::scalar,
                                                random_floats(static_cast<size_t>(n_cols * k), 3), n_cols, k);
      const Reference r = reference(m, unpack_columns(GetParam().activation, columns, n_cols, k), n_cols);
      expect_close(run(GetParam(), m, pack(m), columns, n_cols), r, m, GetParam().activation);
    }
}

// The extremes of every code: sums that would overflow 16 bits if a kernel added too many products.
TEST_P(MatmulKernels, LargestCodesDoNotSaturate) {
  const DType dtype = GetParam().dtype;
  const int64_t k = 512, n_cols = 3;
  for (Fill fill : {Fill::all_ones, Fill::all_zeros}) {
    Matrix m = make_matrix(dtype, 16, k, 5, fill);
    if (dtype == DType::q8_0)  // -128 and 127 too
      for (size_t i = 0; i < m.rows.size(); ++i)
        if (i % 34 >= 2) m.rows[i] = fill == Fill::all_ones ? std::byte{0x7F} : std::byte{0x80};
    std::vector<float> x(static_cast<size_t>(n_cols * k));
    for (size_t i = 0; i < x.size(); ++i) x[i] = i / 512 == 0 ? 1.0f : i / 512 == 1 ? -1.0f : (i % 2 ? 1.0f : -1.0f);
    const AlignedBytes columns = pack_columns(GetParam().activation, Isa::scalar, x, n_cols, k);
    expect_close(run(GetParam(), m, pack(m), columns, n_cols),
                 reference(m, unpack_columns(GetParam().activation, columns, n_cols, k), n_cols), m,
                 GetParam().activation);
  }
}

TEST_P(MatmulKernels, EqualsScalarBitForBit) {
  const DType dtype = GetParam().dtype;
  const GemmKernel& scalar = select_gemm_kernel(dtype, GetParam().activation, Isa::scalar);
  for (int64_t k : some_k(dtype)) {
    const Matrix m = make_matrix(dtype, 37, k, 11);
    const AlignedBytes weights = pack(m);
    for (int64_t n_cols : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 37}) {
      SCOPED_TRACE("columns " + std::to_string(n_cols) + ", k " + std::to_string(k));
      const AlignedBytes columns = pack_columns(GetParam().activation, Isa::scalar,
                                                random_floats(static_cast<size_t>(n_cols * k), 2), n_cols, k);
      ASSERT_TRUE(same_bits(run(GetParam(), m, weights, columns, n_cols), run(scalar, m, weights, columns, n_cols)));
    }
  }
}

TEST_P(MatmulKernels, ColumnsAloneEqualTheBatch) {
  const DType dtype = GetParam().dtype;
  const int64_t k = some_k(dtype).back(), n_cols = 37;
  const Matrix m = make_matrix(dtype, 33, k, 13);
  const AlignedBytes weights = pack(m);
  const std::vector<float> x = random_floats(static_cast<size_t>(n_cols * k), 17);
  const std::vector<float> batch =
      run(GetParam(), m, weights, pack_columns(GetParam().activation, Isa::scalar, x, n_cols, k), n_cols);
  for (int64_t col = 0; col < n_cols; ++col) {
    const std::vector<float> one(x.begin() + col * k, x.begin() + (col + 1) * k);
    const std::vector<float> alone =
        run(GetParam(), m, weights, pack_columns(GetParam().activation, Isa::scalar, one, 1, k), 1);
    ASSERT_TRUE(same_bits(alone, {batch.begin() + col * m.n_rows, batch.begin() + (col + 1) * m.n_rows})) << col;
  }
}

TEST_P(MatmulKernels, PanelRangesWriteOnlyTheirRows) {
  const DType dtype = GetParam().dtype;
  const int64_t k = some_k(dtype).back(), n_cols = 9, n_rows = 70;
  const Matrix m = make_matrix(dtype, n_rows, k, 19);
  const AlignedBytes weights = pack(m);
  const AlignedBytes columns =
      pack_columns(GetParam().activation, Isa::scalar, random_floats(static_cast<size_t>(n_cols * k), 23), n_cols, k);
  const std::vector<float> whole = run(GetParam(), m, weights, columns, n_cols);
  for (int64_t split = 0; split <= n_panels(n_rows); ++split) {
    std::vector<float> y(whole.size(), -1.0f);
    AlignedBytes scratch(gemm_scratch_bytes(dtype, k, false));
    GemmTask task{.weights = weights.data(),
                  .activations = columns.data(),
                  .n_rows = n_rows,
                  .n_cols = n_cols,
                  .k = k,
                  .panel_begin = 0,
                  .panel_end = split,
                  .y = y.data(),
                  .y_stride_elems = n_rows,
                  .scratch = scratch.data()};
    gemm(GetParam(), dtype, task);
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(y[i], static_cast<int64_t>(i) % n_rows < 16 * split ? whole[i] : -1.0f);
    task.panel_begin = split;
    task.panel_end = n_panels(n_rows);
    gemm(GetParam(), dtype, task);
    ASSERT_TRUE(same_bits(y, whole));
  }
}

// Columns written in another order, y = scale * sum + bias + residual with the residual in place, and act(gate) * up:
// all equal scalar, bit for bit.
TEST_P(MatmulKernels, EpiloguesEqualScalar) {
  const DType dtype = GetParam().dtype;
  const GemmKernel& scalar = select_gemm_kernel(dtype, GetParam().activation, Isa::scalar);
  const int64_t k = some_k(dtype).back(), n_cols = 9, n_rows = 37;
  const Matrix gate = make_matrix(dtype, n_rows, k, 29), up = make_matrix(dtype, n_rows, k, 31);
  const AlignedBytes gate_weights = pack(gate), up_weights = pack(up);
  const AlignedBytes columns =
      pack_columns(GetParam().activation, Isa::scalar, random_floats(static_cast<size_t>(n_cols * k), 37), n_cols, k);
  const std::vector<float> bias = random_floats(n_rows, 1), up_bias = random_floats(n_rows, 2);
  const std::vector<int32_t> y_cols = {4, 0, 8, 1, 7, 2, 6, 3, 5};
  AlignedBytes scratch(gemm_scratch_bytes(dtype, k, true));
  for (bool with_up : {false, true})
    for (GemmGlu glu : kGemmGlus) {
      std::vector<float> y[2];
      for (int i = 0; i < 2; ++i) {
        y[i] = random_floats(static_cast<size_t>(n_cols * n_rows), 41);
        const Epilogue epilogue{.scale = 0.25f,
                                .bias = bias.data(),
                                .residual = with_up ? nullptr : y[i].data(),
                                .residual_stride_elems = n_rows,
                                .glu = glu,
                                .up_scale = 3.0f,
                                .up_bias = up_bias.data(),
                                .alpha = 1.702f,
                                .limit = 7.0f};
        gemm(i == 0 ? GetParam() : scalar, dtype,
             {.weights = gate_weights.data(),
              .up = with_up ? up_weights.data() : nullptr,
              .activations = columns.data(),
              .n_rows = n_rows,
              .n_cols = n_cols,
              .k = k,
              .panel_begin = 0,
              .panel_end = n_panels(n_rows),
              .epilogue = epilogue,
              .y = y[i].data(),
              .y_stride_elems = n_rows,
              .y_cols = y_cols.data(),
              .scratch = scratch.data()});
      }
      ASSERT_TRUE(same_bits(y[0], y[1]));
    }
}

// The field's limits for a dot product of 4096 values, |error| / 4096, on 0.1 + 2 cos(i + offset): the error of the
// encoder and of the kernel together.
struct DotLimit {
  double limit = 0.02;
  bool with_encoder = true;
};
DotLimit dot_limit(DType dtype) {
  switch (dtype) {
    case DType::q1_0:
      return {0.40};
    case DType::tq1_0:
    case DType::tq2_0:
    case DType::q2_0:
      return {0.15};
    case DType::q2_k:
    case DType::iq3_xxs:
    case DType::iq3_s:
      return {0.04};
    case DType::mxfp4:
    case DType::nvfp4:
      return {0.03};
    case DType::iq2_xxs:  // The least squared error shrinks values that a coarse grid misses, and with them the product
                          // of
    case DType::iq2_xs:   // such correlated rows: 0.05 to 0.17 with the encoder (docs/reports/tensor_types_kernels.md).
    case DType::iq2_s:
    case DType::iq1_s:
    case DType::iq1_m:
      return {.with_encoder = false};
    default:
      return {};
  }
}

TEST_P(MatmulKernels, DotErrorStaysBelowTheFieldsLimits) {
  const DType dtype = GetParam().dtype;
  const DotLimit limit = dot_limit(dtype);
  constexpr int64_t k = 4096;
  std::vector<float> w(k), x(k);
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] = 0.1f + 2 * std::cos(static_cast<float>(i));
    x[i] = 0.1f + 2 * std::cos(static_cast<float>(i) + 1);
  }
  Matrix m = make_matrix(dtype, 1, k, 1);
  ASSERT_TRUE(encode_row(dtype, w.data(), k, nullptr, m.rows.data()));
  if (!limit.with_encoder) decode_row(dtype, m.rows.data(), k, w.data());
  double exact = 0;
  for (size_t i = 0; i < w.size(); ++i) exact += double{w[i]} * double{x[i]};
  const std::vector<float> y =
      run(GetParam(), m, pack(m), pack_columns(GetParam().activation, Isa::scalar, x, 1, k), 1);
  EXPECT_LE(std::abs(double{y[0]} - exact) / k, limit.limit);
}

INSTANTIATE_TEST_SUITE_P(Table, MatmulKernels, testing::ValuesIn(runnable_kernels()),
                         [](const auto& p) { return std::string(p.param.name); });

TEST(MatmulEpilogue, AddsScaleBiasAndResidual) {
  const Matrix m = make_matrix(DType::f32, 5, 3, 1);
  const std::vector<float> x = {1, 2, 3}, bias = {1, 2, 3, 4, 5}, residual = {10, 20, 30, 40, 50};
  const AlignedBytes columns = pack_columns(ActivationKind::f32, Isa::scalar, x, 1, 3), weights = pack(m);
  const std::vector<float> plain =
      run(select_gemm_kernel(DType::f32, ActivationKind::int16, best_isa()), m, weights, columns, 1);
  std::vector<float> y(5);
  gemm(select_gemm_kernel(DType::f32, ActivationKind::int16, best_isa()), DType::f32,
       {.weights = weights.data(),
        .activations = columns.data(),
        .n_rows = 5,
        .n_cols = 1,
        .k = 3,
        .panel_end = 1,
        .epilogue = {.scale = 2.0f, .bias = bias.data(), .residual = residual.data(), .residual_stride_elems = 5},
        .y = y.data(),
        .y_stride_elems = 5});
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(y[i], 2.0f * plain[i] + bias[i] + residual[i]);
}

// act(gate) * up against the formulas in f64. gate = x and up = 1: y is the activation itself (twice it for
// swiglu_oai, were up not cut).
TEST(MatmulEpilogue, ActivationsFollowTheirFormulas) {
  const int64_t n = 4001;
  std::vector<float> x(n);
  for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i - 2000) * 0.01f;
  x[0] = -1e30f, x[1] = 1e30f, x[2] = -100.0f, x[3] = 100.0f;
  Matrix one{DType::f32, 1, 1, std::vector<std::byte>(4)};
  const float f1 = 1.0f;
  std::memcpy(one.rows.data(), &f1, 4);
  const Matrix zero{DType::f32, 1, 1, std::vector<std::byte>(4)};
  const AlignedBytes gate = pack(one), up = pack(zero),
                     columns = pack_columns(ActivationKind::f32, Isa::scalar, x, n, 1);
  for (GemmGlu kind : kGemmGlus) {
    std::vector<float> y(n);
    gemm(select_gemm_kernel(DType::f32, ActivationKind::int16, best_isa()), DType::f32,
         {.weights = gate.data(),
          .up = up.data(),
          .activations = columns.data(),
          .n_rows = 1,
          .n_cols = n,
          .k = 1,
          .panel_end = 1,
          .epilogue = {.glu = kind, .up_bias = &f1, .alpha = 1.5f, .limit = 0.75f},
          .y = y.data(),
          .y_stride_elems = 1});
    for (size_t i = 0; i < y.size(); ++i) {
      const GluValue exact = glu_value(kind, double{x[i]}, 1, 1.5, 0.75);
      ASSERT_LE(std::abs(double{y[i]} - exact.y), exact.bound) << "kind " << static_cast<int>(kind) << " x " << x[i];
    }
  }
}

// Types without kernels of their own: decoded panel by panel.
TEST(MatmulRaw, DecodedTypesAgreeWithReference) {
  for (DType dtype : {DType::q8_1}) {
    SCOPED_TRACE(dtype_name(dtype));
    ASSERT_TRUE(is_raw(dtype) && !has_kernels(dtype));
    const int64_t k = 512, n_cols = 9;
    const Matrix m = make_matrix(dtype, 37, k, 43);
    const AlignedBytes weights = pack(m);
    ASSERT_EQ(std::memcmp(weights.data(), m.rows.data(), m.rows.size()), 0);
    const AlignedBytes columns =
        pack_columns(ActivationKind::f32, Isa::scalar, random_floats(static_cast<size_t>(n_cols * k), 47), n_cols, k);
    const std::vector<float> y =
        run(select_gemm_kernel(dtype, ActivationKind::int16, best_isa()), m, weights, columns, n_cols);
    expect_close(y, reference(m, unpack_columns(ActivationKind::f32, columns, n_cols, k), n_cols), m,
                 ActivationKind::f32);
    EXPECT_TRUE(
        same_bits(y, run(select_gemm_kernel(dtype, ActivationKind::int16, Isa::scalar), m, weights, columns, n_cols)));
  }
}

TEST(MatmulRaw, GluDecodesBothMatrices) {
  const int64_t k = 256, n_rows = 20, n_cols = 2;
  const Matrix gate = make_matrix(DType::q8_1, n_rows, k, 1), up = make_matrix(DType::q8_1, n_rows, k, 2);
  const AlignedBytes g = pack(gate), u = pack(up);
  const AlignedBytes columns =
      pack_columns(ActivationKind::f32, Isa::scalar, random_floats(static_cast<size_t>(n_cols * k), 3), n_cols, k);
  const GemmKernel& kernel = select_gemm_kernel(DType::q8_1, ActivationKind::int16, best_isa());
  const std::vector<float> gates = run(kernel, gate, g, columns, n_cols), ups = run(kernel, up, u, columns, n_cols);
  std::vector<float> y(gates.size());
  AlignedBytes scratch(gemm_scratch_bytes(DType::q8_1, k, true));
  gemm(kernel, DType::q8_1,
       {.weights = g.data(),
        .up = u.data(),
        .activations = columns.data(),
        .n_rows = n_rows,
        .n_cols = n_cols,
        .k = k,
        .panel_end = n_panels(n_rows),
        .epilogue = {.glu = GemmGlu::reglu},
        .y = y.data(),
        .y_stride_elems = n_rows,
        .scratch = scratch.data()});
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], std::max(0.0f, gates[i]) * ups[i]);
}

TEST(MatmulPack, PanelRangesEqualTheWhole) {
  for (const PackedFormat& format : kPackedFormats) {
    const Matrix m = make_matrix(format.dtype, 41, 256, 53);
    const AlignedBytes whole = pack(m);
    AlignedBytes parts(whole.size());
    for (int64_t p = 0; p < n_panels(m.n_rows); ++p)
      pack_weights(format.dtype, {m.rows.data(), m.row_bytes(), m.n_rows, m.k, p, p + 1, parts.data()});
    EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size()), 0) << dtype_name(format.dtype);
  }
}

// Every type that a model's matrices can have is multiplied as integers.
TEST(MatmulSelect, EveryQuantizedTypeHasKernels) {
  for (const DTypeRow& row : kDTypes)
    if (is_quantized(row.id) && row.id != DType::q8_1 && row.id != DType::q8_k) {
      EXPECT_TRUE(has_kernels(row.id)) << row.name;
      EXPECT_EQ(activation_kind(row.id, ActivationKind::int16), ActivationKind::int16) << row.name;
    }
}

// The two exponents that stand for subnormal scales (2^-128 and 2^-127 of the doubled codes).
TEST(MatmulTable, SmallestScalesOfMxfp4) {
  const int64_t k = 64, n_rows = 16;
  Matrix m = make_matrix(DType::mxfp4, n_rows, k, 3);
  for (size_t i = 0; i < m.rows.size(); i += 17) m.rows[i] = static_cast<std::byte>(i / 17 % 3);
  std::vector<float> x = random_floats(static_cast<size_t>(k), 5, 1e30f);
  const AlignedBytes columns = pack_columns(ActivationKind::int16, Isa::scalar, x, 1, k);
  for (const GemmKernel& kernel : runnable_kernels())
    if (kernel.dtype == DType::mxfp4 && kernel.activation == ActivationKind::int16)
      expect_close(run(kernel, m, pack(m), columns, 1),
                   reference(m, unpack_columns(ActivationKind::int16, columns, 1, k), 1), m, ActivationKind::int16);
}

TEST(MatmulSelect, ForcedInstructionSetOrScalar) {
  for (const PackedFormat& format : kPackedFormats)
    for (const IsaRow& row : kIsas)
      for (ActivationKind integer : {ActivationKind::int8, ActivationKind::int16})
        if (isa_available(row.isa)) {
          const GemmKernel& kernel = select_gemm_kernel(format.dtype, integer, row.isa);
          EXPECT_EQ(kernel.isa, row.isa);
          EXPECT_EQ(kernel.activation, format.integer ? integer : ActivationKind::f32);
        }
}

}  // namespace
}  // namespace tokamak::cpu::test

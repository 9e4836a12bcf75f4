// The mat-vec kernels on a GPU against the double reference. Skipped where there is none.
#include "backend/cuda/matvec/matvec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "backend/cuda/matvec/device_memory.h"
#include "backend/cuda/matvec/glu_value.h"
#include "backend/cuda/matvec/matvec_reference.h"

namespace tokamak::cuda {
namespace {

using tokamak::testing::random_floats;

std::vector<std::byte> columns_of(const ReferenceCase& c) {
  if (!c.q8.empty()) return c.q8;
  std::vector<std::byte> bytes(c.x.size() * sizeof(float));
  std::memcpy(bytes.data(), c.x.data(), bytes.size());
  return bytes;
}
MatvecArgs args_of(const ReferenceCase& c, DeviceBytes& weights, DeviceBytes& x, DeviceBytes& y) {
  return {.dtype = c.dtype,
          .weights = weights.data(),
          .n_rows = c.n_rows,
          .k = c.k,
          .n_cols = static_cast<int>(c.n_cols),
          .x = x.data(),
          .x_stride = c.k,
          .y = y.as<float>(),
          .y_stride = c.n_rows};
}

void check_product(const ReferenceCase& c, const std::vector<float>& y) {
  for (int64_t col = 0; col < c.n_cols; ++col)
    for (int64_t r = 0; r < c.n_rows; ++r) {
      const Expected expected = c.expect(0, r, col);
      ASSERT_NEAR(y[static_cast<size_t>(col * c.n_rows + r)], expected.value, expected.tolerance)
          << dtype_name(c.dtype) << " [" << c.n_rows << ", " << c.k << "] row " << r << " column " << col << " of "
          << c.n_cols;
    }
}

class MatvecTypes : public ::testing::TestWithParam<MatvecLayout> {};

TEST_P(MatvecTypes, ShapesAndColumns) {
  REQUIRE_DEVICE();
  struct Case {
    int64_t n_rows, k;
  };
  for (const auto& [n_rows, k] :
       choose<Case>({{1, 256}, {13, 768}, {64, 1280}, {37, 4096}, {530, 2048}, {7, 17 * 1024 + 256}},
                    {{1, 256}, {13, 768}, {37, 1280}, {3, 17 * 1024 + 256}}))
    for (const int64_t n_cols : choose<int64_t>({1, 2, 5, 8, 11}, {1, 5})) {
      const ReferenceCase c = make_case(GetParam().dtype, 1, n_rows, k, n_cols, static_cast<uint64_t>(n_rows + n_cols));
      DeviceBytes weights(packed_of(c)), x(columns_of(c)), y(static_cast<size_t>(n_cols * n_rows) * 4);
      const MatvecArgs args = args_of(c, weights, x, y);
      ASSERT_EQ(launch_matvec(args, nullptr), cudaSuccess);
      const std::vector<float> all = y.read<float>();
      check_product(c, all);
      if (HasFatalFailure()) return;
      // The last column alone has the same bits, also where weights are fetched early.
      DeviceBytes alone(static_cast<size_t>(n_rows) * 4);
      MatvecArgs one = args;
      one.n_cols = 1;
      one.overlap = n_cols > 1;
      one.y = alone.as<float>();
      one.x = x.data() + (n_cols - 1) * static_cast<int64_t>(columns_of(c).size()) / n_cols;
      ASSERT_EQ(launch_matvec(one, nullptr), cudaSuccess);
      ASSERT_EQ(alone.read<float>(), std::vector<float>(all.end() - n_rows, all.end()))
          << dtype_name(c.dtype) << " columns " << n_cols;
    }
}

// One unfused lane: dot, then scale and bias in the order of the epilogue.
float lane_value(float dot, float scale, float bias) { return dot * scale + bias; }
TEST_P(MatvecTypes, FusedIsUnfused) {
  REQUIRE_DEVICE();
  const int64_t n_rows = 45, k = 1280;
  for (const int64_t n_cols : {1, 3}) {
    const ReferenceCase gate = make_case(GetParam().dtype, 1, n_rows, k, n_cols, 21);
    ReferenceCase up = make_case(GetParam().dtype, 1, n_rows, k, n_cols, 22);
    DeviceBytes gate_w(packed_of(gate)), up_w(packed_of(up)), x(columns_of(gate));
    const size_t n = static_cast<size_t>(n_cols * n_rows);
    DeviceBytes gate_y(n * 4), up_y(n * 4), y(n * 4);
    MatvecArgs args = args_of(gate, gate_w, x, gate_y);
    ASSERT_EQ(launch_matvec(args, nullptr), cudaSuccess);
    args.weights = up_w.data(), args.y = up_y.as<float>();
    ASSERT_EQ(launch_matvec(args, nullptr), cudaSuccess);
    const std::vector<float> g = gate_y.read<float>(), u = up_y.read<float>();
    const std::vector<float> scales = {0.75f, -1.25f}, bias = random_floats(2 * static_cast<size_t>(n_rows), 3),
                             rest = random_floats(n, 4);
    DeviceBytes scales_d(scales), bias_d(bias), rest_d(rest);
    for (const int glu : choose<int>({-1, 0, 1, 2, 3, 4, 5}, {-1, 2, 5})) {
      args = args_of(gate, gate_w, x, y);
      args.scale = scales_d.as<float>();
      args.bias = bias_d.as<float>();
      args.residual = rest_d.as<float>(), args.residual_stride = n_rows;
      if (glu >= 0) {
        args.up = up_w.data(), args.glu = glu, args.alpha = 1.5f, args.limit = 2.0f;
        args.up_scale = scales_d.as<float>() + 1, args.up_bias = bias_d.as<float>() + n_rows;
      }
      ASSERT_EQ(launch_matvec(args, nullptr), cudaSuccess);
      const std::vector<float> fused_y = y.read<float>();
      for (size_t i = 0; i < n; ++i) {
        const size_t r = i % static_cast<size_t>(n_rows);
        const float gate_value = lane_value(g[i], scales[0], bias[r]);
        const float up_value = lane_value(u[i], scales[1], bias[static_cast<size_t>(n_rows) + r]);
        const double value = glu < 0 ? gate_value : glu_value(glu, gate_value, up_value, 1.5, 2.0);
        // Rounding of the function values (a few units each) and of the last addition; erf and sigmoid near 0 and the
        // cut of swiglu_oai do not amplify.
        const double magnitude = std::fabs(value) + std::fabs(gate_value) * (glu < 0 ? 1.0 : 1.0 + std::fabs(up_value));
        ASSERT_NEAR(fused_y[i], value + rest[i], 16 * 0x1p-24 * (magnitude + std::fabs(rest[i])))
            << dtype_name(gate.dtype) << " glu " << glu << " element " << i;
      }
    }
  }
}

TEST_P(MatvecTypes, Experts) {
  REQUIRE_DEVICE();
  const int64_t n_expert = 5, n_rows = 21, k = 768, n_tokens = 2, n_used = 3, n_pairs = n_tokens * n_used;
  const ReferenceCase c = make_case(GetParam().dtype, n_expert, n_rows, k, n_pairs, 31);
  const std::vector<int32_t> ids = {4, 0, 2, -7, 1, 4, 4, -7};  // [n_tokens, 4], the last unused
  const std::vector<float> scale = random_floats(5, 5), bias = random_floats(static_cast<size_t>(n_expert * n_rows), 6);
  DeviceBytes weights(packed_of(c)), x(columns_of(c)), ids_d(ids), scale_d(scale), bias_d(bias),
      y(static_cast<size_t>(n_pairs * n_rows) * 4);
  for (const bool x_per_token : {false, true})
    for (const bool settled : {false, true}) {
      MatvecArgs args = args_of(c, weights, x, y);
      args.ids = ids_d.as<int32_t>();
      args.n_used = n_used, args.ids_stride = 4;
      args.x_per_token = x_per_token, args.ids_are_settled = settled;
      args.scale = scale_d.as<float>(), args.bias = bias_d.as<float>();
      ASSERT_EQ(launch_matvec(args, nullptr), cudaSuccess);
      const std::vector<float> out = y.read<float>();
      for (int64_t pair = 0; pair < n_pairs; ++pair) {
        const int64_t expert = ids[static_cast<size_t>(pair / n_used * 4 + pair % n_used)];
        for (int64_t r = 0; r < n_rows; ++r) {
          const Expected dot = c.expect(expert, r, x_per_token ? pair / n_used : pair);
          const double s = scale[static_cast<size_t>(expert)], b = bias[static_cast<size_t>(expert * n_rows + r)];
          ASSERT_NEAR(out[static_cast<size_t>(pair * n_rows + r)], dot.value * s + b,
                      dot.tolerance * std::fabs(s) + 4 * 0x1p-24 * (std::fabs(dot.value * s) + std::fabs(b)))
              << dtype_name(c.dtype) << " pair " << pair << " row " << r;
        }
      }
    }
}

// One launch that quantizes its result too, against two: blocks of a part of a group, of one and of several.
TEST_P(MatvecTypes, QuantizedResultIsThatOfALaunchBehind) {
  REQUIRE_DEVICE();
  struct Case {
    int64_t n_rows, k;
    int n_pairs;  // 0: no experts
  };
  for (const auto& [n_rows, k, n_pairs] : {Case{96, 1024, 0}, {768, 2048, 0}, {768, 2048, 6}, {2304, 512, 2}}) {
    const int64_t n_expert = n_pairs > 0 ? 3 : 1, n_cols = n_pairs > 0 ? n_pairs : 1;
    const ReferenceCase gate = make_case(GetParam().dtype, n_expert, n_rows, k, n_cols, 81),
                        up = make_case(GetParam().dtype, n_expert, n_rows, k, 1, 82);
    const auto n = static_cast<size_t>(n_cols * n_rows), n_q8 = static_cast<size_t>(n_cols * q8_column_bytes(n_rows));
    DeviceBytes gate_w(packed_of(gate)), up_w(packed_of(up)), x(columns_of(gate)),
        ids(std::vector<int32_t>{2, 0, 1, 1, 0, 2}), y(n * 4), together(n * 4);
    for (const bool low : {false, true}) {
      MatvecArgs args = args_of(gate, gate_w, x, y);
      args.up = up_w.data(), args.glu = 2;
      if (n_pairs > 0) args.ids = ids.as<int32_t>(), args.n_used = 2, args.ids_stride = 2, args.x_per_token = false;
      DeviceBytes behind(n_q8), q8(n_q8);
      ASSERT_EQ(launch_matvec(args, nullptr), cudaSuccess);
      ASSERT_EQ(launch_quantize_q8({args.y, n_cols, n_rows, n_rows, behind.data(), false, low}, nullptr), cudaSuccess);
      args.y = together.as<float>(), args.y_q8 = q8.data(), args.y_low = low, args.overlap = low;
      ASSERT_EQ(launch_matvec(args, nullptr), cudaSuccess);
      ASSERT_EQ(together.read<float>(), y.read<float>()) << "[" << n_rows << ", " << k << "] pairs " << n_pairs;
      ASSERT_EQ(q8.read<std::byte>(), behind.read<std::byte>())
          << "[" << n_rows << ", " << k << "] pairs " << n_pairs << " low " << low;
    }
  }
}

// Several matrices in one launch: the bits of their own launches, nothing beside their rows written.
TEST_P(MatvecTypes, GroupIsSeparateLaunches) {
  REQUIRE_DEVICE();
  for (const int64_t k : choose<int64_t>({768, 4096}, {768}))
    for (const int64_t n_cols : choose<int64_t>({1, 3}, {1})) {
      const int64_t n_rows[] = {37, 530, 1, 64};
      std::vector<ReferenceCase> cases;
      for (size_t i = 0; i < 4; ++i) cases.push_back(make_case(GetParam().dtype, 1, n_rows[i], k, n_cols, 71 + i));
      DeviceBytes x(columns_of(cases[0])), scale(std::vector<float>{0.75f}), bias(random_floats(530, 7));
      const int64_t stride = 600;
      std::deque<DeviceBytes> weights, alone, together;
      std::vector<MatvecPartArgs> parts;
      for (size_t i = 0; i < 4; ++i) {
        weights.emplace_back(packed_of(cases[i]));
        alone.emplace_back(static_cast<size_t>(n_cols * stride) * 4);
        together.emplace_back(static_cast<size_t>(n_cols * stride) * 4);
        MatvecArgs args = args_of(cases[i], weights[i], x, alone[i]);
        args.y_stride = stride;
        if (i % 2 == 0) args.scale = scale.as<float>();
        if (i != 2) args.bias = bias.as<float>();
        ASSERT_EQ(launch_matvec(args, nullptr), cudaSuccess);
        parts.push_back({args.weights, args.n_rows, together[i].as<float>(), stride, args.scale, args.bias});
      }
      for (const size_t n : choose<size_t>({1, 2, 3, 4}, {4})) {
        MatvecGroupArgs group{.dtype = GetParam().dtype, .parts = std::span(parts).first(n), .k = k};
        group.n_cols = static_cast<int>(n_cols), group.x = x.data(), group.x_stride = k;
        ASSERT_EQ(launch_matvec_group(group, nullptr), cudaSuccess);
        for (size_t i = 0; i < n; ++i) {
          ASSERT_EQ(together[i].read<uint32_t>(), alone[i].read<uint32_t>())
              << dtype_name(GetParam().dtype) << " part " << i << " of " << n << ", k " << k << ", columns " << n_cols;
          ASSERT_EQ(cudaMemset(together[i].data(), 0xFF, static_cast<size_t>(n_cols * stride) * 4), cudaSuccess);
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, MatvecTypes,
                         ::testing::ValuesIn(std::vector<MatvecLayout>(matvec_layouts().begin(),
                                                                       matvec_layouts().end())),
                         [](const auto& test) { return std::string(dtype_name(test.param.dtype)); });

TEST(Matvec, PlainRowsOfAnyLength) {
  REQUIRE_DEVICE();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const int64_t k : {1, 7, 33, 100, 515})
      for (const int64_t n_cols : {1, 3}) {
        const ReferenceCase c = make_case(dtype, 1, 9, k, n_cols, 9);
        DeviceBytes weights(packed_of(c)), x(columns_of(c)), y(static_cast<size_t>(n_cols) * 9 * 4);
        ASSERT_EQ(launch_matvec(args_of(c, weights, x, y), nullptr), cudaSuccess);
        check_product(c, y.read<float>());
      }
}

TEST(Matvec, RefusesTypesWithoutKernel) {
  EXPECT_EQ(launch_matvec({.dtype = DType::i32, .n_rows = 1, .k = 1}, nullptr), cudaErrorInvalidValue);
}

TEST(Matvec, RefusesTooManyParts) {
  const std::vector<MatvecPartArgs> parts(kMaxMatvecParts + 1);
  EXPECT_EQ(launch_matvec_group({.dtype = DType::f32, .parts = parts, .k = 1}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_matvec_group({.dtype = DType::f32, .k = 1}, nullptr), cudaErrorInvalidValue);
}

TEST(Matvec, QuantizedBytesAreThoseOfTheHost) {
  REQUIRE_DEVICE();
  for (const int64_t k : {32, 576, 4096})
    for (const int64_t n_cols : {1, 2, 3}) {
      const bool low = n_cols != 2;
      std::vector<float> x = random_floats(static_cast<size_t>(n_cols * k), 41);
      x[0] = 1e30f, x[5] = -1e-30f;
      for (int i = 0; i < 32; ++i) x[static_cast<size_t>(k - 32 + i)] = 1e-30f;  // too small: a zero group
      if (k > 32) x[40] = -INFINITY;
      DeviceBytes x_d(x), q8(static_cast<size_t>(n_cols * q8_column_bytes(k)));
      ASSERT_EQ(launch_quantize_q8({x_d.as<float>(), n_cols, k, k, q8.data(), false, low}, nullptr), cudaSuccess);
      const std::vector<std::byte> got = q8.read<std::byte>();
      for (int64_t col = 0; col < n_cols; ++col) {
        std::vector<std::byte> expected(static_cast<size_t>(q8_column_bytes(k)), std::byte{0xFF});
        quantize_q8_column(x.data() + col * k, k, expected.data(), low);
        const auto low_offset = static_cast<size_t>(q8_low_offset(k));  // unwritten: 0xFF on both sides
        ASSERT_EQ(std::memcmp(expected.data() + low_offset, got.data() + col * q8_column_bytes(k) + low_offset,
                              expected.size() - low_offset),
                  0)
            << "k " << k << " column " << col << " of " << n_cols;
        for (int64_t g = 0; g < k / 32; ++g) {
          GroupQ8 a, b;
          std::memcpy(&a, expected.data() + k + 8 * g, 8);
          std::memcpy(&b, got.data() + col * q8_column_bytes(k) + k + 8 * g, 8);
          ASSERT_TRUE(a.d == b.d || (std::isnan(a.d) && std::isnan(b.d))) << a.d << " " << b.d;
          ASSERT_EQ(a.s0, b.s0);
          ASSERT_EQ(a.s1, b.s1);
          ASSERT_EQ(std::memcmp(expected.data() + 32 * g, got.data() + col * q8_column_bytes(k) + 32 * g, 32), 0);
        }
      }
    }
}

// Experts of a step of many tokens.
TEST(Matvec, QuantizesMoreColumnsThanADimensionOfAGridMayHave) {
  REQUIRE_DEVICE();
  if (is_emulated()) GTEST_SKIP() << "takes minutes on the emulator";
  const int64_t n_cols = 65'537, k = 32;
  const std::vector<float> x = random_floats(static_cast<size_t>(n_cols * k), 42);
  DeviceBytes x_d(x), q8(static_cast<size_t>(n_cols * q8_column_bytes(k)));
  ASSERT_EQ(launch_quantize_q8({x_d.as<float>(), n_cols, k, k, q8.data()}, nullptr), cudaSuccess);
  const std::vector<std::byte> got = q8.read<std::byte>();
  for (const int64_t col : {int64_t{0}, n_cols - 1}) {
    std::vector<std::byte> expected(static_cast<size_t>(q8_column_bytes(k)), std::byte{0xFF});
    quantize_q8_column(x.data() + col * k, k, expected.data());
    EXPECT_EQ(std::memcmp(expected.data(), got.data() + col * q8_column_bytes(k), static_cast<size_t>(k)), 0) << col;
  }
}

TEST(Matvec, NormThenQuantize) {
  REQUIRE_DEVICE();
  for (const int64_t k : {64, 576, 4096, 20480})
    for (const bool with_add : {false, true}) {
      const int64_t n_cols = 2;
      const std::vector<float> x = random_floats(static_cast<size_t>(n_cols * k), 51),
                               add = random_floats(x.size(), 52), weight = random_floats(static_cast<size_t>(k), 53);
      DeviceBytes x_d(x), add_d(add), weight_d(weight), sum(x.size() * 4), norm(x.size() * 4),
          q8(static_cast<size_t>(n_cols * q8_column_bytes(k))),
          plain_q8(static_cast<size_t>(n_cols * q8_column_bytes(k)));
      RmsNormQ8Args args{
          x_d.as<float>(), with_add ? add_d.as<float>() : nullptr, weight_d.as<float>(), n_cols, k, k, 1e-5f};
      args.sum = sum.as<float>(), args.norm = norm.as<float>(), args.q8 = q8.data();
      ASSERT_EQ(launch_rms_norm_q8(args, nullptr), cudaSuccess);
      ASSERT_EQ(launch_quantize_q8({norm.as<float>(), n_cols, k, k, plain_q8.data()}, nullptr), cudaSuccess);
      const std::vector<float> y = norm.read<float>();
      for (int64_t col = 0; col < n_cols; ++col) {
        double squares = 0.0;
        const auto h = [&](int64_t i) {
          const size_t at = static_cast<size_t>(col * k + i);
          return static_cast<double>(with_add ? x[at] + add[at] : x[at]);
        };
        for (int64_t i = 0; i < k; ++i) squares += h(i) * h(i);
        const double factor = 1.0 / std::sqrt(squares / static_cast<double>(k) + 1e-5);
        for (int64_t i = 0; i < k; ++i) {
          const double expected = weight[static_cast<size_t>(i)] * h(i) * factor;
          // The sum of squares has at most k / 1024 + 14 roundings in a row, all terms of one sign.
          ASSERT_NEAR(y[static_cast<size_t>(col * k + i)], expected,
                      (40.0 + static_cast<double>(k) / 256) * 0x1p-24 * std::fabs(expected) + 1e-30);
        }
      }
      EXPECT_EQ(q8.read<std::byte>(), plain_q8.read<std::byte>());
    }
}

// Few columns have several blocks each, many have one.
TEST(Matvec, NormOfAColumnHasTheSameBitsInAnyNumber) {
  REQUIRE_DEVICE();
  for (const int64_t k : {64, 2560, 4096, 20480}) {
    const int64_t n_cols = 9;
    const std::vector<float> x = random_floats(static_cast<size_t>(n_cols * k), 54),
                             weight = random_floats(static_cast<size_t>(k), 55);
    DeviceBytes x_d(x), weight_d(weight), norm(x.size() * 4), q8(static_cast<size_t>(n_cols * q8_column_bytes(k))),
        norms(x.size() * 4), q8s(static_cast<size_t>(n_cols * q8_column_bytes(k)));
    RmsNormQ8Args args{x_d.as<float>(), nullptr, weight_d.as<float>(), n_cols, k, k, 1e-5f};
    args.norm = norms.as<float>(), args.q8 = q8s.data();
    ASSERT_EQ(launch_rms_norm_q8(args, nullptr), cudaSuccess);
    args.n_cols = 1;
    for (int64_t col = 0; col < n_cols; ++col) {
      args.overlap = col % 2 == 0;
      args.x = x_d.as<float>() + col * k, args.norm = norm.as<float>() + col * k;
      args.q8 = q8.data() + col * q8_column_bytes(k);
      ASSERT_EQ(launch_rms_norm_q8(args, nullptr), cudaSuccess);
    }
    EXPECT_EQ(norm.read<float>(), norms.read<float>()) << "k " << k;
    EXPECT_EQ(q8.read<std::byte>(), q8s.read<std::byte>()) << "k " << k;
  }
}

// Quantize, gate-up-GLU, quantize, down; plain, and overlapping inside a graph that is replayed: same bits.
TEST(Matvec, OverlappingGraphGivesTheSameBits) {
  REQUIRE_DEVICE();
  const int64_t n_embd = 1024, n_ff = 2048;
  const ReferenceCase gate = make_case(DType::nvfp4, 1, n_ff, n_embd, 1, 61),
                      up = make_case(DType::nvfp4, 1, n_ff, n_embd, 1, 62),
                      down = make_case(DType::q4_0, 1, n_embd, n_ff, 1, 63);
  DeviceBytes gate_w(packed_of(gate)), up_w(packed_of(up)), down_w(packed_of(down)), x(gate.x),
      q8(static_cast<size_t>(q8_column_bytes(n_embd))), h(static_cast<size_t>(n_ff) * 4),
      h_q8(static_cast<size_t>(q8_column_bytes(n_ff))), y(static_cast<size_t>(n_embd) * 4);
  const auto enqueue = [&](bool overlap, cudaStream_t stream) {
    MatvecArgs first{.dtype = DType::nvfp4, .weights = gate_w.data(), .up = up_w.data(), .n_rows = n_ff, .k = n_embd};
    first.x = q8.data(), first.y = h.as<float>(), first.y_stride = n_ff, first.glu = 2, first.overlap = overlap;
    MatvecArgs second{.dtype = DType::q4_0, .weights = down_w.data(), .n_rows = n_embd, .k = n_ff};
    second.x = h_q8.data(), second.y = y.as<float>(), second.y_stride = n_embd, second.overlap = overlap;
    ASSERT_EQ(launch_quantize_q8({x.as<float>(), 1, n_embd, n_embd, q8.data(), overlap}, stream), cudaSuccess);
    ASSERT_EQ(launch_matvec(first, stream), cudaSuccess);
    ASSERT_EQ(launch_quantize_q8({h.as<float>(), 1, n_ff, n_ff, h_q8.data(), overlap}, stream), cudaSuccess);
    ASSERT_EQ(launch_matvec(second, stream), cudaSuccess);
  };
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  enqueue(false, stream);
  const std::vector<float> expected = y.read<float>();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  for (int i = 0; i < 3; ++i) enqueue(true, stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (int replay = 0; replay < (is_emulated() ? 1 : 20); ++replay) {
    ASSERT_EQ(cudaMemset(y.data(), 0xFF, static_cast<size_t>(n_embd) * 4), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    ASSERT_EQ(y.read<float>(), expected) << "replay " << replay;
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace tokamak::cuda

// Products of 2 to 16 columns on tensor cores against a double reference with the activations as the kernel reads them.
// Skipped where there is no GPU.
#include "backend/cuda/columns/columns.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "backend/cuda/matvec/device_memory.h"
#include "backend/cuda/matvec/glu_value.h"
#include "backend/cuda/matvec/matvec_reference.h"
#include "base/half.h"

namespace tokamak::cuda {
namespace {

using tokamak::testing::random_floats;

struct Case {
  ReferenceCase c;
  std::vector<double> halves;  // [n_cols, k]: activations as binary16 times the column's factor

  Case(DType dtype, int64_t n_rows, int64_t k, int64_t n_cols, uint64_t seed)
      : c(make_case(dtype, 1, n_rows, k, n_cols, seed)) {
    for (int64_t col = 0; col < n_cols; ++col) {
      float largest = 0.0f;
      for (int64_t i = 0; i < k; ++i) largest = std::max(largest, std::fabs(x(col, i)));
      const float factor = std::ldexp(1.0f, std::ilogb(largest) - 14);
      for (int64_t i = 0; i < k; ++i) {
        const double half = f16_to_f32(f32_to_f16(x(col, i) / factor));
        halves.push_back(half * factor);
      }
    }
  }
  float x(int64_t col, int64_t i) const { return c.x[static_cast<size_t>(col * c.k + i)]; }
  // A decoded weight is rounded to 11 bits up to three times (scale, minimum, result); each counts as the largest of
  // its 32. Sums of tensor cores keep at least 2^-22 of the largest term.
  Expected expect(int64_t row, int64_t col) const {
    const float* w = c.weights.data() + row * c.k;
    const double* a = halves.data() + col * c.k;
    double sum = 0.0, magnitude = 0.0;
    for (int64_t first = 0; first < c.k; first += 32) {
      double largest = 0.0, total = 0.0;
      for (int64_t i = first; i < std::min(first + 32, c.k); ++i) {
        sum += w[i] * a[i];
        largest = std::max(largest, std::fabs(static_cast<double>(w[i])));
        total += std::fabs(a[i]);
      }
      magnitude += largest * total;
    }
    return {sum, 3.0 * 0x1p-11 * magnitude + 1e-30};
  }
};

struct Arrays {
  DeviceBytes weights, x, halves, y;
  Arrays(const Case& t)
      : weights(packed_of(t.c)),
        x(t.c.x),
        halves(static_cast<size_t>(halves_bytes(t.c.k, t.c.n_cols))),
        y(static_cast<size_t>(t.c.n_cols * t.c.n_rows) * 4) {
    const HalveArgs args{x.as<float>(), t.c.n_cols, t.c.k, t.c.k, halves.data()};
    EXPECT_EQ(launch_halve(args, nullptr), cudaSuccess);
  }
};
MatvecArgs args_of(const Case& t, Arrays& d) {
  return {.dtype = t.c.dtype,
          .weights = d.weights.data(),
          .n_rows = t.c.n_rows,
          .k = t.c.k,
          .n_cols = static_cast<int>(t.c.n_cols),
          .x = d.halves.data(),
          .y = d.y.as<float>(),
          .y_stride = t.c.n_rows};
}

std::vector<MatvecLayout> types() {
  std::vector<MatvecLayout> out;
  for (const MatvecLayout& layout : matvec_layouts())
    if (has_columns(layout.dtype)) out.push_back(layout);
  return out;
}
class ColumnsTypes : public ::testing::TestWithParam<MatvecLayout> {};

TEST_P(ColumnsTypes, ShapesAndColumns) {
  REQUIRE_DEVICE();
  struct Shape {
    int64_t n_rows, k;
  };
  double squares = 0.0, errors = 0.0;
  for (const auto& [n_rows, k] :
       choose<Shape>({{1, 256}, {13, 768}, {70, 1280}, {37, 4096}, {530, 2048}, {7, 17 * 1024 + 256}},
                     {{1, 256}, {70, 768}, {7, 2304}}))
    for (const int64_t n_cols : choose<int64_t>({2, 5, 8, 9, 16}, {5, 16})) {
      const Case t(GetParam().dtype, n_rows, k, n_cols, static_cast<uint64_t>(n_rows + n_cols));
      Arrays d(t);
      ASSERT_EQ(launch_columns(args_of(t, d), nullptr), cudaSuccess);
      const std::vector<float> y = d.y.read<float>();
      for (int64_t col = 0; col < n_cols; ++col)
        for (int64_t r = 0; r < n_rows; ++r) {
          const Expected expected = t.expect(r, col);
          const double got = y[static_cast<size_t>(col * n_rows + r)];
          ASSERT_NEAR(got, expected.value, expected.tolerance)
              << dtype_name(t.c.dtype) << " [" << n_rows << ", " << k << "] row " << r << " column " << col << " of "
              << n_cols;
          squares += expected.value * expected.value;
          errors += (got - expected.value) * (got - expected.value);
        }
    }
  // Roundings of weights are independent: far below the bound above.
  EXPECT_LT(errors / squares, 1e-6) << dtype_name(GetParam().dtype);
}

// A column has the same bits whatever its place and the number of the others.
TEST_P(ColumnsTypes, BitsDoNotDependOnTheNumberOfColumns) {
  REQUIRE_DEVICE();
  for (const int64_t k : choose<int64_t>({1280, 9216}, {768})) {
    const Case t(GetParam().dtype, 45, k, 16, 3);
    Arrays d(t);
    MatvecArgs args = args_of(t, d);
    ASSERT_EQ(launch_columns(args, nullptr), cudaSuccess);
    const std::vector<uint32_t> all = d.y.read<uint32_t>();
    for (int n_cols = 1; n_cols <= 16; n_cols += is_emulated() ? 7 : 1)
      for (const int first : {0, 16 - n_cols}) {
        args.n_cols = n_cols;
        DeviceBytes halves(static_cast<size_t>(halves_bytes(k, n_cols)));
        args.overlap = first > 0;
        ASSERT_EQ(launch_halve({d.x.as<float>() + first * k, n_cols, k, k, halves.data(), args.overlap}, nullptr),
                  cudaSuccess);
        args.x = halves.data();
        DeviceBytes y(static_cast<size_t>(n_cols) * 45 * 4);
        args.y = y.as<float>();
        ASSERT_EQ(launch_columns(args, nullptr), cudaSuccess);
        ASSERT_EQ(y.read<uint32_t>(),
                  std::vector<uint32_t>(all.begin() + first * 45, all.begin() + (first + n_cols) * 45))
            << dtype_name(t.c.dtype) << " columns " << n_cols << " from " << first << ", k " << k;
      }
  }
}

TEST_P(ColumnsTypes, FusedIsUnfused) {
  REQUIRE_DEVICE();
  const int64_t n_rows = 45;
  using Sizes = std::pair<int64_t, int64_t>;
  for (const auto& [k, n_cols] : choose<Sizes>({{1280, 3}, {256, 2}, {8192, 16}}, {{768, 3}})) {
    const Case gate(GetParam().dtype, n_rows, k, n_cols, 21), up(GetParam().dtype, n_rows, k, n_cols, 22);
    Arrays gate_d(gate), up_d(up);
    const size_t n = static_cast<size_t>(n_cols * n_rows);
    MatvecArgs args = args_of(gate, gate_d), up_args = args_of(up, up_d);
    up_args.x = args.x;
    ASSERT_EQ(launch_columns(args, nullptr), cudaSuccess);
    ASSERT_EQ(launch_columns(up_args, nullptr), cudaSuccess);
    const std::vector<float> g = gate_d.y.read<float>(), u = up_d.y.read<float>();
    const std::vector<float> scales = {0.75f, -1.25f}, bias = random_floats(2 * static_cast<size_t>(n_rows), 3),
                             rest = random_floats(n, 4);
    DeviceBytes scales_d(scales), bias_d(bias), rest_d(rest), y(n * 4);
    for (const int glu : choose<int>({-1, 0, 2, 5}, {-1, 2})) {
      args = args_of(gate, gate_d);
      args.y = y.as<float>();
      args.scale = scales_d.as<float>(), args.bias = bias_d.as<float>();
      args.residual = rest_d.as<float>(), args.residual_stride = n_rows;
      if (glu >= 0) {
        args.up = up_d.weights.data(), args.glu = glu, args.alpha = 1.5f, args.limit = 2.0f;
        args.up_scale = scales_d.as<float>() + 1, args.up_bias = bias_d.as<float>() + n_rows;
      }
      ASSERT_EQ(launch_columns(args, nullptr), cudaSuccess);
      const std::vector<float> fused_y = y.read<float>();
      for (size_t i = 0; i < n; ++i) {
        const size_t r = i % static_cast<size_t>(n_rows);
        const float a = g[i] * scales[0] + bias[r], b = u[i] * scales[1] + bias[static_cast<size_t>(n_rows) + r];
        const double value = glu < 0 ? a : glu_value(glu, a, b, 1.5, 2.0);
        const double magnitude = std::fabs(value) + std::fabs(a) * (glu < 0 ? 1.0 : 1.0 + std::fabs(b));
        ASSERT_NEAR(fused_y[i], value + rest[i], 16 * 0x1p-24 * (magnitude + std::fabs(rest[i])))
            << dtype_name(gate.c.dtype) << " glu " << glu << " element " << i << " k " << k;
      }
    }
  }
}

TEST_P(ColumnsTypes, GroupIsSeparateLaunches) {
  REQUIRE_DEVICE();
  const int64_t n_rows[] = {37, 130, 1}, k = 1280, n_cols = 6, stride = 150;
  std::deque<Case> cases;
  std::deque<Arrays> arrays;
  std::deque<DeviceBytes> together;
  std::vector<MatvecPartArgs> parts;
  DeviceBytes scale(std::vector<float>{0.75f}), bias(random_floats(130, 7));
  for (size_t i = 0; i < 3; ++i) {
    cases.emplace_back(GetParam().dtype, n_rows[i], k, n_cols, 71 + i);
    arrays.emplace_back(cases[i]);
    together.emplace_back(static_cast<size_t>(n_cols * stride) * 4);
    MatvecArgs args = args_of(cases[i], arrays[i]);
    args.x = arrays[0].halves.data();
    args.scale = i == 0 ? nullptr : scale.as<float>(), args.bias = i == 1 ? nullptr : bias.as<float>();
    ASSERT_EQ(launch_columns(args, nullptr), cudaSuccess);
    parts.push_back({args.weights, args.n_rows, together[i].as<float>(), stride, args.scale, args.bias});
  }
  MatvecGroupArgs group{.dtype = GetParam().dtype, .parts = parts, .k = k, .n_cols = n_cols};
  group.x = arrays[0].halves.data();
  ASSERT_EQ(launch_columns_group(group, nullptr), cudaSuccess);
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<uint32_t> alone = arrays[i].y.read<uint32_t>(), all = together[i].read<uint32_t>();
    for (int64_t col = 0; col < n_cols; ++col)
      for (int64_t r = 0; r < stride; ++r) {
        const uint32_t expected = r < n_rows[i] ? alone[static_cast<size_t>(col * n_rows[i] + r)] : 0xFFFFFFFF;
        ASSERT_EQ(all[static_cast<size_t>(col * stride + r)], expected)
            << dtype_name(GetParam().dtype) << " part " << i << " row " << r;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ColumnsTypes, ::testing::ValuesIn(types()),
                         [](const auto& test) { return std::string(dtype_name(test.param.dtype)); });

TEST(Columns, EveryTypeButF32) {
  for (const MatvecLayout& layout : matvec_layouts())
    EXPECT_EQ(has_columns(layout.dtype), layout.dtype != DType::f32) << dtype_name(layout.dtype);
}

TEST(Columns, RefusesWhatHasNoKernel) {
  EXPECT_EQ(launch_columns({.dtype = DType::f32, .n_rows = 1, .k = 32, .n_cols = 2}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_columns({.dtype = DType::q4_0, .n_rows = 1, .k = 32, .n_cols = 17}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_columns_group({.dtype = DType::q4_0, .k = 32, .n_cols = 2}, nullptr), cudaErrorInvalidValue);
}

// The first rows alone give the same bits.
TEST(Columns, BitsDoNotDependOnTheGrid) {
  REQUIRE_DEVICE();
  for (const DType dtype : {DType::q4_0, DType::q8_0, DType::q2_0})
    for (const int64_t n_cols : {8, 16}) {
      const int64_t few = 64;
      const Case many(dtype, 32 * (is_emulated() ? 5 : 132 * 3), is_emulated() ? 256 : 2048, n_cols, 5);
      Arrays d(many);
      MatvecArgs args = args_of(many, d);
      ASSERT_EQ(launch_columns(args, nullptr), cudaSuccess);
      const std::vector<uint32_t> all = d.y.read<uint32_t>();
      DeviceBytes y(static_cast<size_t>(n_cols * few) * 4);
      args.n_rows = few, args.y = y.as<float>(), args.y_stride = few;
      ASSERT_EQ(launch_columns(args, nullptr), cudaSuccess);
      const std::vector<uint32_t> first = y.read<uint32_t>();
      for (int64_t col = 0; col < n_cols; ++col)
        for (int64_t r = 0; r < few; ++r)
          ASSERT_EQ(first[static_cast<size_t>(col * few + r)], all[static_cast<size_t>(col * many.c.n_rows + r)])
              << dtype_name(dtype) << " row " << r << " column " << col;
    }
}

TEST(Columns, HalvesOfAnyMagnitude) {
  REQUIRE_DEVICE();
  for (const int64_t k : {32, 96, 4096, 20480, 33}) {
    const int64_t n_cols = 6, stride = k + 3;
    std::vector<float> x = random_floats(static_cast<size_t>(n_cols * stride), 41);
    const float magnitudes[] = {1.0f, 3e38f, 1e-37f, 0.0f, 1e-20f, 70000.0f};
    for (size_t i = 0; i < x.size(); ++i) x[i] *= magnitudes[i / static_cast<size_t>(stride)];
    DeviceBytes x_d(x), halves(static_cast<size_t>(halves_bytes(k, n_cols)));
    ASSERT_EQ(launch_halve({x_d.as<float>(), n_cols, k, stride, halves.data()}, nullptr), cudaSuccess);
    const std::vector<std::byte> got = halves.read<std::byte>();
    for (int64_t col = 0; col < n_cols; ++col) {
      float factor;
      std::memcpy(&factor, got.data() + halves_factors_at(k, n_cols) + 4 * col, 4);
      for (int64_t i = 0; i < halves_padded(k); ++i) {
        constexpr int64_t kPlace[] = {0, 2, 1, 3, 4, 6, 5, 7};
        uint16_t half;
        std::memcpy(&half, got.data() + halves_place(k, col, i / 8) + 2 * kPlace[i % 8], 2);
        const float expected = i < k ? x[static_cast<size_t>(col * stride + i)] : 0.0f;
        // Half a unit of the last place; below 2^-28 of the largest, of the smallest half.
        ASSERT_NEAR(static_cast<double>(f16_to_f32(half)) * factor, expected,
                    0x1p-11 * std::fabs(expected) + 0x1p-25 * factor)
            << "column " << col << " element " << i << " of " << k;
      }
    }
  }
}

}  // namespace
}  // namespace tokamak::cuda

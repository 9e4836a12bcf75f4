// The products of many columns on a GPU against a double reference. Skipped where there is none.
#include "backend/cuda/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/gemm/half.h"
#include "backend/cuda/matvec/device_memory.h"
#include "backend/cuda/matvec/glu_value.h"
#include "backend/cuda/matvec/packed.h"
#include "backend/cuda/matvec/random_weights.h"
#include "quant/codec.h"

namespace tokamak::cuda {
namespace {

#define REQUIRE_WGMMA() \
  REQUIRE_DEVICE();     \
  if (!has_gemm_device()) GTEST_SKIP() << "no GPU of compute capability 9.0"

using tokamak::testing::random_floats;

// The power of two by which a column is multiplied before it is rounded.
double column_factor(const float* x, int64_t k) {
  float largest = 0.0f;
  for (int64_t i = 0; i < k; ++i) largest = std::max(largest, std::fabs(x[i]));
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest = f * 2^exponent, f in [1/2, 1)
  return std::ldexp(1.0, 15 - exponent);
}

struct Case {
  DType dtype;
  int64_t n_matrices, n_rows, k, n_cols;
  std::vector<std::byte> packed;
  std::vector<float> weights, x;
  std::vector<double> exact_x;  // rounded to binary16

  double dot(int64_t matrix, int64_t row, int64_t col) const {
    const float* w = weights.data() + (matrix * n_rows + row) * k;
    const double* a = exact_x.data() + col * k;
    double sum = 0.0;
    for (int64_t i = 0; i < k; ++i) sum += w[i] * a[i];
    return sum;
  }
};

Case make_case(DType dtype, int64_t n_matrices, int64_t n_rows, int64_t k, int64_t n_cols, uint64_t seed) {
  Case c{dtype, n_matrices, n_rows, k, n_cols, {}, {}, {}, {}};
  const std::vector<std::byte> rows = tokamak::testing::random_rows(dtype, n_matrices * n_rows, k, seed);
  c.weights.resize(static_cast<size_t>(n_matrices * n_rows * k));
  decode_row(dtype, rows.data(), n_matrices * n_rows * k, c.weights.data());
  c.packed = pack(dtype, rows, n_matrices, n_rows, k);
  c.x = random_floats(static_cast<size_t>(n_cols * k), seed + 1);
  for (int64_t col = 0; col < n_cols; ++col) {  // of different magnitudes
    float* x = c.x.data() + col * k;
    for (int64_t i = 0; i < k; ++i) x[i] *= std::ldexp(1.0f, static_cast<int>(col * 7 % 41) - 20);
    const double factor = column_factor(x, k);
    for (int64_t i = 0; i < k; ++i)
      c.exact_x.push_back(dtype == DType::f32 ? x[i] : half_at(host_half(x[i] * factor), 0) / factor);
  }
  return c;
}

// Of one column: squares of the difference and of the expected values. A wrong order of k, a wrong row or a missing
// part is of the order of 1 / k at least.
struct Difference {
  double squares = 0.0, total = 0.0;
  void add(double got, double expected) {
    squares += (got - expected) * (got - expected);
    total += expected * expected;
  }
};
// Rounding of weights to 11 bits, of scales and minimums before that: 4 * 2^-12 of each weight, or of its minimum,
// which may be larger. Exact types: sums in f32 only.
double bound(DType dtype) {
  const bool exact = dtype == DType::nvfp4 || dtype == DType::mxfp4 || dtype == DType::f16 || dtype == DType::f32;
  return exact ? 1e-10 : 1e-6;
}

struct Product {
  DeviceBytes weights, up, x, halves, low, y;
  GemmArgs args;
  DeviceBytes workspace;

  Product(const Case& c, const Case* second = nullptr)
      : weights(c.packed),
        up(second ? second->packed : std::vector<std::byte>(16)),
        x(c.x),
        halves(static_cast<size_t>(half_columns_bytes(c.n_cols, c.k))),
        low(static_cast<size_t>(half_columns_bytes(c.n_cols, c.k))),
        y(static_cast<size_t>(c.n_cols * c.n_rows) * 4),
        args{.product = {.dtype = c.dtype,
                         .weights = weights.data(),
                         .up = second ? up.data() : nullptr,
                         .n_rows = c.n_rows,
                         .k = c.k,
                         .n_cols = static_cast<int>(c.n_cols),
                         .x = halves.data(),
                         .y = y.as<float>(),
                         .y_stride = c.n_rows}},
        workspace(gemm_workspace_bytes(args) + 16) {
    args.workspace = workspace.data();
    for (const bool is_low : {false, true})
      EXPECT_EQ(launch_half_columns({.x = x.as<float>(),
                                     .n_cols = c.n_cols,
                                     .k = c.k,
                                     .x_stride = c.k,
                                     .halves = is_low ? low.data() : halves.data(),
                                     .low = is_low,
                                     .overlap = is_low},
                                    nullptr),
                cudaSuccess);
    if (c.dtype == DType::f32) args.x_low = low.data();
  }
  std::vector<float> result() {
    EXPECT_EQ(launch_gemm(args, nullptr), cudaSuccess);
    return y.read<float>();
  }
};

void check_product(const Case& c, const std::vector<float>& y) {
  for (int64_t col = 0; col < c.n_cols; ++col) {
    Difference d;
    for (int64_t r = 0; r < c.n_rows; ++r) d.add(y[static_cast<size_t>(col * c.n_rows + r)], c.dot(0, r, col));
    ASSERT_LE(d.squares, bound(c.dtype) * d.total)
        << dtype_name(c.dtype) << " [" << c.n_rows << ", " << c.k << "] column " << col << " of " << c.n_cols;
  }
}

class GemmTypes : public ::testing::TestWithParam<MatvecLayout> {};

TEST_P(GemmTypes, ShapesAndColumns) {
  REQUIRE_WGMMA();
  struct Shape {
    int64_t n_rows, k, n_cols;
  };
  for (const auto& [n_rows, k, n_cols] : choose<Shape>({{64, 256, 32},
                                                        {37, 768, 17},
                                                        {200, 1280, 64},
                                                        {130, 2304, 100},
                                                        {97, 1536, 300},
                                                        {333, 512, 256},
                                                        {64, 8448, 33}},
                                                       {{37, 768, 17}, {250, 2304, 20}, {70, 256, 130}})) {
    const Case c = make_case(GetParam().dtype, 1, n_rows, k, n_cols, static_cast<uint64_t>(n_rows + n_cols));
    Product run(c);
    check_product(c, run.result());
    if (HasFatalFailure()) return;
  }
}

// Against launches without epilogue, whose values are checked above.
TEST_P(GemmTypes, FusedIsUnfused) {
  REQUIRE_WGMMA();
  const int n_glus = GetParam().dtype == DType::f32 ? 0 : 6;
  for (const int64_t n_cols : choose<int64_t>({32, 60, 130, 260}, {60, 130})) {
    const int64_t n_rows = 90, k = 768;
    const Case gate = make_case(GetParam().dtype, 1, n_rows, k, n_cols, 21);
    const Case up = make_case(GetParam().dtype, 1, n_rows, k, n_cols, 22);
    Product gate_run(gate), up_run(up), both(gate, &up);
    up_run.args.product.x = gate_run.halves.data();
    if (n_glus == 0) up_run.args.x_low = gate_run.low.data();
    const std::vector<float> g = gate_run.result(), u = up_run.result();
    const std::vector<float> scales = {0.75f, -1.25f}, bias = random_floats(2 * static_cast<size_t>(n_rows), 3),
                             rest = random_floats(g.size(), 4);
    DeviceBytes scales_d(scales), bias_d(bias), rest_d(rest);
    for (int glu = -1; glu < n_glus; ++glu) {
      Product& run = glu < 0 ? gate_run : both;
      MatvecArgs& a = run.args.product;
      a.scale = scales_d.as<float>(), a.bias = bias_d.as<float>();
      a.residual = rest_d.as<float>(), a.residual_stride = n_rows;
      a.glu = glu, a.alpha = 1.5f, a.limit = 2.0f, a.overlap = true;
      if (glu >= 0) a.up_scale = scales_d.as<float>() + 1, a.up_bias = bias_d.as<float>() + n_rows;
      const std::vector<float> y = run.result();
      for (size_t i = 0; i < y.size(); ++i) {
        const size_t r = i % static_cast<size_t>(n_rows);
        const double gate_value = g[i] * scales[0] + bias[r];
        const double up_value = u[i] * scales[1] + bias[static_cast<size_t>(n_rows) + r];
        const double value = glu < 0 ? gate_value : glu_value(glu, gate_value, up_value, 1.5, 2.0);
        const double magnitude = (std::fabs(g[i]) + 2.0) * (glu < 0 ? 1.0 : 2.0 + std::fabs(u[i]));
        // The split of k differs between one matrix and two: sums of up to 768 terms in another order.
        ASSERT_NEAR(y[i], value + rest[i], 1e-4 * magnitude)
            << dtype_name(gate.dtype) << " glu " << glu << " element " << i << " columns " << n_cols;
      }
    }
  }
}

// Pairs (token, used expert), in columns of their own by expert, with scales, biases and SwiGLU per expert.
struct ExpertRun {
  RouteShape shape;
  std::vector<int32_t> ids;  // [n_tokens, n_used + 1], the last unused
  DeviceBytes ids_d, route, halves;

  ExpertRun(int n_tokens, int n_used, int n_expert, int tile_cols, int64_t k)
      : shape{n_tokens, n_used, n_expert, tile_cols},
        ids(make_ids(shape)),
        ids_d(ids),
        route(static_cast<size_t>(Route::bytes(shape))),
        halves(static_cast<size_t>(half_columns_bytes(shape.n_columns(), k))) {
    EXPECT_EQ(launch_route(ids_d.as<int32_t>(), n_used + 1, shape, route.data(), false, nullptr), cudaSuccess);
  }
  // Skewed: expert 0 gets many, expert 1 none.
  static std::vector<int32_t> make_ids(const RouteShape& s) {
    std::vector<int32_t> out;
    for (int t = 0; t < s.n_tokens; ++t)
      for (int u = 0; u <= s.n_used; ++u) {
        const uint32_t r = tokamak::testing::random_bits(91, static_cast<uint64_t>(t * 16 + u));
        const int id = u == 0 && t % 3 ? 0 : static_cast<int>(r % static_cast<uint32_t>(s.n_expert));
        out.push_back(u == s.n_used ? -7 : id == 1 ? 2 : id);
      }
    return out;
  }
  int id(int64_t pair) const {
    return ids[static_cast<size_t>(pair / shape.n_used * (shape.n_used + 1) + pair % shape.n_used)];
  }
};

TEST(Gemm, RouteSortsPairsByExpert) {
  REQUIRE_WGMMA();
  for (const int n_tokens : {1, 20, 700}) {
    const ExpertRun run(n_tokens, 4, 9, 32, 32);
    const Route base = Route::at(nullptr, run.shape);
    auto words = const_cast<ExpertRun&>(run).route.read<int32_t>();
    const auto at = [&](const void* p) { return words.data() + reinterpret_cast<uintptr_t>(p) / 4; };
    std::vector<int> next(static_cast<size_t>(run.shape.n_columns()), -1);
    int column = 0, tile = 0;
    for (int e = 0; e < 9; ++e) {
      int count = 0;
      for (int pair = 0; pair < run.shape.n_pairs(); ++pair)
        if (run.id(pair) == e) {
          EXPECT_EQ(at(base.positions)[pair], column + count);
          EXPECT_EQ(at(base.destination)[column + count], pair);
          ++count;
        }
      for (int first = 0; first < count; first += 32, ++tile) {
        EXPECT_EQ(at(base.tiles)[3 * tile], e);
        EXPECT_EQ(at(base.tiles)[3 * tile + 1], column + first);
        EXPECT_EQ(at(base.tiles)[3 * tile + 2], std::min(32, count - first));
      }
      column += (count + 7) / 8 * 8;
    }
    EXPECT_EQ(*at(base.n_tiles), tile);
    EXPECT_LE(tile, run.shape.most_tiles());
    EXPECT_LE(column, run.shape.n_columns());
  }
}

TEST_P(GemmTypes, Experts) {
  REQUIRE_WGMMA();
  if (GetParam().dtype == DType::f32) GTEST_SKIP() << "no experts of F32";
  const int64_t n_expert = 6, n_rows = 70, k = 768;
  for (const int tile_cols : choose<int>({64, 128, 256}, {64}))
    for (const bool per_token : {true, false}) {
      ExpertRun run(50, 3, static_cast<int>(n_expert), tile_cols, k);
      const int64_t n_pairs = run.shape.n_pairs();
      const Case gate = make_case(GetParam().dtype, n_expert, n_rows, k, n_pairs, 31);
      const Case up = make_case(GetParam().dtype, n_expert, n_rows, k, 1, 32);
      const std::vector<float> scale = random_floats(6, 5),
                               bias = random_floats(static_cast<size_t>(n_expert * n_rows), 6);
      DeviceBytes gate_w(gate.packed), up_w(up.packed), x(gate.x), scale_d(scale), bias_d(bias),
          y(static_cast<size_t>(n_pairs * n_rows) * 4);
      ASSERT_EQ(launch_half_columns({.x = x.as<float>(),
                                     .n_cols = per_token ? 50 : n_pairs,
                                     .k = k,
                                     .x_stride = k,
                                     .halves = run.halves.data(),
                                     .shape = &run.shape,
                                     .route = run.route.data(),
                                     .n_copies = per_token ? 3 : 1},
                                    nullptr),
                cudaSuccess);
      for (const int glu : {-1, 2, 0}) {
        const MatvecArgs product{.dtype = gate.dtype,
                                 .weights = gate_w.data(),
                                 .up = glu < 0 ? nullptr : up_w.data(),
                                 .n_rows = n_rows,
                                 .k = k,
                                 .n_cols = static_cast<int>(n_pairs),
                                 .x = run.halves.data(),
                                 .y = y.as<float>(),
                                 .y_stride = n_rows,
                                 .scale = scale_d.as<float>(),
                                 .bias = bias_d.as<float>(),
                                 .glu = glu};
        ASSERT_EQ(launch_gemm({.product = product, .shape = &run.shape, .route = run.route.data()}, nullptr),
                  cudaSuccess);
        const std::vector<float> out = y.read<float>();
        for (int64_t pair = 0; pair < n_pairs; ++pair) {
          const int64_t e = run.id(pair), col = per_token ? pair / 3 : pair;
          Difference d;
          for (int64_t r = 0; r < n_rows; ++r) {
            double sum[2] = {};
            const double* a = gate.exact_x.data() + col * k;
            for (int64_t i = 0; i < k; ++i) {
              sum[0] += gate.weights[static_cast<size_t>((e * n_rows + r) * k + i)] * a[i];
              sum[1] += up.weights[static_cast<size_t>((e * n_rows + r) * k + i)] * a[i];
            }
            double value = sum[0] * scale[static_cast<size_t>(e)] + bias[static_cast<size_t>(e * n_rows + r)];
            if (glu >= 0) value = glu_value(glu, value, sum[1], 0.0, 0.0);
            d.add(out[static_cast<size_t>(pair * n_rows + r)], value);
          }
          // Gate and up have an error each; SwiGLU does not amplify it much.
          ASSERT_LE(d.squares, 4 * bound(gate.dtype) * d.total)
              << dtype_name(gate.dtype) << " pair " << pair << " glu " << glu << " tile " << tile_cols;
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, GemmTypes, ::testing::ValuesIn([] {
                           std::vector<MatvecLayout> layouts;
                           for (const MatvecLayout& layout : matvec_layouts())
                             if (has_gemm(layout.dtype)) layouts.push_back(layout);
                           return layouts;
                         }()),
                         [](const auto& test) { return std::string(dtype_name(test.param.dtype)); });

TEST(Gemm, HasEveryType) {
  for (const MatvecLayout& layout : matvec_layouts()) EXPECT_TRUE(has_gemm(layout.dtype)) << dtype_name(layout.dtype);
}

TEST(Gemm, PlainRowsOfAnyLength) {
  REQUIRE_WGMMA();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const int64_t k : {1, 7, 33, 100, 515, 1000}) {
      const Case c = make_case(dtype, 1, 9, k, 40, 9);
      Product run(c);
      check_product(c, run.result());
    }
}

// A column with an infinity is NaN, its neighbours are not touched; zeros stay zeros.
TEST(Gemm, SpecialColumns) {
  REQUIRE_WGMMA();
  Case c = make_case(DType::q4_0, 1, 64, 256, 32, 5);
  for (int64_t i = 0; i < c.k; ++i) c.x[static_cast<size_t>(3 * c.k + i)] = 0.0f;
  c.x[static_cast<size_t>(5 * c.k + 9)] = INFINITY;
  Product run(c);
  const std::vector<float> y = run.result();
  for (int64_t col = 0; col < c.n_cols; ++col)
    for (int64_t r = 0; r < c.n_rows; ++r) {
      const float value = y[static_cast<size_t>(col * c.n_rows + r)];
      if (col == 3) {
        EXPECT_EQ(value, 0.0f);
      }
      EXPECT_EQ(std::isnan(value), col == 5) << col;
    }
}

}  // namespace
}  // namespace tokamak::cuda

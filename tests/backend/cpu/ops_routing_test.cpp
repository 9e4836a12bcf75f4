// Softmax, sums, sorting and routing: every instruction set against f64 or, where nothing is rounded, exactly.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "backend/cpu/ops_test_util.h"

namespace tokamak::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double sum_units(int64_t n) { return static_cast<double>(n / 64) + 8; }

TEST(CpuRouting, SoftMaxAgainstF64) {
  for (int64_t n : kRowSizes) {
    auto x = random_floats(static_cast<size_t>(3 * n), 1, 3);
    x[static_cast<size_t>(n)] = -kInf;
    std::vector<float> first;
    for (Isa isa : usable_isas()) {
      if (n == 1) x[1] = 2;
      std::vector<float> y(x.size()), in_place = x;
      SoftMaxArgs a{.row_elems = n, .x = x.data(), .x_stride = n, .y = y.data(), .y_stride = n};
      op_set(isa).soft_max(a, 0, 3);
      a.x = a.y = in_place.data();
      op_set(isa).soft_max(a, 2, 3);
      op_set(isa).soft_max(a, 0, 2);
      if (first.empty()) first = y;
      expect_same_bits(first, y, std::string(isa_name(isa)));
      expect_same_bits(first, in_place, "in place");
    }
    for (int64_t r = 0; r < 3; ++r) {
      const float* row = x.data() + r * n;
      const double top = *std::max_element(row, row + n);
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += std::exp(row[i] - top);
      for (int64_t i = 0; i < n; ++i) {
        const double exact = std::exp(row[i] - top) / sum;
        // exp of a rounded difference above and in the sum, the sum's additions, the division.
        const double distance = std::isfinite(row[i]) ? std::fabs(row[i] - top) : 0;
        ASSERT_NEAR(first[static_cast<size_t>(r * n + i)], exact,
                    (2 * 3 + 2 * distance + 20 + sum_units(n)) * kUnit * exact)
            << n;
      }
    }
  }
}

TEST(CpuRouting, SumRowsAgainstF64) {
  for (int64_t n : kRowSizes) {
    const auto x = random_floats(static_cast<size_t>(3 * n), 2);
    std::vector<float> first;
    for (Isa isa : usable_isas()) {
      std::vector<float> y(3);
      op_set(isa).sum_rows({.row_elems = n, .x = x.data(), .x_stride = n, .y = y.data()}, 0, 3);
      if (first.empty()) first = y;
      expect_same_bits(first, y, std::string(isa_name(isa)));
    }
    for (size_t r = 0; r < 3; ++r) {
      double sum = 0, size = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double v = double{x[r * static_cast<size_t>(n) + static_cast<size_t>(i)]};
        sum += v, size += std::fabs(v);
      }
      ASSERT_NEAR(first[r], sum, sum_units(n) * kUnit * size);
    }
  }
}

std::vector<int32_t> sorted(const std::vector<float>& x) {
  std::vector<int32_t> ids(x.size(), -1);
  argsort_rows({.row_elems = static_cast<int64_t>(x.size()), .x = x.data(), .y = ids.data()}, 0, 1);
  return ids;
}

TEST(CpuRouting, ArgsortFallsAndKeepsEqualOnesInOrder) {
  EXPECT_EQ(sorted({1, 3, 2}), (std::vector<int32_t>{1, 2, 0}));
  EXPECT_EQ(sorted({2, 2, 3, 2, 3}), (std::vector<int32_t>{2, 4, 0, 1, 3}));
  EXPECT_EQ(sorted({0.0f, -0.0f, 0.0f}), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(sorted({kNan, -kInf, 1, kNan, kInf}), (std::vector<int32_t>{4, 2, 1, 0, 3}));
  EXPECT_EQ(sorted(std::vector<float>(100, kNan))[99], 99);
}

TEST(CpuRouting, BestOfRowIsTheBeginningOfArgsort) {
  std::mt19937 random(3);
  for (size_t n : {1, 2, 7, 60, 257})
    for (int round = 0; round < 20; ++round) {
      std::vector<float> x(n);
      for (float& v : x) {
        const uint32_t kind = random() % 8;  // many ties, some NaN
        v = kind == 0 ? kNan : kind == 1 ? -kInf : static_cast<float>(random() % 5);
      }
      const auto all = sorted(x);
      for (size_t k : {size_t{1}, n / 2 + 1, n}) {
        std::vector<int32_t> best(k);
        best_of_row(x.data(), static_cast<int64_t>(n), static_cast<int64_t>(k), best.data());
        ASSERT_EQ(best, std::vector<int32_t>(all.begin(), all.begin() + static_cast<ptrdiff_t>(k))) << n;
      }
    }
}

std::vector<float> masked(const std::vector<float>& x, int64_t n_group, int64_t n_used, int64_t n_best) {
  std::vector<float> y(x.size());
  mask_groups_rows({.row_elems = static_cast<int64_t>(x.size()),
                    .n_group = n_group,
                    .n_group_used = n_used,
                    .n_best = n_best,
                    .x = x.data(),
                    .y = y.data()},
                   0, 1);
  return y;
}

TEST(CpuRouting, MaskGroupsKeepsTheBest) {
  const std::vector<float> x = {5, 0, 3, 3, 1, 1};
  EXPECT_EQ(masked(x, 3, 1, 1), (std::vector<float>{5, 0, -kInf, -kInf, -kInf, -kInf}));  // best one: 5
  EXPECT_EQ(masked(x, 3, 1, 2), (std::vector<float>{-kInf, -kInf, 3, 3, -kInf, -kInf}));  // best two: 6
  EXPECT_EQ(masked(x, 3, 3, 2), x);
  EXPECT_EQ(masked({1, 1, 1, 1}, 4, 2, 1), (std::vector<float>{1, 1, -kInf, -kInf}));  // equal: the first ones
  const auto with_nan = masked({kNan, kNan, 0, -1}, 2, 1, 2);
  EXPECT_EQ(with_nan[0], -kInf);
  EXPECT_EQ(with_nan[3], -1);
  // Sums of two that f32 would round to the same number.
  EXPECT_EQ(masked({1, 0x1p-30f, 1, 0x1p-29f}, 2, 1, 2)[0], -kInf);
}

TEST(CpuRouting, AddIdTakesTheExpertsRow) {
  for (int64_t n : {1, 16, 17}) {
    const auto a = random_floats(static_cast<size_t>(6 * n), 4), b = random_floats(static_cast<size_t>(5 * n), 5);
    const std::vector<int32_t> ids = {4, 0, -9, 2, 2, -9, 1, 3, -9};  // two used of rows of three
    for (Isa isa : usable_isas()) {
      std::vector<float> y(a.size());
      op_set(isa).add_id({.row_elems = n,
                          .n_used = 2,
                          .a = a.data(),
                          .a_stride = n,
                          .b = b.data(),
                          .b_stride = n,
                          .ids = ids.data(),
                          .ids_stride = 3,
                          .y = y.data(),
                          .y_stride = n},
                         0, 6);
      for (int64_t item = 0; item < 6; ++item)
        for (int64_t i = 0; i < n; ++i) {
          const auto expert = ids[static_cast<size_t>(item / 2 * 3 + item % 2)];
          ASSERT_EQ(y[static_cast<size_t>(item * n + i)],
                    a[static_cast<size_t>(item * n + i)] + b[static_cast<size_t>(expert * n + i)]);
        }
    }
  }
}

TEST(CpuRouting, RouteOfInvalidScoresGivesValidExperts) {
  for (RouterKind kind : {RouterKind::soft_max, RouterKind::sigmoid, RouterKind::softplus_sqrt,
                          RouterKind::late_soft_max, RouterKind::late_sigmoid})
    for (float bad : {kNan, kInf, -kInf}) {
      std::vector<float> x(40, bad), weights(6);
      x[7] = 1;
      std::vector<int32_t> ids(6, -1);
      for (Isa isa : usable_isas()) {
        op_set(isa).route({.kind = kind,
                           .n_expert = 40,
                           .n_used = 6,
                           .x = x.data(),
                           .n_group = 5,
                           .n_group_used = 2,
                           .n_best = 2,
                           .renormalise = true,
                           .low = 1e-6f,
                           .high = 1e6f,
                           .ids = ids.data(),
                           .ids_stride = 6,
                           .weights = weights.data()},
                          0, 1);
        std::vector<int32_t> seen = ids;
        std::ranges::sort(seen);
        EXPECT_TRUE(std::ranges::adjacent_find(seen) == seen.end());
        EXPECT_TRUE(seen.front() >= 0 && seen.back() < 40);
      }
    }
}

TEST(CpuRouting, WeightedSumEqualsSeparateOps) {
  constexpr int64_t kTokens = 3, kStride = 600;
  for (int64_t n : {1, 16, 33, 576})
    for (int64_t n_used : {1, 2, 8, 17})
      for (size_t n_addends = 0; n_addends <= WeightedSumArgs::kMaxAddends; ++n_addends) {
        const auto n_rows = static_cast<size_t>(kTokens * n_used);
        const auto x = random_floats(n_rows * kStride, 1), w = random_floats(n_rows * 2, 2);
        const std::vector<std::vector<float>> more = {random_floats(kTokens * kStride, 3),
                                                      random_floats(kTokens * kStride, 4)};
        WeightedSumArgs a{.row_elems = n,
                          .n_used = n_used,
                          .x = x.data(),
                          .x_stride = kStride,
                          .weights = w.data(),
                          .weight_stride = 2,
                          .n_addends = n_addends,
                          .addends = {more[0].data(), more[1].data()},
                          .addend_strides = {kStride, kStride},
                          .y_stride = n};
        std::vector<float> expected;
        for (int64_t i = 0; i < kTokens * n; ++i) {
          const int64_t t = i / n, col = i % n;
          float sum = 0;
          for (int64_t k = 0; k < n_used; ++k) {
            const auto row = static_cast<size_t>(t * n_used + k);
            const float part = x[row * kStride + static_cast<size_t>(col)] * w[row * 2];
            sum = k == 0 ? part : sum + part;
          }
          for (size_t k = 0; k < n_addends; ++k) sum += more[k][static_cast<size_t>(t * kStride + col)];
          expected.push_back(sum);
        }
        for (Isa isa : usable_isas()) {
          std::vector<float> y(expected.size(), kNan);
          a.y = y.data();
          for (int64_t t : {2, 0, 1}) op_set(isa).weighted_sum(a, t, t + 1);
          expect_same_bits(expected, y, std::string(isa_name(isa)) + " n=" + std::to_string(n));
        }
      }
}

}  // namespace
}  // namespace tokamak::cpu

// Rope tables against f64 trigonometry of the whole angle, rotations against plain loops.
#include <algorithm>
#include <limits>

#include "backend/cpu/ops_test_util.h"

namespace tokamak::cpu {
namespace {

double plain_angle(const RopeFrequencyParams& p, int64_t pair, double position) {
  return position * p.freq_scale * std::pow(p.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(p.n_rot));
}

std::vector<float> table_of(const RopeTable& table, const std::vector<int32_t>& positions) {
  std::vector<float> rows(positions.size() * static_cast<size_t>(table.row_floats()));
  table.fill(positions, rows.data(), 0, static_cast<int64_t>(positions.size()));
  return rows;
}

TEST(RopeTable, OneRoundingEvenFarOut) {
  const std::vector<int32_t> positions = {0, 1, 63, 64, 65, 4095, 100000, 100001, 999999, 3};
  for (RopePairing pairing : {RopePairing::norm, RopePairing::neox})
    for (double theta : {10000.0, 1e6})
      for (double scale : {1.0, 0.125}) {
        const RopeParams p{
            .frequency = {.n_rot = 64, .theta = theta, .freq_scale = scale}, .pairing = pairing, .attn_factor = 1.25};
        const RopeTable table(p, {});
        const auto rows = table_of(table, positions);
        for (size_t t = 0; t < positions.size(); ++t)
          for (int64_t i = 0; i < 32; ++i) {
            const double angle = plain_angle(p.frequency, i, positions[t]);
            const float* row = rows.data() + t * 128;
            const int64_t a = pairing == RopePairing::neox ? i : 2 * i,
                          b = pairing == RopePairing::neox ? i + 32 : a + 1;
            const double bound = 1.25 * (kUnit + 1e-9);
            ASSERT_NEAR(row[a], 1.25 * std::cos(angle), bound) << positions[t];
            ASSERT_NEAR(row[64 + b], 1.25 * std::sin(angle), bound) << positions[t];
            ASSERT_EQ(row[a], row[b]);
            ASSERT_EQ(row[64 + a], -row[64 + b]);
          }
      }
}

TEST(RopeTable, RowDependsOnPositionOnly) {
  const RopeTable table({.frequency = {.n_rot = 32, .theta = 1e4}}, {});
  const std::vector<int32_t> together = {70, 71, 72, 200, 5, 70};
  const auto rows = table_of(table, together);
  for (size_t t = 0; t < together.size(); ++t) {
    const auto alone = table_of(table, {together[t]});
    expect_same_bits(alone,
                     {rows.begin() + static_cast<ptrdiff_t>(t) * 64, rows.begin() + static_cast<ptrdiff_t>(t + 1) * 64},
                     "row");
  }
}

TEST(RopeTable, FrequencyFactorsDivide) {
  const std::vector<float> factors = {1, 2, 4, 8};
  const RopeTable table({.frequency = {.n_rot = 8, .theta = 100}}, factors),
      plain({.frequency = {.n_rot = 8, .theta = 100}}, {});
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_DOUBLE_EQ(table.frequency(i), plain.frequency(i) / double{factors[static_cast<size_t>(i)]});
}

// Ends of the YaRN ramp: fast pairs keep their frequency, slow ones are divided by the factor, the middle lies between.
TEST(RopeTable, YarnBlendsBetweenTheEnds) {
  const RopeParams yarn{
      .frequency = {.n_rot = 128, .theta = 10000, .freq_scale = 0.25, .ext_factor = 1, .n_ctx_orig = 4096}};
  const RopeTable table(yarn, {}), plain({.frequency = {.n_rot = 128, .theta = 10000}}, {});
  EXPECT_DOUBLE_EQ(table.frequency(0), plain.frequency(0));
  EXPECT_DOUBLE_EQ(table.frequency(63), plain.frequency(63) * 0.25);
  const double ratio = table.frequency(34) / plain.frequency(34);
  EXPECT_GT(ratio, 0.25);
  EXPECT_LT(ratio, 1.0);
  // beta_fast = 32 turns in 4096 positions: pair 20.9, floor 20; beta_slow = 1: pair 45.03, ceil 46.
  EXPECT_DOUBLE_EQ(table.frequency(20), plain.frequency(20));
  EXPECT_LT(table.frequency(21), plain.frequency(21));
  EXPECT_GT(table.frequency(45), plain.frequency(45) * 0.25 * (1 + 1e-9));
  EXPECT_NEAR(table.frequency(46), plain.frequency(46) * 0.25, 1e-15);
}

TEST(RopeTable, YarnRangeMayEndInsideAPair) {
  const RopeParams yarn{
      .frequency = {
          .n_rot = 128, .theta = 10000, .freq_scale = 0.25, .ext_factor = 1, .n_ctx_orig = 4096, .round_range = false}};
  const RopeTable table(yarn, {}), plain({.frequency = {.n_rot = 128, .theta = 10000}}, {});
  // The ramp runs from 20.94 to 45.03 instead of from 20 to 46.
  const auto pair_of = [](double turns) { return 64 * std::log(4096 / (turns * 2 * M_PI)) / std::log(10000.0); };
  const double low = pair_of(32), high = pair_of(1);
  for (int64_t i : {20, 21, 30, 45, 46}) {
    const double keep = 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    EXPECT_NEAR(table.frequency(i), plain.frequency(i) * (0.25 + 0.75 * keep), 1e-15) << i;
  }
}

struct RopeCase {
  int64_t head_dim, n_rot;
};

TEST(Rope, RotatesAgainstF64) {
  const int64_t n_head = 3, n_tokens = 4;
  const std::vector<int32_t> positions = {0, 7, 8, 1000};
  for (const RopeCase c : {RopeCase{64, 64}, {64, 32}, {80, 20}, {256, 256}, {6, 6}, {34, 34}, {5, 2}, {16, 0}})
    for (RopePairing pairing : {RopePairing::norm, RopePairing::neox})
      for (bool with_norm : {false, true}) {
        const RopeTable table({.frequency = {.n_rot = c.n_rot, .theta = 10000}, .pairing = pairing}, {});
        const auto rows = table_of(table, positions);
        const auto n = static_cast<size_t>(n_tokens * n_head * c.head_dim);
        const auto x = random_floats(n, 70), w = random_floats(static_cast<size_t>(c.head_dim), 71);
        RopeArgs a{.n_head = n_head,
                   .head_dim = c.head_dim,
                   .pairing = pairing,
                   .n_rot = c.n_rot,
                   .table = rows.data(),
                   .norm_weight = with_norm ? w.data() : nullptr,
                   .eps = 1e-6f,
                   .x = x.data(),
                   .x_stride = n_head * c.head_dim,
                   .y_stride = n_head * c.head_dim};
        std::vector<float> y(n), first;
        for (Isa isa : usable_isas()) {
          a.x = x.data(), a.y = y.data();
          op_set(isa).rope(a, 0, n_tokens * n_head);
          std::vector<float> in_place = x;
          a.x = a.y = in_place.data();
          op_set(isa).rope(a, 5, n_tokens * n_head);
          op_set(isa).rope(a, 0, 5);
          std::vector<float> spread(static_cast<size_t>(n_tokens * n_head * (c.head_dim + 3)), std::nanf(""));
          for (int64_t item = 0; item < n_tokens * n_head; ++item)
            std::copy_n(x.begin() + item * c.head_dim, c.head_dim, spread.begin() + item * (c.head_dim + 3));
          std::vector<float> from_spread(n);
          RopeArgs strided = a;
          strided.x = spread.data(), strided.y = from_spread.data();
          strided.x_head_stride = c.head_dim + 3, strided.x_stride = n_head * strided.x_head_stride;
          op_set(isa).rope(strided, 0, n_tokens * n_head);
          expect_same_bits(y, from_spread, "rope of heads that lie apart");
          if (first.empty()) first = y;
          expect_same_bits(first, y, "rope " + std::string(isa_name(isa)));
          expect_same_bits(first, in_place, "rope in place " + std::string(isa_name(isa)));
        }
        for (int64_t item = 0; item < n_tokens * n_head; ++item) {
          std::vector<double> v(x.begin() + item * c.head_dim, x.begin() + (item + 1) * c.head_dim);
          double square = 0;
          for (double e : v) square += e * e;
          const double factor = 1 / std::sqrt(square / static_cast<double>(c.head_dim) + double{1e-6f});
          for (size_t i = 0; i < v.size(); ++i) v[i] = with_norm ? v[i] * factor * double{w[i]} : v[i];
          const double error = (with_norm ? 20 : 0) * kUnit;
          for (int64_t i = 0; i < c.head_dim; ++i) {
            double exact = v[static_cast<size_t>(i)], size = std::fabs(exact);
            if (i < c.n_rot) {
              const int64_t half = c.n_rot / 2;
              const bool neox = pairing == RopePairing::neox, second = neox ? i >= half : i % 2 == 1;
              const int64_t pair = neox ? i % half : i / 2, other = neox ? (i + half) % c.n_rot : i ^ 1;
              const double angle =
                  plain_angle(table.params().frequency, pair, positions[static_cast<size_t>(item / n_head)]);
              const double partner = v[static_cast<size_t>(other)];
              exact = exact * std::cos(angle) + (second ? 1 : -1) * partner * std::sin(angle);
              size += std::fabs(partner);
            }
            ASSERT_NEAR(first[static_cast<size_t>(item * c.head_dim + i)], exact, size * (error + 4 * kUnit))
                << "dim " << i << " of " << c.head_dim << " n_rot " << c.n_rot;
          }
        }
      }
}

}  // namespace
}  // namespace tokamak::cpu

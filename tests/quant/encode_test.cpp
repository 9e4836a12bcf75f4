// Encoders: error bounds that follow from the formats, exact recovery, invariances, hostile rows, importance.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/codecs.h"

namespace tokamak {
namespace {

using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<std::byte> encoded(DType type, const std::vector<float>& x, const std::vector<float>& importance = {}) {
  std::vector<std::byte> out(dtype_bytes(type, x.size()));
  const auto done = encode_row(type, x.data(), static_cast<int64_t>(x.size()),
                               importance.empty() ? nullptr : importance.data(), out.data());
  EXPECT_TRUE(done) << dtype_name(type) << ": " << done.error().message();
  return out;
}
std::vector<float> decoded(DType type, const std::vector<std::byte>& blocks) {
  const DTypeRow& row = dtype_row(type);
  std::vector<float> out(blocks.size() / row.block_bytes * row.block_elems);
  decode_row(type, blocks.data(), static_cast<int64_t>(out.size()), out.data());
  return out;
}
std::vector<float> round_trip(DType type, const std::vector<float>& x, const std::vector<float>& importance = {}) {
  return decoded(type, encoded(type, x, importance));
}

std::vector<float> normal_values(size_t n, float sigma, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, sigma);
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}
std::vector<float> scaled(std::vector<float> x, float factor) {
  for (float& v : x) v *= factor;
  return x;
}
// sqrt of the mean of w (y - x)^2, w = 1 when there is no importance.
double rms_error(const std::vector<float>& x, const std::vector<float>& y, const std::vector<float>& w = {}) {
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i)
    squares += (w.empty() ? 1.0 : static_cast<double>(w[i])) * std::pow(static_cast<double>(y[i]) - x[i], 2);
  return std::sqrt(squares / static_cast<double>(x.size()));
}

// --- encoders without a search: the largest error in a group of elements that share a scale.

constexpr double kU16 = 0x1p-11;  // unit roundoff of f16, the type of most scales

struct Group {
  double amax, low, high;
};
Group group_of(const float* x, int n) {
  Group g{0, x[0], x[0]};
  for (int i = 0; i < n; ++i) {
    g.amax = std::max(g.amax, std::fabs(static_cast<double>(x[i])));
    g.low = std::min(g.low, static_cast<double>(x[i]));
    g.high = std::max(g.high, static_cast<double>(x[i]));
  }
  return g;
}

struct Bound {
  DType type;
  int group_elems;
  double (*max_error)(const Group& g);  // largest |decoded - x|
};

// Half a step, or a whole one where the far end has no code; plus the rounding of the scales to f16.
const Bound kBounds[] = {
    {DType::f32, 1, [](const Group&) { return 0.0; }},
    {DType::f64, 1, [](const Group&) { return 0.0; }},
    {DType::f16, 1, [](const Group& g) { return g.amax * kU16 + 0x1p-25; }},
    {DType::bf16, 1, [](const Group& g) { return g.amax * 0x1p-8; }},
    {DType::i8, 1, [](const Group&) { return 0.5; }},
    {DType::i16, 1, [](const Group&) { return 0.5; }},
    {DType::i32, 1, [](const Group&) { return 0.5; }},
    {DType::i64, 1, [](const Group&) { return 0.5; }},
    {DType::q4_0, 32, [](const Group& g) { return g.amax / 8 * (1 + 8 * kU16); }},
    {DType::q5_0, 32, [](const Group& g) { return g.amax / 16 * (1 + 16 * kU16); }},
    {DType::q4_1, 32, [](const Group& g) { return (g.high - g.low) / 15 * (0.5 + 15 * kU16) + g.amax * kU16; }},
    {DType::q5_1, 32, [](const Group& g) { return (g.high - g.low) / 31 * (0.5 + 31 * kU16) + g.amax * kU16; }},
    {DType::q8_0, 32, [](const Group& g) { return g.amax / 127 * (0.5 + 127 * kU16); }},
    {DType::q8_1, 32, [](const Group& g) { return g.amax / 127 * (0.5 + 127 * kU16); }},
    {DType::q8_k, 256, [](const Group& g) { return g.amax / 127 * (0.5 + 127 * 0x1p-22); }},
    {DType::tq1_0, 256, [](const Group& g) { return g.amax * (0.5 + kU16); }},
    {DType::tq2_0, 256, [](const Group& g) { return g.amax * (0.5 + kU16); }},
    {DType::q1_0, 128, [](const Group& g) { return g.amax * (1 + kU16); }},
    // The largest magnitude falls on 4 to 8 units of the scale and 6 is the last code: an error of at most 2 of 4.
    {DType::mxfp4, 32, [](const Group& g) { return g.amax / 2; }},
};

TEST(EncodeRow, ErrorStaysWithinTheFormatsBound) {
  for (const Bound& bound : kBounds)
    for (float sigma : {0.02f, 1.0f, 20.0f}) {
      const std::vector<float> x = normal_values(256 * 16, sigma, 7 + static_cast<uint32_t>(bound.type));
      const auto y = round_trip(bound.type, x);
      for (size_t start = 0; start < x.size(); start += static_cast<size_t>(bound.group_elems)) {
        const double limit = bound.max_error(group_of(x.data() + start, bound.group_elems)) * (1 + 1e-6);
        for (size_t i = start; i < start + static_cast<size_t>(bound.group_elems); ++i)
          ASSERT_LE(std::fabs(static_cast<double>(y[i]) - x[i]), limit)
              << dtype_name(bound.type) << ", element " << i << ", sigma " << sigma;
      }
    }
}

// --- encoders with a search: the root mean square error on normal data.

// No code of b bits per weight has a root mean square error below sigma 2^-b (Shannon). `factor`: how far above that a
// type may lie: what its search reached when it was written, and 0.7 %. Even spacing alone costs 1.4 to 1.6 here.
struct SearchBound {
  DType type;
  double factor;
};
const SearchBound kSearchBounds[] = {
    {DType::q2_k, 1.6},      {DType::q3_k, 1.555},    {DType::q4_k, 1.58},    {DType::q5_k, 1.553},
    {DType::q6_k, 1.59},     {DType::iq2_xxs, 1.373}, {DType::iq2_xs, 1.423}, {DType::iq2_s, 1.402},
    {DType::iq3_xxs, 1.502}, {DType::iq3_s, 1.412},   {DType::iq1_s, 1.317},  {DType::iq1_m, 1.393},
    {DType::iq4_nl, 1.648},  {DType::iq4_xs, 1.397},  {DType::nvfp4, 1.838},  {DType::q2_0, 1.673},
};

TEST(EncodeRow, SearchComesNearTheRateDistortionBound) {
  for (const SearchBound& bound : kSearchBounds) {
    const DTypeRow& row = dtype_row(bound.type);
    const double least = std::exp2(-8.0 * row.block_bytes / row.block_elems);
    for (float sigma : {0.02f, 1.0f, 20.0f}) {
      if (bound.type == DType::nvfp4 && sigma == 0.02f) continue;  // its scales lose precision below 2^-6
      const auto x = normal_values(256 * 64, sigma, 5);
      const double error = rms_error(x, round_trip(bound.type, x)) / static_cast<double>(sigma);
      EXPECT_LE(error, least * bound.factor) << row.name << ", sigma " << sigma << ": " << error / least;
      EXPECT_GE(error, least) << row.name;
    }
  }
}

TEST(EncodeRow, EveryEncoderHasABound) {
  for (const Codec& codec : kCodecs) {
    const auto is_it = [&](const auto& bound) { return bound.type == codec.id; };
    EXPECT_NE(std::any_of(std::begin(kBounds), std::end(kBounds), is_it),
              std::any_of(std::begin(kSearchBounds), std::end(kSearchBounds), is_it))
        << dtype_name(codec.id);
  }
}

TEST(EncodeRow, SearchBeatsTheLargestMagnitudeAsScale) {
  const auto x = normal_values(64 * 256, 1.0f, 17);
  std::vector<float> q2_0(x), nvfp4(x);  // what the usual encoders of these types give
  for (size_t start = 0; start < x.size(); start += 64) {
    const auto d = static_cast<float>(group_of(x.data() + start, 64).amax);
    for (size_t i = start; i < start + 64; ++i) q2_0[i] = d * std::round(x[i] / d);
  }
  const float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (size_t start = 0; start < x.size(); start += 16) {
    const auto d = static_cast<float>(group_of(x.data() + start, 16).amax / 6);
    for (size_t i = start; i < start + 16; ++i) {
      float best = 0.0f;
      for (float m : magnitudes)
        if (std::fabs(std::fabs(x[i]) - m * d) < std::fabs(std::fabs(x[i]) - best)) best = m * d;
      nvfp4[i] = std::copysign(best, x[i]);
    }
  }
  EXPECT_LE(rms_error(x, round_trip(DType::q2_0, x)), 0.52 * rms_error(x, q2_0));
  EXPECT_LE(rms_error(x, round_trip(DType::nvfp4, x)), 0.9 * rms_error(x, nvfp4));
}

TEST(EncodeRow, Q2_0UsesAllFourCodesAndBothSignsOfItsScale) {
  const auto blocks = encoded(DType::q2_0, normal_values(64 * 64, 1.0f, 23));
  int count[4] = {}, negative = 0;
  for (size_t b = 0; b < 64; ++b) {
    const auto block = load_block<BlockQ2_0>(blocks.data() + b * sizeof(BlockQ2_0));
    negative += block.d >> 15;
    for (int j = 0; j < 64; ++j) ++count[(block.qs[j / 4] >> (2 * (j % 4))) & 3];
  }
  EXPECT_GT(*std::min_element(count, count + 4), 64);
  EXPECT_GT(negative, 8);
  EXPECT_LT(negative, 56);
}

// --- values a type holds exactly.

TEST(EncodeRow, ExactValuesSurvive) {
  std::vector<float> x(256);
  for (size_t j = 0; j < x.size(); ++j) x[j] = 0.5f * static_cast<float>(static_cast<int>(j % 16) - 8);
  EXPECT_EQ(round_trip(DType::q4_0, x), x);
  for (float& v : x) v = std::clamp(std::round(v), -1.0f, 1.0f);
  for (DType type : {DType::tq1_0, DType::tq2_0, DType::q2_0, DType::mxfp4})
    EXPECT_EQ(round_trip(type, x), x) << dtype_name(type);
  const std::vector<float> ones(x.size(), 1.0f);
  for (DType type : {DType::tq1_0, DType::tq2_0, DType::q2_0, DType::mxfp4, DType::nvfp4})
    EXPECT_EQ(round_trip(type, x, ones), x) << dtype_name(type);
}

// Values that a type with two levels of scales holds: super-scales of 1 / 64 (exact in f16), group scales from the
// largest code down, every group with both ends of its levels.
void expect_recovery(DType type, const std::vector<float>& x) {
  EXPECT_LE(rms_error(x, round_trip(type, x)), 1e-6 * group_of(x.data(), 256).amax) << dtype_name(type);
}
std::vector<float> grouped_levels(int n_groups, const std::vector<int>& levels, int first_code, int code_step,
                                  int first_min = 0, int min_step = 0) {
  std::mt19937 random(31);
  std::vector<float> x;
  for (int j = 0, n = 256 / n_groups; j < 256; ++j) {
    const int g = j / n;
    const size_t pick = j % n == 0 ? 0 : j % n == 1 ? levels.size() - 1 : random() % levels.size();
    x.push_back(static_cast<float>((first_code + code_step * g) * levels[pick] - (first_min + min_step * g)) / 64);
  }
  return x;
}
std::vector<int> range(int low, int high) {
  std::vector<int> out;
  for (int v = low; v <= high; ++v) out.push_back(v);
  return out;
}
// A random block of a grid type: the first group has the largest scale, the others at least half of it.
template <class Block, class SetScales>
void expect_grid_recovery(DType type, SetScales&& set_scales) {
  std::mt19937 random(37);
  std::vector<std::byte> blocks(sizeof(Block));
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(random() & 255);
  auto block = load_block<Block>(blocks.data());
  block.d = 0x2400;  // 2^-6
  set_scales(block);
  store_block(blocks.data(), block);
  expect_recovery(type, decoded(type, blocks));
}
template <class Block>
void set_nibble_scales(Block& block) {
  for (uint8_t& scales : block.scales) scales |= 0x88;
  block.scales[0] |= 0x0F;
}

TEST(EncodeRow, RecoversValuesThatItsTypeHolds) {
  expect_recovery(DType::q2_k, grouped_levels(16, range(0, 3), 15, 0, 15, -1));
  expect_recovery(DType::q4_k, grouped_levels(8, range(0, 15), 63, -3, 63, -5));
  expect_recovery(DType::q5_k, grouped_levels(8, range(0, 31), 63, -3, 63, -5));
  expect_recovery(DType::q3_k, grouped_levels(16, range(-4, 3), -32, 1));
  expect_recovery(DType::q6_k, grouped_levels(16, range(-32, 31), -128, 3));
  expect_recovery(
      DType::iq4_xs,
      grouped_levels(8, {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}, -32, 2));
  expect_grid_recovery<BlockIQ2_XXS>(DType::iq2_xxs, [](auto& block) {
    for (int g = 0; g < 8; ++g) block.qs[4 * g + 3] |= g == 0 ? 0xF000 : 0x8000;
  });
  expect_grid_recovery<BlockIQ2_XS>(DType::iq2_xs, [](auto& block) { set_nibble_scales(block); });
  expect_grid_recovery<BlockIQ2_S>(DType::iq2_s, [](auto& block) { set_nibble_scales(block); });
  expect_grid_recovery<BlockIQ3_S>(DType::iq3_s, [](auto& block) { set_nibble_scales(block); });
  expect_grid_recovery<BlockIQ3_XXS>(DType::iq3_xxs, [](auto& block) {
    for (int g = 0; g < 8; ++g) block.scales[4 * g + 3] |= g == 0 ? 0xF0 : 0x80;
  });
  expect_grid_recovery<BlockIQ1_S>(DType::iq1_s, [](auto& block) {
    for (int g = 0; g < 8; ++g) block.qh[g] |= g == 0 ? 0x7000 : 0x4000;
  });
}

// --- invariances.

TEST(EncodeRow, SameInputSameBytesBlockByBlock) {
  const auto x = normal_values(512, 1.0f, 41);
  const std::vector<float> first(x.begin(), x.begin() + 256), second(x.begin() + 256, x.end());
  for (const Codec& codec : kCodecs) {
    const auto whole = encoded(codec.id, x);
    EXPECT_EQ(whole, encoded(codec.id, x)) << dtype_name(codec.id);
    auto parts = encoded(codec.id, first);
    const auto rest = encoded(codec.id, second);
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(whole, parts) << dtype_name(codec.id);
  }
}

TEST(EncodeRow, PowersOfTwoChangeOnlyTheScale) {
  const auto x = normal_values(256 * 4, 1.0f, 43);
  for (const SearchBound& bound : kSearchBounds) {
    const auto y = round_trip(bound.type, x);
    for (float factor : {0.25f, 4.0f, 8.0f})
      EXPECT_EQ(round_trip(bound.type, scaled(x, factor)), scaled(y, factor)) << dtype_name(bound.type);
  }
}

TEST(EncodeRow, OnlyTheProportionsOfImportanceCount) {
  const auto x = normal_values(512, 1.0f, 47), importance = scaled(x, 0.0f);
  std::vector<float> weights(x.size());
  std::mt19937 random(3);
  for (float& w : weights) w = std::exp(std::normal_distribution<float>(0.0f, 1.0f)(random));
  const std::vector<float> ones(x.size(), 1.0f), zeros(x.size(), 0.0f);
  for (const Codec& codec : kCodecs) {
    EXPECT_EQ(encoded(codec.id, x, zeros), encoded(codec.id, x, ones)) << dtype_name(codec.id);
    const auto plain = encoded(codec.id, x, weights);
    for (float factor : {0x1p-90f, 0x1p90f})
      EXPECT_EQ(encoded(codec.id, x, scaled(weights, factor)), plain) << dtype_name(codec.id) << ", " << factor;
  }
}

// --- importance.

// Types that cannot use it: one scale from the largest magnitude leaves nothing to weigh (or no scale at all).
bool ignores_importance(DType type) {
  return dtype_row(type).block_elems == 1 || type == DType::q8_0 || type == DType::q8_1 || type == DType::q8_k;
}

TEST(EncodeRow, ImportanceLowersTheWeightedError) {
  auto x = normal_values(256 * 16, 1.0f, 5);
  std::vector<float> importance(x.size(), 0.01f);
  for (size_t i = 0; i < x.size(); i += 4) x[i] /= 2, importance[i] = 10.0f;
  for (const Codec& codec : kCodecs) {
    const auto plain = encoded(codec.id, x), weighted = encoded(codec.id, x, importance);
    EXPECT_EQ(plain == weighted, ignores_importance(codec.id)) << dtype_name(codec.id);
    if (ignores_importance(codec.id)) continue;
    EXPECT_LT(rms_error(x, decoded(codec.id, weighted), importance),
              0.99 * rms_error(x, decoded(codec.id, plain), importance))
        << dtype_name(codec.id);
  }
}

// The scale follows the elements that count: an outlier without importance hardly disturbs its group.
TEST(EncodeRow, OutliersWithoutImportanceAreCutOff) {
  const auto x = normal_values(256 * 16, 1.0f, 61);
  auto disturbed = x;
  std::vector<float> importance(x.size(), 1.0f);
  for (size_t i = 3; i < x.size(); i += 32) disturbed[i] = i % 64 == 3 ? 12.0f : -12.0f, importance[i] = 0.0f;
  for (DType type : {DType::q4_0, DType::q5_0, DType::q4_1, DType::q5_1, DType::q2_k, DType::q3_k, DType::q4_k,
                     DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs, DType::nvfp4, DType::q2_0})
    EXPECT_LE(rms_error(disturbed, round_trip(type, disturbed, importance), importance),
              1.15 * rms_error(x, round_trip(type, x, importance), importance))
        << dtype_name(type);
}

TEST(EncodeRow, ElementsWithoutImportanceStayInRange) {
  const auto x = normal_values(256, 1.0f, 53);
  std::vector<float> importance(x.size(), 0.0f);
  for (size_t i = 0; i < 32; ++i) importance[i] = 1.0f;
  for (const Codec& codec : kCodecs) {
    const auto y = round_trip(codec.id, x, importance);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(std::fabs(y[i]), 8.0f) << dtype_name(codec.id) << ", element " << i;  // twice the largest |x|
  }
}

// --- rows that break a careless search.

TEST(EncodeRow, ZerosStayZero) {
  const std::vector<float> zeros(256, 0.0f), ones(256, 1.0f);
  for (const Codec& codec : kCodecs) {
    for (float y : round_trip(codec.id, zeros)) ASSERT_EQ(y, 0.0f) << dtype_name(codec.id);
    for (float y : round_trip(codec.id, zeros, ones)) ASSERT_EQ(y, 0.0f) << dtype_name(codec.id);
  }
}

TEST(EncodeRow, TinyValuesGiveFiniteBlocks) {
  const std::vector<float> ones(256, 1.0f);
  for (const Codec& codec : kCodecs)
    for (float value : {-0.0f, 1e-45f, -1e-45f, 1e-39f, 6e-8f, -1e-30f, 1e-5f}) {
      std::vector<float> x(256, value);
      x[17] = -value;
      for (float y : round_trip(codec.id, x)) ASSERT_TRUE(std::isfinite(y)) << dtype_name(codec.id);
      for (float y : round_trip(codec.id, x, ones)) ASSERT_TRUE(std::isfinite(y)) << dtype_name(codec.id);
    }
}

TEST(EncodeRow, ConstantRowsKeepTheirValue) {
  const std::vector<float> ones(256, 1.0f);
  for (const Codec& codec : kCodecs) {
    if (dtype_row(codec.id).block_elems == 1) continue;
    for (float value : {0.75f, -3.0f, 100.0f}) {
      const std::vector<float> x(256, value);
      // Grids do not hold every constant vector, and a shift of 1/8 separates +1 from -1 in IQ1.
      const bool has_grid = codec.id == DType::iq2_xxs || codec.id == DType::iq2_xs || codec.id == DType::iq2_s ||
                            codec.id == DType::iq3_xxs || codec.id == DType::iq3_s || codec.id == DType::iq1_s ||
                            codec.id == DType::iq1_m;
      const double limit = std::fabs(value) * (has_grid ? 0.15 : 0.08);
      EXPECT_LE(rms_error(x, round_trip(codec.id, x)), limit) << dtype_name(codec.id) << ", " << value;
      EXPECT_LE(rms_error(x, round_trip(codec.id, x, ones)), limit) << dtype_name(codec.id) << ", " << value;
    }
  }
}

TEST(EncodeRow, OneOutlierIsKept) {
  for (const Codec& codec : kCodecs) {
    const std::string name(dtype_name(codec.id));
    // One magnitude for all elements; no level near zero, so that keeping the outlier would raise its neighbours.
    const bool no_zero = name == "Q1_0" || name.starts_with("IQ1") || name.starts_with("IQ2");
    if (no_zero || name == "I8") continue;
    for (float outlier : {900.0f, -900.0f}) {
      auto x = normal_values(256, 1.0f, 59);
      x[100] = outlier;
      const auto y = round_trip(codec.id, x);
      EXPECT_NEAR(y[100], outlier, 0.15f * std::fabs(outlier)) << dtype_name(codec.id);
    }
  }
}

TEST(EncodeRow, RefusesNonFiniteAndTooLargeValues) {
  for (const Codec& codec : kCodecs) {
    if (dtype_row(codec.id).block_elems == 1 && codec.fault) continue;
    for (float value : {kInf, -kInf, kNan}) {
      std::vector<float> x(256, 1.0f);
      x[200] = value;
      std::vector<std::byte> out(dtype_bytes(codec.id, x.size()));
      const auto done = encode_row(codec.id, x.data(), 256, nullptr, out.data());
      ASSERT_FALSE(done) << dtype_name(codec.id);
      EXPECT_EQ(done.error().code, ErrorCode::bad_tensor);
      EXPECT_THAT(done.error().message(), HasSubstr("element 200"));
    }
    // No f16 scale reaches 3e38. MXFP4 has a wider scale, NVFP4 saturates, Q8_K has an f32 scale.
    const DType id = codec.id;
    if (dtype_row(id).block_elems == 1 || id == DType::mxfp4 || id == DType::nvfp4 || id == DType::q8_k) continue;
    std::vector<float> x(256, 3e38f);
    x[3] = -3e38f;
    std::vector<std::byte> out(dtype_bytes(id, x.size()));
    const std::vector<float> ones(x.size(), 1.0f);
    for (const float* importance : {static_cast<const float*>(nullptr), ones.data()}) {
      const auto done = encode_row(id, x.data(), 256, importance, out.data());
      ASSERT_FALSE(done) << dtype_name(id);
      EXPECT_THAT(done.error().message(), HasSubstr("too large"));
    }
  }
  std::vector<float> late(64, 1.0f);
  late[40] = 3e38f;
  std::vector<std::byte> out(dtype_bytes(DType::q8_0, late.size()));
  const auto done = encode_row(DType::q8_0, late.data(), 64, nullptr, out.data());
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("block 1"));
}

// --- single types.

TEST(EncodeRow, SuperScalesUseTheWholeRangeOfTheirCodes) {
  const auto x = normal_values(256, 1.0f, 13);
  const auto q4_k = load_block<BlockQ4_K>(encoded(DType::q4_k, x).data());
  int scale = 0, min = 0, q6_scale = 0;
  for (int g = 0; g < 8; ++g) {
    scale = std::max<int>(scale, unpack_scale_min(q4_k.scales, g).scale);
    min = std::max<int>(min, unpack_scale_min(q4_k.scales, g).min);
  }
  EXPECT_GE(scale, 60);  // 63 before the refit of d and dmin
  EXPECT_GE(min, 60);
  for (int8_t code : load_block<BlockQ6_K>(encoded(DType::q6_k, x).data()).scales)
    q6_scale = std::min<int>(q6_scale, code);
  EXPECT_LE(q6_scale, -120);
}

TEST(EncodeRow, IntegersRoundToEvenAndSaturate) {
  const std::vector<float> x = {0.5f, 1.5f, -0.5f, -2.5f, 300.0f, -300.0f, 3e38f, -3e38f};
  EXPECT_EQ(round_trip(DType::i8, x), (std::vector<float>{0, 2, 0, -2, 127, -128, 127, -128}));
  const auto wide = round_trip(DType::i64, x);
  EXPECT_EQ(wide[6], 0x1p63f);  // the largest i64, as f32
  EXPECT_EQ(wide[7], -0x1p63f);
}

TEST(EncodeRow, Nvfp4SaturatesWhatItsScaleCannotReach) {
  std::vector<float> x(64, 3e38f);
  x[3] = -3e38f;
  const auto y = round_trip(DType::nvfp4, x);
  EXPECT_EQ(y[0], 448.0f * 6);
  EXPECT_EQ(y[3], -448.0f * 6);
}

TEST(EncodeRow, ActivationSumsAreThoseOfTheCodes) {
  const auto x = normal_values(256, 1.0f, 11);
  const auto q8_k = load_block<BlockQ8_K>(encoded(DType::q8_k, x).data());
  for (int g = 0; g < 16; ++g) {
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum += q8_k.qs[16 * g + i];
    EXPECT_EQ(q8_k.sums[g], sum);
  }
  const auto q8_1 = load_block<BlockQ8_1>(encoded(DType::q8_1, x).data());
  int sum = 0;
  for (int8_t q : q8_1.qs) sum += q;
  const float amax = static_cast<float>(group_of(x.data(), 32).amax);
  EXPECT_EQ(q8_1.s, f32_to_f16(amax / 127.0f * static_cast<float>(sum)));
}

}  // namespace
}  // namespace tokamak

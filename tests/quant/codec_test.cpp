#include "quant/codec.h"

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
#include "quant/codecs.h"

namespace tokamak {
namespace {

using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<std::byte> encoded(DType type, const std::vector<float>& x, const float* importance = nullptr) {
  std::vector<std::byte> out(dtype_bytes(type, x.size()));
  const auto done = encode_row(type, x.data(), static_cast<int64_t>(x.size()), importance, out.data());
  EXPECT_TRUE(done) << done.error().message();
  return out;
}
std::vector<float> decoded(DType type, const std::vector<std::byte>& blocks) {
  const DTypeRow& row = dtype_row(type);
  std::vector<float> out(blocks.size() / row.block_bytes * row.block_elems);
  decode_row(type, blocks.data(), static_cast<int64_t>(out.size()), out.data());
  return out;
}
template <class Block>
std::vector<std::byte> bytes_of(const Block& block) {
  std::vector<std::byte> out(sizeof block);
  store_block(out.data(), block);
  return out;
}

std::vector<float> normal_values(size_t n, float sigma, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, sigma);
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

// --- encode then decode: bounds that follow from the formats.

constexpr double kU16 = 0x1p-11;  // unit roundoff of f16, the type of most scales

struct Group {  // elements that share a scale
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
  // Largest |decoded - x| in a group. block: the encoded block.
  double (*max_error)(const Group& g, const std::byte* block);
};

// Half a step, or a whole one where the far end has no code; plus the rounding of the scales to f16.
const Bound kBounds[] = {
    {DType::f32, 1, [](const Group&, const std::byte*) { return 0.0; }},
    {DType::f64, 1, [](const Group&, const std::byte*) { return 0.0; }},
    {DType::f16, 1, [](const Group& g, const std::byte*) { return g.amax * kU16 + 0x1p-25; }},
    {DType::bf16, 1, [](const Group& g, const std::byte*) { return g.amax * 0x1p-8; }},
    {DType::i8, 1, [](const Group&, const std::byte*) { return 0.5; }},
    {DType::i16, 1, [](const Group&, const std::byte*) { return 0.5; }},
    {DType::i32, 1, [](const Group&, const std::byte*) { return 0.5; }},
    {DType::i64, 1, [](const Group&, const std::byte*) { return 0.5; }},
    {DType::q4_0, 32, [](const Group& g, const std::byte*) { return g.amax / 8 * (1 + 8 * kU16); }},
    {DType::q5_0, 32, [](const Group& g, const std::byte*) { return g.amax / 16 * (1 + 16 * kU16); }},
    {DType::q4_1, 32,
     [](const Group& g, const std::byte*) { return (g.high - g.low) / 15 * (0.5 + 15 * kU16) + g.amax * kU16; }},
    {DType::q5_1, 32,
     [](const Group& g, const std::byte*) { return (g.high - g.low) / 31 * (0.5 + 31 * kU16) + g.amax * kU16; }},
    {DType::q8_0, 32, [](const Group& g, const std::byte*) { return g.amax / 127 * (0.5 + 127 * kU16); }},
    {DType::q8_1, 32, [](const Group& g, const std::byte*) { return g.amax / 127 * (0.5 + 127 * kU16); }},
    {DType::q8_k, 256, [](const Group& g, const std::byte*) { return g.amax / 127 * (0.5 + 127 * 0x1p-22); }},
    {DType::tq1_0, 256, [](const Group& g, const std::byte*) { return g.amax * (0.5 + kU16); }},
    {DType::tq2_0, 256, [](const Group& g, const std::byte*) { return g.amax * (0.5 + kU16); }},
    {DType::q2_0, 64, [](const Group& g, const std::byte*) { return g.amax * (0.5 + kU16); }},
    {DType::q1_0, 128, [](const Group& g, const std::byte*) { return g.amax * (1 + kU16); }},
    // The largest magnitude falls on 4 to 8 units of the scale and 6 is the last code: an error of at most 2 of 4.
    {DType::mxfp4, 32, [](const Group& g, const std::byte*) { return g.amax / 2; }},
    // One unit of the scale (half the gap between 4 and 6), whose own three-bit mantissa rounds by 2^-4.
    {DType::nvfp4, 16, [](const Group& g, const std::byte*) { return g.amax / 6 * (1 + 0x1p-4) + 6 * 0x1p-10; }},
};

// Types with a least-squares search: bounds on the root mean square, since the search may sacrifice one element. The
// fit is at least as good as its first candidate; then scales are rounded to multiples of the stored d (and dmin) and
// codes chosen again.
template <class Block>
double affine_bound(const Group& g, const std::byte* bytes, int q_max) {
  const auto block = load_block<Block>(bytes);
  return (g.high - std::min(g.low, 0.0)) / (2 * q_max) + q_max * f16_to_f32(block.d) / 2 + f16_to_f32(block.dmin) / 2;
}
const Bound kRmsBounds[] = {
    {DType::q2_k, 16, [](const Group& g, const std::byte* bytes) { return affine_bound<BlockQ2_K>(g, bytes, 3); }},
    {DType::q4_k, 32, [](const Group& g, const std::byte* bytes) { return affine_bound<BlockQ4_K>(g, bytes, 15); }},
    {DType::q5_k, 32, [](const Group& g, const std::byte* bytes) { return affine_bound<BlockQ5_K>(g, bytes, 31); }},
    {DType::q3_k, 16,
     [](const Group& g, const std::byte* bytes) {
       return g.amax / 4 + 4 * std::fabs(f16_to_f32(load_block<BlockQ3_K>(bytes).d));
     }},
    {DType::q6_k, 16,
     [](const Group& g, const std::byte* bytes) {
       return g.amax / 32 + 32 * std::fabs(f16_to_f32(load_block<BlockQ6_K>(bytes).d));
     }},
    // Widest half gap of the table, or the missing top: 14 of 127.
    {DType::iq4_nl, 32, [](const Group& g, const std::byte*) { return g.amax * (14.0 / 127 + 2 * kU16); }},
};

void check_bound(const Bound& bound, bool rms, float sigma) {
  const DTypeRow& row = dtype_row(bound.type);
  const std::vector<float> x = normal_values(256 * 16, sigma, 7 + static_cast<uint32_t>(row.id));
  const auto blocks = encoded(bound.type, x);
  const auto y = decoded(bound.type, blocks);
  for (size_t start = 0; start < x.size(); start += static_cast<size_t>(bound.group_elems)) {
    double largest = 0, squares = 0;
    for (int i = 0; i < bound.group_elems; ++i) {
      const double error = std::fabs(static_cast<double>(y[start + i]) - x[start + i]);
      largest = std::max(largest, error);
      squares += error * error;
    }
    const double limit = bound.max_error(group_of(x.data() + start, bound.group_elems),
                                         blocks.data() + start / row.block_elems * row.block_bytes);
    const double error = rms ? std::sqrt(squares / bound.group_elems) : largest;
    ASSERT_LE(error, limit * (1 + 1e-6)) << row.name << ", group at element " << start << ", sigma " << sigma;
  }
}

TEST(EncodeRow, ErrorStaysWithinTheFormatsBound) {
  for (const Bound& bound : kBounds)
    for (float sigma : {0.02f, 1.0f, 20.0f}) check_bound(bound, false, sigma);
  for (const Bound& bound : kRmsBounds)
    for (float sigma : {0.02f, 1.0f, 20.0f}) check_bound(bound, true, sigma);
}

TEST(EncodeRow, EveryEncoderHasABound) {
  for (const Codec& codec : kCodecs) {
    const auto has = [&](const auto& rows) {
      return std::any_of(std::begin(rows), std::end(rows), [&](const Bound& b) { return b.type == codec.id; });
    };
    EXPECT_EQ(codec.encode != nullptr, has(kBounds) || has(kRmsBounds)) << dtype_name(codec.id);
  }
}

TEST(EncodeRow, SearchBeatsTheSimplerTypeOfTheSameSize) {  // Q4_K and IQ4_NL against Q4_0, all 4.5 bits per weight
  const auto x = normal_values(256 * 64, 1.0f, 3);
  const auto squares = [&](DType type) {
    const auto y = decoded(type, encoded(type, x));
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(y[i]) - x[i], 2);
    return sum;
  };
  const double q4_0 = squares(DType::q4_0);
  EXPECT_LT(squares(DType::q4_k), q4_0);
  EXPECT_LT(squares(DType::iq4_nl), q4_0);
  EXPECT_LT(squares(DType::q6_k) * 8, q4_0);  // two more bits: a quarter of the step, a sixteenth of the squares
}

TEST(EncodeRow, ImportanceMovesTheErrorElsewhere) {
  const auto x = normal_values(256 * 16, 1.0f, 5);
  std::vector<float> importance(x.size(), 0.01f);
  for (size_t i = 0; i < x.size(); i += 4) importance[i] = 10.0f;
  for (DType type : {DType::q2_k, DType::q3_k, DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl}) {
    const auto plain = decoded(type, encoded(type, x)), weighted = decoded(type, encoded(type, x, importance.data()));
    double plain_error = 0, weighted_error = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      plain_error += importance[i] * std::pow(static_cast<double>(plain[i]) - x[i], 2);
      weighted_error += importance[i] * std::pow(static_cast<double>(weighted[i]) - x[i], 2);
    }
    EXPECT_LT(weighted_error, plain_error) << dtype_name(type);
  }
}

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

TEST(EncodeRow, ExactValuesSurvive) {  // decode(encode(decode(b))) == decode(b) where the block spans its code range
  std::vector<float> x(256);
  for (size_t j = 0; j < x.size(); ++j) x[j] = 0.5f * static_cast<float>(static_cast<int>(j % 16) - 8);
  EXPECT_EQ(decoded(DType::q4_0, encoded(DType::q4_0, x)), x);
  for (float& v : x) v = std::clamp(std::round(v), -1.0f, 1.0f);
  for (DType type : {DType::tq1_0, DType::tq2_0, DType::q2_0, DType::mxfp4})
    EXPECT_EQ(decoded(type, encoded(type, x)), x) << dtype_name(type);
  for (float& v : x) v *= 6.0f;  // NVFP4 takes a sixth of the largest magnitude as its scale
  EXPECT_EQ(decoded(DType::nvfp4, encoded(DType::nvfp4, x)), x);
}

TEST(EncodeRow, ZerosAndTinyValuesGiveFiniteBlocks) {
  for (const Codec& codec : kCodecs) {
    if (!codec.encode) continue;
    for (float value : {0.0f, -0.0f, 1e-45f, -1e-45f, 1e-39f, 6e-8f, -1e-30f}) {
      std::vector<float> x(256, value);
      x[17] = -value;
      for (float y : decoded(codec.id, encoded(codec.id, x))) ASSERT_TRUE(std::isfinite(y)) << dtype_name(codec.id);
    }
  }
}

TEST(EncodeRow, RefusesNonFiniteAndTooLargeValues) {
  for (const Codec& codec : kCodecs) {
    if (!codec.encode || (dtype_row(codec.id).block_elems == 1 && codec.fault)) continue;
    for (float value : {kInf, -kInf, kNan}) {
      std::vector<float> x(256, 1.0f);
      x[200] = value;
      std::vector<std::byte> out(dtype_bytes(codec.id, x.size()));
      const auto done = encode_row(codec.id, x.data(), 256, nullptr, out.data());
      ASSERT_FALSE(done) << dtype_name(codec.id);
      EXPECT_EQ(done.error().code, ErrorCode::bad_tensor);
      EXPECT_THAT(done.error().message(), HasSubstr("element 200"));
    }
  }
  for (DType type : {DType::q4_0, DType::q4_1, DType::q5_1, DType::q8_0, DType::q4_k, DType::q6_k, DType::iq4_nl,
                     DType::tq1_0, DType::tq2_0, DType::q1_0, DType::q2_0}) {
    std::vector<float> x(256, 3e38f);  // no f16 scale reaches it
    x[3] = -3e38f;
    std::vector<std::byte> out(dtype_bytes(type, x.size()));
    const auto done = encode_row(type, x.data(), 256, nullptr, out.data());
    ASSERT_FALSE(done) << dtype_name(type);
    EXPECT_THAT(done.error().message(), HasSubstr("too large"));
  }
  std::vector<float> late(64, 1.0f);
  late[40] = 3e38f;
  std::vector<std::byte> out(dtype_bytes(DType::q8_0, late.size()));
  const auto done = encode_row(DType::q8_0, late.data(), 64, nullptr, out.data());
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("block 1"));
}

TEST(EncodeRow, IntegersRoundToEvenAndSaturate) {
  const std::vector<float> x = {0.5f, 1.5f, -0.5f, -2.5f, 300.0f, -300.0f, 3e38f, -3e38f};
  EXPECT_EQ(decoded(DType::i8, encoded(DType::i8, x)), (std::vector<float>{0, 2, 0, -2, 127, -128, 127, -128}));
  const auto wide = decoded(DType::i64, encoded(DType::i64, x));
  EXPECT_EQ(wide[6], 0x1p63f);  // the largest i64, as f32
  EXPECT_EQ(wide[7], -0x1p63f);
}

TEST(EncodeRow, NamesTheTypeItCannotWrite) {
  const std::vector<float> x(256);
  std::vector<std::byte> out(512);
  for (const Codec& codec : kCodecs) {
    EXPECT_EQ(can_encode(codec.id), codec.encode != nullptr);
    if (codec.encode) continue;
    const auto done = encode_row(codec.id, x.data(), 256, nullptr, out.data());
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::unsupported);
    EXPECT_THAT(done.error().message(), HasSubstr(std::string(dtype_name(codec.id))));
  }
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

// --- corner codes.

TEST(DecodeRow, E8M0Corners) {
  BlockMXFP4 block{};
  block.qs[0] = 0x12;  // element 0: code 2 (1.0), element 16: code 1 (0.5)
  const std::pair<int, float> corners[] = {
      {0, 0x1p-127f}, {1, 0x1p-126f}, {2, 0x1p-125f}, {127, 1.0f}, {254, 0x1p127f}};
  for (const auto& [e, one] : corners) {
    block.e = static_cast<uint8_t>(e);
    const auto y = decoded(DType::mxfp4, bytes_of(block));
    EXPECT_EQ(y[0], one) << "e = " << e;
    EXPECT_EQ(y[16], one / 2) << "e = " << e;
  }
}

TEST(DecodeRow, E2M1CodesAndTheirZeros) {
  const float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  BlockMXFP4 block{.e = 127, .qs = {}};
  for (int code = 0; code < 16; ++code) block.qs[code] = static_cast<uint8_t>(code | (15 - code) << 4);
  const auto y = decoded(DType::mxfp4, bytes_of(block));
  for (int code = 0; code < 16; ++code) {
    EXPECT_EQ(y[static_cast<size_t>(code)], code < 8 ? magnitudes[code] : -magnitudes[code - 8]);
    EXPECT_EQ(y[static_cast<size_t>(16 + code)], y[static_cast<size_t>(15 - code)]);
  }
  EXPECT_FALSE(std::signbit(y[8]));  // E2M1 has a -0; every engine decodes through integers, so it becomes +0
}

TEST(DecodeRow, UE4M3Corners) {
  const std::pair<int, float> corners[] = {{0x00, 0.0f},    {0x01, 0x1p-9f}, {0x07, 7 * 0x1p-9f},
                                           {0x08, 0x1p-6f}, {0x38, 1.0f},    {0x39, 1.125f},
                                           {0x77, 240.0f},  {0x7E, 448.0f},  {0x7F, 0.0f}};
  for (const auto& [code, scale] : corners) {
    BlockNVFP4 block{};
    block.scales[2] = static_cast<uint8_t>(code);
    block.qs[2 * 8 + 3] = 0xA2;  // run 2: element 3 code 2 (1.0), element 11 code 10 (-1.0)
    const auto y = decoded(DType::nvfp4, bytes_of(block));
    EXPECT_EQ(y[32 + 3], scale) << code;
    EXPECT_EQ(y[32 + 11], -scale) << code;
  }
}

TEST(DecodeRow, NothingForNothing) {
  for (const Codec& codec : kCodecs) decode_row(codec.id, nullptr, 0, nullptr);
}

TEST(Blocks, ScaleMinPackingRoundTrips) {
  for (int value = 0; value < 64; ++value) {
    uint8_t packed[12] = {};
    const auto at = [&](int g) {
      return ScaleMin{static_cast<uint8_t>((value + 7 * g) % 64), static_cast<uint8_t>((63 - value + 11 * g) % 64)};
    };
    for (int g = 0; g < 8; ++g) pack_scale_min(packed, g, at(g));
    for (int g = 0; g < 8; ++g) {
      EXPECT_EQ(unpack_scale_min(packed, g).scale, at(g).scale);
      EXPECT_EQ(unpack_scale_min(packed, g).min, at(g).min);
    }
  }
}

// --- validation.

TEST(ValidateRows, RefusesNonFiniteScalesOfEveryType) {
  for (const Codec& codec : kCodecs) {
    const DTypeRow& row = dtype_row(codec.id);
    std::vector<std::byte> bytes(4u * row.block_bytes);  // 2 rows of 2 blocks
    ASSERT_TRUE(validate_rows(codec.id, bytes, 2 * row.block_elems, "ok")) << row.name;
    // All ones: an f16, f32, bf16 or E8M0 scale made of them is NaN.
    std::fill_n(bytes.begin() + 3 * row.block_bytes, row.block_bytes, std::byte{0xFF});
    const auto verdict = validate_rows(codec.id, bytes, 2 * row.block_elems, "blk.0.attn_q.weight");
    EXPECT_EQ(bool(verdict), codec.fault == nullptr) << row.name;
    if (verdict) continue;
    EXPECT_EQ(verdict.error().code, ErrorCode::bad_tensor);
    EXPECT_THAT(verdict.error().message(), HasSubstr("blk.0.attn_q.weight"));
    EXPECT_THAT(verdict.error().message(), HasSubstr("row 1, block 1"));
  }
}

TEST(ValidateRows, LooksAtEveryScaleOfABlock) {
  const auto refused = [](DType type, const auto& block) {
    return !validate_rows(type, bytes_of(block), dtype_row(type).block_elems, "t");
  };
  constexpr uint16_t inf = 0x7C00, minus_inf = 0xFC00, nan = 0x7E01;
  EXPECT_TRUE(refused(DType::q4_1, BlockQ4_1{.d = 0, .m = inf, .qs = {}}));
  EXPECT_TRUE(refused(DType::q5_1, BlockQ5_1{.d = 0, .m = nan, .qh = {}, .qs = {}}));
  EXPECT_TRUE(refused(DType::q8_1, BlockQ8_1{.d = 0, .s = minus_inf, .qs = {}}));
  EXPECT_TRUE(refused(DType::q2_k, BlockQ2_K{.scales = {}, .qs = {}, .d = 0, .dmin = nan}));
  EXPECT_TRUE(refused(DType::q4_k, BlockQ4_K{.d = 0, .dmin = inf, .scales = {}, .qs = {}}));
  EXPECT_TRUE(refused(DType::q5_k, BlockQ5_K{.d = 0, .dmin = inf, .scales = {}, .qh = {}, .qs = {}}));
  EXPECT_TRUE(refused(DType::iq1_m, BlockIQ1_M{.qs = {}, .qh = {}, .scales = {0, 0, 0xC000, 0x7000}}));
  EXPECT_FALSE(refused(DType::iq1_m, BlockIQ1_M{.qs = {}, .qh = {}, .scales = {0xF000, 0xF000, 0xB000, 0x7000}}));
  EXPECT_TRUE(refused(DType::q8_k, BlockQ8_K{.d = 3e38f, .qs = {}, .sums = {}}));
}

TEST(ValidateRows, Mxfp4RefusesOnlyWhatOverflows) {
  BlockMXFP4 block{.e = 254, .qs = {}};
  const auto verdict = [&] { return validate_rows(DType::mxfp4, bytes_of(block), 32, "t"); };
  EXPECT_TRUE(verdict());
  block.qs[5] = 0x03;  // 1.5 * 2^127 fits
  EXPECT_TRUE(verdict());
  block.qs[5] = 0x70;  // 6 * 2^127 does not
  EXPECT_FALSE(verdict());
  block = {.e = 255, .qs = {}};
  EXPECT_FALSE(verdict());
}

TEST(ValidateRows, PlainFloats) {
  for (float bad : {kInf, -kInf, kNan}) {
    std::vector<float> x = {0.0f, 1.0f, 2.0f, 3.0f, bad, 5.0f};
    const auto verdict = validate_rows(DType::f32, std::as_bytes(std::span(x)), 3, "norm");
    ASSERT_FALSE(verdict);
    EXPECT_THAT(verdict.error().message(), HasSubstr("row 1, block 1"));
  }
  const double beyond_f32 = 1e39;
  EXPECT_FALSE(validate_rows(DType::f64, std::as_bytes(std::span(&beyond_f32, 1)), 1, "t"));
}

}  // namespace
}  // namespace tokamak

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

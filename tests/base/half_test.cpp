#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tokamak {
namespace {

bool is_nan_f16(uint32_t code) { return (code & 0x7FFF) > 0x7C00; }
bool is_nan_bf16(uint32_t code) { return (code & 0x7FFF) > 0x7F80; }

// The value of a binary16 code by the definition in IEEE 754, in f64.
double f16_by_definition(uint32_t code) {
  const int exponent = (code >> 10) & 31, mantissa = code & 1023;
  const double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                           : exponent == 31 ? std::numeric_limits<double>::infinity()
                                            : std::ldexp(1024 + mantissa, exponent - 25);
  return code & 0x8000 ? -magnitude : magnitude;
}

TEST(Half, EveryF16CodeDecodesByDefinitionAndRoundTrips) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const float value = f16_to_f32(static_cast<uint16_t>(code));
    if (is_nan_f16(code)) {
      ASSERT_TRUE(std::isnan(value)) << code;
      // A NaN keeps its sign and payload and becomes quiet.
      ASSERT_EQ(f32_to_f16(value), code | 0x200) << code;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), f16_by_definition(code)) << code;
    ASSERT_EQ(std::signbit(value), (code & 0x8000) != 0) << code;
    ASSERT_EQ(f32_to_f16(value), code) << code;
  }
}

TEST(Half, EveryBf16CodeRoundTrips) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const float value = bf16_to_f32(static_cast<uint16_t>(code));
    ASSERT_EQ(std::bit_cast<uint32_t>(value), code << 16);
    ASSERT_EQ(f32_to_bf16(value), is_nan_bf16(code) ? code | 0x40 : code) << code;
  }
}

// Between each two neighbours: just below, at and just above the middle.
TEST(Half, F16RoundsToNearestAndTiesToEven) {
  for (uint32_t code = 0; code < 0x7BFF; ++code) {
    const auto low = static_cast<uint16_t>(code), high = static_cast<uint16_t>(code + 1);
    const float middle = (f16_to_f32(low) + f16_to_f32(high)) / 2;  // exact in f32
    ASSERT_EQ(f32_to_f16(middle), code % 2 == 0 ? low : high) << code;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, 0.0f)), low) << code;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, 1e9f)), high) << code;
    ASSERT_EQ(f32_to_f16(-middle), (code % 2 == 0 ? low : high) | 0x8000) << code;
  }
}

TEST(Half, Bf16RoundsToNearestAndTiesToEven) {
  for (uint32_t code = 0; code < 0x7F7F; ++code) {
    const uint32_t middle = (code << 16) | 0x8000;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle)), code + code % 2) << code;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle - 1)), code) << code;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle + 1)), code + 1) << code;
  }
}

TEST(Half, F16Overflow) {
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(std::nextafterf(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7C00);  // the tie goes to the even neighbour, which would be 65536
  EXPECT_EQ(f32_to_f16(3e38f), 0x7C00);
  EXPECT_EQ(f32_to_f16(-3e38f), 0xFC00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7C00);
}

TEST(Half, Bf16Overflow) {
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::lowest()), 0xFF80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7F7F7FFFu)), 0x7F7F);
}

TEST(Half, F16Underflow) {
  EXPECT_EQ(f32_to_f16(0x1p-24f), 1);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0);  // tie to even
  EXPECT_EQ(f32_to_f16(std::nextafterf(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(f32_to_f16(-0x1p-26f), 0x8000);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_f16(std::nextafterf(0x1p-14f, 0.0f)), 0x0400);  // the largest subnormals round to the first normal
}

TEST(Half, NanStaysNan) {
  for (uint32_t bits : {0x7F800001u, 0x7F801FFFu, 0x7FC00000u, 0xFF800001u, 0xFFFFFFFFu}) {
    EXPECT_TRUE(is_nan_f16(f32_to_f16(std::bit_cast<float>(bits)))) << bits;  // payload bits may all fall off
    EXPECT_TRUE(is_nan_bf16(f32_to_bf16(std::bit_cast<float>(bits)))) << bits;
  }
}

static_assert(f16_to_f32(0x3C00) == 1.0f && f32_to_bf16(1.0f) == 0x3F80);  // usable at compile time

}  // namespace
}  // namespace tokamak

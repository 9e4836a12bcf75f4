#include "base/e4m3.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tokamak {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// By the definition of the format, in f64.
double by_definition(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code & 0x80 ? -size : size;
}

TEST(E4m3, EveryCodeDecodesByDefinitionAndRoundTrips) {
  for (int code = 0; code < 256; ++code) {
    const float value = f8_e4m3_to_f32(static_cast<uint8_t>(code));
    ASSERT_EQ(f32_to_f8_e4m3(value), code);
    if ((code & 0x7F) == 0x7F) {
      ASSERT_TRUE(std::isnan(value));
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), by_definition(code));
    ASSERT_EQ(std::signbit(value), code >= 128);
  }
}

// Between each two neighbours: just below, at and just above the middle.
TEST(E4m3, RoundsToNearestAndTiesToEven) {
  for (int code = 0; code < 0x7E; ++code) {
    const auto middle = static_cast<float>((by_definition(code) + by_definition(code + 1)) / 2);
    ASSERT_EQ(f32_to_f8_e4m3(middle), code + code % 2) << code;
    ASSERT_EQ(f32_to_f8_e4m3(std::nextafterf(middle, 0)), code) << code;
    ASSERT_EQ(f32_to_f8_e4m3(std::nextafterf(middle, kInf)), code + 1) << code;
    ASSERT_EQ(f32_to_f8_e4m3(-middle), 0x80 + code + code % 2) << code;
  }
}

TEST(E4m3, LargeValuesSaturate) {
  for (float x : {448.0f, 449.0f, 464.0f, 1e30f, kInf}) {
    EXPECT_EQ(f32_to_f8_e4m3(x), 0x7E) << x;
    EXPECT_EQ(f32_to_f8_e4m3(-x), 0xFE) << x;
  }
  EXPECT_EQ(f32_to_f8_e4m3(NAN), 0x7F);
  EXPECT_EQ(f32_to_f8_e4m3(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(E4m3, ARowsScaleMakesItsLargestElement448) {
  for (float largest : {1.0f, 3.3f, 1e-20f, 1e30f, std::numeric_limits<float>::max()}) {
    const F8Scale f8 = f8_scale(largest);
    EXPECT_EQ(f32_to_f8_e4m3(largest * f8.inverse), 0x7E) << largest;
    EXPECT_NEAR(f8.scale * 448, largest, largest * 0x1p-22f);
  }
  for (float tiny : {0.0f, 0x1p-81f}) {
    EXPECT_EQ(f8_scale(tiny).scale, 0);
    EXPECT_EQ(f8_scale(tiny).inverse, 0);
  }
  for (float broken : {kInf, NAN}) EXPECT_TRUE(std::isnan(f8_scale(broken).scale));
}

}  // namespace
}  // namespace tokamak

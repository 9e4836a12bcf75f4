// The emulator's numbers and matrix instructions against plain loops.
#include "backend/cuda/emulator/matrix.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cuda/emulator/block.h"
#include "backend/cuda/emulator/warpgroup.h"
#include "base/half.h"

namespace tokamak::cuda::emulator {
namespace {

// Small integers: sums are exact in any order.
int small(uint32_t i) { return static_cast<int>(i * 2654435761u >> 20) % 17 - 8; }
uint32_t half_of(uint32_t i) { return to_half(small(i)); }
uint32_t two(uint32_t low, uint32_t high) { return low | high << 16; }

TEST(EmulatorNumbers, HalvesAreThoseOfTheCpu) {
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    const float value = half_to_float(bits), expected = f16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    ASSERT_EQ(value, expected);
    ASSERT_EQ(to_half(value), bits);
    // Around the middle to the next number: to the nearer one, at the middle to the even one.
    const float next = half_to_float(bits + 1), middle = (value + next) / 2;
    if (!std::isfinite(next) || !std::isfinite(value) || std::signbit(value) != std::signbit(next)) continue;
    ASSERT_EQ(to_half(middle), bits + bits % 2);
    ASSERT_EQ(to_half(std::nextafter(middle, value)), bits);
    ASSERT_EQ(to_half(std::nextafter(middle, next)), bits + 1);
  }
  EXPECT_EQ(to_half(65519.9), 0x7BFFu);
  EXPECT_EQ(to_half(65520.0), 0x7C00u);
  EXPECT_EQ(clamp_to_half(-1e9f), -65504.0f);
  EXPECT_TRUE(std::isnan(clamp_to_half(NAN)));
}
TEST(EmulatorNumbers, BfloatsAndEightBits) {
  EXPECT_EQ(to_bfloat(1.0f), 0x3F80u);
  EXPECT_EQ(to_bfloat(1.00390625f), 0x3F80u);  // a tie: even
  EXPECT_EQ(to_bfloat(1.01171875f), 0x3F82u);
  EXPECT_EQ(half_to_float(half_of_e4m3(0x7E)), 448.0f);
  EXPECT_EQ(half_to_float(half_of_e4m3(0x81)), -0x1p-9f);
  EXPECT_EQ(half_to_float(half_of_e4m3(0x38)), 1.0f);
  EXPECT_TRUE(std::isnan(half_to_float(half_of_e4m3(0xFF))));
}

TEST(EmulatorMatrix, MultiplyIsARowTimesAColumn) {
  const auto a = [](int row, int k) { return static_cast<uint32_t>(row * 16 + k); };
  const auto b = [](int k, int column) { return static_cast<uint32_t>(1000 + k * 8 + column); };
  std::array<float, 16 * 8> got{};
  EXPECT_EQ(run({1, 32, 0,
                 [&] {
                   const int g = static_cast<int>(lane()) / 4, t = static_cast<int>(lane()) % 4 * 2;
                   float c[4] = {1, 1, 1, 1};
                   const uint32_t rows[4] = {two(half_of(a(g, t)), half_of(a(g, t + 1))),
                                             two(half_of(a(g + 8, t)), half_of(a(g + 8, t + 1))),
                                             two(half_of(a(g, t + 8)), half_of(a(g, t + 9))),
                                             two(half_of(a(g + 8, t + 8)), half_of(a(g + 8, t + 9)))};
                   multiply(
                       c, rows,
                       {two(half_of(b(t, g)), half_of(b(t + 1, g))), two(half_of(b(t + 8, g)), half_of(b(t + 9, g)))},
                       half_to_float);
                   for (int i = 0; i < 4; ++i) got[static_cast<size_t>((g + i / 2 * 8) * 8 + t + i % 2)] = c[i];
                 }},
                Order::ascending),
            "");
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float sum = 1;
      for (int k = 0; k < 16; ++k) sum += static_cast<float>(small(a(row, k)) * small(b(k, column)));
      EXPECT_EQ(got[static_cast<size_t>(row * 8 + column)], sum) << row << " " << column;
    }
}

TEST(EmulatorMatrix, LoadsAndTransposes) {
  EXPECT_EQ(run({1, 32, 32 * 16,
                 [] {
                   auto* memory = reinterpret_cast<uint16_t*>(dynamic_shared(16));
                   for (uint32_t i = 0; i < 8; ++i) memory[lane() * 8 + i] = static_cast<uint16_t>(lane() * 8 + i);
                   sync_block();
                   const uint32_t g = lane() / 4, t = lane() % 4 * 2;
                   uint32_t plain[4], turned[4];
                   load_matrices(plain, shared_address(memory) + 16 * lane(), false);
                   load_matrices(turned, shared_address(memory) + 16 * lane(), true);
                   for (uint32_t m = 0; m < 4; ++m) {
                     if (plain[m] != two(m * 64 + g * 8 + t, m * 64 + g * 8 + t + 1)) fail("ldmatrix");
                     if (turned[m] != two(m * 64 + t * 8 + g, m * 64 + (t + 1) * 8 + g)) fail("ldmatrix.trans");
                     if (transpose(plain[m]) != turned[m]) fail("movmatrix");
                   }
                 }},
                Order::descending),
            "");
}

// A panel [rows][64 halves] with the swizzle, by its definition.
void put(uint8_t* panel, uint32_t row, uint32_t at, uint32_t half) {
  const auto bits = static_cast<uint16_t>(half);
  std::memcpy(panel + row * 128 + (at / 8 ^ row % 8) * 16 + at % 8 * 2, &bits, 2);
}

// c = a * b, then c += a * b, with a from registers or memory and b along or across the rows. b has 128 columns.
void check_warpgroup(bool shared_a, bool transposed, Order order) {
  const auto a = [](uint32_t row, uint32_t k) { return row * 16 + k; };
  const auto b = [](uint32_t k, uint32_t column) { return 5000 + k * 128 + column; };
  std::vector<float> got(64 * 128);
  const auto kernel = [&] {
    uint8_t* memory = dynamic_shared(1024);
    const uint32_t n = thread_in_block(), at = shared_address(memory), at_b = at + 64 * 128;
    for (uint32_t k = 0; k < 16; ++k) {
      if (n < 64) put(memory, n, k, half_of(a(n, k)));
      // Along the rows: a row per column. Across: a row per k, two panels of 16 rows.
      if (transposed)
        put(memory + 64 * 128 + n / 64 * 2048, k, n % 64, half_of(b(k, n)));
      else
        put(memory + 64 * 128, n, k, half_of(b(k, n)));
    }
    sync_block();
    const auto descriptor = [](uint32_t address, uint64_t leading) {
      return uint64_t{address / 16} | leading / 16 << 16 | uint64_t{1024 / 16} << 32 | uint64_t{1} << 62;
    };
    const Operand operand{descriptor(at_b, transposed ? 2048 : 16), transposed};
    const uint32_t row = n / 32 * 16 + lane() / 4, t = lane() % 4 * 2;
    float c[64];
    for (float& x : c) x = NAN;
    for (const bool adds : {false, true}) {
      uint32_t words[4];
      for (uint32_t i = 0; i < 4; ++i)
        words[i] = two(half_of(a(row + i % 2 * 8, t + i / 2 * 8)), half_of(a(row + i % 2 * 8, t + 1 + i / 2 * 8)));
      if (shared_a)
        multiply_shared(c, 128, descriptor(at, 16), operand, adds);
      else
        multiply_registers(c, 128, words, operand, adds);
    }
    products_end();
    if (std::isnan(c[0]) != (order == Order::ascending)) fail("done too early or too late");
    products_wait(0);
    for (uint32_t i = 0; i < 64; ++i) got[(row + i / 2 % 2 * 8) * 128 + i / 4 * 8 + t + i % 2] = c[i];
  };
  ASSERT_EQ(run({1, 128, 64 * 128 + 128 * 128, kernel}, order), "");
  for (uint32_t row = 0; row < 64; ++row)
    for (uint32_t column = 0; column < 128; ++column) {
      float sum = 0;
      for (uint32_t k = 0; k < 16; ++k) sum += static_cast<float>(2 * small(a(row, k)) * small(b(k, column)));
      ASSERT_EQ(got[row * 128 + column], sum) << row << " " << column << " " << shared_a << transposed;
    }
}
TEST(EmulatorWarpgroup, MultipliesPanels) {
  for (const Order order : {Order::ascending, Order::descending})
    for (const bool shared_a : {false, true})
      for (const bool transposed : {false, true}) check_warpgroup(shared_a, transposed, order);
}
TEST(EmulatorWarpgroup, ProductsMustBeWaitedFor) {
  const auto kernel = [] {
    float c[32];
    multiply_registers(c, 64, {0, 0, 0, 0}, {uint64_t{kSharedWindow / 16} | uint64_t{1} << 62, false}, false);
    products_end();
  };
  EXPECT_NE(run({1, 128, 8192, kernel}, Order::ascending).find("ends before its products"), std::string::npos);
}

}  // namespace
}  // namespace tokamak::cuda::emulator

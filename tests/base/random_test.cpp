#include "base/random.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tokamak {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers published with Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, KnownAnswers) {
  constexpr uint32_t k1 = 0xFFFFFFFF;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(philox4x32({k1, k1, k1, k1}, {k1, k1}), (Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox4x32({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Uniform, IsAFunctionOfItsThreeArguments) {
  EXPECT_EQ(uniform(7, 100, 1), uniform(7, 100, 1));
  const std::set<double> distinct = {uniform(7, 100, 0), uniform(8, 100, 0),          uniform(7, 101, 0),
                                     uniform(7, 100, 1), uniform(7ull << 32, 100, 0), uniform(7, 100ull << 32, 0)};
  EXPECT_EQ(distinct.size(), 6u);
}

TEST(Uniform, FillsTheUnitInterval) {
  // 10000 draws in 10 bins: chi-square with 9 degrees of freedom exceeds 27.9 with probability 0.001.
  std::vector<int> bins(10);
  constexpr int kDraws = 10000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = uniform(1234, static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<size_t>(u * 10)];
  }
  double chi2 = 0;
  for (int n : bins) chi2 += (n - kDraws / 10.0) * (n - kDraws / 10.0) / (kDraws / 10.0);
  EXPECT_LT(chi2, 27.9);
}

TEST(EntropySeed, FitsJsonIntegersAndVaries) {
  const uint64_t a = entropy_seed(), b = entropy_seed();
  EXPECT_LT(a, uint64_t{1} << 53);
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace tokamak

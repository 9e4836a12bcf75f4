#include "base/round_up.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tokamak {
namespace {

TEST(RoundUp, WholeUnits) {
  for (int64_t unit : {1, 2, 3, 16, 64}) {
    for (int64_t n = 0; n < 200; ++n) {
      const int64_t n_units = div_round_up(n, unit);
      EXPECT_GE(n_units * unit, n);
      EXPECT_LT((n_units - 1) * unit, n);
      EXPECT_EQ(round_up(n, unit), n_units * unit);
    }
  }
  static_assert(round_up(uint64_t{65}, uint64_t{64}) == 128);
}

}  // namespace
}  // namespace tokamak

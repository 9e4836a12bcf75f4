#include "base/nmse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tokamak {
namespace {

TEST(Nmse, IsRelativeToTheSecondArray) {
  const std::vector<float> a = {1, 2, INFINITY}, b = {1, 1, INFINITY}, zeros = {0, 0};
  EXPECT_EQ(nmse(a, b), 0.5);
  EXPECT_EQ(nmse(zeros, zeros), 0);
}

TEST(Nmse, NanIsNeverSmall) {
  const std::vector<float> a = {1, NAN}, b = {1, 1}, infinite = {1, INFINITY};
  EXPECT_FALSE(nmse(a, b) <= 1e30);
  EXPECT_FALSE(nmse(b, infinite) <= 1e30);
  EXPECT_FALSE(nmse(infinite, b) <= 1e30);
}

TEST(Nmse, NothingToCompareWithIsNeverSmall) {
  const std::vector<float> one = {1}, zero = {0}, two = {1, 2};
  EXPECT_FALSE(nmse(one, zero) <= 1e30);
  EXPECT_FALSE(nmse(one, two) <= 1e30);
}

}  // namespace
}  // namespace tokamak

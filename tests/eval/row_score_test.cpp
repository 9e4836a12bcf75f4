#include "eval/row_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tokamak {
namespace {

TEST(RowScore, LogProbabilitiesAreThoseOfTheSoftmax) {
  const std::vector<float> logits = {0.5f, -2, 3, 3, 1};
  double sum = 0;
  for (float x : logits) sum += std::exp(double{x});
  const LogNormalizer norm = normalize(logits);
  EXPECT_EQ(norm.top, 2) << "the first of equals";
  EXPECT_TRUE(norm.is_finite);
  for (float x : logits) EXPECT_NEAR(norm.log_prob(x), std::log(std::exp(double{x}) / sum), 1e-14);
}

TEST(RowScore, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38f, 0, -3e38f};
  const LogNormalizer norm = normalize(logits);
  EXPECT_EQ(norm.log_prob(logits[0]), 0);
  EXPECT_TRUE(std::isfinite(norm.log_prob(logits[2])));
}

TEST(RowScore, NonFiniteLogitsAreSeen) {
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    EXPECT_FALSE(normalize(std::vector<float>{bad, 1}).is_finite) << bad;
    EXPECT_FALSE(normalize(std::vector<float>{1, bad}).is_finite) << bad;
  }
}

double divergence_of(const std::vector<float>& base, const std::vector<float>& other) {
  return divergence(base, normalize(base), other, normalize(other));
}

TEST(RowScore, DivergenceOfTwoCoins) {
  // b = (3/4, 1/4), p = (1/2, 1/2).
  const std::vector<float> base = {std::log(3.0f), 0}, other = {7, 7};
  EXPECT_NEAR(divergence_of(base, other), 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-7);
  EXPECT_NEAR(divergence_of(other, base), 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(2.0), 1e-7);
}

TEST(RowScore, DivergenceFromItselfIsZero) {
  const std::vector<float> logits = {0.1f, 12.7f, -3.3f, 5};
  EXPECT_EQ(divergence_of(logits, logits), 0);
}

}  // namespace
}  // namespace tokamak

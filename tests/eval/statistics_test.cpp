#include "eval/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tokamak {
namespace {

TEST(Statistics, MeanAndErrorFollowTheFormula) {
  const std::vector<double> values = {3, -1, 4, 1, 5.5};
  RunningMean mean;
  double sum = 0, squares = 0;
  for (double x : values) {
    mean.add(x);
    sum += x;
  }
  for (double x : values) squares += (x - sum / 5) * (x - sum / 5);
  EXPECT_EQ(mean.n(), 5);
  EXPECT_NEAR(mean.mean(), 2.5, 1e-15);
  EXPECT_NEAR(mean.estimate().value, 2.5, 1e-15);
  EXPECT_NEAR(mean.estimate().error, std::sqrt(squares / 4 / 5), 1e-15);
}

TEST(Statistics, FewValuesHaveNoError) {
  RunningMean mean;
  EXPECT_EQ(mean.estimate().value, 0);
  EXPECT_EQ(mean.estimate().error, 0);
  mean.add(7);
  EXPECT_EQ(mean.estimate().value, 7);
  EXPECT_EQ(mean.estimate().error, 0);
}

TEST(Statistics, LargeMeansKeepTheirSpread) {
  RunningMean mean;
  for (int i = 0; i < 1000; ++i) mean.add(1e9 + (i % 2 == 0 ? 0.5 : -0.5));
  EXPECT_NEAR(mean.estimate().error, 0.5 * std::sqrt(1000.0 / 999 / 1000), 1e-6);
}

TEST(Statistics, ExpOfAMeanScalesItsError) {
  const Estimate perplexity = exp_of({.value = 2, .error = 0.01});
  EXPECT_DOUBLE_EQ(perplexity.value, std::exp(2.0));
  EXPECT_DOUBLE_EQ(perplexity.error, std::exp(2.0) * 0.01);
}

TEST(Statistics, ShareHasABinomialError) {
  const Estimate share = share_of(3, 4);
  EXPECT_DOUBLE_EQ(share.value, 0.75);
  EXPECT_DOUBLE_EQ(share.error, std::sqrt(0.75 * 0.25 / 3));
  EXPECT_EQ(share_of(9, 9).error, 0);
}

TEST(Statistics, QuantilesInterpolate) {
  const std::vector<float> sorted = {1, 2, 4, 8, 16};
  EXPECT_EQ(quantile(sorted, 0), 1);
  EXPECT_EQ(quantile(sorted, 0.5), 4);
  EXPECT_EQ(quantile(sorted, 1), 16);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.375), 3);
  EXPECT_EQ(quantile(std::vector<float>{5}, 0.99), 5);
}

}  // namespace
}  // namespace tokamak

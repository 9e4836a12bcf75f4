// Adaptive-p on distributions small enough to do by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/sampling/sampler_table.h"
#include "sampling_helpers.h"

namespace tokamak {
namespace {

using namespace testing_sampling;

SamplerParams adaptive(double target, std::string_view letters = "a") {
  SamplerParams params = bare(letters);
  params.adaptive_target = target;
  return params;
}

// Target 0.5: the past average is 0.5, so the aim is 0.5. Distances from it over 0.3: 0, 2/3, 4/3.
// Logits 5 - 10 d^2 / (1 + d): 5, 5 - 8/3 = 7/3, 5 - 160/21 = -55/21.
TEST(AdaptiveP, LogitsFallWithTheDistanceFromTheTarget) {
  const double a = std::exp(5.0), b = std::exp(7.0 / 3), c = std::exp(-55.0 / 21), sum = a + b + c;
  const std::vector<double> probs = {0.5, 0.3, 0.1, 0.0, 0.1};
  expect_distribution(distribution(adaptive(0.5), probs),
                      {{0, a / (sum + c)}, {1, b / (sum + c)}, {2, c / (sum + c)}, {4, c / (sum + c)}});
}

TEST(AdaptiveP, StateIsTheDecayingAverageOfTheProbabilitiesBefore) {
  AdaptiveP state{.target = 0.3, .decay = 0.5};
  state.reset();
  EXPECT_DOUBLE_EQ(state.weighted_sum, 0.6);
  EXPECT_DOUBLE_EQ(state.total_weight, 2);
  EXPECT_DOUBLE_EQ(state.adapted(), 0.3);
  Candidates one;
  ASSERT_TRUE(one.load(std::vector<float>{-kInf, 3}));
  EXPECT_EQ(state.choose(one, 0.9), 0u);  // probability 1
  EXPECT_DOUBLE_EQ(state.weighted_sum, 1.3);
  EXPECT_DOUBLE_EQ(state.total_weight, 2);
  EXPECT_EQ(state.adapted(), 0);  // 0.6 - 0.65, at least 0
  Candidates four;
  ASSERT_TRUE(four.load(std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(state.choose(four, 0.6), 2u);  // all equally far from the aim
  EXPECT_DOUBLE_EQ(state.weighted_sum, 0.9);
  EXPECT_DOUBLE_EQ(state.adapted(), 0.6 - 0.45);
}

TEST(AdaptiveP, WorksOnWhatTheFiltersLeave) {
  SamplerParams params = adaptive(1, "ak");  // it comes last wherever it is named
  params.top_k = 2;
  // 0.6 and 0.4 remain; the aim is 1: distances 4/3 and 2, logits -55/21 and -25/3.
  const double a = std::exp(-55.0 / 21), b = std::exp(-25.0 / 3);
  expect_distribution(distribution(params, {0.3, 0.2, 0.15, 0.15, 0.1, 0.1}), {{0, a / (a + b)}, {1, b / (a + b)}});
  params.samplers = parse_samplers("k").value();  // the target alone turns it on
  expect_distribution(distribution(params, {0.3, 0.2, 0.15, 0.15, 0.1, 0.1}), {{0, a / (a + b)}, {1, b / (a + b)}});
}

TEST(AdaptiveP, WithoutATargetIsAPlainDraw) {
  const std::vector<float> logits = logits_of({0.1, 0.4, 0.05, 0.3, 0.15});
  Sampler plain = make(bare(), 5), off = make(bare("a"), 5);
  for (uint64_t position = 0; position < 50; ++position)
    EXPECT_EQ(off.sample(logits, position).value().id, plain.sample(logits, position).value().id);
  expect_distribution(distribution(off, logits), {{0, 0.1}, {1, 0.4}, {2, 0.05}, {3, 0.3}, {4, 0.15}});
}

TEST(AdaptiveP, SameSeedSameTokensAndResetForgets) {
  const std::vector<float> logits = logits_of({0.3, 0.25, 0.2, 0.15, 0.1});
  const auto tokens = [&](Sampler& sampler) {
    std::vector<int32_t> out;
    for (uint64_t position = 0; position < 100; ++position) out.push_back(sampler.sample(logits, position).value().id);
    return out;
  };
  Sampler a = make(adaptive(0.12), 5), b = make(adaptive(0.12), 5);
  const std::vector<int32_t> first = tokens(a);
  EXPECT_EQ(tokens(b), first);
  a.reset();
  EXPECT_EQ(tokens(a), first);
}

TEST(AdaptiveP, HoldsTheAverageNearTheTarget) {
  const std::vector<double> probs = {0.4, 0.25, 0.15, 0.1, 0.06, 0.04};
  for (const double target : {0.1, 0.2, 0.3}) {
    Sampler sampler = make(adaptive(target), probs.size());
    double sum = 0;
    for (uint64_t i = 0; i < 2000; ++i)
      sum += probs[static_cast<size_t>(sampler.sample(logits_of(probs), i).value().id)];
    EXPECT_NEAR(sum / 2000, target, 0.05) << target;  // a plain draw averages 0.26
  }
}

TEST(AdaptiveP, MirostatAndGreedyGoBefore) {
  SamplerParams params = adaptive(0.05);
  params.mirostat = 2;
  params.mirostat_tau = 0;  // the best alone
  expect_distribution(distribution(params, {0.6, 0.3, 0.1}), {{0, 1.0}});
  params = adaptive(0.05);
  params.temperature = 0;
  expect_distribution(distribution(params, {0.6, 0.3, 0.1}), {{0, 1.0}});
}

}  // namespace
}  // namespace tokamak

// Every filter on distributions small enough to do by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/random.h"
#include "engine/sampling/sampler_table.h"
#include "sampling_helpers.h"

namespace tokamak {
namespace {

using namespace testing_sampling;

const std::vector<double> kProbs = {0.1, 0.4, 0.05, 0.3, 0.15};

TEST(Filters, NoneAtAllIsTheSoftmax) {
  expect_distribution(distribution(bare(), kProbs), {{0, 0.1}, {1, 0.4}, {2, 0.05}, {3, 0.3}, {4, 0.15}});
}

TEST(Filters, TopK) {
  SamplerParams params = bare("k");
  params.top_k = 2;
  expect_distribution(distribution(params, kProbs), {{1, 0.4 / 0.7}, {3, 0.3 / 0.7}});
  params.min_keep = 3;
  EXPECT_EQ(distribution(params, kProbs).size(), 3u);
  for (int64_t off : {0, -1, 5, 2147483647}) {
    params.top_k = off;
    EXPECT_EQ(distribution(params, kProbs).size(), 5u) << off;
  }
  params.min_keep = 0;
  params.top_k = 1;
  expect_distribution(distribution(params, kProbs), {{1, 1.0}});
}

TEST(Filters, TopKTiesGoToTheLowestIds) {
  SamplerParams params = bare("k");
  params.top_k = 2;
  expect_distribution(distribution(params, {0.1, 0.3, 0.3, 0.3}), {{1, 0.5}, {2, 0.5}});
}

TEST(Filters, TopP) {
  SamplerParams params = bare("p");
  params.top_p = 0.65;
  expect_distribution(distribution(params, kProbs), {{1, 0.4 / 0.7}, {3, 0.3 / 0.7}});
  params.top_p = 0;
  expect_distribution(distribution(params, kProbs), {{1, 1.0}});
  params.min_keep = 4;
  EXPECT_EQ(distribution(params, kProbs).size(), 4u);
  params.top_p = 1;
  EXPECT_EQ(distribution(params, kProbs).size(), 5u);
}

TEST(Filters, TopPAfterTopKCountsTheRest) {
  SamplerParams params = bare("kp");
  params.top_k = 3;     // 0.4 0.3 0.15, of 0.85
  params.top_p = 0.45;  // 0.4 / 0.85 = 0.47
  expect_distribution(distribution(params, kProbs), {{1, 1.0}});
  params.samplers = parse_samplers("pk").value();  // now 0.4 alone is too little
  EXPECT_EQ(distribution(params, kProbs).size(), 2u);
}

TEST(Filters, MinP) {
  SamplerParams params = bare("m");
  params.min_p = 0.3;  // at least 0.12
  expect_distribution(distribution(params, kProbs), {{1, 0.4 / 0.85}, {3, 0.3 / 0.85}, {4, 0.15 / 0.85}});
  params.min_p = 1;
  expect_distribution(distribution(params, kProbs), {{1, 1.0}});
  params.min_keep = 2;
  EXPECT_EQ(distribution(params, kProbs).size(), 2u);
  params.min_p = 0;
  EXPECT_EQ(distribution(params, kProbs).size(), 5u);
  params = bare("km");  // on a list as on the whole vocabulary
  params.top_k = 4;
  params.min_p = 0.3;
  EXPECT_EQ(distribution(params, kProbs).size(), 3u);
  params.min_keep = 4;
  EXPECT_EQ(distribution(params, kProbs).size(), 4u);
}

TEST(Filters, Typical) {
  // Entropy 0.9503 nats; |-ln p - H|: 0.2537 for 0.3, 0.4395 for 0.6 and 1.3523 for 0.1. The best is not first.
  SamplerParams params = bare("y");
  params.typical_p = 0.2;
  EXPECT_EQ(distribution(params, {0.6, 0.3, 0.1}).size(), 1u);
  expect_distribution(distribution(params, {0.6, 0.3, 0.1}), {{1, 1.0}});
  params.typical_p = 0.5;
  expect_distribution(distribution(params, {0.6, 0.3, 0.1}), {{1, 0.3 / 0.9}, {0, 0.6 / 0.9}});
  params.typical_p = 0.2;
  params.min_keep = 2;
  EXPECT_EQ(distribution(params, {0.6, 0.3, 0.1}).size(), 2u);
  params.typical_p = 1;
  EXPECT_EQ(distribution(params, {0.6, 0.3, 0.1}).size(), 3u);
}

TEST(Filters, TopNSigma) {
  // Logits 0 1 2 3 4: mean 2, sigma sqrt(2) = 1.414.
  const std::vector<float> logits = {0, 1, 2, 3, 4};
  const auto kept = [&](std::string_view letters, double n, size_t forbidden = 9) {
    SamplerParams params = bare(letters);
    params.top_n_sigma = n;
    std::vector<float> masked = logits;
    if (forbidden < masked.size()) masked[forbidden] = -kInf;
    Sampler sampler = make(params, 5);
    return distribution(sampler, masked).size();
  };
  EXPECT_EQ(kept("s", 0.7), 1u);   // >= 3.01
  EXPECT_EQ(kept("s", 0.75), 2u);  // >= 2.94
  EXPECT_EQ(kept("s", 2), 3u);     // >= 1.17
  EXPECT_EQ(kept("ks", 2), 3u);
  EXPECT_EQ(kept("s", -1), 5u);
  EXPECT_EQ(kept("s", 0), 5u);
  EXPECT_EQ(kept("s", 0.8, 0), 1u);  // 1 2 3 4: sigma 1.118, >= 3.11; the forbidden one does not count
}

TEST(Filters, Xtc) {
  SamplerParams params = bare("x");
  params.xtc_probability = 1;
  params.xtc_threshold = 0.12;  // 0.4, 0.3 and 0.15 are top choices; 0.15 stays
  expect_distribution(distribution(params, kProbs), {{0, 0.1 / 0.3}, {2, 0.05 / 0.3}, {4, 0.15 / 0.3}});
  params.min_keep = 4;
  EXPECT_EQ(distribution(params, kProbs).size(), 5u);
  params.min_keep = 0;
  params.xtc_threshold = 0.35;  // a single top choice stays
  EXPECT_EQ(distribution(params, kProbs).size(), 5u);
  params.xtc_threshold = 0.51;
  EXPECT_EQ(distribution(params, kProbs).size(), 5u);
  params.xtc_threshold = 0.12;
  params.xtc_probability = 0;
  EXPECT_EQ(distribution(params, kProbs).size(), 5u);
}

TEST(Filters, XtcFiresAsOftenAsAsked) {
  SamplerParams params = bare("x");
  params.xtc_probability = 0.3;
  Sampler sampler = make(params, kProbs.size());
  int fired = 0;
  constexpr int kSteps = 4000;
  for (int i = 0; i < kSteps; ++i) {
    const bool fires = uniform(1, static_cast<uint64_t>(i), kXtcStream) < 0.3;
    ASSERT_EQ(distribution(sampler, logits_of(kProbs), static_cast<uint64_t>(i)).size(), fires ? 2u : 5u);
    fired += fires;
  }
  // Binomial with sigma sqrt(4000 * 0.3 * 0.7) = 29; five sigma.
  EXPECT_NEAR(fired, kSteps * 0.3, 145);
}

TEST(Filters, Temperature) {
  SamplerParams params = bare("t");
  params.temperature = 0.5;  // squares the probabilities
  expect_distribution(distribution(params, {0.5, 0.3, 0.2}), {{0, 0.25 / 0.38}, {1, 0.09 / 0.38}, {2, 0.04 / 0.38}});
  params.temperature = 2;
  const double sum = std::sqrt(0.5) + std::sqrt(0.3) + std::sqrt(0.2);
  expect_distribution(distribution(params, {0.5, 0.3, 0.2}),
                      {{0, std::sqrt(0.5) / sum}, {1, std::sqrt(0.3) / sum}, {2, std::sqrt(0.2) / sum}});
  params.temperature = 1e-9;
  expect_distribution(distribution(params, {0.3, 0.5, 0.2}), {{0, 0}, {1, 1}, {2, 0}});
  params.temperature = 100;
  expect_distribution(distribution(params, {0.25, 0.25, 0.25, 0.25}), {{0, .25}, {1, .25}, {2, .25}, {3, .25}});
}

TEST(Filters, DynamicTemperatureFollowsTheEntropy) {
  SamplerParams params = bare("t");
  params.temperature = 1;
  params.dynatemp_range = 0.5;
  // Uniform: entropy is the largest, T = 1.5, and uniform stays uniform.
  expect_distribution(distribution(params, {0.5, 0.5}), {{0, 0.5}, {1, 0.5}});
  // h = H(0.9, 0.1) / ln 2; T = 0.5 + h^2.
  params.dynatemp_exponent = 2;
  const double h = -(0.9 * std::log(0.9) + 0.1 * std::log(0.1)) / std::log(2.0), t = 0.5 + h * h;
  const double a = std::pow(0.9, 1 / t), b = std::pow(0.1, 1 / t);
  expect_distribution(distribution(params, {0.9, 0.1}), {{0, a / (a + b)}, {1, b / (a + b)}});
  // A range around 0 that reaches T = 0 on a certain choice keeps the best alone.
  params.temperature = 0;
  params.dynatemp_exponent = 1;
  EXPECT_EQ(distribution(params, {1.0, 0.0}).size(), 1u);
}

TEST(Filters, OrderOfTheChainMatters) {
  // Temperature 0.5 makes 0.4 0.3 0.15 0.1 0.05 into 0.16 0.09 0.0225 0.01 0.0025 of 0.285: the best two hold 0.877.
  SamplerParams params = bare("tp");
  params.temperature = 0.5;
  params.top_p = 0.8;
  EXPECT_EQ(distribution(params, kProbs).size(), 2u);
  params.samplers = parse_samplers("pt").value();  // 0.4 + 0.3 + 0.15
  EXPECT_EQ(distribution(params, kProbs).size(), 3u);
}

// The dense selections against a plain sort, over sizes around the block and the heap limit.
TEST(Candidates, SelectionAgreesWithSorting) {
  std::mt19937 random(5);
  for (const size_t n : {1u, 15u, 16u, 63u, 64u, 65u, 1000u, 5003u}) {
    std::vector<float> logits(n);
    for (float& x : logits) x = static_cast<float>(random() % 200) / 10.0f;  // many ties
    if (n > 20) logits[7] = -kInf;
    std::vector<int32_t> order;
    for (size_t i = 0; i < n; ++i)
      if (logits[i] != -kInf) order.push_back(static_cast<int32_t>(i));
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    EXPECT_EQ(argmax(logits), order[0]);
    for (const size_t k : {1u, 2u, 40u, 1024u, 1025u, 9999u}) {
      Candidates candidates;
      ASSERT_TRUE(candidates.load(logits).has_value());
      candidates.keep_top(k);
      ASSERT_EQ(candidates.size(), std::min<size_t>(k, order.size()));
      for (size_t i = 0; i < candidates.size(); ++i) ASSERT_EQ(candidates.list()[i].id, order[i]) << n << " " << k;
    }
  }
}

// Top-p by growing prefixes equals top-p by sorting everything.
TEST(Candidates, TopPNeedsNoFullSort) {
  std::mt19937 random(6);
  std::vector<float> logits(3000);
  for (float& x : logits) x = static_cast<float>(random() % 1000) / 200.0f;
  for (const double p : {0.01, 0.3, 0.9, 0.999}) {
    Candidates partial, sorted;
    ASSERT_TRUE(partial.load(logits).has_value() && sorted.load(logits).has_value());
    partial.softmax();
    partial.keep_by_prob(p, 1);
    sorted.softmax();
    sorted.sort_prefix(3000);
    sorted.keep_by_prob(p, 1);
    ASSERT_EQ(partial.size(), sorted.size());
    for (size_t i = 0; i < partial.size(); ++i) ASSERT_EQ(partial.list()[i].id, sorted.list()[i].id);
  }
}

}  // namespace
}  // namespace tokamak

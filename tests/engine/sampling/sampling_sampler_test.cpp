// The whole sampler: determinism, distribution, greedy, edges, Mirostat, log-probabilities.
#include "engine/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/random.h"
#include "sampling_helpers.h"

namespace tokamak {
namespace {

using namespace testing_sampling;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<float> random_logits(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(n);
  for (float& x : logits) x = normal(random);
  return logits;
}

TEST(Sampler, DrawsTheDistribution) {
  const std::vector<double> probs = {0.5, 0.25, 0.15, 0.08, 0.02};
  Sampler sampler = make(bare(), probs.size());
  constexpr int kDraws = 20000;
  std::vector<int> n(probs.size());
  for (int i = 0; i < kDraws; ++i)
    ++n[static_cast<size_t>(sampler.sample(logits_of(probs), static_cast<uint64_t>(i)).value().id)];
  double chi2 = 0;
  for (size_t i = 0; i < probs.size(); ++i) {
    const double expected = probs[i] * kDraws;
    chi2 += (n[i] - expected) * (n[i] - expected) / expected;
  }
  EXPECT_LT(chi2, 18.5);  // 4 degrees of freedom: exceeded with probability 0.001
}

TEST(Sampler, ATokenIsAFunctionOfLogitsHistorySeedAndPosition) {
  const auto logits = random_logits(1000, 1);
  SamplerParams params;
  params.seed = 42;
  Sampler a = make(params, 1000), b = make(params, 1000);
  std::vector<int32_t> forward, backward;
  for (uint64_t position = 0; position < 50; ++position) forward.push_back(a.sample(logits, position).value().id);
  for (uint64_t position = 50; position-- > 0;) backward.push_back(b.sample(logits, position).value().id);
  std::reverse(backward.begin(), backward.end());
  EXPECT_EQ(forward, backward);
  EXPECT_GT(std::set<int32_t>(forward.begin(), forward.end()).size(), 5u);
  params.seed = 43;
  Sampler c = make(params, 1000);
  std::vector<int32_t> other;
  for (uint64_t position = 0; position < 50; ++position) other.push_back(c.sample(logits, position).value().id);
  EXPECT_NE(forward, other);
}

TEST(Sampler, UnnamedSeedIsDrawnAndReported) {
  SamplerParams params;
  params.seed = -1;
  const Sampler a = make(params, 10), b = make(params, 10);
  EXPECT_NE(a.seed(), b.seed());
  params.seed = 7;
  EXPECT_EQ(make(params, 10).seed(), 7u);
}

TEST(Sampler, CopiesContinueAloneAndResetForgets) {
  SamplerParams params = bare("e");
  params.presence_penalty = 1;
  Sampler a = make(params, 2);
  a.accept(1);
  Sampler b = a;
  b.accept(0);
  const double e = std::exp(1.0);
  expect_distribution(distribution(a, {0, 0}), {{0, e / (1 + e)}, {1, 1 / (1 + e)}});
  expect_distribution(distribution(b, {0, 0}), {{0, 0.5}, {1, 0.5}});
  a.reset();
  expect_distribution(distribution(a, {0, 0}), {{0, 0.5}, {1, 0.5}});
  a.accept(-5);  // from a prompt of foreign ids: ignored
  a.accept(2);
  expect_distribution(distribution(a, {0, 0}), {{0, 0.5}, {1, 0.5}});
}

TEST(Greedy, TakesTheBestAndTheLowestOfEquals) {
  SamplerParams params;
  params.temperature = 0;
  Sampler sampler = make(params, 4);
  const SampledToken token = sampler.sample(std::vector<float>{1, 3, 3, 2}, 0).value();
  EXPECT_EQ(token.id, 1);
  EXPECT_EQ(token.prob, 1);
  EXPECT_EQ(token.logprob, 0);
  ASSERT_EQ(sampler.last_candidates().size(), 1u);
  EXPECT_EQ(sampler.last_candidates()[0].prob, 1);
}

TEST(Greedy, FiltersDoNotChangeItButPenaltiesDo) {
  SamplerParams params;
  params.temperature = 0;
  params.xtc_probability = 1;
  params.typical_p = 0.2;
  params.presence_penalty = 2;
  Sampler sampler = make(params, 3);
  const std::vector<float> logits = logits_of({0.6, 0.3, 0.1});
  EXPECT_EQ(sampler.sample(logits, 0).value().id, 0);
  sampler.accept(0);
  EXPECT_EQ(sampler.sample(logits, 1).value().id, 1);
}

TEST(Sampler, BiasSuppressAndEos) {
  SamplerParams params = bare();
  params.logit_bias = {{0, -kInf}, {1, 1.0f}, {1, 1.0f}};
  Sampler sampler = make(params, 3);
  const double e2 = std::exp(2.0);
  expect_distribution(distribution(sampler, {9, 0, 0}), {{1, e2 / (1 + e2)}, {2, 1 / (1 + e2)}});
  // A bias does not bring a masked token back.
  expect_distribution(distribution(sampler, {9, -kInf, 0}), {{2, 1.0}});

  params = bare();
  params.suppress_tokens = {2};
  params.ignore_eos = true;
  Sampler eos = Sampler::create(params, {.n_vocab = 4, .end_of_generation = {0, 1}}).value();
  expect_distribution(distribution(eos, {1, 2, 3, 4}), {{3, 1.0}});
}

TEST(Sampler, IdsOutsideTheVocabularyAreRefused) {
  const auto message = [](const SamplerParams& params) {
    return Sampler::create(params, {.n_vocab = 10}).error().message();
  };
  SamplerParams params;
  params.logit_bias = {{10, 1.0f}};
  EXPECT_EQ(message(params), "logit_bias: token 10 is outside the vocabulary (ids go from 0 to 9)");
  params.logit_bias = {};
  params.suppress_tokens = {-1};
  EXPECT_THAT(message(params), StartsWith("suppress_tokens: token -1 is outside"));
  params = {};
  params.top_p = 2;
  EXPECT_THAT(message(params), StartsWith("top_p: 2 is out of range"));
}

// Hard case 27: nothing left is an answer, for the chain, greedy and Mirostat alike.
TEST(Sampler, NoTokenLeft) {
  for (int mode = 0; mode < 4; ++mode) {
    SamplerParams params;
    params.temperature = mode == 0 ? 0 : 0.8;
    params.mirostat = mode == 0 ? 0 : mode - 1;
    params.logit_bias = {{0, -kInf}, {1, -kInf}};
    Sampler sampler = make(params, 2);
    const auto token = sampler.sample(std::vector<float>{1, 2}, 17);
    ASSERT_FALSE(token.has_value());
    EXPECT_EQ(token.error().code, ErrorCode::no_token_left);
    EXPECT_THAT(token.error().message(), StartsWith("sampling at position 17: every token is forbidden"));
    EXPECT_TRUE(make(params, 3).sample(std::vector<float>{1, 2, -50}, 17).has_value());  // the next request is well
  }
}

TEST(Sampler, NonFiniteLogitsAreRefused) {
  Sampler sampler = make({}, 3);
  const auto nan = sampler.sample(std::vector<float>{0, std::nanf(""), 0}, 0);
  ASSERT_FALSE(nan.has_value());
  EXPECT_EQ(nan.error().code, ErrorCode::device_failed);
  EXPECT_THAT(nan.error().message(), HasSubstr("the logit of token 1 is nan"));
  EXPECT_THAT(sampler.sample(std::vector<float>{kInf, 0, 0}, 0).error().message(), HasSubstr("token 0 is inf"));
  EXPECT_EQ(sampler.sample(std::vector<float>{-kInf, -kInf, 0}, 0).value().id, 2);
  EXPECT_TRUE(sampler.sample(std::vector<float>{3e38f, -3e38f, 0}, 0).has_value());
}

// Every corner of every range at once still yields a token, on hostile but finite logits.
TEST(Sampler, CornersOfTheRangesAlwaysChoose) {
  const std::vector<std::vector<float>> inputs = {
      random_logits(300, 3), std::vector<float>(300, 0.0f), std::vector<float>(300, -3e38f), {3e38f, -3e38f}, {0.0f}};
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::initializer_list<double> values) {
      return *(values.begin() + random() % values.size());
    };
    SamplerParams p;
    p.seed = seed;
    p.temperature = pick({0, 1e-9, 0.8, 100});
    p.dynatemp_range = pick({0, 0, 1, 100});
    p.dynatemp_exponent = pick({0, 1, 100});
    p.top_k = static_cast<int64_t>(pick({-1, 0, 1, 40, 2147483647}));
    p.top_p = pick({0, 0.5, 1});
    p.min_p = pick({0, 0.5, 1});
    p.typical_p = pick({0, 0.5, 1});
    p.top_n_sigma = pick({-1, 1e-6, 1, 100});
    p.min_keep = static_cast<int64_t>(pick({0, 1, 5, 2147483647}));
    p.repeat_penalty = pick({0.01, 1, 100});
    p.repeat_last_n = static_cast<int64_t>(pick({-1, 0, 2, 2147483647}));
    p.presence_penalty = pick({-100, 0, 100});
    p.dry_multiplier = pick({0, 100});
    p.dry_penalty_last_n = static_cast<int64_t>(pick({-1, 0, 2, 2147483647}));
    p.xtc_probability = pick({0, 1});
    p.xtc_threshold = pick({0, 0.1, 1});
    p.mirostat = static_cast<int64_t>(pick({0, 0, 1, 2}));
    p.mirostat_tau = pick({0, 5, 100});
    p.mirostat_eta = pick({0, 0.1, 10});
    p.adaptive_target = pick({-1, 0, 0.5, 1});
    p.adaptive_decay = pick({0, 0.9, 0.99});
    if (seed % 2 == 0) p.samplers.push_back(SamplerKind::infill);
    std::shuffle(p.samplers.begin(), p.samplers.end(), random);
    const std::vector<float>& logits = inputs[seed % inputs.size()];
    Sampler sampler = make(p, logits.size());
    for (uint64_t position = 0; position < 6; ++position) {
      const auto token = sampler.sample(logits, position);
      ASSERT_TRUE(token.has_value()) << seed << ": " << token.error().message();
      ASSERT_TRUE(token->id >= 0 && static_cast<size_t>(token->id) < logits.size()) << seed;
      ASSERT_GT(token->prob, 0) << seed;
      sampler.accept(token->id);
    }
  }
}

TEST(Mirostat, HoldsTheSurpriseAtTheTarget) {
  std::vector<float> logits;  // a Zipf law of about 6.8 bits, above both targets
  for (int i = 1; i <= 1000; ++i) logits.push_back(-1.1f * std::log(static_cast<float>(i)));
  const Logprobs all = top_logprobs(logits, 1000);
  std::vector<double> logprob(1000);
  for (const TokenLogprob& token : all.top) logprob[static_cast<size_t>(token.id)] = token.logprob;
  for (int version : {1, 2})
    for (double target : {3.0, 5.0}) {
      SamplerParams params = bare();
      params.mirostat = version;
      params.mirostat_tau = target;
      params.mirostat_eta = 0.1;
      Sampler sampler = make(params, logits.size());
      double surprise = 0;
      constexpr int kSteps = 1000;
      for (int i = 0; i < kSteps; ++i)
        surprise -= logprob[static_cast<size_t>(sampler.sample(logits, static_cast<uint64_t>(i)).value().id)];
      // The limit moves by rate * (surprise - target) a step, so the mean misses the target by (movement of the limit)
      // / (rate * steps): the limit stays within 0 and 20 bits.
      EXPECT_NEAR(surprise / kSteps / std::log(2.0), target, 20 / (0.1 * kSteps)) << version << " " << target;
    }
}

TEST(Mirostat, ReplacesTheFilters) {
  SamplerParams params = bare("k");
  params.top_k = 1;
  params.mirostat = 2;
  params.mirostat_tau = 100;  // nothing is too surprising
  Sampler sampler = make(params, 4);
  EXPECT_EQ(distribution(sampler, {0, 0, 0, 0}).size(), 4u);
  params.mirostat_tau = 0;  // everything is; the best stays
  Sampler strict = make(params, 4);
  expect_distribution(distribution(strict, {0, 1, 0, 0}), {{1, 1.0}});
}

TEST(Logprobs, AfterTheChainAreThoseOfWhatIsLeft) {
  SamplerParams params = bare("k");
  params.top_k = 2;
  Sampler sampler = make(params, 4);
  const int32_t chosen = sampler.sample(logits_of({0.1, 0.6, 0.1, 0.2}), 0).value().id;
  const Logprobs out = sampler.last_logprobs(5, chosen);
  ASSERT_EQ(out.top.size(), 2u);
  EXPECT_EQ(out.top[0].id, 1);
  EXPECT_NEAR(out.top[0].logprob, std::log(0.75), 1e-6);
  EXPECT_EQ(out.top[1].id, 3);
  EXPECT_NEAR(out.chosen, std::log(chosen == 1 ? 0.75 : 0.25), 1e-6);
  EXPECT_EQ(sampler.last_logprobs(1, 0).top.size(), 1u);
  EXPECT_EQ(sampler.last_logprobs(1, 0).chosen, -kInf);
}

TEST(Logprobs, AreThoseOfTheModel) {
  const Logprobs out = top_logprobs(logits_of({0.1, 0.6, 0.0, 0.3}), 2, 0);
  EXPECT_NEAR(out.chosen, std::log(0.1), 1e-6);
  ASSERT_EQ(out.top.size(), 2u);
  EXPECT_EQ(out.top[0].id, 1);
  EXPECT_NEAR(out.top[0].logprob, std::log(0.6), 1e-6);
  EXPECT_EQ(out.top[1].id, 3);
  EXPECT_EQ(top_logprobs(logits_of({0.1, 0.6, 0.0, 0.3}), 9).top.size(), 3u);
  EXPECT_EQ(top_logprobs(logits_of({0.5, 0.5, 0}), 0, 2).chosen, -kInf);
  EXPECT_TRUE(top_logprobs(std::vector<float>{-kInf}, 3, 0).top.empty());
  EXPECT_TRUE(top_logprobs({}, 3).top.empty());
}

}  // namespace
}  // namespace tokamak

// Penalties, DRY and what they remember.
#include "engine/sampling/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sampling_helpers.h"

namespace tokamak {
namespace {

using namespace testing_sampling;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Logit of each token after the chain, relative to token 0, which the tests leave alone.
std::vector<double> moved(const SamplerParams& params, const std::vector<int32_t>& history, std::vector<float> logits) {
  Sampler sampler = make(params, logits.size());
  for (int32_t token : history) sampler.accept(token);
  const auto probs = distribution(sampler, logits);
  std::vector<double> out;
  for (size_t i = 0; i < logits.size(); ++i)
    out.push_back(std::round((std::log(probs.at(static_cast<int32_t>(i)) / probs.at(0)) + logits[0]) * 1e3) / 1e3);
  return out;
}

TEST(Penalties, RepeatFrequencyPresence) {
  SamplerParams params = bare("e");
  const std::vector<float> logits = {0, 2, -2, 2};
  EXPECT_THAT(moved(params, {1, 2, 1}, logits), ElementsAre(0, 2, -2, 2));
  params.repeat_penalty = 2;  // divides what is positive, multiplies what is negative, once
  EXPECT_THAT(moved(params, {1, 2, 1}, logits), ElementsAre(0, 1, -4, 2));
  params.repeat_penalty = 1;
  params.frequency_penalty = 0.25;
  EXPECT_THAT(moved(params, {1, 2, 1}, logits), ElementsAre(0, 1.5, -2.25, 2));
  params.presence_penalty = 0.5;
  EXPECT_THAT(moved(params, {1, 2, 1}, logits), ElementsAre(0, 1, -2.75, 2));
  params.presence_penalty = -0.5;
  params.frequency_penalty = 0;
  EXPECT_THAT(moved(params, {1, 2, 1}, logits), ElementsAre(0, 2.5, -1.5, 2));
}

TEST(Penalties, WindowAndChain) {
  SamplerParams params = bare("e");
  params.presence_penalty = 1;
  const std::vector<float> logits = {0, 0, 0, 0};
  params.repeat_last_n = 2;
  EXPECT_THAT(moved(params, {1, 2, 3}, logits), ElementsAre(0, 0, -1, -1));
  params.repeat_last_n = 0;
  EXPECT_THAT(moved(params, {1, 2, 3}, logits), ElementsAre(0, 0, 0, 0));
  params.repeat_last_n = -1;
  EXPECT_THAT(moved(params, std::vector<int32_t>(1000, 1), logits), ElementsAre(0, -1, 0, 0));
  params.samplers = {};
  EXPECT_THAT(moved(params, {1, 2, 3}, logits), ElementsAre(0, 0, 0, 0));
  params = bare("ke");  // on a list as on the whole vocabulary
  params.presence_penalty = 1;
  EXPECT_THAT(moved(params, {1, 3}, logits), ElementsAre(0, -1, 0, -1));
}

TEST(Penalties, ExtremesStayFinite) {
  SamplerParams params = bare("e");
  params.repeat_penalty = 0.01;
  Sampler sampler = make(params, 3);
  sampler.accept(1);
  sampler.accept(2);
  const auto probs = distribution(sampler, {0, 3e38f, -3e38f});
  EXPECT_EQ(probs.at(1), 1.0);
}

TEST(History, WindowSlidesAndForgets) {
  History history({.penalties = 3}, {}, {});
  for (int32_t token = 0; token < 1000; ++token) history.accept(token % 10);
  EXPECT_THAT(history.seen(), ElementsAre(7, 8, 9));
  EXPECT_THAT(history.n_seen(), ElementsAre(1, 1, 1));
  history.accept(9);
  EXPECT_THAT(history.seen(), ElementsAre(8, 9));
  EXPECT_THAT(history.n_seen(), ElementsAre(1, 2));
  history.clear();
  EXPECT_THAT(history.seen(), IsEmpty());
}

History dry_history(const std::vector<int32_t>& tokens, std::vector<std::string> breakers = {}, TokenText text = {},
                    int64_t window = -1) {
  History history({.dry = window}, std::move(breakers), std::move(text));
  for (int32_t token : tokens) history.accept(token);
  return history;
}

TEST(Dry, FindsTheLongestRepetitionPerToken) {
  // ... 1 2 3 then 4, later 2 3 then 5, now 1 2 3 again.
  History history = dry_history({1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3});
  EXPECT_THAT(history.repeats(2).tokens, ElementsAre(4, 5));
  EXPECT_THAT(history.repeats(2).lengths, ElementsAre(3, 2));
  EXPECT_THAT(history.repeats(3).tokens, ElementsAre(4));
  EXPECT_THAT(history.repeats(4).tokens, IsEmpty());
  EXPECT_THAT(dry_history({}).repeats(1).tokens, IsEmpty());
  EXPECT_THAT(dry_history({1}).repeats(1).tokens, IsEmpty());
  EXPECT_THAT(dry_history({7, 7, 7, 7}).repeats(1).lengths, ElementsAre(3));
  EXPECT_THAT(dry_history({1, 2, 3, 4, 1, 2, 3}, {}, {}, 6).repeats(1).lengths, ElementsAre(2));  // 1 is out of sight
}

TEST(Dry, BreakersEndTheSearchEvenAcrossTokens) {
  const TokenText text = [](int32_t token) {
    return std::vector<std::string>{"a", "b", "c", "\n", "<us", "er>", "d"}.at(static_cast<size_t>(token));
  };
  EXPECT_THAT(dry_history({0, 1, 2, 3, 0, 1}, {}, text).repeats(1).tokens, ElementsAre(2));
  EXPECT_THAT(dry_history({0, 1, 2, 0, 3, 1}, {"\n"}, text).repeats(1).lengths, ElementsAre(1));
  EXPECT_THAT(dry_history({0, 1, 2, 0, 1, 3}, {"\n"}, text).repeats(1).tokens, IsEmpty());  // nothing after the breaker
  EXPECT_THAT(dry_history({0, 1, 3, 0, 1}, {"\n"}, text).repeats(1).tokens, IsEmpty());  // breakers are never punished
  EXPECT_THAT(dry_history({0, 4, 5, 1, 6, 0, 4, 5, 1}, {"<user>"}, text).repeats(1).lengths, ElementsAre(1));
  EXPECT_THAT(dry_history({0, 4, 5, 1, 6, 0, 4, 5, 1}, {}, text).repeats(1).lengths, ElementsAre(4));
}

// Against the definition, on short random texts over few tokens.
TEST(Dry, AgreesWithPlainSearch) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> tokens(random() % 40);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 3);
    std::map<int32_t, size_t> longest;
    for (size_t end = 1; end < tokens.size(); ++end) {
      size_t length = 0;
      while (length < end && tokens[end - 1 - length] == tokens[tokens.size() - 1 - length]) ++length;
      if (length >= 2) longest[tokens[end]] = std::max(longest[tokens[end]], length);
    }
    History history = dry_history(tokens);
    const History::Repeats& repeats = history.repeats(2);
    ASSERT_EQ(repeats.tokens.size(), longest.size());
    for (size_t i = 0; i < repeats.tokens.size(); ++i) ASSERT_EQ(longest.at(repeats.tokens[i]), repeats.lengths[i]);
  }
}

TEST(Dry, PenaltyGrowsWithTheLength) {
  SamplerParams params = bare("d");
  params.dry_multiplier = 0.5;
  params.dry_base = 2;
  params.dry_sequence_breakers = {};
  const std::vector<float> logits(6, 0.0f);
  // 4 continues three tokens, 5 continues two: 0.5 * 2^(3-2), 0.5 * 2^0.
  EXPECT_THAT(moved(params, {1, 2, 3, 4, 0, 2, 3, 5, 1, 2, 3}, logits), ElementsAre(0, 0, 0, 0, -1, -0.5));
  params.dry_multiplier = 100;
  params.dry_base = 100;
  params.dry_penalty_last_n = -1;
  Sampler sampler = make(params, 2);
  for (int i = 0; i < 1000; ++i) sampler.accept(1);
  EXPECT_EQ(distribution(sampler, {0, 5}).at(0), 1.0);  // 100 * 100^997 is clamped, not infinite
}

}  // namespace
}  // namespace tokamak

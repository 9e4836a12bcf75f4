#include "engine/generate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/tiny_model.h"

namespace tokamak {
namespace {

std::unique_ptr<Session> open_session(int64_t n_ctx = 0) {
  auto model = Model::open(test::write_tiny_model({}));
  EXPECT_TRUE(model) << model.error().message();
  auto session = Session::create(*model, {.n_ctx = n_ctx, .n_batch = 16});
  EXPECT_TRUE(session) << session.error().message();
  return std::move(*session);
}

GenerateOptions greedy(int64_t n) {
  GenerateOptions options{.n_predict = n};
  options.sampling.temperature = 0;
  return options;
}

std::vector<int32_t> ids(const GenerateResult& result) {
  std::vector<int32_t> out;
  for (const GeneratedToken& token : result.tokens) out.push_back(token.id);
  return out;
}

TEST(GenerateTest, TheHeldBeginningIsNotComputedAgainAndChangesNothing) {
  auto session = open_session();
  auto prompt = test::random_tokens(40, 96, 5);
  const int32_t fresh = session->add_sequence(), reused = session->add_sequence();
  std::vector<int32_t> held_fresh, held;
  ASSERT_TRUE(generate_reusing(*session, reused, held, std::span(prompt).first(33), greedy(6), {}));
  EXPECT_EQ(static_cast<int64_t>(held.size()), session->n_tokens(reused));
  const auto second = generate_reusing(*session, reused, held, prompt, greedy(12), {});
  const auto alone = generate_reusing(*session, fresh, held_fresh, prompt, greedy(12), {});
  ASSERT_TRUE(second && alone);
  EXPECT_GE(second->n_cached, 33);
  EXPECT_EQ(second->n_cached + second->n_prompt, 40);
  EXPECT_EQ(ids(*second), ids(*alone));
  const auto again = generate_reusing(*session, reused, held, prompt, greedy(12), {});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->n_prompt, 1) << "one token is always computed";
  EXPECT_EQ(ids(*again), ids(*alone));
}

TEST(GenerateTest, EndsWhenTheContextIsFull) {
  auto session = open_session(20);
  const auto prompt = test::random_tokens(15, 96, 5);
  const auto result = generate(*session, session->add_sequence(), {}, prompt, greedy(-1), {});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->reason, FinishReason::context_full);
  EXPECT_EQ(result->tokens.size(), 6u);  // five fill the context, the last one needs no place
}

TEST(GenerateTest, NothingAskedForIsNothingMade) {
  auto session = open_session();
  const auto prompt = test::random_tokens(5, 96, 5);
  const auto result = generate(*session, session->add_sequence(), {}, prompt, greedy(0), {});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->reason, FinishReason::length);
  EXPECT_TRUE(result->tokens.empty());
}

TEST(GenerateTest, SeedsRepeatAndTheSeedIsReported) {
  auto session = open_session();
  const auto prompt = test::random_tokens(5, 96, 5);
  const auto run = [&](int64_t seed) {
    GenerateOptions options{.n_predict = 20};
    options.sampling.seed = seed;
    options.sampling.temperature = 2;
    const auto result = generate(*session, session->add_sequence(), {}, prompt, options, {});
    EXPECT_TRUE(result);
    EXPECT_EQ(result->seed, static_cast<uint64_t>(seed));
    return ids(*result);
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST(GenerateTest, LogprobsComeWithTheTokens) {
  auto session = open_session();
  GenerateOptions options = greedy(3);
  options.n_probs = 4;
  const auto result = generate(*session, session->add_sequence(), {}, test::random_tokens(5, 96, 5), options, {});
  ASSERT_TRUE(result);
  for (const GeneratedToken& token : result->tokens) {
    ASSERT_EQ(token.top.size(), 4u);
    EXPECT_EQ(token.top[0].id, token.id);
    EXPECT_FLOAT_EQ(token.top[0].logprob, token.logprob);
    EXPECT_LT(token.logprob, 0);
  }
}

TEST(GenerateTest, AForbiddenVocabularyIsSaid) {
  auto session = open_session();
  GenerateOptions options = greedy(3);
  for (int32_t id = 0; id < 96; ++id) options.sampling.logit_bias.push_back({id, -HUGE_VALF});
  const auto result = generate(*session, session->add_sequence(), {}, test::random_tokens(5, 96, 5), options, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::no_token_left);
}

}  // namespace
}  // namespace tokamak

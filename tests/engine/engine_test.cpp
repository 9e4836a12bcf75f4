#include "tokamak/engine.h"

#include <gtest/gtest.h>

#include "support/tiny_model.h"

namespace tokamak {
namespace {

Engine open_tiny() {
  auto engine = Engine::open(test::write_tiny_model({}));
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

TEST(EngineTest, LogitsOfEveryToken) {
  Engine engine = open_tiny();
  const auto tokens = test::random_tokens(9, engine.n_vocab(), 4);
  const auto all = engine.logits(tokens);
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_EQ(all->size(), 9u * 96u);
  const auto some = engine.logits(std::span(tokens).first(4));
  ASSERT_TRUE(some);
  EXPECT_TRUE(std::equal(some->begin(), some->end(), all->begin()));
}

TEST(EngineTest, WhatIsMissingIsSaid) {
  EXPECT_EQ(Engine::open("no/such/model.gguf").error().code, ErrorCode::not_found);
  Engine engine = open_tiny();
  const Message hello{.role = "user", .content = "hello"};
  const auto answer = engine.chat({&hello, 1});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::bad_template);
  EXPECT_NE(answer.error().message().find("chat template"), std::string::npos);
  const auto bad = engine.logits(std::vector<int32_t>{96});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::bad_argument);
  const auto empty = engine.complete("");  // a model without a vocabulary has no tokens for any text
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, ErrorCode::bad_argument);
}

}  // namespace
}  // namespace tokamak

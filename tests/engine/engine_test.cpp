#include "tokamak/engine.h"

#include <gtest/gtest.h>

#include "base/nmse.h"
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

// The interface of fusion, on every backend: off, on, statistics off, reset.
class EngineFusion : public testing::TestWithParam<const char*> {};

uint64_t n_fused(const Engine& engine) {
  uint64_t n = 0;
  for (const FusionCount& row : engine.fusion_counts()) n += row.count;
  return n;
}

TEST_P(EngineFusion, CanBeSwitchedAndCounted) {
  auto engine = Engine::open(test::write_tiny_model({}), {.backend = GetParam()});
  ASSERT_TRUE(engine) << engine.error().message();
  const auto tokens = test::random_tokens(5, engine->n_vocab(), 4);
  EXPECT_TRUE(engine->fusion());
  const auto fused = engine->logits(tokens);
  ASSERT_TRUE(fused) << fused.error().message();
  const uint64_t per_graph = n_fused(*engine);
  EXPECT_GE(per_graph, 5u);  // two norms per layer and the last one
  for (const FusionCount& row : engine->fusion_counts()) {
    EXPECT_EQ(row.n_graphs, 1u);
    EXPECT_NE(row.graph.find("llama 5 tokens"), std::string::npos) << row.graph;
  }

  engine->reset_fusion_counts();
  EXPECT_TRUE(engine->fusion_counts().empty());
  ASSERT_TRUE(engine->logits(tokens));
  EXPECT_EQ(n_fused(*engine), per_graph);

  engine->set_fusion(false);
  engine->reset_fusion_counts();
  EXPECT_FALSE(engine->fusion());
  const auto unfused = engine->logits(tokens);
  ASSERT_TRUE(unfused);
  EXPECT_EQ(n_fused(*engine), 0u);
  EXPECT_FALSE(engine->fusion_counts().empty());  // the graph is named
  EXPECT_LT(nmse(*fused, *unfused), 1e-10);

  engine->set_fusion(true);
  engine->set_fusion_statistics(false);
  engine->reset_fusion_counts();
  ASSERT_TRUE(engine->logits(tokens));
  EXPECT_TRUE(engine->fusion_counts().empty());
  engine->set_fusion_statistics(true);
  ASSERT_TRUE(engine->logits(tokens));
  EXPECT_EQ(n_fused(*engine), per_graph);
}

INSTANTIATE_TEST_SUITE_P(Backends, EngineFusion, testing::Values("cpu", "reference"));

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

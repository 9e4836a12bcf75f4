#include <gtest/gtest.h>

#include "engine/service.h"
#include "support/tiny_model.h"

namespace tokamak {
namespace {

uint64_t total(const std::vector<MemoryUse>& ledger) {
  uint64_t n = 0;
  for (const MemoryUse& use : ledger) n += use.is_file_mapping ? 0 : use.n_bytes;
  return n;
}

std::unique_ptr<Session> open_session(const std::filesystem::path& path, SessionOptions options) {
  auto model = Model::open(path);
  EXPECT_TRUE(model) << model.error().message();
  auto session = Session::create(*model, std::move(options));
  EXPECT_TRUE(session) << session.error().message();
  return *std::move(session);
}

// Written when a test asks: parameters are made for every run of any single test of this program.
std::filesystem::path write_llama() {
  return test::write_tiny_model({.types = {DType::q8_0, DType::q4_1, DType::f16}});
}
std::filesystem::path write_gemma() {
  return test::write_tiny_model(
      {.arch = "gemma3", .n_layer = 4, .head_dim = 128, .window = 20, .types = {DType::q4_k, DType::q6_k}});
}
std::filesystem::path qwen3next() { return TOKAMAK_GOLDEN "/arch/qwen3next.gguf"; }
std::filesystem::path qwen35moe() { return TOKAMAK_GOLDEN "/arch/qwen35moe.gguf"; }

class LedgerTest : public testing::TestWithParam<std::filesystem::path (*)()> {};

TEST_P(LedgerTest, ThePlanIsWhatStepsThenUse) {
  const SessionOptions options{.n_threads = 2, .n_ctx = 512, .n_kv = 2048, .n_batch = 128, .n_sequences = 8};
  const ServiceOptions service{.n_parallel = 8, .max_scored_tokens = 16};
  SessionOptions dry = options;
  dry.only_plan = true;
  const auto path = GetParam()();
  const auto planning = open_session(path, dry), session = open_session(path, options);
  const auto plan = Service::ledger(*planning, service), reserved = Service::ledger(*session, service);
  ASSERT_TRUE(plan && reserved);
  ASSERT_EQ(plan->size(), reserved->size());
  for (size_t i = 0; i < plan->size(); ++i) {
    EXPECT_EQ((*plan)[i].what, (*reserved)[i].what);
    EXPECT_EQ((*plan)[i].n_bytes, (*reserved)[i].n_bytes) << (*plan)[i].what;
  }
  // The largest steps there are: nothing grows.
  const uint64_t before = total(session->memory());
  const auto tokens = test::random_tokens(128, session->model().hparams().n_vocab, 1);
  const std::span<const int32_t> all(tokens);
  std::vector<SequenceTokens> batch;
  for (int32_t i = 0; i < 8; ++i) batch.push_back({session->add_sequence(), all.first(16), Logits::last});
  ASSERT_TRUE(session->forward(batch));
  batch[0].tokens = all.first(128);
  ASSERT_TRUE(session->forward(std::span(batch).first(1)));
  batch[1] = {batch[1].seq_id, all.first(16), Logits::all};
  ASSERT_TRUE(session->forward(std::span(batch).subspan(1, 1)));
  for (SequenceTokens& entry : batch) entry = {entry.seq_id, all.first(16), Logits::all};
  ASSERT_TRUE(session->forward(batch, OutputRows::hidden));
  EXPECT_EQ(total(session->memory()), before);
}

TEST_P(LedgerTest, ASessionThatOnlyPlansTakesNoMemoryForTheCache) {
  // 2^30 slots: more than the machine has.
  const auto session = open_session(
      GetParam()(), {.n_threads = 1, .n_ctx = int64_t{1} << 30, .n_kv = int64_t{1} << 30, .only_plan = true});
  EXPECT_GT(total(session->memory()), uint64_t{1} << 34);
}

// Caches of a long context and of many sequences: on a GPU what a step takes for them is not most in the largest one.
TEST_P(LedgerTest, NoStepNeedsMoreThanWasReserved) {
  for (const char* backend : {"cpu", "cuda"})
    for (const int64_t n_ctx : {512, 65536}) {
      auto model = Model::open(GetParam()());
      ASSERT_TRUE(model);
      auto made = Session::create(*model, {.backend = backend,
                                           .n_threads = 2,
                                           .n_ctx = n_ctx,
                                           .n_kv = 2 * n_ctx,
                                           .n_batch = 512,
                                           .n_sequences = 8,
                                           .split = {.max_bytes = uint64_t{64} << 30},
                                           .only_plan = true});
      if (!made && made.error().code == ErrorCode::unsupported) continue;  // a build without CUDA
      ASSERT_TRUE(made) << made.error().message();
      Session& session = **made;
      ASSERT_TRUE(Service::ledger(session, {.n_parallel = 8, .max_scored_tokens = 16}));
      const uint64_t reserved = total(session.memory());
      for (int64_t n = 1; n <= 512; n += n < 70 ? 1 : 31) {
        ASSERT_TRUE(session.program(n, std::min<int64_t>(n, 8), std::min<int64_t>(n, 8)));
        const uint64_t now = total(session.memory());
        EXPECT_EQ(now, reserved) << backend << ", context " << n_ctx << ", " << n << " tokens";
        if (now != reserved) break;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, LedgerTest, testing::Values(write_llama, write_gemma, qwen3next, qwen35moe),
                         [](const auto& param) { return "model" + std::to_string(param.index); });

}  // namespace
}  // namespace tokamak

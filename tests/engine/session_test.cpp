#include "engine/session.h"

#include <gtest/gtest.h>

#include "backend/cpu/isa.h"
#include "base/nmse.h"
#include "support/tiny_model.h"

namespace tokamak {
namespace {

using test::TinyModel;

std::unique_ptr<Session> open_session(const std::filesystem::path& path, SessionOptions options) {
  auto model = Model::open(path);
  EXPECT_TRUE(model) << model.error().message();
  auto session = Session::create(*model, std::move(options));
  EXPECT_TRUE(session) << session.error().message();
  return std::move(*session);
}

// Logits of every token of `tokens`, fed in chunks of `chunk`.
std::vector<float> all_logits(Session& session, std::span<const int32_t> tokens, size_t chunk) {
  const int32_t seq_id = session.add_sequence();
  std::vector<float> out;
  for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const SequenceTokens part{seq_id, tokens.subspan(begin, std::min(chunk, tokens.size() - begin)), Logits::all};
    const auto logits = session.forward({&part, 1});
    EXPECT_TRUE(logits) << logits.error().message();
    out.insert(out.end(), logits->begin(), logits->end());
  }
  session.free_sequence(seq_id);
  return out;
}

// One model per family; between them all packed types and one without a kernel of its own.
std::vector<TinyModel> families() {
  return {{.arch = "llama", .types = {DType::q4_1, DType::q8_0, DType::q5_0}},
          {.arch = "smollm3", .n_layer = 4, .types = {DType::f16, DType::bf16, DType::f32}},
          {.arch = "qwen2", .n_head_kv = 1, .types = {DType::q4_0, DType::iq4_nl, DType::q5_1}},
          {.arch = "qwen3", .n_head = 6, .types = {DType::q8_0, DType::tq2_0}},
          {.arch = "gemma3",
           .n_layer = 4,
           .head_dim = 128,
           .window = 20,
           .types = {DType::q4_k, DType::q6_k, DType::q8_0}}};
}

class SessionTest : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    model_ = families()[GetParam()];
    path_ = test::write_tiny_model(model_);
    tokens_ = test::random_tokens(75, model_.n_vocab, 7);
  }
  TinyModel model_;
  std::filesystem::path path_;
  std::vector<int32_t> tokens_;
};

TEST_P(SessionTest, LogitsAreBitIdenticalForAnyChunkThreadsPageSizeAndInstructionSet) {
  const auto expected = all_logits(*open_session(path_, {.n_threads = 1}), tokens_, tokens_.size());
  for (size_t chunk : {size_t{1}, size_t{2}, size_t{7}, size_t{16}, size_t{64}})
    EXPECT_EQ(all_logits(*open_session(path_, {.n_threads = 2}), tokens_, chunk), expected) << "chunk " << chunk;
  EXPECT_EQ(all_logits(*open_session(path_, {.n_threads = 3}), tokens_, 20), expected) << "3 threads";
  EXPECT_EQ(all_logits(*open_session(path_, {.page_size = 16}), tokens_, 11), expected) << "pages of 16";
  for (const cpu::IsaRow& row : cpu::kIsas) {
    if (!cpu::isa_available(row.isa)) {
      std::cout << "skipped: this machine has no " << row.name << "\n";
      continue;
    }
    EXPECT_EQ(all_logits(*open_session(path_, {.isa = std::string(row.name)}), tokens_, 32), expected) << row.name;
  }
}

TEST_P(SessionTest, LogitsAreBitIdenticalInABatch) {
  const auto expected = all_logits(*open_session(path_, {}), tokens_, tokens_.size());
  auto session = open_session(path_, {});
  const auto neighbour = test::random_tokens(40, model_.n_vocab, 9);
  const int32_t before = session->add_sequence(), mine = session->add_sequence(), after = session->add_sequence();
  std::vector<float> got;
  for (size_t i = 0; i < tokens_.size(); i += 3) {
    const std::span<const int32_t> tokens(tokens_), other(neighbour);
    const std::vector<SequenceTokens> batch = {{before, other.subspan(i / 3, 1), Logits::last},
                                               {mine, tokens.subspan(i, 3), Logits::all},
                                               {after, other.subspan(0, 1 + i % 5), Logits::none}};
    const auto logits = session->forward(batch);
    ASSERT_TRUE(logits) << logits.error().message();
    got.insert(got.end(), logits->begin() + model_.n_vocab, logits->end());
  }
  EXPECT_EQ(got, expected);
}

TEST_P(SessionTest, FusedUnfusedAndReferenceAgree) {
  const auto reference = all_logits(*open_session(path_, {.backend = "reference", .kv_type = DType::f32}), tokens_, 40);
  SessionOptions unfused{.kv_type = DType::f32};
  unfused.compile.fusion = false;
  const auto fused = all_logits(*open_session(path_, {.kv_type = DType::f32}), tokens_, 40);
  const auto plain = all_logits(*open_session(path_, unfused), tokens_, 40);
  // Fusion may only change where results are rounded to f32.
  EXPECT_LE(nmse(fused, plain), 1e-9);
  // int8 activations with a scale per 32 or 256 values: relative error of a product about 0.5 to 1 %, squared.
  EXPECT_LE(nmse(fused, reference), 1e-3);
}

TEST_P(SessionTest, ReferenceDoesNotDependOnChunking) {
  auto session = open_session(path_, {.backend = "reference"});
  const std::span<const int32_t> tokens(tokens_);
  EXPECT_EQ(all_logits(*session, tokens.first(30), 30), all_logits(*session, tokens.first(30), 4));
}

TEST_P(SessionTest, CacheTypesStayClose) {
  const auto exact = all_logits(*open_session(path_, {.kv_type = DType::f32}), tokens_, 25);
  const auto half = all_logits(*open_session(path_, {.kv_type = DType::f16}), tokens_, 25);
  const auto int8 = all_logits(*open_session(path_, {.kv_type = DType::q8_0}), tokens_, 25);
  // A last-bit change of a key flips int8 codes of later activations: the bound is that of
  // FusedUnfusedAndReferenceAgree.
  EXPECT_LE(nmse(half, exact), 1e-3);
  EXPECT_LE(nmse(int8, exact), 1e-2);
  // 8 and 4 bits of each number: 2^-9 and 2^-5 of it at most, squared.
  const auto bf16 = all_logits(*open_session(path_, {.kv_type = DType::bf16}), tokens_, 25);
  const auto fp8 = all_logits(*open_session(path_, {.kv_type = DType::f8_e4m3}), tokens_, 25);
  EXPECT_LE(nmse(bf16, exact), 1e-3);
  EXPECT_LE(nmse(fp8, exact), 1e-2);
  EXPECT_NE(bf16, half);
  EXPECT_NE(fp8, int8);
  EXPECT_NE(half, exact);
  EXPECT_NE(int8, half);
}

TEST_P(SessionTest, TruncateAndRegenerateGiveTheSameLogits) {
  auto session = open_session(path_, {});
  const int32_t seq_id = session->add_sequence();
  const auto run = [&](std::span<const int32_t> tokens) {
    const auto logits = session->prefill(seq_id, tokens);
    EXPECT_TRUE(logits) << logits.error().message();
    return std::vector<float>(logits->begin(), logits->end());
  };
  const std::span<const int32_t> tokens(tokens_);
  run(tokens.first(30));
  const auto first = run(tokens.subspan(30, 10));
  EXPECT_EQ(session->truncate(seq_id, 30), 30);
  run(tokens.subspan(50, 5));
  EXPECT_EQ(session->truncate(seq_id, 30), 30);
  EXPECT_EQ(run(tokens.subspan(30, 10)), first);
}

INSTANTIATE_TEST_SUITE_P(Families, SessionTest, testing::Range<size_t>(0, 5),
                         [](const auto& param) { return families()[param.param].arch; });

TEST(SessionErrorsTest, PromptLongerThanTheContextChangesNothing) {
  auto session = open_session(test::write_tiny_model({}), {.n_ctx = 100});
  const int32_t seq_id = session->add_sequence();
  const auto tokens = test::random_tokens(101, 96, 3);
  const auto logits = session->prefill(seq_id, tokens);
  ASSERT_FALSE(logits);
  EXPECT_EQ(logits.error().code, ErrorCode::context_full);
  EXPECT_NE(logits.error().message().find("101"), std::string::npos);
  EXPECT_EQ(session->n_tokens(seq_id), 0);
  EXPECT_TRUE(session->prefill(seq_id, std::span(tokens).first(100)));
}

TEST(SessionErrorsTest, TokenOutsideTheVocabularyIsRefused) {
  auto session = open_session(test::write_tiny_model({}), {});
  const int32_t seq_id = session->add_sequence();
  for (int32_t bad : {-5, 96, INT32_MAX}) {
    const auto logits = session->prefill(seq_id, {&bad, 1});
    ASSERT_FALSE(logits);
    EXPECT_EQ(logits.error().code, ErrorCode::bad_argument);
    EXPECT_EQ(session->n_tokens(seq_id), 0);
  }
}

TEST(SessionErrorsTest, UnknownAndRepeatedSequencesAreRefused) {
  auto session = open_session(test::write_tiny_model({}), {});
  const int32_t a = session->add_sequence(), b = session->add_sequence();
  const std::vector<int32_t> tokens = {1, 2, 3};
  const auto refused = [&](const std::vector<SequenceTokens>& batch) {
    const auto logits = session->forward(batch);
    if (logits) return std::string("accepted");
    EXPECT_EQ(logits.error().code, ErrorCode::bad_argument);
    return logits.error().message();
  };
  for (int32_t unknown : {-1, b + 1, INT32_MAX, INT32_MIN}) {
    EXPECT_NE(refused({{a, tokens}, {unknown, tokens}}).find("no such sequence"), std::string::npos) << unknown;
    EXPECT_FALSE(session->prefill(unknown, tokens));
  }
  EXPECT_NE(refused({{a, tokens}, {b, tokens}, {a, tokens}}).find("sequence 0: stands in the batch more than once"),
            std::string::npos);
  EXPECT_EQ(session->n_tokens(a), 0);
  EXPECT_EQ(session->n_tokens(b), 0);
  session->free_sequence(b);
  EXPECT_NE(refused({{b, tokens}}).find("no such sequence"), std::string::npos);
  EXPECT_TRUE(session->forward(std::vector<SequenceTokens>{{a, tokens}}));
}

TEST(SessionErrorsTest, OptionsOutOfRangeAreNamed) {
  const auto path = test::write_tiny_model({});
  const auto model = Model::open(path);
  ASSERT_TRUE(model);
  const auto refuse = [&](SessionOptions options) {
    const auto session = Session::create(*model, std::move(options));
    EXPECT_FALSE(session);
    return session ? std::string() : session.error().message();
  };
  EXPECT_NE(refuse({.backend = "tpu"}).find("cpu, reference"), std::string::npos);
  EXPECT_NE(refuse({.isa = "mmx"}).find("mmx"), std::string::npos);
  EXPECT_NE(refuse({.n_threads = -1}).find("--threads"), std::string::npos);
  EXPECT_NE(refuse({.page_size = 7}).find("page size"), std::string::npos);
  EXPECT_NE(refuse({.kv_type = DType::q4_0}).find("f16, f32, bf16, q8_0 or f8_e4m3"), std::string::npos);
}

TEST(SessionErrorsTest, HeadsOfBrokenBlocksNeedAnotherCacheType) {
  const auto model = Model::open(test::write_tiny_model({.head_dim = 48, .types = {DType::f32}}));
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_TRUE(Session::create(*model, {}));
  const auto session = Session::create(*model, {.kv_type = DType::q8_0});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, ErrorCode::bad_argument);
  EXPECT_NE(session.error().message().find("use f16, bf16 or f8_e4m3"), std::string::npos);
  EXPECT_TRUE(Session::create(*model, {.kv_type = DType::f8_e4m3}));
}

TEST(SessionErrorsTest, LoadingCanBeCancelled) {
  const auto model = Model::open(test::write_tiny_model({}));
  ASSERT_TRUE(model);
  const auto session = Session::create(*model, {}, [](double) { return false; });
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, ErrorCode::cancelled);
}

}  // namespace
}  // namespace tokamak

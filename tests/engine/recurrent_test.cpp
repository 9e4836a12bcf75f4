// Models with recurrent layers: every way to the same tokens gives the same logits, bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "engine/session.h"
#include "support/tiny_model.h"
#include "synth/synth.h"

namespace tokamak {
namespace {

constexpr int64_t kSnapshots = 4;
constexpr size_t kPrompt = 23, kTotal = 40;

struct Case {
  const char* arch;
  bool has_experts;
  const char* backend;
  int64_t n_threads;
};

std::shared_ptr<const Model> model_of(const Case& c) {
  static std::map<std::string, std::shared_ptr<const Model>> models;
  std::shared_ptr<const Model>& model = models[c.arch];
  if (model) return model;
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("tokamak-recurrent-{}-{}.gguf", c.arch, getpid());
  const auto writer = synth(*arch::find_dummy(c.arch, c.has_experts), {.type = DType::f16, .seed = 7});
  EXPECT_TRUE(writer && writer->write(path)) << c.arch;
  auto opened = Model::open(path);
  EXPECT_TRUE(opened) << opened.error().message();
  std::filesystem::remove(path);  // stays mapped
  return model = *opened;
}

class Recurrent : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Session> open(int64_t n_batch = 512) const {
    auto session = Session::create(model_of(GetParam()), {.backend = GetParam().backend,
                                                          .n_threads = GetParam().n_threads,
                                                          .n_batch = n_batch,
                                                          .n_snapshots = kSnapshots});
    EXPECT_TRUE(session) << session.error().message();
    return std::move(*session);
  }

  // Logits of every token, in one step.
  static std::vector<float> step(Session& session, int32_t seq_id, std::span<const int32_t> tokens) {
    const SequenceTokens batch{seq_id, tokens, Logits::all};
    const auto logits = session.forward({&batch, 1});
    EXPECT_TRUE(logits) << logits.error().message();
    if (!logits) return {};
    return {logits->begin(), logits->end()};
  }

  // Of a cold session, all tokens in one step.
  std::vector<float> cold(std::span<const int32_t> tokens) const {
    const auto session = open();
    return step(*session, session->add_sequence(), tokens);
  }

  std::vector<int32_t> tokens_ = test::random_tokens(kTotal, arch::kDummyVocab, 3);
  std::vector<int32_t> other_ = test::random_tokens(kTotal, arch::kDummyVocab, 4);
  std::span<const int32_t> all_ = tokens_, others_ = other_;
};

void append(std::vector<float>& out, const std::vector<float>& part) {
  out.insert(out.end(), part.begin(), part.end());
}

// Rows [begin, end) of logits.
std::vector<float> rows(const std::vector<float>& logits, size_t begin, size_t end) {
  constexpr size_t n = arch::kDummyVocab;
  return {logits.begin() + static_cast<int64_t>(begin * n), logits.begin() + static_cast<int64_t>(end * n)};
}

std::vector<int32_t> joined(std::span<const int32_t> a, std::span<const int32_t> b) {
  std::vector<int32_t> out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

TEST_P(Recurrent, ChunksAndDecoding) {
  const std::vector<float> expected = cold(all_);
  for (size_t chunk : {size_t{1}, size_t{3}, size_t{16}, kPrompt}) {
    const auto session = open();
    const int32_t seq_id = session->add_sequence();
    std::vector<float> logits;
    for (size_t begin = 0; begin < kPrompt; begin += chunk)
      append(logits, step(*session, seq_id, all_.subspan(begin, std::min(chunk, kPrompt - begin))));
    for (size_t i = kPrompt; i < kTotal; ++i) append(logits, step(*session, seq_id, all_.subspan(i, 1)));
    EXPECT_TRUE(logits == expected) << "chunks of " << chunk;
  }
}

// A draft of 4 tokens of which some are taken back, as speculation does.
TEST_P(Recurrent, RollbackBySnapshots) {
  for (int64_t n_back = 1; n_back < kSnapshots; ++n_back) {
    const auto session = open();
    const int32_t seq_id = session->add_sequence();
    step(*session, seq_id, all_.first(kPrompt));
    const std::vector<int32_t> draft = joined(all_.subspan(kPrompt, static_cast<size_t>(kSnapshots - n_back)),
                                              others_.first(static_cast<size_t>(n_back)));
    step(*session, seq_id, draft);
    const int64_t n_kept = static_cast<int64_t>(kPrompt) + kSnapshots - n_back;
    ASSERT_EQ(session->truncate(seq_id, n_kept), n_kept) << "back by " << n_back;
    std::vector<float> logits;
    for (size_t i = static_cast<size_t>(n_kept); i < kTotal; ++i)
      append(logits, step(*session, seq_id, all_.subspan(i, 1)));
    EXPECT_TRUE(logits == rows(cold(all_), static_cast<size_t>(n_kept), kTotal)) << "back by " << n_back;
  }
}

// Where no state is kept, the session says how far it went back, and goes on exactly from there.
TEST_P(Recurrent, RollbackBeyondTheSnapshotsIsExactToo) {
  const auto session = open();
  const int32_t seq_id = session->add_sequence();
  step(*session, seq_id, all_.first(kPrompt));
  for (size_t i = 0; i < 6; ++i) step(*session, seq_id, others_.subspan(i, 1));
  const int64_t left = session->truncate(seq_id, kPrompt);
  ASSERT_LE(left, static_cast<int64_t>(kPrompt));
  const std::vector<float> logits = step(*session, seq_id, all_.subspan(static_cast<size_t>(left)));
  EXPECT_TRUE(logits == rows(cold(all_), static_cast<size_t>(left), kTotal));
}

// The next request shares the prompt: its state is kept from the end of the prompt.
TEST_P(Recurrent, PrefixReuse) {
  const auto session = open(/*n_batch=*/kTotal - kPrompt);  // the prompt takes two steps
  const int32_t seq_id = session->add_sequence();
  ASSERT_TRUE(session->prefill(seq_id, all_.first(kPrompt)));
  for (size_t i = 0; i < 7; ++i) step(*session, seq_id, all_.subspan(kPrompt + i, 1));
  ASSERT_EQ(session->truncate(seq_id, kPrompt), static_cast<int64_t>(kPrompt));
  const std::vector<int32_t> second = joined(all_.first(kPrompt), others_.first(5));
  std::vector<float> logits = step(*session, seq_id, std::span(second).subspan(kPrompt));
  EXPECT_TRUE(logits == rows(cold(second), kPrompt, second.size()));
  // And once more, from the same place.
  ASSERT_EQ(session->truncate(seq_id, kPrompt), static_cast<int64_t>(kPrompt));
  logits = step(*session, seq_id, all_.subspan(kPrompt));
  EXPECT_TRUE(logits == rows(cold(all_), kPrompt, kTotal));
}

// Two sequences of different lengths in one step, one of them new.
TEST_P(Recurrent, SequencesTogether) {
  const auto session = open();
  const int32_t a = session->add_sequence(), b = session->add_sequence();
  std::vector<float> logits_a = step(*session, a, all_.first(kPrompt)), logits_b;
  size_t at_a = kPrompt, at_b = 0;
  for (const auto& [n_a, n_b] : {std::pair<size_t, size_t>{1, 9}, {5, 1}, {1, 1}, {3, 4}}) {
    const SequenceTokens batch[] = {{a, all_.subspan(at_a, n_a), Logits::all},
                                    {b, others_.subspan(at_b, n_b), Logits::all}};
    const auto logits = session->forward(batch);
    ASSERT_TRUE(logits) << logits.error().message();
    const std::vector<float> both(logits->begin(), logits->end());
    append(logits_a, rows(both, 0, n_a));
    append(logits_b, rows(both, n_a, n_a + n_b));
    at_a += n_a;
    at_b += n_b;
  }
  EXPECT_TRUE(logits_a == cold(all_.first(at_a)));
  EXPECT_TRUE(logits_b == cold(others_.first(at_b)));
}

// A freed sequence leaves nothing behind for the next one.
TEST_P(Recurrent, AFreedSequenceIsForgotten) {
  const auto session = open();
  const int32_t first = session->add_sequence();
  step(*session, first, others_);
  session->free_sequence(first);
  EXPECT_TRUE(step(*session, session->add_sequence(), all_) == cold(all_));
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const auto& [arch, has_experts] :
       {std::pair<const char*, bool>{"qwen3next", true}, {"qwen35", false}, {"qwen35moe", true}}) {
    out.push_back({arch, has_experts, "cpu", 1});
    out.push_back({arch, has_experts, "cpu", 2});
    out.push_back({arch, has_experts, "reference", 1});
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(Models, Recurrent, testing::ValuesIn(cases()), [](const auto& model) {
  return std::string(model.param.arch) + "_" + model.param.backend + "_" + std::to_string(model.param.n_threads);
});

TEST(RecurrentThreads, OneAndTwoAgree) {
  const auto tokens = test::random_tokens(kTotal, arch::kDummyVocab, 3);
  const auto run = [&](int64_t n_threads) {
    const auto session =
        Session::create(model_of({"qwen3next", true, "cpu", 1}), {.n_threads = n_threads, .n_snapshots = kSnapshots});
    EXPECT_TRUE(session) << session.error().message();
    const SequenceTokens batch{(*session)->add_sequence(), tokens, Logits::all};
    const auto logits = (*session)->forward({&batch, 1});
    EXPECT_TRUE(logits) << logits.error().message();
    return std::vector<float>(logits->begin(), logits->end());
  };
  EXPECT_TRUE(run(1) == run(2));
}

}  // namespace
}  // namespace tokamak

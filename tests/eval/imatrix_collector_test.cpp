#include "eval/imatrix_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "eval/eval_helpers.h"
#include "support/tiny_model.h"

namespace tokamak {
namespace {

using test::open_session;
using testing::HasSubstr;
constexpr int64_t kCtx = 19, kChunks = 3;

TextChunks text_of() { return *divide_tokens(test::random_tokens(kChunks * kCtx, 96, 5), kCtx, kNoToken); }

// Families whose matmuls run in each fused form: residual, bias, gate and up.
std::vector<test::TinyModel> families() {
  return {{.arch = "llama", .types = {DType::q8_0, DType::q4_k}},
          {.arch = "qwen2", .types = {DType::q5_0}},
          {.arch = "gemma3", .n_layer = 4, .head_dim = 128, .window = 8, .types = {DType::f16, DType::q6_k}}};
}

struct Collected {
  ImatrixFile file;
  int64_t n_done = 0;
};

Collected collect(const std::filesystem::path& path, SessionOptions options, const CollectOptions& run = {},
                  bool with_output = false, const ImatrixFile* earlier = nullptr) {
  ImatrixCollector collector(with_output);
  if (earlier) {
    EXPECT_TRUE(collector.merge(*earlier));
  }
  options.n_ctx = kCtx;
  options.compile.matmul_observer = collector.observer();
  const auto session = open_session(path, std::move(options));
  const auto n_done = collect_imatrix(*session, text_of(), collector, run);
  EXPECT_TRUE(n_done) << n_done.error().message();
  auto file = collector.result(kCtx);
  EXPECT_TRUE(file) << file.error().message();
  return {std::move(*file), *n_done};
}

std::vector<float> logits_with(const std::filesystem::path& path, const std::string& backend, MatmulObserver observer) {
  SessionOptions options{.backend = backend, .n_threads = 2, .n_ctx = kCtx};
  options.compile.matmul_observer = std::move(observer);
  const auto session = open_session(path, std::move(options));
  const TextChunks text = text_of();
  const SequenceTokens chunk{session->add_sequence(), text.chunk(0), Logits::all};
  const auto logits = session->forward({&chunk, 1});
  EXPECT_TRUE(logits) << logits.error().message();
  return {logits->begin(), logits->end()};
}

TEST(MatmulObserver, SeesEveryMatrixOnceAndChangesNothing) {
  for (const test::TinyModel& family : families()) {
    const auto path = test::write_tiny_model(family);
    for (const char* backend : {"cpu", "reference"}) {
      std::multiset<std::string> seen;
      const auto observer = [&](const MatmulInput& input) {
        seen.emplace(input.weight);
        EXPECT_EQ(input.n_rows, kCtx) << input.weight;
        EXPECT_GE(input.row_stride_elems, input.k);
      };
      EXPECT_EQ(logits_with(path, backend, observer), logits_with(path, backend, {})) << family.arch << " " << backend;
      std::multiset<std::string> wanted = {"token_embd.weight"};
      for (int64_t i = 0; i < family.n_layer; ++i)
        for (const char* role : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
          wanted.insert("blk." + std::to_string(i) + "." + role + ".weight");
      EXPECT_EQ(seen, wanted) << family.arch << " " << backend;
    }
  }
}

TEST(ImatrixCollector, SumsAreThoseOfTheReferenceActivations) {
  const auto path = test::write_tiny_model({});
  // By hand: every input of every matrix, squared.
  std::map<std::string, std::vector<double>, std::less<>> wanted;
  SessionOptions options{.backend = "reference", .n_ctx = kCtx};
  options.compile.matmul_observer = [&](const MatmulInput& input) {
    auto& sums = wanted[std::string(input.weight)];
    sums.resize(static_cast<size_t>(input.k));
    for (int64_t r = 0; r < input.n_rows; ++r)
      for (int64_t i = 0; i < input.k; ++i)
        sums[static_cast<size_t>(i)] += std::pow(double{input.x[r * input.row_stride_elems + i]}, 2);
  };
  const auto session = open_session(path, std::move(options));
  const TextChunks text = text_of();
  for (int64_t c = 0; c < kChunks; ++c) {
    const SequenceTokens chunk{session->add_sequence(), text.chunk(c), Logits::all};
    ASSERT_TRUE(session->forward({&chunk, 1}));
    session->free_sequence(chunk.seq_id);
  }

  const ImatrixFile reference = collect(path, {.backend = "reference"}).file;
  const ImatrixFile cpu = collect(path, {}).file;
  ASSERT_EQ(reference.entries.size(), 14u);
  ASSERT_EQ(cpu.entries.size(), 14u);
  EXPECT_EQ(cpu.n_chunks, kChunks);
  EXPECT_EQ(cpu.chunk_size, kCtx);
  for (const ImatrixEntry& entry : cpu.entries) {
    const auto& sums = wanted.at(entry.name);
    const ImatrixEntry& same = *reference.find(entry.name);
    ASSERT_EQ(entry.sums.size(), sums.size());
    EXPECT_EQ(entry.counts, std::vector<float>{kChunks * kCtx});
    double error = 0, total = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      EXPECT_EQ(same.sums[i], static_cast<float>(sums[i])) << entry.name;
      error += std::pow(entry.sums[i] - sums[i], 2);
      total += std::pow(sums[i], 2);
    }
    EXPECT_LT(error, 1e-6 * total) << entry.name;  // NMSE of 15-bit activations
  }
}

TEST(ImatrixCollector, SumsDoNotDependOnBatchThreadsOrFusion) {
  const auto path = test::write_tiny_model(families()[2]);
  const ImatrixFile wanted = collect(path, {.n_threads = 1}).file;
  SessionOptions unfused{.n_threads = 2};
  unfused.compile.fusion = false;
  for (const SessionOptions& options : {SessionOptions{.n_threads = 3}, SessionOptions{.n_batch = 7}, unfused}) {
    const ImatrixFile got = collect(path, options).file;
    ASSERT_EQ(got.entries.size(), wanted.entries.size());
    for (size_t i = 0; i < got.entries.size(); ++i) {
      EXPECT_EQ(got.entries[i].sums, wanted.entries[i].sums) << got.entries[i].name;
      EXPECT_EQ(got.entries[i].counts, wanted.entries[i].counts);
    }
  }
}

TEST(ImatrixCollector, TheOutputMatrixIsMeasuredOnRequest) {
  const auto path = test::write_tiny_model({});
  EXPECT_EQ(collect(path, {}).file.find("token_embd.weight"), nullptr);
  const ImatrixFile with_output = collect(path, {}, {}, true).file;
  ASSERT_NE(with_output.find("token_embd.weight"), nullptr) << "the output matrix of this model";
  EXPECT_EQ(with_output.find("token_embd.weight")->row_elems, 256);
}

TEST(ImatrixCollector, StopsResumesAndMergesToTheSame) {
  const auto path = test::write_tiny_model({});
  const ImatrixFile whole = collect(path, {}).file;
  const auto stop = [](int64_t n_done, int64_t n_chunks) -> Result<bool> {
    EXPECT_EQ(n_chunks, kChunks);
    return n_done < 1;
  };
  const Collected first = collect(path, {}, {.after_chunk = stop});
  EXPECT_EQ(first.n_done, 1);
  EXPECT_EQ(first.file.n_chunks, 1u);
  const auto saved = test::scratch_file("first.gguf");
  ASSERT_TRUE(write_imatrix(first.file, saved));
  const auto read = read_imatrix(saved);
  ASSERT_TRUE(read) << read.error().message();
  const Collected rest = collect(path, {}, {.first_chunk = 1}, false, &*read);
  EXPECT_EQ(rest.n_done, kChunks - 1);
  EXPECT_EQ(rest.file.n_chunks, kChunks);
  for (size_t i = 0; i < whole.entries.size(); ++i) {
    EXPECT_EQ(rest.file.entries[i].counts, whole.entries[i].counts);
    // The sums went through f32 once.
    for (size_t k = 0; k < whole.entries[i].sums.size(); ++k)
      EXPECT_NEAR(rest.file.entries[i].sums[k], whole.entries[i].sums[k], 0x1p-22 * whole.entries[i].sums[k]);
  }
}

TEST(ImatrixCollector, MergesOlderFilesByTokens) {
  ImatrixFile gguf{
      .entries = {{"blk.0.attn_q.weight", 2, {30, 60}, {10}}}, .datasets = {"a"}, .n_chunks = 1, .chunk_size = 10};
  // The older form counts chunks of 512 tokens.
  const ImatrixFile dat{.entries = {{"blk.0.attn_q.weight", 2, {2, 4}, {2}}},
                        .datasets = {"a", "b"},
                        .n_chunks = 2,
                        .counts_chunks = true};
  ImatrixCollector collector(false);
  ASSERT_TRUE(collector.merge(gguf));
  ASSERT_TRUE(collector.merge(dat));
  const auto merged = collector.result(10);
  ASSERT_TRUE(merged);
  EXPECT_THAT(merged->entries[0].sums, testing::ElementsAre(30 + 1024, 60 + 2048));
  EXPECT_THAT(merged->entries[0].counts, testing::ElementsAre(10 + 1024));
  EXPECT_THAT(merged->datasets, testing::ElementsAre("a", "b"));
  EXPECT_EQ(merged->n_chunks, 3u);

  // A GGUF file that does not say its chunk size counts tokens all the same.
  ImatrixCollector unsaid(false);
  gguf.chunk_size = 0;
  ASSERT_TRUE(unsaid.merge(gguf));
  EXPECT_THAT(unsaid.result(10)->entries[0].sums, testing::ElementsAre(30, 60));

  gguf.entries[0] = {"blk.0.attn_q.weight", 3, {1, 2, 3}, {1}};
  gguf.path = "other.gguf";
  const auto refused = collector.merge(gguf);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::bad_argument);
  EXPECT_THAT(refused.error().message(), HasSubstr("other.gguf"));
  EXPECT_THAT(refused.error().message(), HasSubstr("blk.0.attn_q.weight has 3 values here and 2 elsewhere"));
}

TEST(ImatrixCollector, FilesOfAnotherModelAreRefused) {
  const GgufFile model = *GgufFile::open(test::write_tiny_model({}));
  const auto error_of = [&](ImatrixEntry entry) {
    const ImatrixFile file{.entries = {std::move(entry)}, .path = "other.gguf"};
    const auto checked = check_same_model(file, model);
    EXPECT_TRUE(checked || checked.error().code == ErrorCode::bad_argument);
    return checked ? "" : checked.error().message();
  };
  EXPECT_EQ(error_of({"blk.0.attn_q.weight", 256, std::vector<float>(256), {1}}), "");
  EXPECT_THAT(error_of({"blk.9.attn_q.weight", 256, std::vector<float>(256), {1}}),
              HasSubstr("other.gguf: the model has no tensor blk.9.attn_q.weight"));
  EXPECT_THAT(error_of({"blk.0.attn_q.weight", 128, std::vector<float>(128), {1}}), HasSubstr("here 1 x 128 columns"));
  EXPECT_THAT(error_of({"blk.0.attn_q.weight", 256, std::vector<float>(512), {1, 1}}),
              HasSubstr("here 2 x 256 columns"));
}

}  // namespace
}  // namespace tokamak

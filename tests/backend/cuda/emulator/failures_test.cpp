// Every call of the runtime fails once: what was asked for fails with a reason or goes on, nothing is lost, and what
// comes later is right.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "backend/cuda/backend.h"
#include "backend/cuda/emulator/faults.h"
#include "ir/builder.h"

namespace tokamak::cuda::emulator {
namespace {

constexpr int64_t kVocab = 64, kWidth = 64, kPage = 16, kPages = 40;

// A product with quantized weights, attention over a cache, logits.
ir::Graph graph_of(int64_t n) {
  ir::GraphBuilder b("story");
  const ir::ValueId positions = b.input(ir::InputRole::positions, {n}), slots = b.input(ir::InputRole::slots, {n}),
                    seq_ids = b.input(ir::InputRole::seq_ids, {n});
  const ir::ValueId x =
      b.get_rows(b.weight("table", DType::q8_0, {kVocab, kWidth}), b.input(ir::InputRole::tokens, {n}));
  const ir::ValueId heads = b.reshape(b.mul_mat(b.weight("q", DType::q8_0, {kWidth, kWidth}), x), {n, 1, kWidth});
  const auto cache = [&](ir::StateRole role) {
    return b.set_rows(b.state(role, 0, DType::f16, {kPages * kPage, 1, kWidth}), heads, slots);
  };
  const ir::ValueId keys = cache(ir::StateRole::kv_k), values = cache(ir::StateRole::kv_v);
  const ir::ValueId turned = b.rope(heads, positions, {.n_rot = kWidth});
  const ir::ValueId y = b.flash_attn_ext(turned, keys, values, positions, seq_ids, {.scale = 0.125});
  b.output(b.mul_mat(b.weight("table", DType::q8_0, {kVocab, kWidth}), b.reshape(y, {n, kWidth})));
  return std::move(*b.finish());
}

// A load and steps of a token each, the last at a depth where keys are split.
class Story {
 public:
  // Every part is tried again when it has failed, if the device still works. False: it cannot go on.
  bool run() {
    if (!tell([&] { return keep(backend_, make_cuda_backend()); })) return false;
    const ir::Graph graph = graph_of(1);
    const std::vector<std::byte> bytes(kVocab * kWidth / 32 * 34, std::byte{0x21});
    const WeightLookup lookup = [&](std::string_view) -> Result<WeightSource> {
      return WeightSource{.dtype = DType::q8_0, .shape = Shape{kVocab, kWidth}, .data = bytes, .forget = {}};
    };
    const KvConfig config{.layers = {{1, kWidth, kWidth}}, .n_pages = kPages, .page_size = kPage};
    if (!tell([&] { return keep(weights_, backend_->load(graph, lookup, {})); }) ||
        !tell([&] { return keep(kv_, backend_->make_kv(config)); }) ||
        !tell([&] { return keep(program_, backend_->compile(graph, *weights_, *kv_, {})); }))
      return false;
    for (const int32_t position : {0, 1, 2, 3, 600, 601, 602})
      if (!tell([&] { return step(position); })) return false;
    return true;
  }
  std::vector<std::vector<float>> results;
  std::vector<Error> errors;
  uint64_t graph_bytes() const {
    for (const MemoryUse& use : kv_->memory())
      if (use.what == "captured graphs on the GPU") return use.n_bytes;
    return UINT64_MAX;
  }

 private:
  template <class T>
  static Result<void> keep(std::unique_ptr<T>& out, Result<std::unique_ptr<T>> made) {
    if (!made) return std::move(made.error());
    out = *std::move(made);
    return {};
  }
  template <class Part>
  bool tell(Part part) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Result<void> done = part();
      if (done) return true;
      errors.push_back(done.error());
      if (backend_ && backend_->lost()) return false;
    }
    return false;
  }
  Result<void> step(int32_t position) {
    std::vector<int32_t> pages(kPages);
    std::iota(pages.rbegin(), pages.rend(), 0);
    const int32_t token = position % kVocab, zero = 0;
    const int32_t slot = pages[static_cast<size_t>(position / kPage)] * int32_t{kPage} + position % int32_t{kPage};
    const SequencePages sequence{pages};
    std::vector<float> logits(kVocab);
    const std::span<float> output = logits;
    const Result<void> ran = program_->run({.tokens = {&token, 1},
                                            .positions = {&position, 1},
                                            .seq_ids = {&zero, 1},
                                            .slots = {&slot, 1},
                                            .sequences = {&sequence, 1}},
                                           {&output, 1});
    if (ran) results.push_back(std::move(logits));
    return ran;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<KvCache> kv_;
  std::unique_ptr<Program> program_;
};

const std::vector<std::vector<float>>& expected() {
  static const std::vector<std::vector<float>> results = [] {
    mend();
    Story story;
    EXPECT_TRUE(story.run());
    EXPECT_GT(story.graph_bytes(), 0u);
    EXPECT_LT(story.graph_bytes(), uint64_t{1} << 20);
    return story.results;
  }();
  return results;
}

TEST(EmulatorFailures, NoMemoryIsToldAndWhatComesLaterIsRight) {
  ASSERT_EQ(expected().size(), 7u);
  ASSERT_EQ(n_alive(), 0);
  int64_t n = 0, n_silent = 0;
  for (bool came = true; came; ++n) {
    order({.calls = Calls::taking_memory, .n_before = n, .error = cudaErrorMemoryAllocation});
    {
      Story story;
      EXPECT_TRUE(story.run()) << n;
      came = mend();
      EXPECT_EQ(story.results, expected()) << n;
      EXPECT_LE(story.errors.size(), came ? 1u : 0u) << n;
      n_silent += came && story.errors.empty();
      for (const Error& error : story.errors) EXPECT_EQ(error.code, ErrorCode::out_of_memory) << error.message();
    }
    EXPECT_EQ(n_alive(), 0) << n;
  }
  EXPECT_GT(n, 10);
  EXPECT_GE(n_silent, 4) << "graphs that are not made: of short and of long contexts, and their uploads";
}

TEST(EmulatorFailures, ALostDeviceFailsEverythingWithOneReason) {
  ASSERT_EQ(expected().size(), 7u);
  int64_t n = 0;
  for (bool came = true; came; n += 1 + n / 40) {  // all of the first, then fewer
    order({.calls = Calls::all, .n_before = n, .error = cudaErrorLaunchFailure, .stays = true});
    {
      Story story;
      const bool ran = story.run();
      EXPECT_TRUE(std::ranges::equal(story.results, std::span(expected()).first(story.results.size()))) << n;
      EXPECT_NE(ran, !story.errors.empty()) << n;
      for (const Error& error : story.errors) EXPECT_EQ(error.code, ErrorCode::device_failed) << n << error.message();
    }
    came = mend();
    EXPECT_EQ(n_alive(), 0) << n;
  }
  EXPECT_GT(n, 50);
}

}  // namespace
}  // namespace tokamak::cuda::emulator

// The caches of several children behave like one.
#include "backend/split/split_helpers.h"
#include "fuse/rules.h"

namespace tokamak::split {
namespace {

const std::vector<int32_t> kPrompt = {3, 14, 15, 92, 65, 35, 89};
const TestStep kPrefill{.tokens = {kPrompt, {}}, .n_outputs = 1}, kNext{.tokens = {{26}, {}}, .n_outputs = 1};

class SplitCache : public testing::TestWithParam<const char*> {
 protected:
  TestModel model_ = TestModel::of(*arch::find_dummy(GetParam(), false));
  std::unique_ptr<Backend> split_ = test_split(test_cpu(), {.placement = {.n_gpu_layers = 1}});
  std::unique_ptr<Backend> whole_ = test_cpu();
};

std::vector<std::byte> page_of(KvCache& kv, int64_t page) {
  std::vector<std::byte> out(kv.page_bytes());
  kv.read_page(page, out);
  return out;
}

TEST_P(SplitCache, PagesCanBeCopiedReadAndWritten) {
  Runner expected(model_, *whole_), copied(model_, *split_), moved(model_, *split_);
  const std::vector<float> first = expected.run(kPrefill), second = expected.run(kNext);
  EXPECT_EQ(copied.kv().page_bytes(), expected.kv().page_bytes());

  EXPECT_TRUE(copied.run(kPrefill) == first);
  const std::vector<std::byte> page = page_of(copied.kv(), 0);
  copied.kv().copy_page(0, 7);
  EXPECT_TRUE(page_of(copied.kv(), 7) == page);
  copied.kv().write_page(0, std::vector<std::byte>(page.size(), std::byte{1}));
  copied.use_page(0, 7);
  EXPECT_TRUE(copied.run(kNext) == second);

  EXPECT_TRUE(moved.run(kPrefill) == first);
  moved.kv().write_page(0, std::vector<std::byte>(page.size()));
  moved.kv().write_page(7, page);
  moved.use_page(0, 7);
  EXPECT_TRUE(moved.run(kNext) == second);
}

TEST_P(SplitCache, StatesAreInTheOrderOfTheLayers) {
  Runner expected(model_, *whole_), split(model_, *split_);
  const auto n = static_cast<size_t>(state_row_floats(expected.kv().config()));
  ASSERT_EQ(static_cast<size_t>(state_row_floats(split.kv().config())), n);
  expected.run(kPrefill);
  split.run(kPrefill);
  std::vector<float> a(n), b(n), none(n);
  expected.kv().read_states(0, a);
  split.kv().read_states(0, b);
  EXPECT_TRUE(a == b);
  split.kv().write_states(0, none);
  split.kv().write_states(0, a);
  EXPECT_TRUE(split.run(kNext) == expected.run(kNext));
}

TEST_P(SplitCache, MemoryNamesTheDevice) {
  Runner split(model_, *split_), whole(model_, *whole_);
  const auto sum = [](const std::vector<MemoryUse>& uses, std::string_view what) {
    uint64_t n = 0;
    for (const MemoryUse& use : uses)
      if (use.what.starts_with(what)) n += use.n_bytes;
    return n;
  };
  EXPECT_EQ(sum(split.kv().memory(), "kv cache"), sum(whole.kv().memory(), "kv cache"));
  for (const char* device : {"(GPU)", "(CPU)"}) {
    bool found = false;
    for (const MemoryUse& use : split.weights().memory()) found |= use.n_bytes > 0 && use.what.ends_with(device);
    EXPECT_TRUE(found) << device;
  }
}

TEST(SplitPages, ALayoutOfPagesIsThatOfAPlacement) {
  const TestModel model = TestModel::of(*arch::find_dummy("llama", false));
  const auto layout = [&](PlacementOptions placement) {
    const auto backend = test_split(test_cpu(), {.placement = placement});
    return Runner(model, *backend).kv().page_layout();
  };
  EXPECT_EQ(layout({.n_gpu_layers = 1}), "1 layers CPU, 1 layers GPU");
  EXPECT_EQ(layout({.n_gpu_layers = 1}), layout({.n_gpu_layers = 1}));
  EXPECT_EQ(layout({}), "") << "all on one of them, which lays out pages in one way";
}

INSTANTIATE_TEST_SUITE_P(Archs, SplitCache, testing::Values("llama", "qwen35"));

TEST(SplitProgram, StepsNameTheirDevice) {
  const TestModel model = TestModel::of(*arch::find_dummy("qwen3moe", true));
  const auto backend = test_split(test_cpu(), {.placement = {.n_cpu_moe = 99}});
  Runner runner(model, *backend);
  runner.run(kPrefill);
  Program& program = runner.program();
  size_t n_experts = 0, n_boundary = 0;
  for (const StepReport& step : program.steps()) {
    EXPECT_TRUE(step.note.starts_with("on the GPU") || step.note.starts_with("on the CPU")) << step.note;
    EXPECT_EQ(step.on_host, step.label == "boundary" || step.note.starts_with("on the CPU")) << step.what;
    n_boundary += step.label == "boundary";
    if (step.what.find("_exps") == std::string::npos || step.label == "pack") continue;
    ++n_experts;
    EXPECT_TRUE(step.note.starts_with("on the CPU")) << step.what;
  }
  EXPECT_GT(n_experts, 0u);
  EXPECT_GT(n_boundary, model.hparams.layers.size()) << "in and out of the experts of every layer";
  const std::vector<ir::Group>& groups = program.graph().groups;
  std::vector<int> n_steps(groups.size());
  for (const StepReport& step : program.steps())
    for (const size_t group : step.groups) {
      ASSERT_LT(group, groups.size());
      ++n_steps[group];
      const std::string label = fuse::group_label(program.graph(), groups[group]);
      EXPECT_TRUE(step.operations == 0 || step.label == label) << step.label << " for " << label;
    }
  for (size_t i = 0; i < groups.size(); ++i)
    EXPECT_EQ(n_steps[i] > 0, !fuse::member_nodes(program.graph(), groups[i]).empty()) << i;
  for (const fuse::StatsRow& row : backend->fusion_stats().rows()) EXPECT_EQ(row.graph, program.graph().name);
}

TEST(SplitProgram, ObserversSeeTheProductsOfAllChildren) {
  const TestModel model = TestModel::of(*arch::find_dummy("llama", false));
  const auto backend = test_split(test_cpu(), {.placement = {.n_gpu_layers = 1}});
  const auto weights = backend->load(model.graph({.n_tokens = 4}), model.lookup(), {});
  const auto kv = backend->make_kv(model.kv_config());
  ASSERT_TRUE(weights && kv);
  std::set<std::string, std::less<>> seen;
  const auto program =
      backend->compile(model.graph({}), **weights, **kv,
                       {.matmul_observer = [&](const MatmulInput& input) { seen.emplace(input.weight); }});
  ASSERT_TRUE(program);
  const std::vector<int32_t> zero = {0};
  const SequencePages pages{zero};
  std::vector<float> logits(static_cast<size_t>(model.hparams.n_vocab));
  const std::span<float> output = logits;
  ASSERT_TRUE((*program)->run(
      {.tokens = zero, .positions = zero, .seq_ids = zero, .slots = zero, .out_rows = zero, .sequences = {&pages, 1}},
      {&output, 1}));
  EXPECT_TRUE(seen.contains("blk.0.ffn_down.weight") && seen.contains("blk.1.ffn_down.weight"));
}

}  // namespace
}  // namespace tokamak::split

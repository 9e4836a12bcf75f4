// A GPU and the CPU together.
#include "backend/split/split_helpers.h"
#include "base/nmse.h"
#ifdef TOKAMAK_CUDA
#include "backend/cuda/backend.h"
#endif

namespace tokamak::split {
namespace {

#ifdef TOKAMAK_CUDA
// Two prompts, then a token each, several times: shapes that run again are launched as graphs.
std::vector<float> run_all(const TestModel& model, Backend& backend) {
  Runner runner(model, backend);
  std::vector<float> out = runner.run({.tokens = {{3, 14, 15, 92, 65, 35}, {8, 97, 93}}, .n_outputs = 9});
  for (const int32_t token : {46, 26, 43, 38})
    for (const float x : runner.run({.tokens = {{token}, {token + 1}}, .n_outputs = 2})) out.push_back(x);
  return out;
}

class GpuSplit : public testing::TestWithParam<size_t> {};  // row of the dummies

TEST_P(GpuSplit, LogitsAreThoseOfTheGpuAlone) {
  auto gpu = make_cuda_backend();
  if (!gpu) GTEST_SKIP() << gpu.error().message();
  const arch::DummyRow& dummy = arch::dummies()[GetParam()];
  const TestModel model = TestModel::of(dummy);
  const auto n_layer = static_cast<int64_t>(model.hparams.layers.size());
  const std::vector<float> whole = run_all(model, **gpu);
  std::vector<PlacementOptions> ways = {{.n_gpu_layers = n_layer - 1}};
  if (dummy.has_experts) ways.push_back({.n_cpu_moe = n_layer});
  for (const PlacementOptions& way : ways) {
    const auto split = test_split(std::move(*make_cuda_backend()), {.placement = way});
    EXPECT_LT(nmse(run_all(model, *split), whole), 1e-6)
        << "layers " << way.n_gpu_layers << ", experts " << way.n_cpu_moe;
    EXPECT_NE(split->remark(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuSplit, testing::Range(size_t{0}, arch::dummies().size()), [](const auto& row) {
  std::string name = arch::dummies()[row.param].name();
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
});

// Two of them on one GPU: each has its own stream, ledger and cache, as on two.
TEST(SplitOnGpu, SeveralDevicesShareTheLayers) {
  auto first = make_cuda_backend(), second = make_cuda_backend();
  if (!first || !second) GTEST_SKIP() << (first ? second : first).error().message();
  const TestModel model = TestModel::of(*arch::find_dummy("llama4", true));
  const std::vector<float> whole = run_all(model, **make_cuda_backend());
  std::vector<Child> children;
  children.push_back({"GPU 0", std::move(*first)});
  children.push_back({"GPU 1", std::move(*second)});
  children.push_back({"CPU", test_cpu()});
  const auto split = make_split_backend(std::move(children), {.max_bytes = model.file.n_bytes() / 2});
  EXPECT_LT(nmse(run_all(model, *split), whole), 1e-6);
  Runner runner(model, *split);
  uint64_t on_second = 0;
  for (const MemoryUse& use : runner.weights().memory())
    if (use.what.ends_with("(GPU 1)")) on_second += use.n_bytes;
  EXPECT_GT(on_second, 0u);
}

TEST(SplitOnGpu, WhatDoesNotFitIsDivided) {
  auto gpu = make_cuda_backend();
  if (!gpu) GTEST_SKIP() << gpu.error().message();
  const TestModel model = TestModel::of(*arch::find_dummy("qwen3moe", true));
  const auto split = test_split(std::move(*gpu), {.max_bytes = model.file.n_bytes() / 2});
  Runner runner(model, *split);
  EXPECT_NE(split->remark().find("do not fit in"), std::string::npos) << split->remark();
  uint64_t on_gpu = 0;
  for (const auto& uses : {runner.weights().memory(), runner.kv().memory()})
    for (const MemoryUse& use : uses)
      if (use.what.ends_with("(GPU)")) on_gpu += use.n_bytes;
  EXPECT_GT(on_gpu, 0u);
  EXPECT_LE(on_gpu, model.file.n_bytes() / 2);
}
#endif

}  // namespace
}  // namespace tokamak::split

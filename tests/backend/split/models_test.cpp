// Every family, cut in every way, gives what it gives in one piece.
#include "backend/reference/backend.h"
#include "backend/split/split_helpers.h"
#include "base/nmse.h"

namespace tokamak::split {
namespace {

// A batch of two prompts, a chunk without logits, and steps of one token each.
std::vector<TestStep> steps() {
  return {{.tokens = {{3, 14, 15, 92, 65, 35}, {8, 97, 93}}, .n_outputs = 9},
          {.tokens = {{89, 79, 32, 38}, {}}, .n_outputs = 0},
          {.tokens = {{46}, {26, 43}}, .n_outputs = 2},
          {.tokens = {{33}, {83}}, .n_outputs = 2},
          {.tokens = {{}, {27}}, .n_outputs = 1}};
}

std::vector<float> run_all(const TestModel& model, Backend& backend, bool fusion) {
  Runner runner(model, backend, fusion);
  std::vector<float> out;
  for (const TestStep& step : steps()) {
    const std::vector<float> logits = runner.run(step);
    out.insert(out.end(), logits.begin(), logits.end());
  }
  return out;
}

std::string test_name(const testing::TestParamInfo<size_t>& info) {
  std::string name = arch::dummies()[info.param].name();
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

class SplitModels : public testing::TestWithParam<size_t>  // row of the dummies
{};

TEST_P(SplitModels, AreEqualToTheWhole) {
  const arch::DummyRow& dummy = arch::dummies()[GetParam()];
  const TestModel model = TestModel::of(dummy);
  const auto n_layer = static_cast<int64_t>(model.hparams.layers.size());
  std::vector<PlacementOptions> ways = {{.n_gpu_layers = n_layer - 1}, {.n_gpu_layers = 1}};
  if (dummy.has_experts) {
    ways.push_back({.n_cpu_moe = n_layer});
    ways.push_back({.n_gpu_layers = n_layer - 1, .n_cpu_moe = n_layer});
  }
  for (bool fusion : {false, true}) {
    const std::vector<float> whole = run_all(model, *test_cpu(), fusion);
    for (const PlacementOptions& way : ways) {
      const auto split = test_split(std::make_unique<LimitedBackend>(test_cpu()), {.placement = way});
      const std::vector<float> logits = run_all(model, *split, fusion);
      EXPECT_TRUE(logits == whole) << "fusion " << fusion << ", layers " << way.n_gpu_layers << ", experts "
                                   << way.n_cpu_moe << ", NMSE " << nmse(logits, whole);
      EXPECT_NE(split->remark(), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SplitModels, testing::Range(size_t{0}, arch::dummies().size()), test_name);

// Values pass between backends that have nothing in common, int32 ones too.
TEST(Split, DifferentBackendsWorkTogether) {
  for (const auto& [arch, experts] : {std::pair{"qwen3moe", true}, {"gpt-oss", true}, {"qwen35", false}}) {
    const arch::DummyRow* dummy = arch::find_dummy(arch, experts);
    ASSERT_NE(dummy, nullptr) << arch;
    const TestModel model = TestModel::of(*dummy);
    const std::vector<float> whole = run_all(model, *make_reference_backend(), true);
    const PlacementOptions way = experts ? PlacementOptions{.n_cpu_moe = 99} : PlacementOptions{.n_gpu_layers = 1};
    const auto split = test_split(make_reference_backend(), {.placement = way});
    const double error = nmse(run_all(model, *split, true), whole);
    EXPECT_LT(error, 1e-8) << arch;
    EXPECT_GT(error, 0) << arch << ": the CPU has done nothing";
  }
}

TEST(Split, AnySetOfOpsMayBeMissingOnTheFirstChild) {
  for (const auto& [arch, experts] : {std::pair{"qwen3moe", true}, {"qwen35moe", true}, {"gemma3", false}}) {
    const TestModel model = TestModel::of(*arch::find_dummy(arch, experts));
    const std::vector<float> whole = run_all(model, *test_cpu(), true);
    const std::vector<std::set<ir::Op>> sets = {{ir::Op::argsort, ir::Op::rope},
                                                {ir::Op::flash_attn_ext, ir::Op::glu},
                                                {ir::Op::set_rows, ir::Op::ssm_conv, ir::Op::rms_norm},
                                                {ir::Op::mul_mat, ir::Op::gated_delta_net, ir::Op::add}};
    for (const std::set<ir::Op>& missing : sets) {
      const auto split = test_split(std::make_unique<LimitedBackend>(test_cpu(), missing), {.allow_fallback = true});
      EXPECT_LT(nmse(run_all(model, *split, true), whole), 1e-10) << arch << split->remark();
      EXPECT_NE(split->remark().find("on the CPU, for want of kernels"), std::string::npos) << split->remark();
    }
    const auto strict = test_split(std::make_unique<LimitedBackend>(test_cpu(), sets[0]), {});
    const auto loaded = strict->load(model.graph({.n_tokens = 16}), model.lookup(), {});
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::unsupported);
  }
}

// Has no kernel for some nodes of an op: those of products with weights of a type.
class WithoutType : public LimitedBackend {
 public:
  explicit WithoutType(DType type) : LimitedBackend(test_cpu()), type_(type) {}
  bool has_kernel(const ir::Graph& graph, ir::NodeId node) const override {
    const ir::Node& n = graph.node(node);
    return n.inputs.empty() || graph.value(n.inputs[0]).dtype != type_;
  }

 private:
  DType type_;
};

TEST(Split, ANodeMayLackAKernelByItsTypes) {
  const TestModel model = TestModel::of(*arch::find_dummy("qwen3moe", true));
  const std::vector<float> whole = run_all(model, *test_cpu(), true);
  std::set<DType> types;
  for (const GgufTensor& tensor : model.file.tensors()) types.insert(tensor.type);
  for (DType type : types) {
    if (type == DType::f32) continue;  // of everything
    const auto split = test_split(std::make_unique<WithoutType>(type), {.allow_fallback = true});
    EXPECT_LT(nmse(run_all(model, *split, true), whole), 1e-10) << dtype_name(type) << split->remark();
    EXPECT_NE(split->remark().find("MUL_MAT"), std::string::npos) << split->remark();
  }
}

TEST(Split, SeveralAcceleratorsShareTheLayers) {
  const TestModel model = TestModel::of(*arch::find_dummy("gemma3", false));
  const std::vector<float> whole = run_all(model, *test_cpu(), true);
  const uint64_t file = model.file.n_bytes();
  std::vector<Child> children;
  for (const char* name : {"GPU 0", "GPU 1", "GPU 2"})
    children.push_back({name, std::make_unique<LimitedBackend>(test_cpu(), std::set<ir::Op>())});
  children.push_back({"CPU", test_cpu()});
  const auto split = make_split_backend(std::move(children), {.max_bytes = file * 2 / 3});
  Runner runner(model, *split);
  std::vector<float> logits;
  for (const TestStep& step : steps()) {
    const std::vector<float> part = runner.run(step);
    logits.insert(logits.end(), part.begin(), part.end());
  }
  EXPECT_TRUE(logits == whole) << nmse(logits, whole);
  std::set<std::string> devices;
  for (const MemoryUse& use : runner.weights().memory())
    if (use.n_bytes > 0) devices.insert(use.what.substr(use.what.rfind('(')));
  EXPECT_GE(devices.size(), 2u);
}

TEST(Split, AChildThatDoesAllGetsTheGraphAsItIs) {
  const TestModel model = TestModel::of(*arch::find_dummy("llama", false));
  const std::vector<float> whole = run_all(model, *test_cpu(), true);
  for (int64_t n_gpu_layers : {int64_t{0}, kAuto, int64_t{99}}) {
    const auto split = test_split(test_cpu(), {.placement = {.n_gpu_layers = n_gpu_layers}});
    Runner runner(model, *split);
    const std::vector<float> logits = runner.run(steps()[0]);
    EXPECT_TRUE(std::ranges::equal(logits, std::span(whole).first(logits.size())));
    for (const StepReport& step : runner.program().steps()) EXPECT_NE(step.label, "boundary");
  }
}

}  // namespace
}  // namespace tokamak::split

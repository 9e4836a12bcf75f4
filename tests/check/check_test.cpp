// The op check finds what is wrong, and finds nothing on the backends of this build.
#include "check/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "backend/cpu/backend.h"
#include "backend/cpu/isa.h"
#include "backend/reference/backend.h"
#include "check/recipes.h"

namespace tokamak::check {
namespace {

using testing::HasSubstr;

TEST(Recipes, EveryOpAndEveryRuleHasOne) {
  std::set<std::string> subjects, names;
  std::set<fuse::RuleId> rules;
  for (const Recipe& recipe : all_recipes()) {
    EXPECT_TRUE(names.insert(recipe.name()).second) << recipe.name();
    subjects.insert(recipe.subject);
    if (recipe.rule) rules.insert(*recipe.rule);
  }
  for (const ir::OpRow& row : ir::op_table()) EXPECT_TRUE(subjects.contains(std::string(row.name))) << row.name;
  EXPECT_EQ(rules.size(), fuse::rules().size());
}

TEST(Recipes, EveryWeightTypeHasAProduct) {
  std::set<DType> products, experts;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.subject == "MUL_MAT") products.insert(*recipe.dtype);
    if (recipe.subject == "MUL_MAT_ID") experts.insert(*recipe.dtype);
  }
  EXPECT_GE(weight_types().size(), 29u);
  EXPECT_EQ(products.size(), weight_types().size());
  EXPECT_EQ(experts.size(), weight_types().size());
}

// The reference backend with a fault.
enum class Fault { none, noise, beyond_the_end, constant_changed, state_changed, unsupported };

class FaultyProgram : public Program {
 public:
  FaultyProgram(std::unique_ptr<Program> program, Fault fault, KvCache& kv, std::byte* constant)
      : program_(std::move(program)), fault_(fault), kv_(kv), constant_(constant) {}
  Result<void> run(const StepInputs& inputs, std::span<const std::span<float>> outputs) override {
    TRY(program_->run(inputs, outputs));
    if (fault_ == Fault::noise) outputs[0][0] += 1e-4f;
    if (fault_ == Fault::beyond_the_end) outputs[0].data()[outputs[0].size()] = 0;
    if (fault_ == Fault::constant_changed) constant_[0] ^= std::byte{1};
    if (fault_ == Fault::state_changed) {
      std::vector<float> row(static_cast<size_t>(state_row_floats(kv_.config())));
      kv_.read_states(0, row);  // a row that no case uses
      row[0] += 1;
      kv_.write_states(0, row);
    }
    return {};
  }
  const ir::Graph& graph() const override { return program_->graph(); }
  std::vector<StepReport> steps() const override { return program_->steps(); }
  void set_profiling(bool on) override { program_->set_profiling(on); }

 private:
  std::unique_ptr<Program> program_;
  Fault fault_;
  KvCache& kv_;
  std::byte* constant_;
};

class FaultyBackend : public Backend {
 public:
  explicit FaultyBackend(Fault fault) : fault_(fault) {}
  std::string_view name() const override { return "faulty"; }
  std::string description() const override { return "the reference with a fault"; }
  Result<std::unique_ptr<Weights>> load(const ir::Graph& graph, const WeightLookup& lookup,
                                        const Progress& progress) override {
    const WeightSource source = TRY(lookup("w0"));
    constant_ = const_cast<std::byte*>(source.data.data());
    return inner_->load(graph, lookup, progress);
  }
  Result<std::unique_ptr<KvCache>> make_kv(const KvConfig& config) override { return inner_->make_kv(config); }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph, const Weights& weights, KvCache& kv,
                                           const CompileOptions& options) override {
    if (fault_ == Fault::unsupported) return Error{.code = ErrorCode::unsupported, .what = "no kernel"};
    return std::unique_ptr<Program>(std::make_unique<FaultyProgram>(
        TRY(inner_->compile(std::move(graph), weights, kv, options)), fault_, kv, constant_));
  }
  fuse::Stats& fusion_stats() override { return inner_->fusion_stats(); }

 private:
  std::unique_ptr<Backend> inner_ = make_reference_backend();
  Fault fault_;
  std::byte* constant_ = nullptr;
};

Recipe recipe_named(std::string_view name) {
  for (Recipe& recipe : all_recipes())
    if (recipe.name() == name) return recipe;
  ADD_FAILURE() << name;
  return {};
}

CaseReport check_with(Fault fault, const Recipe& recipe) {
  FaultyBackend backend(fault);
  const auto reference = make_reference_backend();
  return check_case(recipe, 1, backend, *reference, {});
}

TEST(Check, FindsEveryFault) {
  const Recipe add = recipe_named("ADD b=same n=7 width=100 layout=slice");
  EXPECT_EQ(check_with(Fault::none, add).verdict, Verdict::passed);
  const CaseReport noise = check_with(Fault::noise, add);
  EXPECT_EQ(noise.verdict, Verdict::failed);
  EXPECT_THAT(noise.why, HasSubstr("unfused: output 0[0] is"));
  EXPECT_THAT(check_with(Fault::beyond_the_end, add).why, HasSubstr("wrote beyond the ends of output 0"));
  EXPECT_THAT(check_with(Fault::constant_changed, add).why, HasSubstr("changed the constant w0"));
  EXPECT_EQ(check_with(Fault::unsupported, add).verdict, Verdict::unsupported);
  const Recipe conv = recipe_named("SSM_CONV channels=8 taps=4 batch=2+ layout=whole");
  EXPECT_EQ(check_with(Fault::none, conv).verdict, Verdict::passed);
  EXPECT_THAT(check_with(Fault::state_changed, conv).why, HasSubstr("recurrent state[0] is"));
}

TEST(Check, ARuleThatDoesNotFireIsNoPass) {
  const CaseReport report = check_with(Fault::none, recipe_named("RMS_NORM+MUL n=2 width=64 layout=whole"));
  EXPECT_EQ(report.verdict, Verdict::not_fused) << "the reference runs every op by itself";
}

TEST(Check, ARecipeThatDoesNotMatchItsRuleFails) {
  Recipe recipe = recipe_named("RMS_NORM+MUL n=2 width=64 layout=whole");
  recipe.build = [](CaseBuilder& c) {
    const ir::ValueId y = c.b.rms_norm(c.tensor({8}), 1e-5);
    c.b.output(c.b.mul(y, c.weight(DType::f32, {8})));
    c.b.output(y);
  };
  const CaseReport report = check_with(Fault::none, recipe);
  EXPECT_EQ(report.verdict, Verdict::failed);
  EXPECT_THAT(report.why, HasSubstr("does not match RMS_NORM+MUL here; it matches: nothing"));
}

TEST(Check, SameSeedSameNumbers) {
  const Recipe recipe = recipe_named("MUL_MAT type=Q4_K n=2 n_out=16 k=256 layout=whole");
  const auto a = make_case(recipe, 1), b = make_case(recipe, 1), other = make_case(recipe, 2);
  ASSERT_TRUE(a && b && other);
  EXPECT_TRUE(a->graph == b->graph);
  EXPECT_EQ(a->weights.at("w0").hash, b->weights.at("w0").hash);
  EXPECT_NE(a->weights.at("w0").hash, other->weights.at("w0").hash);
}

TEST(Bounds, MovesAreExactAndSumsAreNot) {
  const auto reference = make_reference_backend();
  const auto bound_of = [&](std::string_view name) {
    const auto made = make_case(recipe_named(name), 1);
    const auto expected = expect(*made, *reference, {});
    double largest = 0;
    for (double e : expected->outputs[0].bound) largest = std::max(largest, e);
    return largest;
  };
  EXPECT_EQ(bound_of("GET_ROWS type=Q6_K n=2 width=256"), 0);
  EXPECT_EQ(bound_of("CONCAT n=2 width=7 layout=slice"), 0);
  // 256 products of at most 1: 256 u times their sum.
  const double f32 = bound_of("MUL_MAT type=F32 n=2 n_out=16 k=256 layout=whole");
  EXPECT_GT(f32, 256 * kUnit * 32);
  EXPECT_LT(f32, 256 * kUnit * 257);
  // Codes of 7 bits: half a step of 1/127 for each of 256 products of at most about 1.
  const double q8_0 = bound_of("MUL_MAT type=Q8_0 n=2 n_out=16 k=32 layout=whole");
  EXPECT_GT(q8_0, 32 * 0.5 / 127 * 0.2);
  EXPECT_LT(q8_0, 32 * 0.5 / 127 * 1.1);
}

// Of a cache read back: with one visible key, values are copied; tiny ones lose bits where they are decoded to
// binary16.
TEST(Bounds, CachedValuesBelowBinary16LoseHalfAStep) {
  const auto reference = make_reference_backend();
  const auto values_of = [&](const char* type, const Arithmetic& arithmetic) {
    const auto made =
        make_case(recipe_named(std::string("SET_ROWS type=") + type + " heads=3 dim=128 layout=whole"), 1);
    return expect(*made, *reference, arithmetic)->values[0];
  };
  const Bounded bf16 = values_of("BF16", kCudaArithmetic);
  int n_tiny = 0;
  for (size_t i = 0; i < bf16.x.size(); ++i) {
    const bool is_tiny = std::abs(bf16.x[i]) < 0x1p-14f;
    ASSERT_GE(bf16.bound[i], is_tiny ? 0x1p-25 : 0) << bf16.x[i];
    ASSERT_LE(bf16.bound[i], is_tiny ? 0x1.1p-25 : 0) << bf16.x[i];
    n_tiny += is_tiny && bf16.x[i] != 0 ? 1 : 0;
  }
  EXPECT_GT(n_tiny, 0);
  for (const Bounded& exact : {values_of("F16", kCudaArithmetic), values_of("BF16", {})})
    for (double bound : exact.bound) ASSERT_EQ(bound, 0);
}

// Ops of training only, which no backend but the reference runs.
const std::set<std::string> kReferenceOnly = {"CROSS_ENTROPY_LOSS"};

class CpuCheck : public testing::TestWithParam<cpu::Isa> {};

// One in so many of the cases: all of them take minutes (`tokamak check-ops test`).
void check_cpu(cpu::Isa isa, size_t every) {
  if (!cpu::isa_available(isa)) GTEST_SKIP() << "this CPU or build lacks " << cpu::isa_name(isa);
  const auto backend = make_cpu_backend({.isa = std::string(cpu::isa_name(isa)), .n_threads = 2});
  ASSERT_TRUE(backend);
  const auto reference = make_reference_backend();
  const std::vector<Recipe> recipes = all_recipes();
  std::map<std::string, int> counts;
  std::set<std::string> unsupported;
  for (size_t i = static_cast<size_t>(isa); i < recipes.size(); i += every) {
    const CaseReport report = check_case(recipes[i], 1, **backend, *reference, {.max_code = 127 * 128});
    EXPECT_NE(report.verdict, Verdict::failed) << report.name << ": " << report.why;
    if (report.verdict == Verdict::unsupported) unsupported.insert(recipes[i].subject);
    ++counts[std::string(kVerdicts[static_cast<size_t>(report.verdict)])];
  }
  for (const std::string& subject : unsupported) EXPECT_TRUE(kReferenceOnly.contains(subject)) << subject;
  for (const auto& [verdict, n] : counts) std::printf("%s: %d\n", verdict.c_str(), n);
}

TEST_P(CpuCheck, SomeCases) { check_cpu(GetParam(), 29); }
// Under the emulator there is no command line: this test stands for `tokamak check-ops test`.
TEST_P(CpuCheck, DISABLED_AllCases) { check_cpu(GetParam(), 1); }

INSTANTIATE_TEST_SUITE_P(Isas, CpuCheck,
                         testing::Values(cpu::Isa::scalar, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::neon),
                         [](const auto& isa) { return std::string(cpu::isa_name(isa.param)); });

}  // namespace
}  // namespace tokamak::check

// A program runs its launches one by one, then as a captured graph.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda/backend.h"
#include "check/case.h"

namespace tokamak::check {
namespace {

// Products and attention over n tokens of one sequence.
Recipe recipe_of(int64_t n) {
  return {.subject = "captured",
          .variant = std::to_string(n),
          .build =
              [](CaseBuilder& c) {
                const auto [k, v] = c.cache(2, 64, 64);
                const ir::ValueId x = c.b.mul_mat(c.weight(DType::q8_0, {256, 256}), c.tensor({256}));
                const ir::ValueId keys = c.b.set_rows(k, c.tensor({2, 64}), c.slots());
                const ir::ValueId values = c.b.set_rows(v, c.tensor({2, 64}), c.slots());
                c.b.output(c.b.flash_attn_ext(c.b.reshape(x, {c.n_tokens, 4, 64}), keys, values, c.positions(),
                                              c.seq_ids(), {.scale = 0.125}));
              },
          .sequences = {{.n_tokens = n}}};
}

// One run, as one of several of the same program or as the only one of its own.
class Runner {
 public:
  Runner(const Case& c, Backend& backend) : case_(c), kv_(backend.make_kv(c.kv).value()) {
    weights_ = backend.load(c.graph, c.lookup(), {}).value();
    program_ = backend.compile(c.graph, *weights_, *kv_, {}).value();
  }
  std::vector<float> run(const StepData& step) {
    std::vector<float> y(static_cast<size_t>(case_.graph.value(case_.graph.outputs[0]).shape.n_elements()));
    const std::span<float> output = y;
    const auto ran = program_->run(step.view(), {&output, 1});
    EXPECT_TRUE(ran) << ran.error().message();
    return y;
  }
  RunTimes times() const { return program_->run_times(); }

 private:
  const Case& case_;
  std::unique_ptr<KvCache> kv_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Program> program_;
};

TEST(CudaProgram, AGraphReadsTheInputsOfItsRun) {
  const auto backend = make_cuda_backend();
  if (!backend) GTEST_SKIP() << backend.error().message();
  for (const int64_t n_tokens : {1, 80}) {
    const auto c = make_case(recipe_of(n_tokens), 1);
    ASSERT_TRUE(c) << c.error().message();
    Runner runner(*c, **backend);
    StepData step = c->step;
    std::vector<float> last;
    for (int i = 0; i < 4; ++i) {
      for (int32_t& token : step.tokens) token = (token + 1) % static_cast<int32_t>(n_tokens + 3);
      const std::vector<float> y = runner.run(step);
      EXPECT_EQ(y, Runner(*c, **backend).run(step)) << n_tokens << " tokens, run " << i;
      EXPECT_NE(y, last);
      last = y;
    }
    EXPECT_EQ(runner.times().n_runs, 2u) << "the first two are launched one by one";
  }
}

}  // namespace
}  // namespace tokamak::check

// Small graphs on the CPU backend, every instruction set and thread count, fused and not, beside the reference backend.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/backend.h"
#include "backend/cpu/isa.h"
#include "backend/reference/backend.h"
#include "fuse/rules.h"
#include "ir/builder.h"
#include "quant/codec.h"

namespace tokamak::cpu::test {

// What one run leaves behind.
struct RunResult {
  std::vector<std::vector<float>> outputs, states;  // states by row
  std::vector<std::string> labels;                  // of the steps
};

// Weights of random numbers, step inputs, and a graph over them.
class GraphCase {
 public:
  explicit GraphCase(int64_t n_tokens = 7) : b("case") {
    tokens.resize(static_cast<size_t>(n_tokens));
    std::iota(tokens.begin(), tokens.end(), 0);
    positions = tokens;
    seq_ids.assign(tokens.size(), 0);
  }
  int64_t n() const { return static_cast<int64_t>(tokens.size()); }

  ir::ValueId weight(const std::string& name, const Shape& shape, float size = 1, float middle = 0) {
    if (!data_.contains(name)) {
      std::mt19937 random(seed_ + static_cast<uint32_t>(data_.size()));
      std::normal_distribution<float> normal(middle, size);
      std::vector<float> x(static_cast<size_t>(shape.n_elements()));
      for (float& v : x) v = normal(random);
      set(name, shape, std::move(x));
    }
    return b.weight(name, DType::f32, shape);
  }
  void set(const std::string& name, const Shape& shape, std::vector<float> data) {
    data_[name] = std::move(data);
    shapes_[name] = shape;
  }
  std::vector<float>& numbers(const std::string& name) { return data_.at(name); }
  // An intermediate [n, row...] of random numbers.
  ir::ValueId rows(const std::string& name, const Shape& row, float size = 1, float middle = 0) {
    Shape flat{n(), row.n_elements()};
    const ir::ValueId x = b.get_rows(weight(name, flat, size, middle), b.input(ir::InputRole::tokens, {n()}));
    if (row.rank() == 1) return x;
    return row.rank() == 2 ? b.reshape(x, {n(), row[0], row[1]}) : x;
  }
  ir::ValueId input(ir::InputRole role) {
    const bool per_sequence = role == ir::InputRole::state_src || role == ir::InputRole::state_rows;
    return b.input(role, {per_sequence ? static_cast<int64_t>(state_src.size()) : n()});
  }
  ir::RecurrentInputs recurrent(int64_t n_snapshots = 1) {
    return {.seq_ids = input(ir::InputRole::seq_ids),
            .state_src = input(ir::InputRole::state_src),
            .state_rows = input(ir::InputRole::state_rows),
            .n_snapshots = n_snapshots};
  }

  void finish() {
    auto made = b.finish();
    ASSERT_TRUE(made) << made.error().message();
    graph = std::move(*made);
  }

  RunResult run(Backend& backend, bool fusion = true) const {
    RunResult result;
    const auto lookup = [&](std::string_view name) -> Result<WeightSource> {
      const auto& data = data_.at(std::string(name));
      return WeightSource{.dtype = DType::f32,
                          .shape = shapes_.at(std::string(name)),
                          .data = std::as_bytes(std::span(data)),
                          .forget = {}};
    };
    auto weights = backend.load(graph, lookup, {});
    EXPECT_TRUE(weights) << weights.error().message();
    auto kv = backend.make_kv(kv_config);
    EXPECT_TRUE(kv) << kv.error().message();
    std::mt19937 random(77);
    std::normal_distribution<float> normal(0, 0.3f);
    const auto row_floats = static_cast<size_t>(state_row_floats(kv_config));
    for (int64_t row = 0; row < kv_config.n_state_rows; ++row) {
      std::vector<float> state(row_floats);
      for (float& v : state) v = normal(random);
      (*kv)->write_states(row, state);
    }
    auto program = backend.compile(graph, **weights, **kv, {.fusion = fusion});
    EXPECT_TRUE(program) << program.error().message();
    std::vector<std::span<float>> spans;
    for (ir::ValueId id : graph.outputs)
      result.outputs.emplace_back(static_cast<size_t>(graph.values[id].shape.n_elements()), std::nanf(""));
    for (auto& output : result.outputs) spans.push_back(output);
    const std::vector<SequencePages> sequences(std::max<size_t>(1, state_src.size()), {.pages = pages});
    for (int repeat = 0; repeat < n_runs; ++repeat) {
      const auto ran = (*program)->run({.tokens = tokens,
                                        .positions = positions,
                                        .seq_ids = seq_ids,
                                        .slots = slots,
                                        .out_rows = {},
                                        .sequences = sequences,
                                        .state_src = state_src,
                                        .state_rows = state_rows},
                                       spans);
      EXPECT_TRUE(ran);
    }
    for (int64_t row = 0; row < kv_config.n_state_rows; ++row) {
      result.states.emplace_back(row_floats);
      (*kv)->read_states(row, result.states.back());
    }
    for (const StepReport& step : (*program)->steps()) result.labels.push_back(step.label);
    return result;
  }

  // The CPU's result, fused: the same bits on every instruction set and thread count, fused and not.
  RunResult run_everywhere(bool fused_is_equal = true) const {
    const RunResult fused = run_on("scalar", 1, true);
    for (const IsaRow& row : kIsas)
      for (int64_t n_threads : {1, 3})
        if (isa_available(row.isa))
          expect_equal(fused, run_on(std::string(row.name), n_threads, true),
                       std::string(row.name) + " " + std::to_string(n_threads));
    const RunResult apart = run_on("scalar", 1, false);
    if (fused_is_equal) expect_equal(fused, apart, "unfused");
    for (const IsaRow& row : kIsas)
      if (isa_available(row.isa)) expect_equal(apart, run_on(std::string(row.name), 3, false), "unfused, other set");
    return fused;
  }
  RunResult run_on(std::string isa, int64_t n_threads, bool fusion) const {
    auto backend = make_cpu_backend({.isa = std::move(isa), .n_threads = n_threads});
    EXPECT_TRUE(backend) << backend.error().message();
    return run(**backend, fusion);
  }

  // Everywhere the same, and each number within `bound` of the reference, relative to the largest of its output.
  RunResult check(double bound = 1e-6) const {
    const RunResult got = run_everywhere();
    const RunResult wanted = run(*make_reference_backend());
    for (size_t i = 0; i < wanted.outputs.size(); ++i) {
      SCOPED_TRACE("output " + std::to_string(i));
      expect_near(got.outputs[i], wanted.outputs[i], bound);
    }
    for (size_t i = 0; i < wanted.states.size(); ++i) {
      SCOPED_TRACE("state row " + std::to_string(i));
      expect_near(got.states[i], wanted.states[i], bound);
    }
    return got;
  }

  ir::GraphBuilder b;
  ir::Graph graph;
  KvConfig kv_config{
      .layers = {{1, 16, 16}}, .recurrent = {}, .n_state_rows = 0, .n_pages = 2, .page_size = 16, .type = DType::f32};
  std::vector<int32_t> pages = {1, 0}, tokens, positions, seq_ids, slots, state_src, state_rows;
  int n_runs = 1;

  static void expect_near(const std::vector<float>& got, const std::vector<float>& wanted, double bound) {
    double largest = 0;
    for (float x : wanted)
      if (std::isfinite(x)) largest = std::max(largest, std::fabs(double{x}));
    for (size_t i = 0; i < wanted.size(); ++i)
      if (got[i] != wanted[i] && !(std::isnan(got[i]) && std::isnan(wanted[i]))) {
        ASSERT_NEAR(got[i], wanted[i], bound * largest) << "element " << i;
      }
  }
  static void expect_equal(const RunResult& a, const RunResult& b, const std::string& what) {
    const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i)
        if (std::memcmp(&x[i], &y[i], sizeof(float)) != 0 && !(std::isnan(x[i]) && std::isnan(y[i]))) return false;
      return true;
    };
    ASSERT_EQ(a.outputs.size(), b.outputs.size());
    for (size_t i = 0; i < a.outputs.size(); ++i)
      EXPECT_TRUE(same(a.outputs[i], b.outputs[i])) << what << " output " << i;
    for (size_t i = 0; i < a.states.size(); ++i)
      EXPECT_TRUE(same(a.states[i], b.states[i])) << what << " state row " << i;
  }

 private:
  uint32_t seed_ = 100;
  std::map<std::string, std::vector<float>> data_;
  std::map<std::string, Shape> shapes_;
};

}  // namespace tokamak::cpu::test

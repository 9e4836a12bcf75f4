// Models and steps for tests of the split: what engine/ does around a backend, as small as it gets.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "arch/dummy.h"
#include "arch/recipe.h"
#include "backend/split/backend.h"
#include "gguf/gguf.h"

namespace tokamak::split {

// A dummy model, opened; its file is gone already.
struct TestModel {
  GgufFile file;
  arch::Hparams hparams;

  static TestModel of(const arch::DummyRow& dummy);
  KvConfig kv_config() const;
  ir::Graph graph(const arch::ShapeClass& shape) const;
  WeightLookup lookup() const;
};

inline constexpr int64_t kTestPage = 16, kTestPages = 8, kTestSequences = 2;

// The new tokens of each sequence; logits of the last n_outputs tokens of the step are returned.
struct TestStep {
  std::vector<std::vector<int32_t>> tokens;
  int64_t n_outputs = 0;
};

// A model on a backend. Sequence s owns pages [s * kTestPages / 2, ...) and state row s.
class Runner {
 public:
  Runner(const TestModel& model, Backend& backend, bool fusion = true);
  std::vector<float> run(const TestStep& step);
  Program& program() { return *program_; }  // of the last step
  KvCache& kv() { return *kv_; }
  Weights& weights() { return *weights_; }
  // The sequence's tokens so far lie in `page` instead of its first page.
  void use_page(size_t seq, int32_t page) { pages_[seq][0] = page; }

 private:
  const TestModel& model_;
  Backend& backend_;
  bool fusion_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<KvCache> kv_;
  std::map<std::array<int64_t, 3>, std::unique_ptr<Program>> programs_;  // by tokens, outputs, sequences
  Program* program_ = nullptr;
  std::vector<std::vector<int32_t>> pages_;  // by sequence
  std::vector<int32_t> n_past_;
};

// A backend that says it has no kernel for some ops, and takes so much memory.
class LimitedBackend : public Backend {
 public:
  explicit LimitedBackend(std::unique_ptr<Backend> inner, std::set<ir::Op> missing = {},
                          uint64_t free_bytes = UINT64_MAX)
      : inner_(std::move(inner)), missing_(std::move(missing)), free_bytes_(free_bytes) {}
  std::string_view name() const override { return "limited"; }
  std::string description() const override { return "a backend with limits"; }
  std::optional<uint64_t> free_bytes() const override { return free_bytes_; }
  Result<uint64_t> load_bytes(const ir::Graph& graph, const WeightLookup& lookup) const override;
  bool has_kernel(const ir::Graph& graph, ir::NodeId node) const override {
    return !missing_.contains(graph.node(node).op);
  }
  Result<std::unique_ptr<Weights>> load(const ir::Graph& graph, const WeightLookup& lookup,
                                        const Progress& progress) override;
  Result<std::unique_ptr<KvCache>> make_kv(const KvConfig& config) override { return inner_->make_kv(config); }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph, const Weights& weights, KvCache& kv,
                                           const CompileOptions& options) override {
    return inner_->compile(std::move(graph), weights, kv, options);
  }
  fuse::Stats& fusion_stats() override { return inner_->fusion_stats(); }

 private:
  std::unique_ptr<Backend> inner_;
  std::set<ir::Op> missing_;
  uint64_t free_bytes_;
};

std::unique_ptr<Backend> test_cpu();
std::unique_ptr<Backend> test_split(std::unique_ptr<Backend> first, const SplitOptions& options);

}  // namespace tokamak::split

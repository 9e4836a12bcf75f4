// A backend around another one that selects logits as a device does, and that can fail like one.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "backend/backend.h"

namespace tokamak::test {

// What a test sets and counts; must outlive the session.
struct DeviceScript {
  std::atomic<bool> selects = false;      // run_top() is there
  std::atomic<int64_t> fails_after = -1;  // runs; then every run fails, as after a lost device. -1: never
  std::atomic<bool> stays_lost = false;   // and the backend says so
  std::atomic<int64_t> n_runs = 0, n_rows = 0, n_whole_rows = 0;  // rows: of run_top(), and those fetched whole
};

inline std::vector<TopLogit> top_of(std::span<const float> logits) {
  std::vector<TopLogit> out;
  for (size_t i = 0; i < logits.size(); ++i) out.push_back({static_cast<int32_t>(i), logits[i]});
  std::ranges::stable_sort(out, [](const TopLogit& a, const TopLogit& b) { return a.logit > b.logit; });
  out.resize(kTopLogits);
  return out;
}

class WrappedProgram : public Program {
 public:
  WrappedProgram(std::unique_ptr<Program> inner, DeviceScript& script) : inner_(std::move(inner)), script_(script) {}

  Result<void> run(const StepInputs& inputs, std::span<const std::span<float>> outputs) override {
    if (script_.fails_after >= 0 && script_.n_runs >= script_.fails_after)
      return Error{.code = ErrorCode::device_failed, .what = "the device is lost", .where = "running"};
    ++script_.n_runs;
    return inner_->run(inputs, outputs);
  }
  bool selects_top() const override { return script_.selects; }
  Result<void> run_top(const StepInputs& inputs, std::span<TopLogit> top, std::span<const uint8_t> whole,
                       std::span<float> rows) override {
    const size_t n_vocab = static_cast<size_t>(inner_->graph().values[inner_->graph().outputs[0]].shape[-1]);
    std::vector<float> logits(whole.size() * n_vocab);
    const std::span<float> output = logits;
    TRY(run(inputs, {&output, 1}));
    for (size_t r = 0; r < whole.size(); ++r) {
      const auto row = output.subspan(r * n_vocab, n_vocab);
      std::ranges::copy(top_of(row), top.begin() + static_cast<ptrdiff_t>(r * kTopLogits));
      ++script_.n_rows;
      if (!whole[r]) continue;
      ++script_.n_whole_rows;
      std::ranges::copy(row, rows.begin());
      rows = rows.subspan(n_vocab);
    }
    return {};
  }
  const ir::Graph& graph() const override { return inner_->graph(); }
  std::vector<StepReport> steps() const override { return inner_->steps(); }
  void set_profiling(bool on) override { inner_->set_profiling(on); }

 private:
  std::unique_ptr<Program> inner_;
  DeviceScript& script_;
};

class WrappedBackend : public Backend {
 public:
  WrappedBackend(std::unique_ptr<Backend> inner, DeviceScript& script) : inner_(std::move(inner)), script_(script) {}

  std::string_view name() const override { return inner_->name(); }
  std::string description() const override { return inner_->description(); }
  Result<std::unique_ptr<Weights>> load(const ir::Graph& graph, const WeightLookup& lookup,
                                        const Progress& progress) override {
    return inner_->load(graph, lookup, progress);
  }
  Result<std::unique_ptr<KvCache>> make_kv(const KvConfig& config) override { return inner_->make_kv(config); }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph, const Weights& weights, KvCache& kv,
                                           const CompileOptions& options) override {
    return std::unique_ptr<Program>(
        std::make_unique<WrappedProgram>(TRY(inner_->compile(std::move(graph), weights, kv, options)), script_));
  }
  fuse::Stats& fusion_stats() override { return inner_->fusion_stats(); }
  std::optional<Error> lost() const override {
    if (!script_.stays_lost || script_.fails_after < 0 || script_.n_runs < script_.fails_after) return std::nullopt;
    return Error{.code = ErrorCode::device_failed, .what = "the device is lost for good"};
  }

 private:
  std::unique_ptr<Backend> inner_;
  DeviceScript& script_;
};

// For SessionOptions::wrap_backend.
inline auto wrap_with(DeviceScript& script) {
  return [&script](std::unique_ptr<Backend> inner) -> std::unique_ptr<Backend> {
    return std::make_unique<WrappedBackend>(std::move(inner), script);
  };
}

}  // namespace tokamak::test

#include "backend/cpu/program.h"

#include <chrono>

#include "base/check.h"

namespace tokamak::cpu {

namespace {
bool overlap(const Ref& a, const Ref& b) {
  if (a.where != b.where || a.where == Ref::Where::none) return false;
  if (a.where != Ref::Where::arena) return a.offset == b.offset;
  return a.offset < b.offset + b.n_bytes && b.offset < a.offset + a.n_bytes;
}

bool same_place(const Ref& a, const Ref& b) {
  return a.where == b.where && a.offset == b.offset && a.n_bytes == b.n_bytes && a.skip_elems == b.skip_elems;
}

// Row r of `a` and row r of `b` belong to the same thread.
bool same_rows(const Step& a, const Step& b) {
  return a.split == Split::tokens && b.split == Split::tokens && a.n_split == b.n_split;
}

bool conflict(const Step& earlier, const std::vector<Ref>& before, const Step& later, const std::vector<Ref>& after) {
  for (const Ref& a : before)
    for (const Ref& b : after)
      if (overlap(a, b) && !(same_rows(earlier, later) && same_place(a, b))) return true;
  return false;
}

bool depends(const Step& earlier, const Step& later) {
  const bool cache = (earlier.writes_cache && later.reads_cache) || (earlier.reads_cache && later.writes_cache);
  return cache || conflict(earlier, earlier.writes, later, later.reads) ||
         conflict(earlier, earlier.writes, later, later.writes) ||
         conflict(earlier, earlier.reads, later, later.writes);
}
}  // namespace

void place_barriers(std::span<const std::unique_ptr<Step>> steps) {
  size_t first = 0;  // of the steps since the last barrier
  for (size_t i = 0; i < steps.size(); ++i) {
    bool needed = false;
    for (size_t j = first; j < i && !needed; ++j) needed = depends(*steps[j], *steps[i]);
    steps[i]->barrier_before = needed;
    if (needed) first = i;
  }
}

void CpuProgram::set_steps(std::vector<std::unique_ptr<Step>> steps, uint64_t arena_bytes) {
  steps_ = std::move(steps);
  arena_bytes_ = arena_bytes;
  seconds_.assign(steps_.size(), 0);
  place_barriers(steps_);
}

Result<void> CpuProgram::run(const StepInputs& inputs, std::span<const std::span<float>> outputs) {
  for (size_t i = 0; i < graph_.outputs.size(); ++i)
    CHECK(static_cast<int64_t>(outputs[i].size()) == graph_.values[graph_.outputs[i]].shape.n_elements());
  kv_.begin_step(inputs);
  const RunContext context{inputs, kv_.arena(), outputs};
  if (profiling_) {
    run_profiled(context);
    return {};
  }
  pool_.run([&](int thread_idx, int n_threads) {
    for (const auto& step : steps_) {
      if (step->barrier_before) pool_.barrier(thread_idx);
      step->run(context, thread_idx, n_threads);
    }
  });
  return {};
}

void CpuProgram::run_profiled(const RunContext& context) {
  using Clock = std::chrono::steady_clock;
  pool_.run([&](int thread_idx, int n_threads) {
    pool_.barrier(thread_idx);
    auto before = Clock::now();
    for (size_t i = 0; i < steps_.size(); ++i) {
      steps_[i]->run(context, thread_idx, n_threads);
      pool_.barrier(thread_idx);
      const auto now = Clock::now();
      if (thread_idx == 0) seconds_[i] += std::chrono::duration<double>(now - before).count();
      before = now;
    }
  });
  ++n_profiled_;
}

std::vector<StepReport> CpuProgram::steps() const {
  std::vector<StepReport> out;
  for (size_t i = 0; i < steps_.size(); ++i) {
    out.push_back(steps_[i]->report);
    out.back().n_runs = n_profiled_;
    if (n_profiled_ > 0) out.back().seconds = seconds_[i] / static_cast<double>(n_profiled_);
  }
  return out;
}

}  // namespace tokamak::cpu

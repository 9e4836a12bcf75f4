// A compiled graph on the CPU: a list of steps that all threads walk through together.
//
// A barrier stands before a step only where it touches memory that another thread may have touched since the last
// one. Steps that divide their work by token rows in the same way follow each other without a barrier, so the chain
// norm -> pack -> ... of one token never waits.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kv.h"
#include "backend/cpu/weights.h"
#include "base/thread_pool.h"

namespace tokamak::cpu {

// Where a value lies while the program runs.
struct Ref {
  enum class Where : uint8_t { none, arena, output, boundary } where = Where::none;
  uint64_t offset = 0;  // arena: bytes; output, boundary: index of the graph output or boundary input, contiguous rows
  uint64_t n_bytes = 0;
  int64_t skip_elems = 0;  // output, boundary: f32 before the first element

  // Further on by n f32.
  Ref after(int64_t n) const {
    Ref out = *this;
    if (where == Where::arena)
      out.offset += static_cast<uint64_t>(n) * sizeof(float);
    else
      out.skip_elems += n;
    return out;
  }
};

struct RunContext {
  const StepInputs& inputs;
  std::byte* arena;
  std::span<const std::span<float>> outputs;

  std::byte* bytes(const Ref& ref) const { return arena + ref.offset; }
  // Of a boundary too, which nobody writes to.
  float* f32(const Ref& ref) const {
    if (ref.where == Ref::Where::output) return outputs[ref.offset].data() + ref.skip_elems;
    if (ref.where != Ref::Where::boundary) return reinterpret_cast<float*>(bytes(ref));
    return reinterpret_cast<float*>(const_cast<std::byte*>(inputs.boundary[ref.offset].data())) + ref.skip_elems;
  }
};

// f32 rows of a value.
struct Rows {
  Ref ref;
  int64_t n_rows = 0, n = 0;  // rows, elements per row
  int64_t stride_elems = 0;   // between rows

  int64_t total() const { return n_rows * n; }
};

// How a step divides its work over threads.
enum class Split : uint8_t {
  tokens,  // thread t takes token rows split_range(n_tokens, t, n): what it reads and writes belongs to those rows
  other,
};

class Step {
 public:
  virtual ~Step() = default;
  // This thread's share. Cannot fail: shapes and types were checked when compiling.
  virtual void run(const RunContext& context, int thread_idx, int n_threads) const = 0;

  Split split = Split::other;
  int64_t n_split = 0;  // token rows, or other units of work, that the threads divide
  std::vector<Ref> reads, writes;
  bool reads_cache = false, writes_cache = false;  // the KV cache, as a whole
  bool barrier_before = false;
  StepReport report;
};

class CpuProgram : public Program {
 public:
  CpuProgram(ir::Graph graph, CpuKv& kv, ThreadPool& pool) : graph_(std::move(graph)), kv_(kv), pool_(pool) {}
  // The steps refer to graph(), so it comes first.
  void set_steps(std::vector<std::unique_ptr<Step>> steps, uint64_t arena_bytes);

  Result<void> run(const StepInputs& inputs, std::span<const std::span<float>> outputs) override;
  const ir::Graph& graph() const override { return graph_; }
  std::vector<StepReport> steps() const override;
  void set_profiling(bool on) override { profiling_ = on; }

 private:
  void run_profiled(const RunContext& context);

  ir::Graph graph_;
  std::vector<std::unique_ptr<Step>> steps_;
  uint64_t arena_bytes_ = 0;
  CpuKv& kv_;
  ThreadPool& pool_;
  bool profiling_ = false;
  std::vector<double> seconds_;  // by step, summed over profiled runs
  uint64_t n_profiled_ = 0;
};

// Sets barrier_before where a step depends on what other threads did since the last barrier.
void place_barriers(std::span<const std::unique_ptr<Step>> steps);

}  // namespace tokamak::cpu

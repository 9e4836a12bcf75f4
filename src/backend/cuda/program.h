// A compiled graph on one device: a list of kernel launches. A shape that runs again is captured, while the device is
// busy with that run, and from then on launched as one CUDA graph.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/kv.h"
#include "backend/cuda/weights.h"

namespace tokamak::cuda {

// Where a value lies while the program runs. Arena and inputs may move between runs.
struct Address {
  enum class Where : uint8_t { none, fixed, arena, inputs } where = Where::none;
  const std::byte* data = nullptr;  // fixed
  uint64_t offset = 0;              // arena, inputs: bytes

  static Address of(const void* data) { return {.where = Where::fixed, .data = static_cast<const std::byte*>(data)}; }
  explicit operator bool() const { return where != Where::none; }
  friend bool operator==(const Address&, const Address&) = default;
};

struct RunContext {
  std::byte* arena;
  const std::byte* inputs;
  int64_t n_key_chunks;  // chunks of the longest sequence, rounded up to a power of two
  cudaStream_t stream;

  // Null for no address. What is read only is handed out as writable too; kernels write the arena only.
  template <class T = float>
  T* at(const Address& a) const {
    const std::byte* base = a.where == Address::Where::fixed    ? a.data
                            : a.where == Address::Where::arena  ? arena
                            : a.where == Address::Where::inputs ? inputs
                                                                : nullptr;
    return base ? reinterpret_cast<T*>(const_cast<std::byte*>(base) + a.offset) : nullptr;
  }
};

struct Step {
  StepReport report;
  std::function<cudaError_t(const RunContext& context)> launch;  // asynchronous; the same launches for equal contexts
};

// The inputs of a step in one block of memory: arrays of int32 by role, the boundary's values, then the sequences'
// pages.
struct InputLayout {
  std::array<uint64_t, static_cast<size_t>(ir::InputRole::count_)> roles = {};  // bytes
  std::array<int64_t, static_cast<size_t>(ir::InputRole::count_)> sizes = {};   // elements; 0: the graph reads none
  // Bytes: [n_seqs] each, of which run_begin and run_end are the sequence's tokens; all pages, sequence after sequence.
  uint64_t page_begin = 0, n_keys = 0, run_begin = 0, run_end = 0, pages = 0;
  int64_t n_tokens = 0, n_snapshots = 1;

  struct Boundary {
    int32_t boundary_idx = 0;
    uint64_t offset = 0, n_bytes = 0;
  };
  std::vector<Boundary> boundary;

  explicit InputLayout(const ir::Graph& graph);
  Address address(const ir::Value& input) const;
  Address address(ir::InputRole role) const { return at(roles[static_cast<size_t>(role)]); }
  static Address at(uint64_t offset) { return {.where = Address::Where::inputs, .offset = offset}; }
  uint64_t bytes_for(int64_t n_pages) const { return pages + static_cast<uint64_t>(n_pages) * sizeof(int32_t); }
  // Writes everything; returns the chunks of keys of the longest sequence.
  int64_t fill(const StepInputs& inputs, std::byte* out) const;
};

struct OutputCopy {
  Address from;  // contiguous f32
  uint64_t host_offset = 0, n_bytes = 0;
};

class CudaProgram : public Program {
 public:
  CudaProgram(ir::Graph graph, CudaKv& kv) : graph_(std::move(graph)), inputs_(graph_), kv_(kv) {}
  ~CudaProgram() override;

  const InputLayout& inputs() const { return inputs_; }
  // Errors: out_of_memory.
  Result<void> set_steps(std::vector<Step> steps, std::vector<OutputCopy> outputs, std::vector<DeviceBuffer> constants,
                         uint64_t arena_bytes);

  Result<void> run(const StepInputs& inputs, std::span<const std::span<float>> outputs) override;
  bool selects_top() const override { return has_top_; }
  Result<void> run_top(const StepInputs& inputs, std::span<TopLogit> top, std::span<const uint8_t> whole,
                       std::span<float> rows) override;
  const ir::Graph& graph() const override { return graph_; }
  std::vector<StepReport> steps() const override;
  void set_profiling(bool on) override { profiling_ = on; }
  RunTimes run_times() const override;

 private:
  struct Captured {                   // the launches for one number of key chunks
    cudaGraphExec_t graph = nullptr;  // null: its launches are made one by one
    uint64_t epoch = 0;               // of the workspace, when this was last tried
    bool has_run = false;
  };
  struct Timing {
    std::chrono::steady_clock::time_point begin, queued, finished;
    bool is_steady = false;
    Captured* to_capture = nullptr;
  };
  void add_top_step();
  std::span<const Step> steps_of(bool with_top) const {
    return std::span(steps_).first(steps_.size() - (has_top_ && !with_top ? 1 : 0));
  }
  // Enqueues a step. The outputs will lie where the context says.
  Result<RunContext> start(const StepInputs& inputs, bool with_top, Timing& timing);
  Result<void> finish(const RunContext& context, bool with_top, Timing& timing);
  void note_end(const Timing& timing);
  Result<void> fetch(const RunContext& context, const Address& from, uint64_t first, uint64_t host_offset,
                     uint64_t n_bytes);
  Result<void> launch_steps(const RunContext& context, bool with_top) const;
  Result<void> capture(Captured& captured, const RunContext& context, bool with_top);
  Result<void> instantiate(Captured& captured, cudaGraph_t graph);
  void drop(Captured& captured);

  ir::Graph graph_;
  InputLayout inputs_;
  CudaKv& kv_;
  std::vector<Step> steps_;  // the last one, where there are logits: their selection, for run_top() only
  bool has_top_ = false;
  uint64_t top_offset_ = 0, top_bytes_ = 0;  // of its results, in the host's outputs
  std::vector<OutputCopy> outputs_;
  std::vector<DeviceBuffer> constants_;
  uint64_t arena_bytes_ = 0, output_bytes_ = 0;
  std::map<std::pair<int64_t, bool>, Captured> captured_;  // by chunks of keys, and whether logits are selected
  bool profiling_ = false;
  std::vector<double> seconds_;  // by step, summed over profiled runs
  uint64_t n_profiled_ = 0, n_profiled_top_ = 0;
  double run_seconds_ = 0, host_seconds_ = 0;  // summed over n_steady_ runs
  uint64_t n_steady_ = 0;
};

}  // namespace tokamak::cuda

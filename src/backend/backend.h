// The interface between the engine and a device. A backend never sees a model family: it gets a graph.
//
//   load(graph, lookup)    -> Weights    in the backend's own layout
//   make_kv(config)        -> KvCache    paged keys and values
//   compile(graph, ...)    -> Program    rules matched, kernels picked, buffers planned
//   program.run(inputs)                  no allocation, no lookup by name
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/top_logits.h"
#include "base/result.h"
#include "fuse/stats.h"
#include "ir/graph.h"

namespace tokamak {

// A tensor as it lies in the file. `data` stays valid as long as the model.
struct WeightSource {
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> data;
  std::function<void()> forget;  // the bytes may leave memory until they are read again; may be empty
};
using WeightLookup = std::function<Result<WeightSource>(std::string_view name)>;

// Called with a fraction in 0..1; returning false cancels the work (ErrorCode::cancelled).
using Progress = std::function<bool(double fraction)>;

// One line of the memory ledger.
struct MemoryUse {
  std::string what;
  uint64_t n_bytes = 0;
  bool is_file_mapping = false;  // pages of the model file: shared, dropped by the kernel when memory is short
  std::string device = {};       // whose memory it is: "GPU"; empty: the host's
};

class Weights {
 public:
  virtual ~Weights() = default;
  virtual std::vector<MemoryUse> memory() const = 0;
};

struct KvLayerShape {
  int64_t n_head_kv = 0, head_dim_k = 0, head_dim_v = 0;
};

// Floats of one recurrent state of a layer; 0 = the layer has none.
struct RecurrentLayerShape {
  int64_t conv_elems = 0, recurrent_elems = 0;
};

struct KvConfig {
  std::vector<KvLayerShape> layers;            // n_head_kv 0: no attention in that layer
  std::vector<RecurrentLayerShape> recurrent;  // one per layer, or empty
  int64_t n_state_rows = 0;                    // recurrent states per layer
  int64_t n_pages = 0;
  int64_t page_size = 64;   // token positions (slots) per page, a multiple of 16
  DType type = DType::f16;  // of kCacheDTypes
};

class KvCache {
 public:
  virtual ~KvCache() = default;
  virtual const KvConfig& config() const = 0;
  virtual std::vector<MemoryUse> memory() const = 0;
  // Row `row` of every recurrent state, layer by layer, conv before recurrent: state_row_floats(config()) numbers.
  // Not while a program runs.
  virtual void read_states(int64_t row, std::span<float> out) const = 0;
  virtual void write_states(int64_t row, std::span<const float> in) = 0;
  // Bytes of one page over all layers, and its keys and values to another page. Not while a program runs.
  virtual uint64_t page_bytes() const = 0;
  virtual void copy_page(int64_t from, int64_t to) = 0;
  // A page as page_bytes() bytes in the backend's own layout: means the same in any page of a cache with the same
  // config() and page_layout() of the same backend. Not while a program runs.
  virtual void read_page(int64_t page, std::span<std::byte> out) const = 0;
  virtual void write_page(int64_t page, std::span<const std::byte> in) = 0;
  // For backends that do not lay out all pages alike: "4 layers CPU, 28 layers GPU".
  virtual std::string page_layout() const { return {}; }
};

inline int64_t state_row_floats(const KvConfig& config) {
  int64_t n = 0;
  for (const RecurrentLayerShape& layer : config.recurrent) n += layer.conv_elems + layer.recurrent_elems;
  return n;
}

// Where one sequence's keys and values lie: position p is in slot pages[p / page_size] * page_size + p % page_size.
struct SequencePages {
  std::span<const int32_t> pages;
};

// What one step works on. Tokens of a sequence are contiguous, ascending in position, and every earlier position of
// that sequence is in the cache or earlier in this step.
struct StepInputs {
  std::span<const int32_t> tokens;     // [n_tokens], below n_vocab
  std::span<const int32_t> positions;  // [n_tokens]
  std::span<const int32_t> seq_ids;    // [n_tokens], index into `sequences`
  std::span<const int32_t> slots;      // [n_tokens], where the token's keys and values are written
  std::span<const int32_t> out_rows;   // [n_outputs], ascending, which tokens' logits are wanted
  std::span<const SequencePages> sequences;
  // Of models with recurrent layers, [n_seqs] as `sequences`: the row of the states that a sequence starts from (-1:
  // zeros), which no other one writes, and the first of the n_snapshots rows that its states after this step go to.
  std::span<const int32_t> state_src, state_rows;
  // Of graphs that were cut apart, by Value::boundary_idx: contiguous f32 or int32 of the value's shape, 4-byte
  // aligned.
  std::span<const std::span<const std::byte>> boundary;
};

// The input of a graph by its role; not of a boundary, which has several.
inline std::span<const int32_t> input_of(const StepInputs& inputs, ir::InputRole role) {
  switch (role) {
    case ir::InputRole::tokens:
      return inputs.tokens;
    case ir::InputRole::positions:
      return inputs.positions;
    case ir::InputRole::seq_ids:
      return inputs.seq_ids;
    case ir::InputRole::slots:
      return inputs.slots;
    case ir::InputRole::out_rows:
      return inputs.out_rows;
    case ir::InputRole::state_src:
      return inputs.state_src;
    case ir::InputRole::state_rows:
      return inputs.state_rows;
    case ir::InputRole::none:
    case ir::InputRole::boundary:
    case ir::InputRole::count_:
      break;
  }
  return {};
}

// What a program does, step by step, for explain and dumps.
struct StepReport {
  std::string what;                  // node names, "blk.0.attn_q"
  std::string label;                 // fusion label or op name, "MUL_MAT+ADD"; of several groups "MUL_MAT x2, ROPE"
  std::vector<size_t> groups;        // of graph().groups, those that it works for; empty: none, or nodes one by one
  std::string kernel;                // "gemm_q4_1_16x8_avx512vnni"
  std::string note;                  // why no better kernel, or empty
  bool on_host = false;              // of a program of several devices: the limits of the processor count
  double bytes = 0, operations = 0;  // of one run
  double seconds = 0;                // mean over profiled runs, wall time until the step is complete on all threads
  uint64_t n_runs = 0;
};

// Means over runs of one program, the first ones and profiled ones left out.
struct RunTimes {
  double seconds = 0;       // of run()
  double host_seconds = 0;  // of it, until all work of the device was queued, and after it was done
  uint64_t n_runs = 0;      // 0: not measured
};

// What a device can do at most: the yardstick of `explain`.
struct DeviceLimits {
  double read_bytes_per_second = 0;  // one pass over memory larger than the caches
  double int8_ops_per_second = 0;    // multiplies and adds of products with integer codes
  double f32_ops_per_second = 0;     // of all others
  double f16_ops_per_second = 0;     // of products on tensor cores; 0: there are none
  double step_seconds = 0;           // the least a step takes, beside the time for its bytes
};

class Program {
 public:
  virtual ~Program() = default;
  // Writes graph output i, contiguous f32 (the bits of an int32 one), to outputs[i]. Errors: device_failed. Not
  // thread-safe.
  virtual Result<void> run(const StepInputs& inputs, std::span<const std::span<float>> outputs) = 0;
  // Of a graph whose one output is logits [n_rows, n_vocab]: whether run_top() can be called.
  virtual bool selects_top() const { return false; }
  // As run(), but only what is wanted leaves the device. top [n_rows, kTopLogits]: the best of each row, best first,
  // ties by lowest id; NaN and +infinity before all others. Rows where whole [n_rows] is not 0 come to `rows`, one
  // after the other. Errors: those of run(), unsupported.
  virtual Result<void> run_top(const StepInputs& /*inputs*/, std::span<TopLogit> /*top*/,
                               std::span<const uint8_t> /*whole*/, std::span<float> /*rows*/) {
    return Error{.code = ErrorCode::unsupported, .what = "this backend does not select logits"};
  }
  virtual const ir::Graph& graph() const = 0;  // after all passes
  virtual std::vector<StepReport> steps() const = 0;
  virtual void set_profiling(bool on) = 0;  // times each step; costs a barrier per step
  virtual RunTimes run_times() const { return {}; }
};

// The input of a product with a weight: f32 [n_rows, k], rows row_stride_elems apart. Valid during the call only.
// MUL_MAT: row r is multiplied with matrix r % n_matrices of the weight. MUL_MAT_ID: the rows of token t (one, or
// n_used) are multiplied with matrices ids[t * ids_stride_elems + 0..n_used), 0 <= t < n_tokens.
struct MatmulInput {
  std::string_view weight;  // the tensor's name in the file, with "[BEGIN:END]" behind it for a slice of its rows
  const float* x = nullptr;
  int64_t n_rows = 0, k = 0, row_stride_elems = 0;
  int64_t n_matrices = 1;
  const int32_t* ids = nullptr;
  int64_t n_tokens = 0, n_used = 0, ids_stride_elems = 0;
};
// Called before the product, one call at a time, from a thread of the backend; must not throw.
using MatmulObserver = std::function<void(const MatmulInput& input)>;

struct CompileOptions {
  bool fusion = true;
  // Only kernels whose result for a token is the same bits whatever else the step holds. The CPU has no others.
  bool batch_invariant = false;
  std::vector<std::string> disabled_passes;
  std::string dump_after;  // pass name; empty = no dump
  std::function<void(std::string_view text)> dump_sink;
  // Sees every MUL_MAT and MUL_MAT_ID once per run, fused or not; results do not depend on it.
  MatmulObserver matmul_observer;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual std::string description() const = 0;  // "AMD EPYC, 2 threads, avx512"
  // One line for people about what load() has decided; empty: nothing to say.
  virtual std::string remark() const { return {}; }
  // For plans. Device memory that is free now; none: memory of the host. Bytes that load() would take of it for the
  // operands of the graph's nodes (only these are looked at). Whether compile() can run the node, by op, types and
  // shapes.
  virtual std::optional<uint64_t> free_bytes() const { return std::nullopt; }
  virtual Result<uint64_t> load_bytes(const ir::Graph& /*graph*/, const WeightLookup& /*lookup*/) const { return 0; }
  virtual bool has_kernel(const ir::Graph& /*graph*/, ir::NodeId /*node*/) const { return true; }
  // Why nothing can be run any more; none: the device works. Does not wait for it.
  virtual std::optional<Error> lost() const { return std::nullopt; }
  // Uploads every weight that `graph` names. The graph tells how each is used; its token count matters only where there
  // is a choice of what fits (backend/split).
  virtual Result<std::unique_ptr<Weights>> load(const ir::Graph& graph, const WeightLookup& lookup,
                                                const Progress& progress) = 0;
  virtual Result<std::unique_ptr<KvCache>> make_kv(const KvConfig& config) = 0;
  // The program keeps references to weights and kv: they must outlive it.
  virtual Result<std::unique_ptr<Program>> compile(ir::Graph graph, const Weights& weights, KvCache& kv,
                                                   const CompileOptions& options) = 0;
  virtual fuse::Stats& fusion_stats() = 0;
  // Of a device that is not this machine's processor. Takes a moment. Errors: device_failed, out_of_memory.
  virtual Result<std::optional<DeviceLimits>> measure_limits() { return std::optional<DeviceLimits>(); }
};

}  // namespace tokamak

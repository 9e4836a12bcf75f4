// Turns a fused graph into kernel launches: one lowering function per op and per fusion rule, found through one table.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cuda/matvec/layout.h"
#include "backend/cuda/program.h"
#include "backend/lowering/attributes.h"
#include "backend/lowering/tables.h"
#include "backend/lowering/values.h"
#include "fuse/rules.h"
#include "ir/graph.h"
#include "ir/plan.h"

namespace tokamak::cuda {

using lowering::f32_bound;
using lowering::Nodes;

// f32 rows of a value or a weight.
struct Rows {
  Address address;  // of the first element
  int64_t n_rows = 0, n = 0;
  int64_t stride_elems = 0;  // between rows

  int64_t total() const { return n_rows * n; }
};

// For reports, of kernels that are not those of few columns.
inline constexpr std::string_view kDependsOnColumns = "result depends on the number of columns";

// Kernels of few columns begin while the one before them still runs; with many there is nothing to gain.
constexpr bool overlaps(int64_t n_cols) { return n_cols <= 8; }

// What the steps of one graph are built from and into.
class Lowering {
 public:
  Lowering(const ir::Graph& graph, const ir::Plan& plan, const CudaWeights& weights, CudaKv& kv,
           const InputLayout& inputs, bool batch_invariant);

  const ir::Graph& graph;
  const CudaWeights& weights;
  CudaKv& kv;
  const InputLayout& inputs;
  const bool batch_invariant;  // CompileOptions

  // Errors: those of lowering functions.
  Result<void> lower(const ir::Group& group);
  // After all groups: where the graph's outputs lie, contiguous.
  std::vector<OutputCopy> make_outputs();
  std::vector<Step> take_steps() { return std::move(steps_); }
  uint64_t arena_bytes() const { return arena_bytes_; }

  // --- for lowering functions ---
  const ir::Value& value(ir::ValueId id) const { return graph.values[id]; }
  // All dimensions but the last flattened. Weights: their decoded values. Not for elided values.
  Rows rows(ir::ValueId id) const;
  // The same for a result of a group that may have no reader outside it: then in a region of its own.
  Rows rows_or_region(ir::ValueId id);
  // From now on `owner` (no view) and its views lie at `address` and behind, not where the plan put them.
  void redirect(ir::ValueId owner, Address address) { redirected_[owner] = address; }
  const ir::Group& group() const { return *groups_.front(); }
  std::span<const ir::Group> later_groups() const;  // behind it
  bool is_lowered(const ir::Group& group) const { return lowered_.contains(&group); }
  // The next step does the work of `later` too, which adds nothing when its turn comes.
  void take_along(const ir::Group& later);
  ir::ValueId same_rows(ir::ValueId id) const { return lowering::same_rows(graph, id); }
  // int32 values: the step's inputs or what a node has made.
  Address indices(ir::ValueId id) const;
  // A new part of the arena.
  Address region(uint64_t n_bytes);
  Address floats(int64_t n) { return region(static_cast<uint64_t>(n) * sizeof(float)); }
  // Partial results of one node, whose last step has read them before the next node has some.
  Address scratch(uint64_t n_bytes);
  // Tables of rope angles made so far.
  struct RopeUse {
    ir::ValueId factors;
    ir::Attrs attrs;
    Address table;
  };
  std::vector<RopeUse> rope_tables;
  // Lists of tiles for attention over many tokens made so far.
  struct TileUse {
    int64_t tile_tokens;
    Address tiles;
  };
  std::vector<TileUse> prefill_tiles;
  // Inputs in the form of gemm/ (the newest first) and routes of experts made so far: lower_gemm.h.
  struct HalfUse {
    ir::ValueId value = ir::kNone, ids = ir::kNone;
    bool low = false;
    Address address;
    int64_t n_bytes = 0;
  };
  std::vector<HalfUse> half_uses;
  struct RouteUse {
    ir::ValueId ids;
    int n_expert;
    Address route;
  };
  std::vector<RouteUse> expert_routes;
  // x quantized for matvec/: columns of q8. Adds the step that does it unless that is still at hand.
  Address quantized(ir::ValueId x);
  // x as columns/ reads it, likewise.
  Address halves(ir::ValueId x);
  // Whether the product runs on the kernels of columns/.
  bool on_tensor_columns(const ir::Node& product) const;
  // Where a kernel that makes x may leave it quantized too; none when no product wants it.
  // `read`: a converted input that the kernel reads, to be left alone.
  Address quantized_by_producer(ir::ValueId x, const Address& read = {});
  // Whether it must write the low bytes too.
  bool wants_low(ir::ValueId x) const { return wanted_[x] == ActivationForm::q15; }
  // Constants that no weight holds, once for equal bytes. Valid as long as the program.
  Result<Address> constant(std::span<const std::byte> bytes);
  std::vector<DeviceBuffer> take_constants() { return std::move(constants_); }

  // Adds a step whose report describes the nodes of the current group.
  template <class Launch>
  StepReport& add(std::string_view kernel, Launch launch, std::string_view note = {}) {
    steps_.push_back({.report = describe(kernel, note), .launch = std::move(launch)});
    return steps_.back().report;
  }
  // Adds a step that makes no node's result: its report has no operations, and its purpose behind the nodes' names.
  struct Helper {
    std::string_view kernel, label, purpose;
    double bytes = 0;
  };
  template <class Launch>
  void add_helper(const Helper& helper, Launch launch) {
    StepReport& report = add(helper.kernel, std::move(launch));
    if (!helper.purpose.empty()) report.what += " (" + std::string(helper.purpose) + ")";
    report.label = helper.label;
    report.operations = 0;
    report.bytes = helper.bytes;
  }

 private:
  enum class InputForm : uint8_t { q8, halves };
  struct Slot {  // a converted input; the oldest is overwritten when a new one is needed
    ir::ValueId value = ir::kNone;
    InputForm form = InputForm::q8;
    Address address;
  };
  StepReport describe(std::string_view kernel, std::string_view note) const;
  const Slot* slot_of(ir::ValueId x, InputForm form) const;
  Address new_slot(ir::ValueId x, InputForm form);
  void reserve_slots();

  const ir::Plan& plan_;
  std::vector<Step> steps_;
  std::vector<DeviceBuffer> constants_;
  std::map<std::string, Address> known_constants_;  // by their bytes
  std::vector<Slot> slots_;
  size_t next_slot_ = 0;
  std::vector<ActivationForm> wanted_;  // by value: what products with quantized weights read; f32: no such product
  Address scratch_;
  uint64_t scratch_bytes_ = 0, arena_bytes_ = 0;
  std::map<ir::ValueId, Address> redirected_;
  std::set<const ir::Group*> lowered_;    // before their turn
  std::vector<const ir::Group*> groups_;  // being lowered: the current one, then those taken along
};

// Adds a step of a kernel over the rows of x, whose Args have x, y, their strides and extents; `bind` sets what else
// depends on the context.
struct NothingElse {
  template <class Args>
  void operator()(Args&, const RunContext&) const {}
};
template <class Args, class Bind = NothingElse>
void add_rows(Lowering& l, std::string_view kernel, const Rows& x, const Rows& y, Args args,
              cudaError_t (*launch)(const Args&, cudaStream_t), Bind bind = {}) {
  args.x_stride = x.stride_elems;
  args.y_stride = y.stride_elems;
  args.n_rows = x.n_rows;
  args.row_elems = x.n;
  l.add(kernel, [=](const RunContext& c) {
    Args a = args;
    a.x = c.at(x.address);
    a.y = c.at<std::remove_pointer_t<decltype(a.y)>>(y.address);
    bind(a, c);
    return launch(a, c.stream);
  });
}

// Which rules this backend has kernels for, given the types at hand: a row of the lowering table and its `supports`.
bool supports_rule(const ir::Graph& graph, const fuse::Rule& rule, Nodes nodes);
// The kernel that the node would need and this backend lacks, by op, types and shapes; empty: it can be run.
std::string missing_kernel(const ir::Graph& graph, const ir::Node& node);
// No node of the graph lacks one. Errors: unsupported, naming kernel and node.
Result<void> check_lowerings(const ir::Graph& graph);

// Nodes for which missing_kernel() is empty. Errors: out_of_memory, device_failed.
using LowerFunction = Result<void> (*)(Lowering& lowering, Nodes nodes);
using OpLowering = lowering::OpRow<LowerFunction>;
using RuleLowering = lowering::RuleRow<LowerFunction>;

// The tables, by file.
std::span<const OpLowering> matmul_lowerings();
std::span<const RuleLowering> matmul_rule_lowerings();
std::span<const OpLowering> expert_lowerings();
std::span<const RuleLowering> expert_rule_lowerings();
std::span<const OpLowering> row_lowerings();
std::span<const RuleLowering> row_rule_lowerings();
std::span<const OpLowering> elementwise_lowerings();
std::span<const RuleLowering> elementwise_rule_lowerings();
std::span<const OpLowering> routing_lowerings();
std::span<const RuleLowering> routing_rule_lowerings();
std::span<const OpLowering> recurrent_lowerings();
std::span<const RuleLowering> recurrent_rule_lowerings();
std::span<const OpLowering> attention_lowerings();
std::span<const RuleLowering> attention_rule_lowerings();

}  // namespace tokamak::cuda

// Turns a fused graph into CPU steps: one lowering function per op and per fusion rule, found through one table.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/program.h"
#include "backend/lowering/tables.h"
#include "fuse/rules.h"
#include "ir/graph.h"
#include "ir/plan.h"

namespace tokamak::cpu {

using lowering::Nodes;

// What the kernels of a program may use.
struct Target {
  Isa isa;
  ActivationKind activations;  // of matmuls with quantized weights: int8 or int16
};

// What the steps of one graph are built from and into.
class Lowering {
 public:
  Lowering(const ir::Graph& graph, const ir::Plan& plan, const CpuWeights& weights, CpuKv& kv, Target target,
           int n_threads, const MatmulObserver& observer);

  const ir::Graph& graph;
  const CpuWeights& weights;
  CpuKv& kv;
  const Isa isa;
  const ActivationKind activations;
  const MatmulObserver& observer;

  void lower(const ir::Group& group);
  // After all groups: fills the graph outputs that no group has written.
  void copy_outputs();
  std::vector<std::unique_ptr<Step>> take_steps() { return std::move(steps_); }
  uint64_t arena_bytes() const { return arena_bytes_; }

  // --- for lowering functions ---
  const ir::Value& value(ir::ValueId id) const { return graph.values[id]; }
  // The value's f32 rows: all dimensions but the last flattened. Not for elided values.
  Rows rows(ir::ValueId id) const;
  // The same for a result of a group that may have no reader outside it: then in a region of its own.
  Rows rows_or_region(ir::ValueId id);
  // x packed for matmul; adds the step that packs it unless that is still at hand.
  Ref pack(ir::ValueId x, ActivationKind kind);
  // A new part of the arena.
  Ref region(uint64_t n_bytes);
  // Attention's regions, shared by all layers: partial results of split keys, and scratch per thread.
  Ref attention_partials(int64_t n_floats) { return grown(attention_partials_, n_floats); }
  // Where convolutions keep the states that they are about to overwrite, shared by all layers.
  Ref conv_starts(int64_t n_floats) { return grown(conv_starts_, n_floats); }
  const Ref& attention_scratch() const { return attention_scratch_; }
  uint64_t attention_scratch_stride() const { return attention_scratch_stride_; }
  // Tables of rope angles made so far.
  struct RopeUse {
    ir::ValueId factors;
    ir::Attrs attrs;
    Ref rows;
  };
  std::vector<RopeUse> rope_tables;
  // Of products with stacks of matrices (lower_experts.cpp): the columns packed last, and the last tokens sorted by
  // expert. Each has one region, of which these say what it holds.
  struct StackedColumns {
    ir::ValueId x = ir::kNone, ids = ir::kNone;
    ActivationKind kind = ActivationKind::f32;
    Ref ref;
  } stacked;
  struct RoutedTokens {
    ir::ValueId ids = ir::kNone;
    int64_t n_expert = 0;
    Ref ref;
  } route;
  // One region per thread for decoding weights.
  const Ref& scratch() const { return scratch_; }
  uint64_t scratch_stride() const { return scratch_stride_; }
  // Adds a step whose report describes the nodes of the current group.
  template <class S>
  S& add(std::string_view kernel, std::string_view note = {}) {
    auto step = std::make_unique<S>();
    S& out = *step;
    describe(out, kernel, note);
    steps_.push_back(std::move(step));
    return out;
  }

 private:
  struct Slot {  // a packed input; the oldest is overwritten when a new one is needed
    ir::ValueId value = ir::kNone;
    ActivationKind kind = ActivationKind::f32;
    Ref ref;
  };
  // The graph output whose memory holds all of the value `storage`; n outputs if there is none.
  size_t output_at(ir::ValueId storage) const;
  void describe(Step& step, std::string_view kernel, std::string_view note) const;
  Ref grown(Ref& shared, int64_t n_floats);
  void reserve_matmul_regions();
  void reserve_attention_regions();

  const ir::Plan& plan_;
  const int n_threads_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<Slot> slots_;
  size_t next_slot_ = 0;
  Ref scratch_;
  uint64_t scratch_stride_ = 0;
  Ref attention_scratch_, attention_partials_, conv_starts_;
  uint64_t attention_scratch_stride_ = 0;
  uint64_t arena_bytes_ = 0;
  const ir::Group* group_ = nullptr;  // being lowered
};

// Which rules the CPU has kernels for, given the types at hand: a row of the lowering table and its `supports`.
bool supports_rule(const ir::Graph& graph, const fuse::Rule& rule, Nodes nodes);
// Every op of the graph has a row in the lowering tables. Errors: unsupported.
Result<void> check_lowerings(const ir::Graph& graph);

using LowerFunction = void (*)(Lowering& lowering, Nodes nodes);
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

}  // namespace tokamak::cpu

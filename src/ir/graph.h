// The graph: nodes in execution order, values in SSA form.
//
// Goals: small enough to print and read; every value's shape known; the same text parses back to an equal graph.
// Non-goals: control flow, autodiff, devices (a graph never names one).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "ir/ops.h"
#include "tensor/dtypes.h"
#include "tensor/shape.h"

namespace tokamak::ir {

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr uint32_t kNone = UINT32_MAX;

enum class ValueKind : uint8_t { weight, state, input, intermediate };

// Step inputs by role, so that no backend looks anything up by name while running.
// state_src, state_rows: where each sequence's recurrent state is read and written (StepInputs). boundary: what another
// part of a graph that was cut apart has made (backend/split).
enum class InputRole : uint8_t {
  none,
  tokens,
  positions,
  seq_ids,
  slots,
  out_rows,
  state_src,
  state_rows,
  boundary,
  count_
};
inline constexpr auto kInputRoles = std::to_array<std::string_view>(
    {"none", "tokens", "positions", "seq_ids", "slots", "out_rows", "state_src", "state_rows", "boundary"});
static_assert(kInputRoles.size() == static_cast<size_t>(InputRole::count_));

// conv: the last inputs of a convolution; recurrent: the matrix of a delta net.
enum class StateRole : uint8_t { none, kv_k, kv_v, conv, recurrent, count_ };
inline constexpr auto kStateRoles = std::to_array<std::string_view>({"none", "k", "v", "conv", "recurrent"});
static_assert(kStateRoles.size() == static_cast<size_t>(StateRole::count_));

struct Value {
  ValueKind kind = ValueKind::intermediate;
  DType dtype = DType::f32;
  Shape shape;
  std::string name;                        // weight: the tensor's name in the file; else unique, may be empty
  InputRole input_role = InputRole::none;  // of an input
  StateRole state_role = StateRole::none;  // of a state
  int32_t layer_idx = -1;                  // of a state: which layer's cache
  int32_t boundary_idx = -1;               // of an input with that role: which of StepInputs::boundary
  NodeId producer = kNone;                 // of an intermediate, and of a state that an op has written
  // Views (RESHAPE, VIEW, and results of state writes) share the storage of another value:
  ValueId storage = kNone;       // the value that owns the memory, never itself a view; kNone = owns its own
  int64_t offset_elems = 0;      // of the first element inside `storage`
  int64_t row_stride_elems = 0;  // distance of two rows (last dimension); contiguous: shape[-1]

  bool is_view() const { return storage != kNone; }
  bool is_contiguous() const { return shape.rank() == 0 || row_stride_elems == shape[-1]; }
  friend bool operator==(const Value&, const Value&) = default;
};

struct Node {
  Op op = Op::add;
  std::string name;  // what it computes, for example "blk.0.attn_q"; may be empty
  std::vector<ValueId> inputs;
  ValueId output = kNone;
  Attrs attrs;
  friend bool operator==(const Node&, const Node&) = default;
};

// A run of nodes that a backend may run as one kernel. Its meaning is that of its members run one by one.
struct Group {
  uint16_t rule = UINT16_MAX;  // row of the fusion table; UINT16_MAX: a single node
  std::vector<NodeId> nodes;   // ascending; view nodes travel with the group
  friend bool operator==(const Group&, const Group&) = default;
};

struct Graph {
  std::string name;  // for example "llama prefill 512"
  std::vector<Value> values;
  std::vector<Node> nodes;       // in execution order
  std::vector<ValueId> outputs;  // what the caller reads: f32, or i32 whose bits it takes for what they are
  std::vector<Group> groups;     // empty before the fuse pass; afterwards a partition of the nodes, in order

  const Value& value(ValueId id) const { return values[id]; }
  const Node& node(NodeId id) const { return nodes[id]; }
  // The value whose memory holds `id`.
  ValueId storage_of(ValueId id) const { return values[id].is_view() ? values[id].storage : id; }
  bool is_output(ValueId id) const;
};

bool operator==(const Graph& a, const Graph& b);  // names included

// The value that `op` makes of `inputs` (ids must be valid): kind, type, and for views the place inside the storage.
// The one rule behind builder, parser and verifier. Name and producer are left to the caller.
Result<Value> infer_value(const Graph& graph, Op op, std::span<const ValueId> inputs, const Attrs& attrs);

OperandType operand_type(const Value& value);
// Operands of a node, for costs.
std::vector<OperandType> operand_types(const Graph& graph, const Node& node);
OpCost node_cost(const Graph& graph, const Node& node);

// "RMS_NORM+MUL": the ops of a group's members without views.
std::string member_ops(const Graph& graph, const Group& group);

// Nodes that read a value (not through views), in execution order; a node that reads it twice is listed once.
std::vector<std::vector<NodeId>> readers_of(const Graph& graph);

}  // namespace tokamak::ir

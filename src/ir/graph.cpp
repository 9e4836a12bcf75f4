#include "ir/graph.h"

#include <algorithm>

namespace tokamak::ir {

bool Graph::is_output(ValueId id) const { return std::ranges::find(outputs, id) != outputs.end(); }

bool operator==(const Graph& a, const Graph& b) {
  return a.name == b.name && a.values == b.values && a.nodes == b.nodes && a.outputs == b.outputs &&
         a.groups == b.groups;
}

OperandType operand_type(const Value& value) { return {value.dtype, value.shape, value.is_contiguous()}; }

Result<Value> infer_value(const Graph& graph, Op op, std::span<const ValueId> inputs, const Attrs& attrs) {
  std::vector<OperandType> types;
  for (ValueId id : inputs) types.push_back(operand_type(graph.value(id)));
  const OperandType type = TRY(infer_type(op, types, attrs));
  for (size_t i = 0; i < inputs.size(); ++i)
    if ((op_row(op).state_inputs >> i & 1) && graph.value(inputs[i]).kind != ValueKind::state)
      return Error{.code = ErrorCode::bad_argument,
                   .what = std::string(operand_name(op, i)) + " must be a state",
                   .where = describe_call(op, types)};

  Value out{.dtype = type.dtype, .shape = type.shape, .row_stride_elems = type.shape.row_elems()};
  if (!op_row(op).is_view && !op_row(op).writes_state) return out;
  const Value& source = graph.value(inputs[0]);
  out.storage = graph.storage_of(inputs[0]);
  out.offset_elems = source.offset_elems;
  if (op_row(op).writes_state) {
    out.kind = ValueKind::state;
    out.state_role = source.state_role;
    out.layer_idx = source.layer_idx;
  } else if (op == Op::view) {
    out.offset_elems += attrs.integer(Attr::offset);
    if (type.shape.rank() > 1) out.row_stride_elems = source.row_stride_elems;  // a part of a vector has no gaps
  }
  return out;
}

std::vector<OperandType> operand_types(const Graph& graph, const Node& node) {
  std::vector<OperandType> types;
  for (ValueId id : node.inputs) types.push_back(operand_type(graph.value(id)));
  return types;
}

OpCost node_cost(const Graph& graph, const Node& node) {
  return op_row(node.op).cost(operand_types(graph, node), operand_type(graph.value(node.output)), node.attrs);
}

std::string member_ops(const Graph& graph, const Group& group) {
  std::string out;
  for (NodeId id : group.nodes) {
    const OpRow& row = op_row(graph.node(id).op);
    if (row.is_view) continue;
    if (!out.empty()) out += '+';
    out += row.name;
  }
  return out;
}

std::vector<std::vector<NodeId>> readers_of(const Graph& graph) {
  std::vector<std::vector<NodeId>> readers(graph.values.size());
  for (NodeId n = 0; n < graph.nodes.size(); ++n)
    for (ValueId id : graph.nodes[n].inputs)
      if (readers[id].empty() || readers[id].back() != n) readers[id].push_back(n);
  return readers;
}

}  // namespace tokamak::ir

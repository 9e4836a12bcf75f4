#include <vector>

#include "ir/pass.h"

namespace tokamak::ir {

namespace {

// The value that a node's result can be replaced by, or kNone. Inputs have been replaced already.
ValueId same_as(const Graph& graph, const Node& node) {
  const ValueId source = node.inputs[0];
  const bool same_type = graph.value(source).shape == graph.value(node.output).shape;
  switch (node.op) {
    case Op::reshape:
    case Op::view:
      return same_type ? source : kNone;
    case Op::scale:
      // A copy of a state or of a slice means something: the state may change later, the slice is not contiguous.
      if (graph.value(graph.storage_of(source)).kind == ValueKind::state || !graph.value(source).is_contiguous())
        return kNone;
      return node.attrs.number(Attr::scale) == 1 && node.attrs.number(Attr::bias) == 0 ? source : kNone;
    default:
      return kNone;
  }
}

// Redirects operands past nodes that change nothing. The nodes themselves stay, without readers.
void bypass(Graph& graph) {
  std::vector<ValueId> replacement(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id) replacement[id] = id;
  for (Node& node : graph.nodes) {
    for (ValueId& input : node.inputs) input = replacement[input];
    const NodeId inner = graph.value(node.inputs[0]).producer;
    if (node.op == Op::reshape && inner != kNone && graph.node(inner).op == Op::reshape)
      node.inputs[0] = graph.node(inner).inputs[0];
    if (const ValueId same = same_as(graph, node); same != kNone) replacement[node.output] = same;
  }
  for (ValueId& id : graph.outputs)
    if (graph.value(replacement[id]).kind == ValueKind::intermediate) id = replacement[id];
}

std::vector<bool> needed_nodes(const Graph& graph) {
  std::vector<bool> needed(graph.nodes.size());
  for (ValueId id : graph.outputs) needed[graph.value(id).producer] = true;
  for (NodeId n = static_cast<NodeId>(graph.nodes.size()); n-- > 0;) {
    if (op_row(graph.nodes[n].op).writes_state) needed[n] = true;
    if (!needed[n]) continue;
    for (ValueId id : graph.nodes[n].inputs)
      if (graph.value(id).producer != kNone) needed[graph.value(id).producer] = true;
  }
  return needed;
}

}  // namespace

Result<void> simplify(Graph& graph) {
  bypass(graph);
  const std::vector<bool> needed = needed_nodes(graph);

  Graph out{.name = graph.name};
  std::vector<ValueId> new_id(graph.values.size(), kNone);
  const auto add = [&](ValueId old, Value value) {
    new_id[old] = static_cast<ValueId>(out.values.size());
    out.values.push_back(std::move(value));
  };
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (graph.values[id].producer == kNone) add(id, graph.values[id]);
  for (NodeId n = 0; n < graph.nodes.size(); ++n) {
    if (!needed[n]) continue;
    Node node = std::move(graph.nodes[n]);
    for (ValueId& id : node.inputs) id = new_id[id];
    Value value = TRY(infer_value(out, node.op, node.inputs, node.attrs));
    value.name = node.name;
    value.producer = static_cast<NodeId>(out.nodes.size());
    add(node.output, std::move(value));
    node.output = new_id[node.output];
    out.nodes.push_back(std::move(node));
  }
  for (ValueId id : graph.outputs) out.outputs.push_back(new_id[id]);
  graph = std::move(out);
  return {};
}

Pass simplify_pass() { return {.name = "simplify", .run = simplify}; }

}  // namespace tokamak::ir

#include "ir/verify.h"

#include <fmt/format.h>

#include <unordered_set>

namespace tokamak::ir {

namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  Result<void> run() const {
    if (graph_.values.size() >= kNone || graph_.nodes.size() >= kNone)
      return Error{.what = "more than 2^32 - 2 values or nodes", .where = graph_.name};
    TRY(check_names());
    for (ValueId id = 0; id < graph_.values.size(); ++id) TRY(check_value(id));
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) TRY(check_node(id));
    TRY(check_state_order());
    TRY(check_outputs());
    return check_groups();
  }

 private:
  Error wrong(std::string place, std::string what) const {
    return Error{.what = std::move(what), .where = fmt::format("{}: {}", graph_.name, place)};
  }
  Error wrong_value(ValueId id, std::string what) const {
    const std::string& name = graph_.values[id].name;
    return wrong(fmt::format("%{}{}{}", id, name.empty() ? "" : " ", name), std::move(what));
  }
  Error wrong_node(NodeId id, std::string what) const {
    const Node& node = graph_.nodes[id];
    return wrong(fmt::format("node {} {} {}", id, op_name(node), node.name), std::move(what));
  }
  static std::string_view op_name(const Node& node) { return node.op < Op::count_ ? op_row(node.op).name : "?"; }

  Result<void> check_names() const {
    std::unordered_set<std::string_view> names;
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const std::string& name = graph_.values[id].name;
      if (!name.empty() && !names.insert(name).second) return wrong_value(id, "two values have this name");
    }
    return {};
  }

  Result<void> check_value(ValueId id) const {
    const Value& value = graph_.values[id];
    if (find_row(value.dtype) == nullptr) return wrong_value(id, "has no known type");
    if (auto ok = check_type(value.dtype, value.shape); !ok) return wrong_value(id, ok.error().message());
    if (value.producer == kNone) return check_leaf(id);
    if (value.producer >= graph_.nodes.size() || graph_.nodes[value.producer].output != id)
      return wrong_value(id, "its producer does not make it");
    return {};
  }

  Result<void> check_leaf(ValueId id) const {
    const Value& value = graph_.values[id];
    if (value.dtype == DType::f8_e4m3 && value.kind != ValueKind::state)
      return wrong_value(id, "has a type that only caches have");
    if (value.kind == ValueKind::intermediate) return wrong_value(id, "no node makes this intermediate");
    if (value.name.empty()) return wrong_value(id, "a weight, state or input needs a name");
    if (value.is_view() || value.offset_elems != 0 || value.row_stride_elems != value.shape.row_elems())
      return wrong_value(id, "a weight, state or input owns its memory");
    const bool is_input = value.kind == ValueKind::input, is_state = value.kind == ValueKind::state;
    if (is_input != (value.input_role != InputRole::none) || value.input_role >= InputRole::count_)
      return wrong_value(id, "exactly the inputs have an input role");
    const bool is_boundary = value.input_role == InputRole::boundary;
    if (is_input && value.dtype != DType::i32 && !(is_boundary && value.dtype == DType::f32))
      return wrong_value(id, "inputs are I32, those of a boundary also F32");
    if (is_boundary ? value.boundary_idx < 0 : value.boundary_idx != -1)
      return wrong_value(id, "exactly the inputs of a boundary have an index there");
    if (is_state != (value.state_role != StateRole::none) || value.state_role >= StateRole::count_)
      return wrong_value(id, "exactly the states have a state role");
    if (is_state ? value.layer_idx < 0 : value.layer_idx != -1)
      return wrong_value(id, "exactly the states have a layer");
    return {};
  }

  Result<void> check_node(NodeId id) const {
    const Node& node = graph_.nodes[id];
    if (node.op >= Op::count_) return wrong_node(id, "no known op");
    for (ValueId input : node.inputs) {
      if (input >= graph_.values.size()) return wrong_node(id, fmt::format("operand %{} does not exist", input));
      const NodeId producer = graph_.values[input].producer;
      if (producer != kNone && producer >= id)
        return wrong_node(id, fmt::format("reads %{}, which node {} makes later", input, producer));
    }
    if (node.output >= graph_.values.size() || graph_.values[node.output].producer != id)
      return wrong_node(id, "does not own its result");
    auto inferred = infer_value(graph_, node.op, node.inputs, node.attrs);
    if (!inferred) {
      Error error = inferred.error();
      error.where = fmt::format("{}: node {} {}: {}", graph_.name, id, node.name, error.where);
      return error;
    }
    const Value& value = graph_.values[node.output];
    if (value.dtype != inferred->dtype || value.shape != inferred->shape)
      return wrong_node(
          id, fmt::format("result is {} {}, should be {} {}", dtype_name(value.dtype), value.shape.to_string(),
                          dtype_name(inferred->dtype), inferred->shape.to_string()));
    if (value.name != node.name) return wrong_node(id, fmt::format("result is named \"{}\"", value.name));
    inferred->name = value.name;
    inferred->producer = id;
    if (value != *inferred) return wrong_node(id, "kind, role or storage of the result differ from what the op gives");
    return check_inside_storage(id);
  }

  Result<void> check_inside_storage(NodeId id) const {
    const Value& value = graph_.values[graph_.nodes[id].output];
    if (!value.is_view()) return {};
    const int64_t end =
        value.offset_elems + (value.shape.n_rows() - 1) * value.row_stride_elems + value.shape.row_elems();
    if (value.offset_elems >= 0 && end <= graph_.values[value.storage].shape.n_elements()) return {};
    return wrong_node(id, fmt::format("view ends at element {}, past its storage", end));
  }

  // Attention reads keys of this step too. (Recurrent ops read the state of before and CPY writes it afterwards.)
  Result<void> check_state_order() const {
    std::vector<NodeId> last_write(graph_.values.size(), kNone);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id)
      if (graph_.nodes[id].op == Op::set_rows) last_write[graph_.storage_of(graph_.nodes[id].inputs[0])] = id;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (op_row(graph_.nodes[id].op).writes_state || op_row(graph_.nodes[id].op).is_view) continue;
      for (ValueId input : graph_.nodes[id].inputs) {
        const NodeId write = last_write[graph_.storage_of(input)];
        if (write != kNone && write > id)
          return wrong_node(id, fmt::format("reads %{} before node {} writes that state", input, write));
      }
    }
    return {};
  }

  Result<void> check_outputs() const {
    bool has_effect = !graph_.outputs.empty();
    for (const Node& node : graph_.nodes) has_effect |= op_row(node.op).writes_state;
    if (!has_effect) return wrong("outputs", "the graph has no output and writes no state");
    for (ValueId id : graph_.outputs) {
      if (id >= graph_.values.size()) return wrong("outputs", fmt::format("%{} does not exist", id));
      const Value& value = graph_.values[id];
      if (value.kind != ValueKind::intermediate)
        return wrong_value(id, "an output must be a result of a node that writes no state");
    }
    return {};
  }

  Result<void> check_groups() const {
    if (graph_.groups.empty()) return {};
    NodeId next = 0;
    for (const Group& group : graph_.groups) {
      const auto place = [&] { return fmt::format("group at node {}", next); };
      if (group.nodes.empty()) return wrong(place(), "is empty");
      if (group.rule == UINT16_MAX && group.nodes.size() > 1) return wrong(place(), "has several nodes and no rule");
      for (NodeId id : group.nodes)
        if (id >= graph_.nodes.size() || id != next++)
          return wrong(place(), "groups are no partition of the nodes in order");
    }
    for (const Group& group : graph_.groups)
      if (group.rule != UINT16_MAX && member_ops(graph_, group).empty())
        return wrong(fmt::format("group at node {}", group.nodes.front()), "has a rule, but only views as members");
    if (next != graph_.nodes.size()) return wrong(fmt::format("node {}", next), "is in no group");
    return {};
  }

  const Graph& graph_;
};

}  // namespace

Result<void> verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace tokamak::ir

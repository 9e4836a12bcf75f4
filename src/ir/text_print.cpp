#include <fmt/format.h>

#include <cctype>

#include "ir/text.h"

namespace tokamak::ir {

namespace {

bool is_plain_word(std::string_view name) {
  if (name.empty() || !(std::isalpha(static_cast<unsigned char>(name[0])) || name[0] == '_')) return false;
  for (char c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '-' && c != '/') return false;
  return true;
}

std::string quoted(std::string_view name) {
  std::string out = "\"";
  for (char c : name) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (byte < 0x20 || byte >= 0x7F)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + "\"";
}

std::string word(std::string_view name) { return is_plain_word(name) ? std::string(name) : quoted(name); }

std::string type_text(const Value& value) {
  std::string dtype(dtype_name(value.dtype));
  for (char& c : dtype) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return fmt::format("{} {}", dtype, value.shape.to_string());
}

std::string attr_text(const AttrRow& row, const AttrValue& value) {
  if (const double* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const Shape* shape = std::get_if<Shape>(&value)) return shape->to_string();
  const int64_t integer = std::get<int64_t>(value);
  if (integer >= 0 && static_cast<size_t>(integer) < row.keywords.size())
    return std::string(row.keywords[static_cast<size_t>(integer)]);
  return fmt::format("{}", integer);
}

template <class Role, size_t n>
std::string_view role_text(const std::array<std::string_view, n>& names, Role role) {
  const size_t i = static_cast<size_t>(role);
  return i < n ? names[i] : "?";
}

std::string leaf_text(ValueId id, const Value& value) {
  switch (value.kind) {
    case ValueKind::input:
      return fmt::format("%{} = input {} : {} role={}{}", id, word(value.name), type_text(value),
                         role_text(kInputRoles, value.input_role),
                         value.input_role == InputRole::boundary ? fmt::format(" index={}", value.boundary_idx) : "");
    case ValueKind::state:
      return fmt::format("%{} = state {} : {} role={} layer={}", id, word(value.name), type_text(value),
                         role_text(kStateRoles, value.state_role), value.layer_idx);
    default:
      return fmt::format("%{} = weight {} : {}", id, word(value.name), type_text(value));
  }
}

std::string node_text(const Graph& graph, const Node& node) {
  std::string out = fmt::format("%{} = {}", node.output, op_row(node.op).name);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    const bool is_leaf = id < graph.values.size() && graph.value(id).producer == kNone;
    out += i ? ", " : " ";
    out += is_leaf ? word(graph.value(id).name) : fmt::format("%{}", id);
  }
  if (node.output < graph.values.size()) out += " : " + type_text(graph.value(node.output));
  for (const auto& [attr, value] : node.attrs.entries())
    out += fmt::format(" {}={}", attr_row(attr).name, attr_text(attr_row(attr), value));
  if (!node.name.empty()) out += " name=" + word(node.name);
  return out;
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string out = fmt::format("graph {}{} {{\n", quoted(graph.name), graph.groups.empty() ? "" : " grouped");
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (graph.values[id].producer == kNone) out += "  " + leaf_text(id, graph.values[id]) + "\n";
  if (graph.groups.empty())
    for (const Node& node : graph.nodes) out += "  " + node_text(graph, node) + "\n";
  for (const Group& group : graph.groups) {
    const bool is_single = group.rule == UINT16_MAX;
    if (!is_single) out += fmt::format("  group {} {} {{\n", group.rule, member_ops(graph, group));
    for (NodeId id : group.nodes) out += (is_single ? "  " : "    ") + node_text(graph, graph.node(id)) + "\n";
    if (!is_single) out += "  }\n";
  }
  std::string outputs;
  for (ValueId id : graph.outputs) outputs += fmt::format("{} %{}", outputs.empty() ? "" : ",", id);
  return out + "  return" + outputs + "\n}\n";
}

}  // namespace tokamak::ir

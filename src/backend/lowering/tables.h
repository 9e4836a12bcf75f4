// The lowering tables of a backend: which function makes steps of an op, and of the groups of a fusion rule.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "fuse/rules.h"
#include "ir/graph.h"

namespace tokamak::lowering {

// A group's nodes as fuse::Candidate::nodes lists them: views left out, kNone for missing optional ops.
using Nodes = std::span<const ir::NodeId>;

// What the kernels of an op are not for although it has some: "experts of Q8_1"; empty: they can run the node.
using Beyond = std::string (*)(const ir::Graph& graph, const ir::Node& node);

// Function: what the backend calls with its state and the nodes.
template <class Function>
struct OpRow {
  ir::Op op;
  Function lower;
  Beyond beyond = nullptr;  // null: whatever the op's rules allow can be run
};
template <class Function>
struct RuleRow {
  fuse::RuleId rule;
  bool (*supports)(const ir::Graph& graph, Nodes nodes);  // null: whatever the rule matches
  Function lower;
};

// The row whose `member` is `key`; null: in none of the tables.
template <class Row, class Key>
const Row* find_row(std::initializer_list<std::span<const Row>> tables, Key Row::*member, Key key) {
  for (std::span<const Row> table : tables)
    for (const Row& row : table)
      if (row.*member == key) return &row;
  return nullptr;
}

// Whether the backend runs the row's rule on these nodes; null: it has none.
template <class Function>
bool supports(const RuleRow<Function>* row, const ir::Graph& graph, Nodes nodes) {
  return row && (!row->supports || row->supports(graph, nodes));
}

// The kernel that a backend lacks for a node: "SCALE kernel", "MUL_MAT_ID kernel for experts of Q8_1"; empty: it can
// run the node. beyond: of the op's row.
std::string missing_kernel(bool has_row, Beyond beyond, const ir::Graph& graph, const ir::Node& node);

// Every node of the graph has a kernel: `missing` says which one is not there. Errors: unsupported, naming kernel and
// node, with the backend's name and hint.
Result<void> check_nodes(const ir::Graph& graph, std::string (*missing)(const ir::Graph& graph, const ir::Node& node),
                         std::string_view backend, std::string_view hint);

}  // namespace tokamak::lowering

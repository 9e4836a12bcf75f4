// The lowering tables of a backend: which function makes steps of an op, and of the groups of a fusion rule.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "fuse/rules.h"
#include "ir/graph.h"

namespace tokamak::lowering {

// A group's nodes as fuse::Candidate::nodes lists them: views left out, kNone for missing optional ops.
using Nodes = std::span<const ir::NodeId>;

// Function: what the backend calls with its state and the nodes.
template <class Function>
struct OpRow {
  ir::Op op;
  Function lower;
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

// Every op of the graph has a kernel. Errors: unsupported, naming op and node, with the backend's name and hint.
Result<void> check_ops(const ir::Graph& graph, bool (*has_lowering)(ir::Op op), std::string_view backend,
                       std::string_view hint);

}  // namespace tokamak::lowering

// THE fusion table: the only place in the project where a fusable sequence of ops is written down.
//
// A rule is a sequence of ops over the graph's node list with view ops (RESHAPE, VIEW) left out. Optimizer and backends
// match it through fuse/matcher.h; a backend adds no pattern of its own, it only says which rules it has kernels for.
// Non-goals: reordering nodes, rewriting them. A fused group keeps its members.
//
// Labels are those that published fusion statistics of other engines use, so that counts compare.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace tokamak::fuse {

enum class RuleId : uint16_t {
  norm_mul,
  norm_mul_add,
  rms_norm_mul,
  rms_norm_mul_add,
  rms_norm_mul_rope,
  rms_norm_mul_rope_set_rows,
  rope_set_rows,
  add_2,
  add_3,
  add_4,
  add_5,
  add_6,
  add_7,
  mul_mat_add,
  mul_mat_glu,
  softcap,
  count_,
};

// structural: for the optimizer, before buffers exist. full: for a backend after planning, adds placement.
enum class Mode : uint8_t { structural, full };

// A place where the op sequence fits: the nodes of the pattern in order, views left out.
struct Candidate {
  const ir::Graph& graph;
  std::span<const ir::NodeId> nodes;

  const ir::Node& node(size_t i) const { return graph.node(nodes[i]); }
};

struct Rule {
  RuleId id;
  std::string_view label;  // the field's name of the fusion, in statistics and baselines
  std::span<const ir::Op> ops;
  std::span<const uint8_t> outputs;  // which pattern nodes' results may leave the group; empty: the last one's only
  bool is_chain;                     // every node reads the whole result of its predecessor
  bool equal_shapes;                 // all results have the same shape
  bool (*check)(const Candidate&, Mode);  // what is special about this rule
  std::string_view meaning;               // one line
};

// In RuleId order.
std::span<const Rule> rules();
inline const Rule& rule(RuleId id) { return rules()[static_cast<size_t>(id)]; }
// Null when there is none.
const Rule* find_rule(std::string_view label);
// Label of a group: its rule's, or the name of its single op.
std::string_view group_label(const ir::Graph& graph, const ir::Group& group);

// --- for checks and for kernels that run a group -------------------------------------------------------------------

// `id` is the value `of` itself or shows all its elements in order (RESHAPE, possibly repeated).
bool is_whole(const ir::Graph& graph, ir::ValueId id, ir::ValueId of);
// For a two-operand node that reads `pred` whole: index (0 or 1) of the other operand; -1 when it reads `pred` not at
// all or twice. MUL_MAT+ADD takes the addend on either side: ask here.
int other_operand(const ir::Graph& graph, const ir::Node& node, ir::ValueId pred);
// The members of a group without its views, in order: what Rule::ops lists.
std::vector<ir::NodeId> pattern_nodes(const ir::Graph& graph, const ir::Group& group);

}  // namespace tokamak::fuse

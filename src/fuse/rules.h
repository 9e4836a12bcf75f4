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
#include <vector>

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
  mul_2,
  mul_3,
  mul_4,
  mul_5,
  mul_6,
  mul_7,
  snake,
  mul_mat_epilogue,
  mul_mat_glu,
  mul_mat_id_epilogue,
  mul_mat_id_glu,
  topk_moe_softmax,
  topk_moe_sigmoid,
  topk_moe_softplus,
  topk_moe_late_softmax,
  topk_moe_late_sigmoid,
  moe_sum,
  unary_mul,
  relu_sqr,
  softcap,
  ssm_conv_silu,
  ssm_conv_state_cpy,
  gated_delta_net_cpy,
  count_,
};

// structural: for the optimizer, before buffers exist. full: for a backend after planning, adds placement.
enum class Mode : uint8_t { structural, full };

// A place where the op sequence fits: one node per op of the rule, in order, views left out; kNone for an optional op
// that is not there. The first op always is. Where the rule's last op repeats, all its nodes follow.
struct Candidate {
  const ir::Graph& graph;
  std::span<const ir::NodeId> nodes;

  bool has(size_t i) const { return i < nodes.size() && nodes[i] != ir::kNone; }
  const ir::Node& node(size_t i) const { return graph.node(nodes[i]); }
  // The nearest node that is there before op i.
  const ir::Node& before(size_t i) const {
    while (!has(--i)) {
    }
    return node(i);
  }
  ir::NodeId first() const { return nodes.front(); }
  size_t last_op() const {
    size_t i = nodes.size() - 1;
    while (!has(i)) --i;
    return i;
  }
};

inline constexpr size_t kMaxRuleOps = 16;    // repetitions not counted
inline constexpr size_t kMaxMoeAddends = 2;  // of moe_sum: what a shared expert makes, the residual

struct Rule {
  RuleId id;
  std::string_view label;  // the field's name of the fusion, in statistics and baselines; see label_by_members
  std::span<const ir::Op> ops;
  std::span<const uint8_t> outputs = {};  // ops whose results may leave the group, beside the last one's
  uint32_t optional = 0;                  // bit i: op i may be missing
  bool last_repeats = false;              // the last op may follow itself any number of times
  bool is_chain = true;                   // every node reads the whole result of its predecessor
  bool equal_shapes = true;               // all results have the same shape
  bool label_by_members = false;          // groups are labelled by their members' names, `label` is the family's
  bool (*check)(const Candidate&, Mode) = nullptr;  // what is special about this rule
  std::string_view meaning;                         // one line
};

// In RuleId order.
std::span<const Rule> rules();
inline const Rule& rule(RuleId id) { return rules()[static_cast<size_t>(id)]; }
// Null when there is none.
const Rule* find_rule(std::string_view label);
// Label of a group: its rule's, its members' ("SILU+MUL"; "MUL+ADD*8" where the last op repeats), or its op's name.
std::string group_label(const ir::Graph& graph, const ir::Group& group);

// --- for checks and for kernels that run a group -------------------------------------------------------------------

// `id` is the value `of` itself or shows all its elements in order (RESHAPE, possibly repeated).
bool is_whole(const ir::Graph& graph, ir::ValueId id, ir::ValueId of);
// For a two-operand node that reads `pred` whole: index (0 or 1) of the other operand; -1 when it reads `pred` not at
// all or twice. MUL_MAT+ADD takes the addend on either side: ask here.
int other_operand(const ir::Graph& graph, const ir::Node& node, ir::ValueId pred);
// The members of a group as Candidate::nodes lists them: without views; kNone for missing optional ops.
std::vector<ir::NodeId> pattern_nodes(const ir::Graph& graph, const ir::Group& group);
// The same without gaps: what is there.
std::vector<ir::NodeId> member_nodes(const ir::Graph& graph, const ir::Group& group);

}  // namespace tokamak::fuse

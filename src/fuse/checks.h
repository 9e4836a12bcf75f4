// What is special about single rules. Included by rules.cpp and checks_*.cpp only.
#pragma once

#include "fuse/rules.h"

namespace tokamak::fuse {

inline bool is_weight(const ir::Graph& graph, ir::ValueId id) {
  return graph.value(graph.storage_of(id)).kind == ir::ValueKind::weight;
}
inline const ir::Value& value_of(const Candidate& c, ir::ValueId id) { return c.graph.value(id); }
// The memory of `id` is complete before the first node of the group runs.
inline bool comes_before(const Candidate& c, ir::ValueId id) {
  const ir::NodeId producer = c.graph.value(c.graph.storage_of(id)).producer;
  return producer == ir::kNone || producer < c.first();
}
// Ops begin.. take their predecessor as operand 0 and something older as operand 1.
bool extends_left(const Candidate& c, size_t begin, size_t end);
inline bool is_function(const ir::Node& node, ir::Unary function) {
  return node.attrs.keyword<ir::Unary>(ir::Attr::unary) == function;
}

// checks_norm.cpp
bool check_norm(const Candidate& c, Mode mode);
bool check_norm_rope(const Candidate& c, Mode mode);
bool check_rope_set_rows(const Candidate& c, Mode mode);
bool check_norm_rope_set_rows(const Candidate& c, Mode mode);
bool check_chain(const Candidate& c, Mode mode);
bool check_snake(const Candidate& c, Mode mode);
bool check_unary_mul(const Candidate& c, Mode mode);
bool check_relu_sqr(const Candidate& c, Mode mode);
bool check_softcap(const Candidate& c, Mode mode);
// checks_matmul.cpp
bool check_mul_mat_epilogue(const Candidate& c, Mode mode);
bool check_mul_mat_glu(const Candidate& c, Mode mode);
bool check_mul_mat_id_epilogue(const Candidate& c, Mode mode);
bool check_mul_mat_id_glu(const Candidate& c, Mode mode);
// checks_moe.cpp
bool check_topk_softmax(const Candidate& c, Mode mode);
bool check_topk_sigmoid(const Candidate& c, Mode mode);
bool check_topk_softplus(const Candidate& c, Mode mode);
bool check_topk_late_softmax(const Candidate& c, Mode mode);
bool check_topk_late_sigmoid(const Candidate& c, Mode mode);
bool check_moe_sum(const Candidate& c, Mode mode);
// checks_recurrent.cpp
bool check_ssm_conv(const Candidate& c, Mode mode);
bool check_conv_state_cpy(const Candidate& c, Mode mode);
bool check_delta_net_cpy(const Candidate& c, Mode mode);

}  // namespace tokamak::fuse

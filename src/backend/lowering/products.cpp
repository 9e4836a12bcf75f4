#include "backend/lowering/products.h"

#include "base/check.h"

namespace tokamak::lowering {

Lane epilogue_lane(Nodes nodes) { return {.product = nodes[0], .scale = nodes[1], .bias = nodes[2]}; }
Lane up_lane(Nodes nodes) { return epilogue_lane(nodes.subspan(3)); }
Lane expert_lane(Nodes nodes) {
  return {.product = nodes[0], .look_up = nodes[1], .scale = nodes[2], .bias = nodes[3]};
}
Lane expert_up_lane(Nodes nodes) { return expert_lane(nodes.subspan(4)); }

namespace {
bool is_weight(const ir::Graph& graph, ir::ValueId id) { return graph.value(id).kind == ir::ValueKind::weight; }

// The result of a lane before its bias.
ir::ValueId before_bias(const ir::Graph& graph, const Lane& lane) {
  return graph.node(lane.scale == ir::kNone ? lane.product : lane.scale).output;
}
ir::ValueId other_of(const ir::Graph& graph, ir::NodeId node, ir::ValueId pred) {
  const int other = fuse::other_operand(graph, graph.node(node), pred);
  CHECK(other >= 0, node);
  return graph.node(node).inputs[static_cast<size_t>(other)];
}
// Bias or residual.
ir::ValueId addend_of(const ir::Graph& graph, const Lane& lane) {
  return lane.bias == ir::kNone ? ir::kNone : other_of(graph, lane.bias, before_bias(graph, lane));
}

bool supports_lane(const ir::Graph& graph, const Lane& lane) {
  if (graph.value(graph.node(lane.product).inputs[0]).shape.rank() != 2) return false;
  if (lane.scale != ir::kNone && !is_weight(graph, scale_weight(graph, lane))) return false;
  if (lane.bias == ir::kNone) return true;
  const ir::ValueId addend = addend_of(graph, lane);
  if (is_weight(graph, addend)) return graph.value(addend).shape.rank() == 1;
  return graph.value(graph.storage_of(addend)).kind == ir::ValueKind::intermediate;
}
}  // namespace

ir::ValueId result_of(const ir::Graph& graph, const Lane& lane) {
  return lane.bias == ir::kNone ? before_bias(graph, lane) : graph.node(lane.bias).output;
}

ir::ValueId scale_weight(const ir::Graph& graph, const Lane& lane) {
  return lane.scale == ir::kNone ? ir::kNone : other_of(graph, lane.scale, graph.node(lane.product).output);
}

ir::ValueId bias_weight(const ir::Graph& graph, const Lane& lane) {
  const ir::ValueId addend = addend_of(graph, lane);
  return addend != ir::kNone && is_weight(graph, addend) ? addend : ir::kNone;
}

ir::ValueId residual_of(const ir::Graph& graph, const Lane& lane) {
  const ir::ValueId addend = addend_of(graph, lane);
  return addend != ir::kNone && !is_weight(graph, addend) ? addend : ir::kNone;
}

bool supports_mul_mat_epilogue(const ir::Graph& graph, Nodes nodes) {
  return supports_lane(graph, epilogue_lane(nodes));
}

bool supports_mul_mat_glu(const ir::Graph& graph, Nodes nodes) {
  return supports_lane(graph, epilogue_lane(nodes)) && supports_lane(graph, up_lane(nodes));
}

}  // namespace tokamak::lowering

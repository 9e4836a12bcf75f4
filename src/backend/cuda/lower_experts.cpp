// MUL_MAT_ID and its epilogues: post-scales, biases, gate and up with GLU.
#include <fmt/format.h>

#include "backend/cuda/lower_matmul.h"
#include "backend/cuda/matvec/layout.h"
#include "base/check.h"

namespace tokamak::cuda {

namespace {

std::string beyond_experts(const ir::Graph& graph, const ir::Node& node) {
  const DType dtype = graph.value(node.inputs[0]).dtype;
  return has_matvec(dtype) ? "" : fmt::format("experts of {}", dtype_name(dtype));
}

// The product `node` writing `result`, without epilogue.
Product experts_of(Lowering& l, const ir::Node& node, ir::ValueId result) {
  CHECK(weight_of(l, node).packed != nullptr, node.name);
  const ir::Value& ids = l.value(node.inputs[2]);
  Product product = product_of(l, node, result);
  product.ids = l.indices(node.inputs[2]);
  product.n_used = ids.shape[1];
  product.ids_stride = ids.row_stride_elems;
  product.x_per_token = l.value(node.inputs[1]).shape[1] == 1;
  return product;
}

// Post-scales and biases of all experts.
Address scales_of(const Lowering& l, const Lane& lane) {
  if (lane.scale == ir::kNone) return {};
  return Address::of(l.weights.at(l.value(l.graph.node(lane.look_up).inputs[0]).name).rows);
}
Address biases_of(const Lowering& l, const Lane& lane) {
  return lane.bias == ir::kNone ? Address{} : l.rows(l.graph.node(lane.bias).inputs[1]).address;
}

Result<void> lower_mul_mat_id(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  add_product(l, node, experts_of(l, node, node.output));
  return {};
}

Result<void> lower_mul_mat_id_epilogue(Lowering& l, Nodes nodes) {
  const Lane lane = lowering::expert_lane(nodes);
  const ir::Node& node = l.graph.node(lane.product);
  Product product = experts_of(l, node, lowering::result_of(l.graph, lane));
  product.scale = scales_of(l, lane);
  product.bias = biases_of(l, lane);
  add_product(l, node, product);
  return {};
}

Result<void> lower_mul_mat_id_glu(Lowering& l, Nodes nodes) {
  const Lane gate = lowering::expert_lane(nodes), up = lowering::expert_up_lane(nodes);
  const ir::Node &node = l.graph.node(gate.product), &glu = l.graph.node(nodes[8]);
  Product product = experts_of(l, node, glu.output);
  product.up = kernel_form(weight_of(l, l.graph.node(up.product)));
  product.scale = scales_of(l, gate);
  product.up_scale = scales_of(l, up);
  product.bias = biases_of(l, gate);
  product.up_bias = biases_of(l, up);
  lowering::set_glu(product.args, glu.attrs);
  quantize_result(l, glu.output, product);
  add_product(l, node, product);
  return {};
}
}  // namespace

std::span<const OpLowering> expert_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({{ir::Op::mul_mat_id, lower_mul_mat_id, beyond_experts}});
  return kRows;
}

std::span<const RuleLowering> expert_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::mul_mat_id_epilogue, nullptr, lower_mul_mat_id_epilogue},
      {fuse::RuleId::mul_mat_id_glu, nullptr, lower_mul_mat_id_glu},
  });
  return kRows;
}

}  // namespace tokamak::cuda

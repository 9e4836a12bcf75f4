// Routing ops, the biases of experts, the sum of what they make.
#include "backend/cpu/lower_ops.h"
#include "backend/lowering/router.h"
#include "backend/lowering/weighted_sum.h"

namespace tokamak::cpu {

namespace {
// Rows of one operand in, one result per row or element out.
template <class Args>
void add_row_op(Lowering& l, Nodes nodes, std::string_view name, Kernel<Args> kernel, const Args& args = {}) {
  const ir::Node& node = l.graph.node(nodes[0]);
  auto& step = l.add<RowStep<Args>>(name);
  step.kernel = kernel;
  step.operands = {operand(l, node.output), operand(l, node.inputs[0])};
  const Rows &y = step.operands[0].rows, &x = step.operands[1].rows;
  step.args = args;
  step.args.row_elems = x.n;
  step.args.x_stride = x.stride_elems;
  if constexpr (requires(Args a) { a.y_stride; }) step.args.y_stride = y.stride_elems;
  step.bind = [](Args& a, const Pointers& p) {
    a.y = reinterpret_cast<decltype(a.y)>(p[0]);  // indices lie like f32
    a.x = p[1];
  };
  divide_by_tokens(step, l.value(node.inputs[0]), x.n_rows);
}
void lower_soft_max(Lowering& l, Nodes nodes) { add_row_op(l, nodes, "soft_max_f32", op_set(l.isa).soft_max); }
void lower_sum_rows(Lowering& l, Nodes nodes) { add_row_op(l, nodes, "sum_rows_f32", op_set(l.isa).sum_rows); }
void lower_argsort(Lowering& l, Nodes nodes) { add_row_op(l, nodes, "argsort", op_set(l.isa).argsort); }
void lower_mask_groups(Lowering& l, Nodes nodes) {
  MaskGroupsArgs args;
  lowering::set_groups(args, l.graph.node(nodes[0]).attrs);
  add_row_op(l, nodes, "mask_groups", op_set(l.isa).mask_groups, args);
}

void lower_add_id(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  auto& step = l.add<RowStep<AddIdArgs>>("add_id_f32");
  step.kernel = op_set(l.isa).add_id;
  step.operands = {operand(l, node.output), operand(l, node.inputs[0]), operand(l, node.inputs[1]),
                   operand(l, node.inputs[2])};
  const Rows &y = step.operands[0].rows, &a = step.operands[1].rows;
  step.args = {.row_elems = a.n,
               .n_used = l.value(node.inputs[2]).shape[1],
               .a_stride = a.stride_elems,
               .b_stride = step.operands[2].rows.stride_elems,
               .ids_stride = step.operands[3].rows.stride_elems,
               .y_stride = y.stride_elems};
  step.bind = [](AddIdArgs& args, const Pointers& p) {
    args.y = p[0];
    args.a = p[1];
    args.b = p[2];
    args.ids = p.i32(3);
  };
  divide_by_tokens(step, l.value(node.inputs[0]), a.n_rows, step.operands[2].constant == nullptr);
}

bool supports_router(const ir::Graph& graph, Nodes nodes) {
  return lowering::routes_rows(graph, lowering::router_of(graph, nodes), kMaxRoutedExperts);
}

void lower_router(Lowering& l, Nodes nodes) {
  const lowering::Router r = lowering::router_of(l.graph, nodes);
  const ir::ValueId input = lowering::logits_of(l.graph, r);
  auto& step = l.add<RowStep<RouterArgs>>("route_f32");
  step.kernel = op_set(l.isa).route;
  step.operands = {operand(l, l.graph.node(r.last).output),
                   operand(l, input),
                   {.rows = l.rows_or_region(l.graph.node(r.sort).output)}};
  RouterArgs& a = step.args;
  lowering::set_router(a, l.graph, r);
  a.n_expert = l.value(input).shape[1];
  a.x_stride = step.operands[1].rows.stride_elems;
  a.ids_stride = step.operands[2].rows.stride_elems;
  if (r.bias != ir::kNone) a.bias = operand(l, l.graph.node(r.bias).inputs[1]).constant;
  a.scaled = r.scale != ir::kNone;
  step.bind = [](RouterArgs& args, const Pointers& p) {
    args.weights = p[0];
    args.x = p[1];
    args.ids = p.i32(2);
  };
  divide_by_tokens(step, l.value(input), step.operands[1].rows.n_rows);
  step.writes.push_back(step.operands[2].rows.ref);  // beside the weights
}

static_assert(WeightedSumArgs::kMaxAddends == fuse::kMaxMoeAddends);

void lower_moe_sum(Lowering& l, Nodes nodes) {
  const lowering::WeightedSum sum = lowering::weighted_sum_of(l.graph, nodes);
  auto& step = l.add<RowStep<WeightedSumArgs>>("weighted_sum_f32");
  step.kernel = op_set(l.isa).weighted_sum;
  step.operands = {operand(l, sum.result), operand(l, sum.x), operand(l, sum.weights)};
  step.args = {.row_elems = sum.n_embd,
               .n_used = sum.n_used,
               .x_stride = step.operands[1].rows.stride_elems,
               .weight_stride = step.operands[2].rows.stride_elems,
               .n_addends = sum.addends.size(),
               .addends = {},
               .addend_strides = {},
               .y_stride = step.operands[0].rows.stride_elems};
  for (size_t i = 0; i < sum.addends.size(); ++i) {
    step.operands.push_back(operand(l, sum.addends[i]));
    step.args.addend_strides[i] = step.operands.back().rows.stride_elems;
  }
  step.bind = [](WeightedSumArgs& args, const Pointers& p) {
    args.y = p[0];
    args.x = p[1];
    args.weights = p[2];
    for (size_t i = 3; i < p.size(); ++i) args.addends[i - 3] = p[i];
  };
  divide_by_tokens(step, l.value(sum.result), sum.n_tokens);
}
}  // namespace

std::span<const OpLowering> routing_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::soft_max, lower_soft_max},
      {ir::Op::sum_rows, lower_sum_rows},
      {ir::Op::argsort, lower_argsort},
      {ir::Op::mask_groups, lower_mask_groups},
      {ir::Op::add_id, lower_add_id},
  });
  return kRows;
}

std::span<const RuleLowering> routing_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::topk_moe_softmax, supports_router, lower_router},
      {fuse::RuleId::topk_moe_sigmoid, supports_router, lower_router},
      {fuse::RuleId::topk_moe_softplus, supports_router, lower_router},
      {fuse::RuleId::topk_moe_late_softmax, supports_router, lower_router},
      {fuse::RuleId::topk_moe_late_sigmoid, supports_router, lower_router},
      {fuse::RuleId::moe_sum, nullptr, lower_moe_sum},
  });
  return kRows;
}

}  // namespace tokamak::cpu

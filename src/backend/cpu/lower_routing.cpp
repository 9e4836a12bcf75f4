// Routing ops and the biases of experts.
#include "backend/cpu/lower_ops.h"

namespace tokamak::cpu {

namespace {
using ir::Attr;

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
  const ir::Attrs& attrs = l.graph.node(nodes[0]).attrs;
  add_row_op(l, nodes, "mask_groups", op_set(l.isa).mask_groups,
             {.n_group = attrs.integer(Attr::n_group),
              .n_group_used = attrs.integer(Attr::n_group_used),
              .n_best = attrs.integer(Attr::n_best)});
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

// The members of a routing rule that the kernel asks for. Bias, groups, renormalisation and scale may be missing.
struct Router {
  ir::NodeId first = ir::kNone, bias = ir::kNone, mask = ir::kNone, sort = ir::kNone, look_up = ir::kNone,
             sum = ir::kNone, clamp = ir::kNone, scale = ir::kNone, last = ir::kNone;
  RouterKind kind = RouterKind::soft_max;
};
Router late_router(const ir::Graph& graph, Nodes nodes) {
  const bool soft_max = graph.node(nodes[2]).op == ir::Op::soft_max;
  return {.first = nodes[0],
          .sort = nodes[0],
          .look_up = nodes[1],
          .last = nodes[2],
          .kind = soft_max ? RouterKind::late_soft_max : RouterKind::late_sigmoid};
}
Router early_router(const ir::Graph& graph, Nodes nodes) {
  const size_t n_functions = nodes.size() - 8;  // before the optional bias
  Router r{.first = nodes[0],
           .bias = nodes[n_functions],
           .mask = nodes[n_functions + 1],
           .sort = nodes[n_functions + 2],
           .look_up = nodes[n_functions + 3],
           .sum = nodes[n_functions + 4],
           .clamp = nodes[n_functions + 5],
           .scale = nodes[n_functions + 7]};
  r.kind = n_functions == 2                             ? RouterKind::softplus_sqrt
           : graph.node(r.first).op == ir::Op::soft_max ? RouterKind::soft_max
                                                        : RouterKind::sigmoid;
  for (ir::NodeId node : nodes)
    if (node != ir::kNone) r.last = node;
  return r;
}
Router router_of(const ir::Graph& graph, Nodes nodes) {
  return graph.node(nodes[0]).op == ir::Op::argsort ? late_router(graph, nodes) : early_router(graph, nodes);
}

// One row of scores per token, looked up one by one, and sums over the chosen ones of a token.
bool supports_router(const ir::Graph& graph, Nodes nodes) {
  const Router r = router_of(graph, nodes);
  const ir::Node& look_up = graph.node(r.look_up);
  const ir::Value &x = graph.value(graph.node(r.first).inputs[0]), &table = graph.value(look_up.inputs[0]);
  const int64_t n_used = graph.value(look_up.inputs[1]).shape[1];
  const auto in_memory = [&](ir::ValueId id) {
    return graph.value(graph.storage_of(id)).kind == ir::ValueKind::intermediate;
  };
  if (!in_memory(graph.node(r.first).inputs[0]) || x.shape.rank() != 2 || x.shape[1] > kMaxRoutedExperts) return false;
  if (table.shape.rank() != 3 || table.shape[1] != x.shape[1] || table.shape[2] != 1) return false;
  return r.sum == ir::kNone || graph.value(graph.node(r.sum).inputs[0]).shape[-1] == n_used;
}

void lower_router(Lowering& l, Nodes nodes) {
  const Router r = router_of(l.graph, nodes);
  const ir::ValueId input = l.graph.node(r.first).inputs[0];
  auto& step = l.add<RowStep<RouterArgs>>("route_f32");
  step.kernel = op_set(l.isa).route;
  step.operands = {operand(l, l.graph.node(r.last).output),
                   operand(l, input),
                   {.rows = l.rows_or_region(l.graph.node(r.sort).output)}};
  RouterArgs& a = step.args;
  a.kind = r.kind;
  a.n_expert = l.value(input).shape[1];
  a.n_used = l.value(l.graph.node(r.look_up).inputs[1]).shape[1];
  a.x_stride = step.operands[1].rows.stride_elems;
  a.ids_stride = step.operands[2].rows.stride_elems;
  if (r.bias != ir::kNone) a.bias = operand(l, l.graph.node(r.bias).inputs[1]).constant;
  if (r.mask != ir::kNone) {
    const ir::Attrs& attrs = l.graph.node(r.mask).attrs;
    a.n_group = attrs.integer(Attr::n_group);
    a.n_group_used = attrs.integer(Attr::n_group_used);
    a.n_best = attrs.integer(Attr::n_best);
  }
  if (r.sum != ir::kNone) {
    const ir::Attrs& attrs = l.graph.node(r.clamp).attrs;
    a.renormalise = true;
    a.low = f32_bound(attrs.number(Attr::min));
    a.high = f32_bound(attrs.number(Attr::max));
  }
  if (r.scale != ir::kNone) {
    a.scaled = true;
    a.scale = static_cast<float>(l.graph.node(r.scale).attrs.number(Attr::scale));
  }
  step.bind = [](RouterArgs& args, const Pointers& p) {
    args.weights = p[0];
    args.x = p[1];
    args.ids = p.i32(2);
  };
  divide_by_tokens(step, l.value(input), step.operands[1].rows.n_rows);
  step.writes.push_back(step.operands[2].rows.ref);  // beside the weights
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
  });
  return kRows;
}

}  // namespace tokamak::cpu

// Routing ops and the biases of experts.
#include "backend/cuda/lower.h"
#include "backend/cuda/ops/routing.h"

namespace tokamak::cuda {

namespace {
using ir::Attr;

Result<void> lower_argsort(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const Rows x = l.rows(node.inputs[0]), y = l.rows(node.output);
  l.add("argsort", [=](const RunContext& c) {
    return launch_argsort({.x = c.at(x.address),
                           .y = c.at<int32_t>(y.address),
                           .x_stride = x.stride_elems,
                           .y_stride = y.stride_elems,
                           .n_rows = x.n_rows,
                           .row_elems = x.n},
                          c.stream);
  });
  return {};
}

Result<void> lower_mask_groups(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const Rows x = l.rows(node.inputs[0]), y = l.rows(node.output);
  const int64_t n_group = node.attrs.integer(Attr::n_group), n_used = node.attrs.integer(Attr::n_group_used);
  const int64_t n_best = node.attrs.integer(Attr::n_best);
  if (n_group > kMaxGroups || n_best > kMaxBest)
    return Error{.code = ErrorCode::unsupported,
                 .what = "the cuda backend has no MASK_GROUPS kernel for so many groups",
                 .where = node.name,
                 .hint = "use --backend cpu"};
  l.add("mask_groups", [=](const RunContext& c) {
    return launch_mask_groups({.x = c.at(x.address),
                               .y = c.at(y.address),
                               .n_group = n_group,
                               .n_group_used = n_used,
                               .n_best = n_best,
                               .x_stride = x.stride_elems,
                               .y_stride = y.stride_elems,
                               .n_rows = x.n_rows,
                               .row_elems = x.n},
                              c.stream);
  });
  return {};
}

Result<void> lower_add_id(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const Rows a = l.rows(node.inputs[0]), b = l.rows(node.inputs[1]), y = l.rows(node.output);
  const ir::Value& ids = l.value(node.inputs[2]);
  const int64_t n_used = ids.shape[1], ids_stride = ids.row_stride_elems;
  const Address chosen = l.indices(node.inputs[2]);
  l.add("add_id_f32", [=](const RunContext& c) {
    return launch_add_id({.a = c.at(a.address),
                          .b = c.at(b.address),
                          .ids = c.at<int32_t>(chosen),
                          .y = c.at(y.address),
                          .a_stride = a.stride_elems,
                          .b_stride = b.stride_elems,
                          .ids_stride = ids_stride,
                          .y_stride = y.stride_elems,
                          .n_used = n_used,
                          .n_rows = a.n_rows,
                          .row_elems = a.n},
                         c.stream);
  });
  return {};
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
  if (graph.value(graph.storage_of(graph.node(r.first).inputs[0])).kind != ir::ValueKind::intermediate) return false;
  if (x.shape.rank() != 2 || x.shape[1] > kMaxRoutedExperts) return false;
  if (table.shape.rank() != 3 || table.shape[1] != x.shape[1] || table.shape[2] != 1) return false;
  if (r.mask != ir::kNone) {
    const ir::Attrs& attrs = graph.node(r.mask).attrs;
    if (attrs.integer(Attr::n_group) > kMaxGroups || attrs.integer(Attr::n_best) > kMaxBest) return false;
  }
  const int64_t n_used = graph.value(look_up.inputs[1]).shape[1];
  return r.sum == ir::kNone || graph.value(graph.node(r.sum).inputs[0]).shape[-1] == n_used;
}

RouterArgs router_args(const Lowering& l, const Router& r) {
  const auto attr = [&](ir::NodeId node, Attr name) { return l.graph.node(node).attrs.integer(name); };
  RouterArgs a{.kind = r.kind, .n_used = l.value(l.graph.node(r.look_up).inputs[1]).shape[1]};
  if (r.mask != ir::kNone) {
    a.n_group = attr(r.mask, Attr::n_group);
    a.n_group_used = attr(r.mask, Attr::n_group_used);
    a.n_best = attr(r.mask, Attr::n_best);
  }
  if (r.sum != ir::kNone) {
    const ir::Attrs& attrs = l.graph.node(r.clamp).attrs;
    a.renormalise = true;
    a.low = f32_bound(attrs.number(Attr::min));
    a.high = f32_bound(attrs.number(Attr::max));
  }
  if (r.scale != ir::kNone) a.scale = static_cast<float>(l.graph.node(r.scale).attrs.number(Attr::scale));
  return a;
}

Result<void> lower_router(Lowering& l, Nodes nodes) {
  const Router r = router_of(l.graph, nodes);
  const Rows x = l.rows(l.graph.node(r.first).inputs[0]), weights = l.rows(l.graph.node(r.last).output);
  const Rows ids = l.rows_or_region(l.graph.node(r.sort).output);
  const Address bias = r.bias == ir::kNone ? Address{} : l.rows(l.graph.node(r.bias).inputs[1]).address;
  const RouterArgs args = router_args(l, r);
  l.add("route_f32", [=](const RunContext& c) {
    RouterArgs a = args;
    a.n_tokens = x.n_rows;
    a.n_expert = x.n;
    a.x = c.at(x.address);
    a.x_stride = x.stride_elems;
    a.bias = c.at(bias);
    a.ids = c.at<int32_t>(ids.address);
    a.ids_stride = ids.stride_elems;
    a.weights = c.at(weights.address);
    return launch_router(a, c.stream);
  });
  return {};
}
}  // namespace

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

std::span<const OpLowering> routing_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::argsort, lower_argsort},
      {ir::Op::mask_groups, lower_mask_groups},
      {ir::Op::add_id, lower_add_id},
  });
  return kRows;
}

}  // namespace tokamak::cuda

// Routing ops, the biases of experts, the sum of what they make.
#include <fmt/format.h>

#include "backend/cuda/lower.h"
#include "backend/cuda/ops/routing.h"
#include "backend/cuda/ops/weighted_sum.h"
#include "backend/lowering/router.h"
#include "backend/lowering/weighted_sum.h"
#include "base/check.h"

namespace tokamak::cuda {

namespace {

Result<void> lower_argsort(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  add_rows(l, "argsort", l.rows(node.inputs[0]), l.rows(node.output), ArgsortArgs{}, launch_argsort);
  return {};
}

std::string beyond_mask_groups(const ir::Graph&, const ir::Node& node) {
  MaskGroupsArgs args;
  lowering::set_groups(args, node.attrs);
  if (args.n_group <= kMaxGroups && args.n_best <= kMaxBest) return {};
  return fmt::format("the best {} of {} groups", args.n_best, args.n_group);
}

Result<void> lower_mask_groups(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  MaskGroupsArgs args;
  lowering::set_groups(args, node.attrs);
  CHECK(args.n_group <= kMaxGroups && args.n_best <= kMaxBest, args.n_group, args.n_best);
  add_rows(l, "mask_groups", l.rows(node.inputs[0]), l.rows(node.output), args, launch_mask_groups);
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

bool supports_router(const ir::Graph& graph, Nodes nodes) {
  const lowering::Router r = lowering::router_of(graph, nodes);
  if (r.mask != ir::kNone && !beyond_mask_groups(graph, graph.node(r.mask)).empty()) return false;
  return lowering::routes_rows(graph, r, kMaxRoutedExperts);
}

Result<void> lower_router(Lowering& l, Nodes nodes) {
  const lowering::Router r = lowering::router_of(l.graph, nodes);
  const Rows x = l.rows(lowering::logits_of(l.graph, r)), weights = l.rows(l.graph.node(r.last).output);
  const Rows ids = l.rows_or_region(l.graph.node(r.sort).output);
  const Address bias = r.bias == ir::kNone ? Address{} : l.rows(l.graph.node(r.bias).inputs[1]).address;
  RouterArgs args;
  lowering::set_router(args, l.graph, r);
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

static_assert(kMaxAddends == fuse::kMaxMoeAddends);

Result<void> lower_moe_sum(Lowering& l, Nodes nodes) {
  const lowering::WeightedSum sum = lowering::weighted_sum_of(l.graph, nodes);
  const Rows x = l.rows(sum.x), weights = l.rows(sum.weights), y = l.rows(sum.result);
  WeightedSumArgs args{.x_stride = x.stride_elems,
                       .weight_stride = weights.stride_elems,
                       .y_stride = y.stride_elems,
                       .n_tokens = sum.n_tokens,
                       .row_elems = sum.n_embd,
                       .n_used = static_cast<int>(sum.n_used),
                       .n_addends = static_cast<int>(sum.addends.size())};
  std::array<Address, kMaxAddends> addends;
  for (size_t i = 0; i < sum.addends.size(); ++i) {
    const Rows addend = l.rows(sum.addends[i]);
    addends[i] = addend.address;
    args.addend_strides[i] = addend.stride_elems;
  }
  l.add("weighted_sum_f32", [=](const RunContext& c) {
    WeightedSumArgs a = args;
    a.x = c.at(x.address);
    a.weights = c.at(weights.address);
    for (size_t i = 0; i < addends.size(); ++i) a.addends[i] = c.at(addends[i]);
    a.y = c.at(y.address);
    return launch_weighted_sum(a, c.stream);
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
      {fuse::RuleId::moe_sum, nullptr, lower_moe_sum},
  });
  return kRows;
}

std::span<const OpLowering> routing_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::argsort, lower_argsort},
      {ir::Op::mask_groups, lower_mask_groups, beyond_mask_groups},
      {ir::Op::add_id, lower_add_id},
  });
  return kRows;
}

}  // namespace tokamak::cuda

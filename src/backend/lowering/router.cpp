#include "backend/lowering/router.h"

namespace tokamak::lowering {

namespace {
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
}  // namespace

Router router_of(const ir::Graph& graph, Nodes nodes) {
  return graph.node(nodes[0]).op == ir::Op::argsort ? late_router(graph, nodes) : early_router(graph, nodes);
}

ir::ValueId logits_of(const ir::Graph& graph, const Router& router) { return graph.node(router.first).inputs[0]; }

int64_t n_used_of(const ir::Graph& graph, const Router& router) {
  return graph.value(graph.node(router.look_up).inputs[1]).shape[1];
}

bool routes_rows(const ir::Graph& graph, const Router& router, int64_t max_experts) {
  const ir::ValueId logits = logits_of(graph, router);
  const Shape &x = graph.value(logits).shape, &table = graph.value(graph.node(router.look_up).inputs[0]).shape;
  if (graph.value(graph.storage_of(logits)).kind != ir::ValueKind::intermediate) return false;
  if (x.rank() != 2 || x[1] > max_experts) return false;
  if (table.rank() != 3 || table[1] != x[1] || table[2] != 1) return false;
  return router.sum == ir::kNone || graph.value(graph.node(router.sum).inputs[0]).shape[-1] == n_used_of(graph, router);
}

}  // namespace tokamak::lowering

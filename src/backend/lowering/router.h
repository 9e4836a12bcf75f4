// Routing rules: from router logits to the chosen experts and their weights.
#pragma once

#include "backend/lowering/router_kind.h"
#include "backend/lowering/tables.h"

namespace tokamak::lowering {

// The members of a routing rule that kernels ask for. Bias, groups (mask), renormalisation (sum, clamp) and scale may
// be missing: kNone.
struct Router {
  ir::NodeId first = ir::kNone, bias = ir::kNone, mask = ir::kNone, sort = ir::kNone, look_up = ir::kNone,
             sum = ir::kNone, clamp = ir::kNone, scale = ir::kNone, last = ir::kNone;
  RouterKind kind = RouterKind::soft_max;
};
// nodes: of any rule topk_moe_*.
Router router_of(const ir::Graph& graph, Nodes nodes);

// The logits [n_tokens, n_expert].
ir::ValueId logits_of(const ir::Graph& graph, const Router& router);
// Experts chosen per token.
int64_t n_used_of(const ir::Graph& graph, const Router& router);

// One row of logits in memory per token, at most max_experts long, looked up one by one, and sums over the chosen ones
// of a token.
bool routes_rows(const ir::Graph& graph, const Router& router, int64_t max_experts);

}  // namespace tokamak::lowering

// The sum over a token's experts: rule moe_sum.
#pragma once

#include <vector>

#include "backend/lowering/tables.h"

namespace tokamak::lowering {

struct WeightedSum {
  ir::ValueId x = ir::kNone;         // what the experts made, [n_tokens, n_used, n_embd]
  ir::ValueId weights = ir::kNone;   // [n_tokens, n_used, 1]
  ir::ValueId result = ir::kNone;    // [n_tokens, n_embd]
  std::vector<ir::ValueId> addends;  // likewise, in the order of the ADDs; at most fuse::kMaxMoeAddends
  int64_t n_tokens = 0, n_used = 0, n_embd = 0;
};
WeightedSum weighted_sum_of(const ir::Graph& graph, Nodes nodes);

}  // namespace tokamak::lowering

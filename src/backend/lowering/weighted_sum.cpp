#include "backend/lowering/weighted_sum.h"

#include "base/check.h"
#include "fuse/rules.h"

namespace tokamak::lowering {

WeightedSum weighted_sum_of(const ir::Graph& graph, Nodes nodes) {
  const ir::Node& mul = graph.node(nodes[0]);
  const Shape& shape = graph.value(mul.output).shape;
  WeightedSum out{.x = mul.inputs[0],
                  .weights = mul.inputs[1],
                  .result = graph.node(nodes.back()).output,
                  .addends = {},
                  .n_tokens = shape[0],
                  .n_used = shape[1],
                  .n_embd = shape[2]};
  for (auto i = static_cast<size_t>(out.n_used); i < nodes.size(); ++i) {
    const ir::Node& add = graph.node(nodes[i]);
    const int side = fuse::other_operand(graph, add, graph.node(nodes[i - 1]).output);
    CHECK(side >= 0, nodes[i]);
    out.addends.push_back(add.inputs[static_cast<size_t>(side)]);
  }
  CHECK(out.addends.size() <= fuse::kMaxMoeAddends, out.addends.size());
  return out;
}

}  // namespace tokamak::lowering

// Gradients of the ops that have a backward form. f64 throughout; like ops.h, the definition and slow.
//
// Non-goal: a backward form for fused groups. A group's gradient is that of its members.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace tokamak::reference {

// One node with its numbers, all contiguous.
struct BackwardContext {
  const ir::Graph& graph;
  const ir::Node& node;
  std::vector<const std::vector<double>*> inputs;  // values of float operands; null for integers
  std::vector<std::span<const int32_t>> indices;   // values of integer operands
  const std::vector<double>& output;
  const std::vector<double>& grad;          // of the loss by the result
  std::vector<std::vector<double>*> grads;  // of the loss by each float operand: added to; null: not wanted

  const Shape& shape(size_t i) const { return graph.value(node.inputs[i]).shape; }
};

struct BackwardRow {
  ir::Op op;
  void (*run)(const BackwardContext& c);
  bool (*covers)(const ir::Node& node) = nullptr;  // null: every node of the op
};

// In the order of the op table. ROPE: freq_factors count as constant.
std::span<const BackwardRow> backward_table();
// Null when the node has no backward form.
const BackwardRow* find_backward(const ir::Node& node);

}  // namespace tokamak::reference

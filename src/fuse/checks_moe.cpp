// Top-k routing, from router logits to the chosen experts and their weights; the sum of what these make.
#include <algorithm>

#include "fuse/checks.h"

namespace tokamak::fuse {

using ir::Node;
using ir::Op;
using ir::Value;
using ir::ValueId;

namespace {

// Every reader of the sorted indices sees the first k columns only: a fused kernel writes no others.
bool only_first_columns_are_read(const Candidate& c, const Node& sort, const Node& look_up) {
  const Value& ids = value_of(c, look_up.inputs[1]);
  if (c.graph.storage_of(look_up.inputs[1]) != sort.output || ids.offset_elems != 0) return false;
  if (look_up.inputs[1] == sort.output) return true;  // all of them
  for (const Node& node : c.graph.nodes) {
    if (std::ranges::find(node.inputs, sort.output) == node.inputs.end()) continue;
    const Value& seen = value_of(c, node.output);
    if (node.op != Op::view || seen.shape != ids.shape || seen.offset_elems != 0) return false;
  }
  return true;
}

// Ops from `first` on: ADD (bias), MASK_GROUPS, ARGSORT, GET_ROWS, SUM_ROWS, CLAMP, DIV, SCALE. `probs` are the
// unbiased scores.
bool check_selection(const Candidate& c, size_t first, ValueId probs) {
  const size_t bias = first, mask = first + 1, sort = first + 2, look_up = first + 3, sum = first + 4,
               clamp = first + 5, div = first + 6, scale = first + 7;
  ValueId score = probs;
  if (c.has(bias)) {
    const Node& add = c.node(bias);
    if (add.inputs[0] != probs || !is_weight(c.graph, add.inputs[1])) return false;
    if (value_of(c, add.inputs[1]).shape != Shape{value_of(c, probs).shape[-1]}) return false;
    score = add.output;
  }
  if (c.has(mask)) {
    if (c.node(mask).inputs[0] != score) return false;
    score = c.node(mask).output;
  }
  if (c.node(sort).inputs[0] != score) return false;
  if (!is_whole(c.graph, c.node(look_up).inputs[0], probs)) return false;
  if (!only_first_columns_are_read(c, c.node(sort), c.node(look_up))) return false;
  ValueId weights = c.node(look_up).output;
  if (c.has(sum) != c.has(clamp) || c.has(sum) != c.has(div)) return false;
  if (c.has(div)) {
    if (!is_whole(c.graph, c.node(sum).inputs[0], weights) || c.node(clamp).inputs[0] != c.node(sum).output)
      return false;
    if (!is_whole(c.graph, c.node(div).inputs[0], weights) || c.node(div).inputs[1] != c.node(clamp).output)
      return false;
    weights = c.node(div).output;
  }
  if (!c.has(scale)) return true;
  return is_whole(c.graph, c.node(scale).inputs[0], weights) && c.node(scale).attrs.number(ir::Attr::bias) == 0;
}

// ARGSORT of the logits, GET_ROWS of them, then a function of the chosen ones.
bool check_late(const Candidate& c) {
  const Node &sort = c.node(0), &look_up = c.node(1), &function = c.node(2);
  return is_whole(c.graph, look_up.inputs[0], sort.inputs[0]) && only_first_columns_are_read(c, sort, look_up) &&
         is_whole(c.graph, function.inputs[0], look_up.output);
}

}  // namespace

bool check_topk_softmax(const Candidate& c, Mode) { return check_selection(c, 1, c.node(0).output); }
bool check_topk_sigmoid(const Candidate& c, Mode) {
  return is_function(c.node(0), ir::Unary::sigmoid) && check_selection(c, 1, c.node(0).output);
}
bool check_topk_softplus(const Candidate& c, Mode) {
  return is_function(c.node(0), ir::Unary::softplus) && is_function(c.node(1), ir::Unary::sqrt) &&
         c.node(1).inputs[0] == c.node(0).output && check_selection(c, 2, c.node(1).output);
}
// A softmax over the chosen ones needs them in one row.
bool check_topk_late_softmax(const Candidate& c, Mode) {
  const Value& chosen = value_of(c, c.node(1).output);
  return check_late(c) && value_of(c, c.node(2).inputs[0]).shape[-1] == chosen.shape[1];
}
bool check_topk_late_sigmoid(const Candidate& c, Mode) {
  return is_function(c.node(2), ir::Unary::sigmoid) && check_late(c);
}

namespace {
// `id` shows rows `part` of the result [n_tokens, n_used, n_embd] of `all`, as [n_tokens, n_embd].
bool is_part(const Candidate& c, ValueId id, ValueId all, int64_t part) {
  const Value &seen = value_of(c, id), &whole = value_of(c, all);
  const int64_t n_tokens = whole.shape[0], n_used = whole.shape[1], n_embd = whole.shape[2];
  return c.graph.storage_of(id) == all && seen.shape == Shape{n_tokens, n_embd} && seen.offset_elems == part * n_embd &&
         (n_tokens == 1 || seen.row_stride_elems == n_used * n_embd);
}
}  // namespace

// MUL: results of the experts [n_tokens, n_used, n_embd] by their weights [n_tokens, n_used, 1]. ADD: the parts of the
// first two experts, then that of every other in order, then what was made before the group, on either side.
bool check_moe_sum(const Candidate& c, Mode) {
  const Node& mul = c.node(0);
  const Shape& shape = value_of(c, mul.output).shape;
  if (shape.rank() != 3 || value_of(c, mul.inputs[0]).shape != shape) return false;
  const int64_t n_used = shape[1];
  if (value_of(c, mul.inputs[1]).shape != Shape{shape[0], n_used, 1}) return false;
  const auto n_sums = static_cast<size_t>(n_used) - 1;
  if (c.nodes.size() < 1 + n_sums || c.nodes.size() > 1 + n_sums + kMaxMoeAddends) return false;
  for (size_t i = 1; i < c.nodes.size(); ++i) {
    const Node& add = c.node(i);
    if (i <= n_sums) {
      const bool extends = i == 1 ? is_part(c, add.inputs[0], mul.output, 0) : add.inputs[0] == c.node(i - 1).output;
      if (!extends || !is_part(c, add.inputs[1], mul.output, static_cast<int64_t>(i))) return false;
      continue;
    }
    const int side = other_operand(c.graph, add, c.node(i - 1).output);
    if (side < 0) return false;
    const ValueId addend = add.inputs[static_cast<size_t>(side)];
    if (!comes_before(c, addend) || value_of(c, addend).shape != Shape{shape[0], shape[2]}) return false;
    if (value_of(c, add.output).shape != Shape{shape[0], shape[2]}) return false;
  }
  return true;
}

}  // namespace tokamak::fuse

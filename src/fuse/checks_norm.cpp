// Norms, rotations, chains and element-wise pairs.
#include "fuse/checks.h"

namespace tokamak::fuse {

using ir::Attr;
using ir::Node;
using ir::Value;
using ir::ValueId;

namespace {
bool repeats_rows(const Candidate& c, const Node& node) {
  const ir::Broadcast b = ir::broadcast_of(value_of(c, node.inputs[0]).shape, value_of(c, node.inputs[1]).shape);
  return b == ir::Broadcast::same || b == ir::Broadcast::trailing;
}
}  // namespace

bool extends_left(const Candidate& c, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const Node& node = c.node(i);
    if (!is_whole(c.graph, node.inputs[0], c.node(i - 1).output)) return false;
    if (!comes_before(c, node.inputs[1])) return false;
  }
  return true;
}

bool check_norm(const Candidate& c, Mode) {
  if (!extends_left(c, 1, c.nodes.size())) return false;
  for (size_t i = 1; i < c.nodes.size(); ++i)
    if (!repeats_rows(c, c.node(i))) return false;
  const Value& weight = value_of(c, c.node(1).inputs[1]);
  return weight.shape.n_rows() == 1 || weight.is_contiguous();
}

// The weight is one vector for all heads, since the rotation works head by head.
bool check_norm_rope(const Candidate& c, Mode) {
  const Node &mul = c.node(1), &rope = c.node(2);
  const Value& weight = value_of(c, mul.inputs[1]);
  return extends_left(c, 1, 2) && weight.shape.rank() == 1 && repeats_rows(c, mul) &&
         value_of(c, mul.output).shape == value_of(c, c.node(0).output).shape &&
         value_of(c, rope.output).shape == value_of(c, mul.output).shape &&
         is_whole(c.graph, rope.inputs[0], mul.output);
}

// The rows that SET_ROWS stores are the rotated ones; its slots are known beforehand.
bool check_rope_set_rows(const Candidate& c, Mode) {
  const size_t last = c.nodes.size() - 1;
  const Node &rope = c.node(last - 1), &write = c.node(last);
  return is_whole(c.graph, write.inputs[1], rope.output) &&
         value_of(c, write.inputs[1]).shape == value_of(c, rope.output).shape && comes_before(c, write.inputs[0]) &&
         comes_before(c, write.inputs[2]);
}
bool check_norm_rope_set_rows(const Candidate& c, Mode mode) {
  return check_norm_rope(c, mode) && check_rope_set_rows(c, mode);
}

// ADD+ADD+... or MUL+MUL+...: all later operands alike.
bool check_chain(const Candidate& c, Mode) {
  if (!extends_left(c, 1, c.nodes.size())) return false;
  const Value& first = value_of(c, c.node(0).inputs[1]);
  if (!repeats_rows(c, c.node(0))) return false;
  for (size_t i = 1; i < c.nodes.size(); ++i) {
    const Value& operand = value_of(c, c.node(i).inputs[1]);
    if (operand.shape != first.shape || operand.row_stride_elems != first.row_stride_elems) return false;
  }
  return true;
}

// x + sin(a x)^2 * inv_b with one a and one inv_b per row of x (channels [n_channels, n_time]).
// Source: Ziyin, Hartwig, Ueda 2020 (arXiv:2006.08195).
bool check_snake(const Candidate& c, Mode) {
  const Node &by_a = c.node(0), &square = c.node(2), &by_b = c.node(3), &sum = c.node(4);
  const auto is_column = [&](ValueId x, ValueId per_row) {
    const Value &wide = value_of(c, x), &narrow = value_of(c, per_row);
    return wide.shape.rank() == 2 && narrow.is_contiguous() && comes_before(c, per_row) &&
           ir::broadcast_of(wide.shape, narrow.shape) == ir::Broadcast::column;
  };
  const ValueId x = by_a.inputs[0];
  if (!is_function(c.node(1), ir::Unary::sin) || !is_function(square, ir::Unary::sqr)) return false;
  if (!value_of(c, x).is_contiguous() || !is_column(x, by_a.inputs[1]) || !is_column(x, by_b.inputs[1])) return false;
  return by_b.inputs[0] == square.output && other_operand(c.graph, sum, by_b.output) >= 0 &&
         sum.inputs[static_cast<size_t>(other_operand(c.graph, sum, by_b.output))] == x;
}

bool check_unary_mul(const Candidate& c, Mode) {
  const Node &unary = c.node(0), &mul = c.node(1);
  const auto function = unary.attrs.keyword<ir::Unary>(Attr::unary);
  if (function != ir::Unary::silu && function != ir::Unary::sigmoid && function != ir::Unary::softplus) return false;
  const int other = other_operand(c.graph, mul, unary.output);
  if (other < 0) return false;
  const ValueId factor = mul.inputs[static_cast<size_t>(other)];
  return comes_before(c, factor) && value_of(c, factor).shape == value_of(c, mul.output).shape;
}

bool check_relu_sqr(const Candidate& c, Mode) {
  return is_function(c.node(0), ir::Unary::relu) && is_function(c.node(1), ir::Unary::sqr);
}

bool check_softcap(const Candidate& c, Mode) {
  return is_function(c.node(1), ir::Unary::tanh) && c.node(0).attrs.number(Attr::bias) == 0 &&
         c.node(2).attrs.number(Attr::bias) == 0;
}

}  // namespace tokamak::fuse

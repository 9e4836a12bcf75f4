// Convolutions and delta nets, and the writes of their states.
#include <algorithm>

#include "fuse/checks.h"

namespace tokamak::fuse {

using ir::Attr;
using ir::kNone;
using ir::Node;
using ir::Value;
using ir::ValueId;

bool check_ssm_conv(const Candidate& c, Mode) {
  if (!is_function(c.node(2), ir::Unary::silu)) return false;
  const ValueId conv = c.node(0).output;
  if (!c.has(1)) return is_whole(c.graph, c.node(2).inputs[0], conv);
  const Node& add = c.node(1);
  const Value& bias = value_of(c, add.inputs[1]);
  return add.inputs[0] == conv && bias.kind == ir::ValueKind::weight &&
         bias.shape == Shape{value_of(c, conv).shape[-1]} && is_whole(c.graph, c.node(2).inputs[0], add.output);
}

namespace {
// The states go back into the tensor that they came from.
bool writes_back(const Candidate& c, const Node& write, ValueId read_state) {
  return c.graph.storage_of(write.inputs[0]) == c.graph.storage_of(read_state);
}

// Elements of its storage from the first to the last, gaps between rows included.
int64_t span_elems(const Value& value) {
  return (value.shape.n_rows() - 1) * value.row_stride_elems + value.shape.row_elems();
}
}  // namespace

bool check_conv_state_cpy(const Candidate& c, Mode) {
  const Node &make = c.node(0), &write = c.node(1);
  return is_whole(c.graph, write.inputs[1], make.output) && writes_back(c, write, make.inputs[1]);
}

// The written states are the whole part behind y, and nothing else sees that part.
bool check_delta_net_cpy(const Candidate& c, Mode) {
  const Node &net = c.node(0), &write = c.node(1);
  const int64_t n_y = value_of(c, net.inputs[2]).shape.n_elements();
  const int64_t n_states = value_of(c, net.output).shape[0] - n_y;
  const Value& states = value_of(c, write.inputs[1]);
  if (c.graph.storage_of(write.inputs[1]) != net.output) return false;
  if (states.offset_elems != n_y || states.shape.n_elements() != n_states || !states.is_contiguous()) return false;
  if (!writes_back(c, write, net.inputs[5])) return false;
  const auto sees_states = [&](ValueId id) {
    const Value& seen = value_of(c, id);
    return c.graph.storage_of(id) == net.output && seen.offset_elems + span_elems(seen) > n_y;
  };
  for (const Node& node : c.graph.nodes)
    if (&node != &write && !ir::op_row(node.op).is_view && std::ranges::any_of(node.inputs, sees_states)) return false;
  return std::ranges::none_of(c.graph.outputs, sees_states);
}

}  // namespace tokamak::fuse

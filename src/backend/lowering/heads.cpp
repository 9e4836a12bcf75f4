#include "backend/lowering/heads.h"

namespace tokamak::lowering {

using ir::Attr;

HeadNorm head_norm(const ir::Graph& graph, Nodes nodes) {
  const ir::Node& first = graph.node(nodes[0]);
  if (first.op != ir::Op::rms_norm) return {};
  const ir::Node& mul = graph.node(nodes[1]);
  const int other = fuse::other_operand(graph, mul, first.output);
  return {.weight = mul.inputs[static_cast<size_t>(other)], .eps = static_cast<float>(first.attrs.number(Attr::eps))};
}

bool supports_head_norm(const ir::Graph& graph, Nodes nodes) {
  const ir::Node& norm = graph.node(nodes[0]);
  const int other = fuse::other_operand(graph, graph.node(nodes[1]), norm.output);
  if (other < 0) return false;
  const ir::Value& weight = graph.value(graph.node(nodes[1]).inputs[static_cast<size_t>(other)]);
  const ir::Value &x = graph.value(norm.inputs[0]), &y = graph.value(graph.node(nodes[2]).output);
  return weight.kind == ir::ValueKind::weight && weight.shape.n_elements() == x.shape.row_elems() && x.shape == y.shape;
}

ir::ValueId rope_factors(const ir::Node& rope) { return rope.inputs.size() > 2 ? rope.inputs[2] : ir::kNone; }

RopeFrequencyParams frequency_params(const ir::Attrs& attrs) {
  return {.n_rot = attrs.integer(Attr::n_rot),
          .theta = attrs.number(Attr::theta),
          .freq_scale = attrs.number(Attr::freq_scale),
          .ext_factor = attrs.number(Attr::ext_factor),
          .beta_fast = attrs.number(Attr::beta_fast),
          .beta_slow = attrs.number(Attr::beta_slow),
          .n_ctx_orig = attrs.integer(Attr::n_ctx_orig),
          .round_range = attrs.integer(Attr::round_range) != 0};
}

}  // namespace tokamak::lowering

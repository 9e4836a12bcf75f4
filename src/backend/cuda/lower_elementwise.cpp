// Element-wise ops and their fusions.
#include "backend/cuda/lower.h"
#include "backend/cuda/ops/elementwise.h"
#include "base/check.h"

namespace tokamak::cuda {

namespace {
using ir::Attr;

static_assert(static_cast<size_t>(MapKind::scale) == ir::kUnaries.size());
static_assert(static_cast<size_t>(GluKind::sigmoid_mul) == ir::kGlus.size());

float f32_attr(const ir::Node& node, Attr attr) { return static_cast<float>(node.attrs.number(attr)); }
BinaryOp binary_op(ir::Op op) {
  return op == ir::Op::add   ? BinaryOp::add
         : op == ir::Op::sub ? BinaryOp::sub
         : op == ir::Op::mul ? BinaryOp::mul
                             : BinaryOp::div;
}

// Operand `id` of an element-wise op whose first operand has shape `a`; the address is left out.
Source source_of(const Rows& rows, ir::Broadcast broadcast) {
  const bool all_rows = broadcast == ir::Broadcast::same || broadcast == ir::Broadcast::column;
  return {.stride = rows.stride_elems,
          .n_rows = all_rows ? kNoRepeat : rows.n_rows,
          .is_number = broadcast == ir::Broadcast::column || broadcast == ir::Broadcast::scalar};
}

// ADD, SUB, MUL, DIV; ADD+ADD+..., MUL+MUL+...: each node's first operand is its predecessor.
Result<void> lower_chain(Lowering& l, Nodes nodes) {
  const ir::Node& first = l.graph.node(nodes[0]);
  const Shape& shape = l.value(first.inputs[0]).shape;
  const Rows y = l.rows(l.graph.node(nodes.back()).output), x = l.rows(first.inputs[0]);
  ChainArgs args{.op = binary_op(first.op),
                 .n_sources = static_cast<int>(nodes.size()) + 1,
                 .x = {},
                 .y_stride = y.stride_elems,
                 .n_rows = y.n_rows,
                 .row_elems = y.n};
  CHECK(args.n_sources <= kMaxSources, args.n_sources);
  std::array<Address, kMaxSources> addresses;
  addresses[0] = x.address;
  args.x[0] = source_of(x, ir::Broadcast::same);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ir::ValueId id = l.graph.node(nodes[i]).inputs[1];
    const Rows more = l.rows(id);
    addresses[i + 1] = more.address;
    args.x[i + 1] = source_of(more, ir::broadcast_of(shape, l.value(id).shape));
  }
  l.add(nodes.size() > 1 ? "chain_f32" : "binary_f32", [=](const RunContext& c) {
    ChainArgs a = args;
    for (size_t i = 0; i < static_cast<size_t>(a.n_sources); ++i) a.x[i].p = c.at(addresses[i]);
    a.y = c.at(y.address);
    return launch_chain(a, c.stream);
  });
  return {};
}

// One operand in, one result of the same shape.
Result<void> add_map(Lowering& l, Nodes nodes, std::string_view name, MapKind kind, float a = 0, float b = 0) {
  const ir::ValueId x = l.graph.node(nodes[0]).inputs[0], y = l.graph.node(nodes.back()).output;
  add_rows(l, name, l.rows(x), l.rows(y), MapArgs{.kind = kind, .a = a, .b = b}, launch_map);
  return {};
}

Result<void> lower_scale(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  return add_map(l, nodes, "scale_f32", MapKind::scale, f32_attr(node, Attr::scale), f32_attr(node, Attr::bias));
}

Result<void> lower_clamp(Lowering& l, Nodes nodes) {
  const ir::Attrs& attrs = l.graph.node(nodes[0]).attrs;
  return add_map(l, nodes, "clamp_f32", MapKind::clamp, f32_bound(attrs.number(Attr::min)),
                 f32_bound(attrs.number(Attr::max)));
}

Result<void> lower_unary(Lowering& l, Nodes nodes) {
  return add_map(l, nodes, "unary_f32", static_cast<MapKind>(l.graph.node(nodes[0]).attrs.integer(Attr::unary)));
}

Result<void> lower_softcap(Lowering& l, Nodes nodes) {
  return add_map(l, nodes, "softcap_f32", MapKind::softcap, f32_attr(l.graph.node(nodes[0]), Attr::scale),
                 f32_attr(l.graph.node(nodes[2]), Attr::scale));
}

Result<void> lower_relu_sqr(Lowering& l, Nodes nodes) { return add_map(l, nodes, "relu_sqr_f32", MapKind::relu_sqr); }

// y = act(gate) * up; no `up`: it is the second half of gate's rows.
Result<void> add_gated(Lowering& l, GluArgs args, ir::ValueId gate_id, ir::ValueId up_id, ir::ValueId result) {
  const Rows y = l.rows(result), gate = l.rows(gate_id), up = up_id == ir::kNone ? gate : l.rows(up_id);
  args.gate_stride = gate.stride_elems;
  args.up_stride = up.stride_elems;
  args.y_stride = y.stride_elems;
  args.n_rows = y.n_rows;
  args.row_elems = y.n;
  const int64_t skip = up_id == ir::kNone ? y.n : 0;
  l.add("glu_f32", [=](const RunContext& c) {
    GluArgs a = args;
    a.gate = c.at(gate.address);
    a.up = c.at(up.address) + skip;
    a.y = c.at(y.address);
    return launch_glu(a, c.stream);
  });
  return {};
}

Result<void> lower_glu(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  return add_gated(l,
                   {.kind = static_cast<GluKind>(node.attrs.integer(Attr::glu)),
                    .alpha = f32_attr(node, Attr::alpha),
                    .limit = f32_attr(node, Attr::limit)},
                   node.inputs[0], node.inputs.size() == 1 ? ir::kNone : node.inputs[1], node.output);
}

Result<void> lower_unary_mul(Lowering& l, Nodes nodes) {
  const ir::Node &unary = l.graph.node(nodes[0]), &mul = l.graph.node(nodes[1]);
  const auto function = unary.attrs.keyword<ir::Unary>(Attr::unary);
  const GluKind kind = function == ir::Unary::silu      ? GluKind::swiglu
                       : function == ir::Unary::sigmoid ? GluKind::sigmoid_mul
                                                        : GluKind::softplus_mul;
  const auto other = static_cast<size_t>(fuse::other_operand(l.graph, mul, unary.output));
  return add_gated(l, {.kind = kind}, unary.inputs[0], mul.inputs[other], mul.output);
}
// The kernel reads both row by row.
bool supports_unary_mul(const ir::Graph& graph, Nodes nodes) {
  return graph.value(graph.node(nodes[0]).inputs[0]).shape == graph.value(graph.node(nodes[1]).output).shape;
}

Result<void> lower_snake(Lowering& l, Nodes nodes) {
  const ir::Node &by_a = l.graph.node(nodes[0]), &by_b = l.graph.node(nodes[3]);
  const Rows x = l.rows(by_a.inputs[0]), y = l.rows(l.graph.node(nodes[4]).output);
  const Rows a = l.rows(by_a.inputs[1]), b = l.rows(by_b.inputs[1]);  // columns
  const SnakeArgs args{.a_stride = a.stride_elems, .b_stride = b.stride_elems};
  add_rows(l, "snake_f32", x, y, args, launch_snake, [=](SnakeArgs& bound, const RunContext& c) {
    bound.a = c.at(a.address);
    bound.b = c.at(b.address);
  });
  return {};
}

Result<void> lower_attn_temp(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const Rows x = l.rows(node.inputs[0]), y = l.rows(node.output);
  const Address positions = l.indices(node.inputs[1]);
  const AttnTempArgs args{.scale = node.attrs.number(Attr::temp_scale),
                          .length = static_cast<double>(node.attrs.integer(Attr::temp_length)),
                          .offset = node.attrs.integer(Attr::temp_offset),
                          .rows_per_token = y.n_rows / l.value(node.output).shape[0]};
  add_rows(l, "attn_temp_f32", x, y, args, launch_attn_temp,
           [=](AttnTempArgs& a, const RunContext& c) { a.positions = c.at<int32_t>(positions); });
  return {};
}
}  // namespace

std::span<const OpLowering> elementwise_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::add, lower_chain},
      {ir::Op::sub, lower_chain},
      {ir::Op::mul, lower_chain},
      {ir::Op::div, lower_chain},
      {ir::Op::scale, lower_scale},
      {ir::Op::clamp, lower_clamp},
      {ir::Op::unary, lower_unary},
      {ir::Op::glu, lower_glu},
      {ir::Op::attn_temp, lower_attn_temp},
  });
  return kRows;
}

std::span<const RuleLowering> elementwise_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::add_2, nullptr, lower_chain},
      {fuse::RuleId::add_3, nullptr, lower_chain},
      {fuse::RuleId::add_4, nullptr, lower_chain},
      {fuse::RuleId::add_5, nullptr, lower_chain},
      {fuse::RuleId::add_6, nullptr, lower_chain},
      {fuse::RuleId::add_7, nullptr, lower_chain},
      {fuse::RuleId::mul_2, nullptr, lower_chain},
      {fuse::RuleId::mul_3, nullptr, lower_chain},
      {fuse::RuleId::mul_4, nullptr, lower_chain},
      {fuse::RuleId::mul_5, nullptr, lower_chain},
      {fuse::RuleId::mul_6, nullptr, lower_chain},
      {fuse::RuleId::mul_7, nullptr, lower_chain},
      {fuse::RuleId::snake, nullptr, lower_snake},
      {fuse::RuleId::unary_mul, supports_unary_mul, lower_unary_mul},
      {fuse::RuleId::relu_sqr, nullptr, lower_relu_sqr},
      {fuse::RuleId::softcap, nullptr, lower_softcap},
  });
  return kRows;
}

}  // namespace tokamak::cuda

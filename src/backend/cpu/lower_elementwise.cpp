// Element-wise ops and copies of rows, and their fusions.
#include <cmath>

#include "backend/cpu/lower_ops.h"

namespace tokamak::cpu {

namespace {
using ir::Attr;

struct BinaryRow {
  ir::Op op;
  std::string_view name;
  Kernel<BinaryArgs> OpSet::*kernel;
};
constexpr auto kBinaries = std::to_array<BinaryRow>({
    {ir::Op::add, "add_f32", &OpSet::add},
    {ir::Op::sub, "sub_f32", &OpSet::sub},
    {ir::Op::mul, "mul_f32", &OpSet::mul},
    {ir::Op::div, "div_f32", &OpSet::div},
});
const BinaryRow& binary_row(ir::Op op) {
  for (const BinaryRow& row : kBinaries)
    if (row.op == op) return row;
  CHECK(false, ir::op_row(op).name);
  return kBinaries.front();
}

// Rows of b before it starts again in a.
int64_t rows_of_b(ir::Broadcast broadcast, const Rows& b) {
  return broadcast == ir::Broadcast::same || broadcast == ir::Broadcast::column ? kNoRepeat : b.n_rows;
}
bool is_shared(ir::Broadcast broadcast, const Operand& b) {
  return b.constant == nullptr && rows_of_b(broadcast, b.rows) != kNoRepeat;
}

void lower_binary(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const ir::Value& a = l.value(node.inputs[0]);
  const ir::Broadcast broadcast = ir::broadcast_of(a.shape, l.value(node.inputs[1]).shape);
  const BinaryRow& row = binary_row(node.op);
  auto& step = l.add<RowStep<BinaryArgs>>(row.name);
  step.kernel = op_set(l.isa).*row.kernel;
  step.operands = {operand(l, node.output), operand(l, node.inputs[0]), operand(l, node.inputs[1])};
  const Rows &y = step.operands[0].rows, &x = step.operands[1].rows, &b = step.operands[2].rows;
  step.args = {.row_elems = y.n,
               .a_stride = x.stride_elems,
               .b_stride = b.stride_elems,
               .n_b_rows = rows_of_b(broadcast, b),
               .b_is_number = broadcast == ir::Broadcast::column || broadcast == ir::Broadcast::scalar,
               .y_stride = y.stride_elems};
  step.bind = [](BinaryArgs& args, const Pointers& p) {
    args.y = p[0];
    args.a = p[1];
    args.b = p[2];
  };
  divide_by_tokens(step, a, y.n_rows, is_shared(broadcast, step.operands[2]));
}

// ADD+ADD+..., MUL+MUL+...: each node's first operand is its predecessor.
void lower_chain(Lowering& l, Nodes nodes) {
  const ir::Node& first = l.graph.node(nodes[0]);
  const bool sum = first.op == ir::Op::add;
  auto& step = l.add<RowStep<ChainArgs>>(sum ? "add_chain_f32" : "mul_chain_f32");
  step.kernel = sum ? op_set(l.isa).add_chain : op_set(l.isa).mul_chain;
  step.operands = {operand(l, l.graph.node(nodes.back()).output), operand(l, first.inputs[0])};
  const Rows y = step.operands[0].rows;
  step.args = {.n_inputs = static_cast<int>(nodes.size()) + 1,
               .row_elems = y.n,
               .x = {},
               .x_stride = {},
               .y_stride = y.stride_elems};
  step.args.x_stride[0] = step.operands[1].rows.stride_elems;
  bool shared = false;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ir::ValueId id = l.graph.node(nodes[i]).inputs[1];
    const ir::Broadcast broadcast = ir::broadcast_of(l.value(first.inputs[0]).shape, l.value(id).shape);
    const Operand x = operand(l, id);
    step.args.x_stride[i + 1] = x.rows.stride_elems;
    step.args.n_x_rows[i + 1] = rows_of_b(broadcast, x.rows);
    shared = shared || is_shared(broadcast, x);
    step.operands.push_back(x);
  }
  step.bind = [](ChainArgs& args, const Pointers& p) {
    args.y = p[0];
    for (size_t i = 1; i < p.size(); ++i) args.x[i - 1] = p[i];
  };
  divide_by_tokens(step, l.value(first.inputs[0]), y.n_rows, shared);
}

// One operand in, one result of the same shape.
void add_map(Lowering& l, Nodes nodes, std::string_view name, Kernel<MapArgs> kernel, const MapArgs& args) {
  const ir::ValueId input = l.graph.node(nodes[0]).inputs[0];
  auto& step = l.add<RowStep<MapArgs>>(name);
  step.kernel = kernel;
  step.operands = {operand(l, l.graph.node(nodes.back()).output), operand(l, input)};
  const Rows &y = step.operands[0].rows, &x = step.operands[1].rows;
  step.args = args;
  step.args.row_elems = x.n;
  step.args.x_stride = x.stride_elems;
  step.args.y_stride = y.stride_elems;
  step.bind = [](MapArgs& a, const Pointers& p) {
    a.y = p[0];
    a.x = p[1];
  };
  divide_by_tokens(step, l.value(input), x.n_rows);
}

void lower_scale(Lowering& l, Nodes nodes) {
  const ir::Attrs& attrs = l.graph.node(nodes[0]).attrs;
  add_map(
      l, nodes, "scale_f32", op_set(l.isa).scale,
      {.scale = static_cast<float>(attrs.number(Attr::scale)), .bias = static_cast<float>(attrs.number(Attr::bias))});
}

void lower_clamp(Lowering& l, Nodes nodes) {
  const ir::Attrs& attrs = l.graph.node(nodes[0]).attrs;
  add_map(l, nodes, "clamp_f32", op_set(l.isa).clamp,
          {.low = lowering::f32_bound(attrs.number(Attr::min)), .high = lowering::f32_bound(attrs.number(Attr::max))});
}

void lower_unary(Lowering& l, Nodes nodes) {
  const int64_t kind = l.graph.node(nodes[0]).attrs.integer(Attr::unary);
  add_map(l, nodes, "unary_f32", op_set(l.isa).unary, {.unary = static_cast<UnaryKind>(kind)});
}

void lower_softcap(Lowering& l, Nodes nodes) {
  const auto factor = [&](size_t i) { return static_cast<float>(l.graph.node(nodes[i]).attrs.number(Attr::scale)); };
  add_map(l, nodes, "softcap_f32", op_set(l.isa).softcap, {.scale = factor(0), .cap = factor(2)});
}

void lower_relu_sqr(Lowering& l, Nodes nodes) { add_map(l, nodes, "relu_sqr_f32", op_set(l.isa).relu_sqr, {}); }

// y = act(gate) * up, rows of `node`.
void add_gated(Lowering& l, const GluArgs& args, ir::ValueId gate, ir::ValueId up, ir::ValueId result) {
  auto& step = l.add<RowStep<GluArgs>>("glu_f32");
  step.kernel = op_set(l.isa).glu;
  step.operands = {operand(l, result), operand(l, gate)};
  if (up != ir::kNone) step.operands.push_back(operand(l, up));
  step.args = args;
  step.args.row_elems = step.operands[0].rows.n;
  step.args.y_stride = step.operands[0].rows.stride_elems;
  step.args.gate_stride = step.operands[1].rows.stride_elems;
  step.args.up_stride = step.operands.back().rows.stride_elems;
  step.bind = [](GluArgs& a, const Pointers& p) {
    a.y = p[0];
    a.gate = p[1];
    a.up = p.size() > 2 ? p[2] : a.gate + a.row_elems;  // halves of one row
  };
  divide_by_tokens(step, l.value(gate), step.operands[0].rows.n_rows);
}

void lower_glu(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  add_gated(l,
            {.kind = static_cast<GluKind>(node.attrs.integer(Attr::glu)),
             .alpha = static_cast<float>(node.attrs.number(Attr::alpha)),
             .limit = static_cast<float>(node.attrs.number(Attr::limit))},
            node.inputs[0], node.inputs.size() == 1 ? ir::kNone : node.inputs[1], node.output);
}

void lower_unary_mul(Lowering& l, Nodes nodes) {
  const ir::Node &unary = l.graph.node(nodes[0]), &mul = l.graph.node(nodes[1]);
  const auto function = unary.attrs.keyword<ir::Unary>(Attr::unary);
  const GluKind kind = function == ir::Unary::silu      ? GluKind::swiglu
                       : function == ir::Unary::sigmoid ? GluKind::sigmoid_mul
                                                        : GluKind::softplus_mul;
  const auto other = static_cast<size_t>(fuse::other_operand(l.graph, mul, unary.output));
  add_gated(l, {.kind = kind}, unary.inputs[0], mul.inputs[other], mul.output);
}
// The kernel reads both row by row.
bool supports_unary_mul(const ir::Graph& graph, Nodes nodes) {
  const ir::Value &in = graph.value(graph.node(nodes[0]).inputs[0]), &out = graph.value(graph.node(nodes[1]).output);
  return in.shape == out.shape;
}

void lower_snake(Lowering& l, Nodes nodes) {
  const ir::Node &by_a = l.graph.node(nodes[0]), &by_b = l.graph.node(nodes[3]);
  const ir::ValueId input = by_a.inputs[0];
  auto& step = l.add<RowStep<SnakeArgs>>("snake_f32");
  step.kernel = op_set(l.isa).snake;
  step.operands = {operand(l, l.graph.node(nodes[4]).output), operand(l, input), operand(l, by_a.inputs[1]),
                   operand(l, by_b.inputs[1])};
  const Rows &y = step.operands[0].rows, &x = step.operands[1].rows;
  step.args = {.row_elems = x.n, .x_stride = x.stride_elems, .y_stride = y.stride_elems};
  step.bind = [](SnakeArgs& args, const Pointers& p) {
    args.y = p[0];
    args.x = p[1];
    args.a = p[2];
    args.b = p[3];
  };
  divide_by_tokens(step, l.value(input), x.n_rows);
}

// Copies the rows of one value into part of the rows of another.
void add_copy(Lowering& l, ir::ValueId from, ir::ValueId to, int64_t to_offset) {
  auto& step = l.add<RowStep<CopyArgs>>("copy_rows");
  step.kernel = op_set(l.isa).copy;
  step.operands = {operand(l, to), operand(l, from)};
  step.operands[0].rows.ref = step.operands[0].rows.ref.after(to_offset);
  const Rows &y = step.operands[0].rows, &x = step.operands[1].rows;
  step.args = {.row_elems = x.n, .x_stride = x.stride_elems, .y_stride = y.stride_elems};
  step.bind = [](CopyArgs& args, const Pointers& p) {
    args.y = p[0];
    args.x = p[1];
  };
  divide_by_tokens(step, l.value(from), x.n_rows);
}

void lower_cont(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  add_copy(l, node.inputs[0], node.output, 0);
}
void lower_concat(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  add_copy(l, node.inputs[0], node.output, 0);
  add_copy(l, node.inputs[1], node.output, l.value(node.inputs[0]).shape[-1]);
}

// Every token's rows times a factor of its position.
struct AttnTempStep : Step {
  Kernel<MapArgs> kernel = nullptr;
  MapArgs args;
  Operand x, y;
  int64_t rows_per_token = 1;
  double scale = 0, length = 1;
  int64_t offset = 0;

  void run(const RunContext& c, int thread_idx, int n_threads) const override {
    const WorkRange tokens = split_range(n_split, thread_idx, n_threads);
    MapArgs a = args;
    a.x = x.constant ? x.constant : c.f32(x.rows.ref);
    a.y = c.f32(y.rows.ref);
    for (int64_t t = tokens.begin; t < tokens.end; ++t) {
      const auto position = static_cast<double>(c.inputs.positions[static_cast<size_t>(t)] + offset);
      a.scale = static_cast<float>(1 + scale * std::log(1 + std::floor(position / length)));
      kernel(a, t * rows_per_token, (t + 1) * rows_per_token);
    }
  }
};

void lower_attn_temp(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const ir::Value& value = l.value(node.output);
  auto& step = l.add<AttnTempStep>("scale_f32");
  step.kernel = op_set(l.isa).scale;
  step.x = operand(l, node.inputs[0]);
  step.y = operand(l, node.output);
  step.args = {.row_elems = step.y.rows.n, .x_stride = step.x.rows.stride_elems, .y_stride = step.y.rows.stride_elems};
  step.rows_per_token = step.y.rows.n_rows / value.shape[0];
  step.scale = node.attrs.number(Attr::temp_scale);
  step.length = static_cast<double>(node.attrs.integer(Attr::temp_length));
  step.offset = node.attrs.integer(Attr::temp_offset);
  step.split = Split::tokens;
  step.n_split = value.shape[0];
  step.reads = {step.x.rows.ref};
  step.writes = {step.y.rows.ref};
}
}  // namespace

std::span<const OpLowering> elementwise_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::add, lower_binary},
      {ir::Op::sub, lower_binary},
      {ir::Op::mul, lower_binary},
      {ir::Op::div, lower_binary},
      {ir::Op::scale, lower_scale},
      {ir::Op::clamp, lower_clamp},
      {ir::Op::unary, lower_unary},
      {ir::Op::glu, lower_glu},
      {ir::Op::concat, lower_concat},
      {ir::Op::cont, lower_cont},
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

}  // namespace tokamak::cpu

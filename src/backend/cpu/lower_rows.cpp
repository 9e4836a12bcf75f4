// Ops that work row by row: norms, element-wise ops, GLU, GET_ROWS, and their fusions.
#include <algorithm>

#include "backend/cpu/lower_ops.h"
#include "base/check.h"

namespace tokamak::cpu {

namespace {
using ir::Attr;
using ir::NodeId;
using Nodes = std::span<const NodeId>;

// The operand of a commutative node that is not `pred`.
ir::ValueId other_of(const ir::Graph& graph, NodeId node, NodeId pred) {
  const int other = fuse::other_operand(graph, graph.node(node), graph.node(pred).output);
  CHECK(other >= 0, node);
  return graph.node(node).inputs[static_cast<size_t>(other)];
}

bool is_row_weight(const ir::Graph& graph, ir::ValueId id, int64_t row_elems) {
  const ir::Value& value = graph.value(id);
  return value.kind == ir::ValueKind::weight && value.shape.n_elements() == row_elems;
}

const float* vector_of(const Lowering& l, ir::ValueId id) { return l.weights.at(l.value(id).name).values.data(); }

void add_norm(Lowering& l, Nodes nodes, ir::ValueId weight, ir::ValueId addend) {
  const ir::Node& norm = l.graph.node(nodes[0]);
  const Rows x = l.rows(norm.inputs[0]), y = l.rows(l.graph.node(nodes.back()).output);
  auto& step = l.add<RowStep<NormArgs>>("norm_f32");
  step.kernel = op_set(l.isa).norm;
  step.args = {.centred = norm.op == ir::Op::norm,
               .eps = static_cast<float>(norm.attrs.number(Attr::eps)),
               .row_elems = x.n,
               .x_stride = x.stride_elems,
               .y_stride = y.stride_elems};
  if (weight != ir::kNone) step.args.weight = vector_of(l, weight);
  step.refs = {y.ref, x.ref};
  if (addend != ir::kNone) {
    const Rows residual = l.rows(addend);
    step.args.addend_stride = residual.stride_elems;
    step.refs.push_back(residual.ref);
  }
  step.bind = [](NormArgs& args, std::span<const Ref> refs, const RunContext& c) {
    args.y = c.f32(refs[0]);
    args.x = c.f32(refs[1]);
    if (refs.size() > 2) args.addend = c.f32(refs[2]);
  };
  divide_by_tokens(step, l.value(norm.inputs[0]), x.n_rows);
}

// a op b with b repeated over the leading dimensions of a.
void lower_binary(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const ir::Value &a = l.value(node.inputs[0]), &b = l.value(node.inputs[1]);
  Rows x = l.rows(node.inputs[0]), y = l.rows(node.output);
  const bool same = a.shape == b.shape;
  if (!same) {  // rows as long as the whole of b
    CHECK(a.is_contiguous() && b.shape.n_elements() % x.n == 0);
    x.n = x.stride_elems = y.n = y.stride_elems = b.shape.n_elements();
    x.n_rows = a.shape.n_elements() / x.n;
  }
  auto& step = l.add<RowStep<BinaryArgs>>(node.op == ir::Op::add ? "add_f32" : "mul_f32");
  step.kernel = node.op == ir::Op::add ? op_set(l.isa).add : op_set(l.isa).mul;
  step.args = {.row_elems = x.n, .a_stride = x.stride_elems, .y_stride = y.stride_elems};
  step.refs = {y.ref, x.ref};
  if (b.kind == ir::ValueKind::weight) {
    step.args.b = vector_of(l, node.inputs[1]);
    step.args.b_stride = same ? x.n : 0;
  } else {
    const Rows z = l.rows(node.inputs[1]);
    step.args.b_stride = same ? z.stride_elems : 0;
    step.refs.push_back(z.ref);
  }
  step.bind = [](BinaryArgs& args, std::span<const Ref> refs, const RunContext& c) {
    args.y = c.f32(refs[0]);
    args.a = c.f32(refs[1]);
    if (refs.size() > 2) args.b = c.f32(refs[2]);
  };
  divide_by_tokens(step, a, x.n_rows);
}

void lower_add_chain(Lowering& l, Nodes nodes) {
  const ir::Node& first = l.graph.node(nodes[0]);
  std::vector<ir::ValueId> inputs = {first.inputs[0], first.inputs[1]};
  for (size_t i = 1; i < nodes.size(); ++i) inputs.push_back(other_of(l.graph, nodes[i], nodes[i - 1]));
  const Rows y = l.rows(l.graph.node(nodes.back()).output);
  auto& step = l.add<RowStep<AddChainArgs>>("add_chain_f32");
  step.kernel = op_set(l.isa).add_chain;
  step.args = {.n_inputs = static_cast<int>(inputs.size()), .row_elems = y.n, .y_stride = y.stride_elems};
  step.refs = {y.ref};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (l.value(inputs[i]).kind == ir::ValueKind::weight) {
      step.args.x[i] = vector_of(l, inputs[i]);
      step.refs.push_back({});
    } else {
      const Rows x = l.rows(inputs[i]);
      step.args.x_stride[i] = x.stride_elems;
      step.refs.push_back(x.ref);
    }
  }
  step.bind = [](AddChainArgs& args, std::span<const Ref> refs, const RunContext& c) {
    args.y = c.f32(refs[0]);
    for (size_t i = 1; i < refs.size(); ++i)
      if (refs[i].where != Ref::Where::none) args.x[i - 1] = c.f32(refs[i]);
  };
  divide_by_tokens(step, l.value(first.inputs[0]), y.n_rows);
}

void add_map(Lowering& l, Nodes nodes, std::string_view name, Kernel<MapArgs> kernel, MapArgs args) {
  const ir::ValueId input = l.graph.node(nodes[0]).inputs[0];
  const Rows x = l.rows(input), y = l.rows(l.graph.node(nodes.back()).output);
  auto& step = l.add<RowStep<MapArgs>>(name);
  step.kernel = kernel;
  step.args = args;
  step.args.row_elems = x.n;
  step.args.x_stride = x.stride_elems;
  step.args.y_stride = y.stride_elems;
  step.refs = {y.ref, x.ref};
  step.bind = [](MapArgs& a, std::span<const Ref> refs, const RunContext& c) {
    a.y = c.f32(refs[0]);
    a.x = c.f32(refs[1]);
  };
  divide_by_tokens(step, l.value(input), x.n_rows);
}

void lower_scale(Lowering& l, Nodes nodes) {
  const ir::Attrs& attrs = l.graph.node(nodes[0]).attrs;
  add_map(
      l, nodes, "scale_f32", op_set(l.isa).scale,
      {.scale = static_cast<float>(attrs.number(Attr::scale)), .bias = static_cast<float>(attrs.number(Attr::bias))});
}

void lower_unary(Lowering& l, Nodes nodes) {
  const int64_t kind = l.graph.node(nodes[0]).attrs.integer(Attr::unary);
  add_map(l, nodes, "unary_f32", op_set(l.isa).unary, {.unary = static_cast<UnaryKind>(kind)});
}

void lower_softcap(Lowering& l, Nodes nodes) {
  const double cap = l.graph.node(nodes[2]).attrs.number(Attr::scale);
  add_map(l, nodes, "softcap_f32", op_set(l.isa).softcap, {.cap = static_cast<float>(cap)});
}

void lower_glu(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const bool split = node.inputs.size() == 1;
  const Rows gate = l.rows(node.inputs[0]), up = l.rows(node.inputs.back()), y = l.rows(node.output);
  auto& step = l.add<RowStep<GluArgs>>("glu_f32");
  step.kernel = op_set(l.isa).glu;
  step.args = {.kind = static_cast<decltype(GluArgs::kind)>(node.attrs.integer(Attr::glu)),
               .row_elems = y.n,
               .gate_stride = gate.stride_elems,
               .up_stride = up.stride_elems,
               .y_stride = y.stride_elems};
  step.refs = {y.ref, gate.ref};
  if (!split) step.refs.push_back(up.ref);
  step.bind = [](GluArgs& args, std::span<const Ref> refs, const RunContext& c) {
    args.y = c.f32(refs[0]);
    args.gate = c.f32(refs[1]);
    args.up = refs.size() > 2 ? c.f32(refs[2]) : args.gate + args.row_elems;
  };
  divide_by_tokens(step, l.value(node.inputs[0]), y.n_rows);
}

struct GetRowsStep : Step {
  Kernel<GetRowsArgs> kernel = nullptr;
  GetRowsArgs args;
  Ref table, y;  // table: none for a weight
  ir::InputRole ids = ir::InputRole::tokens;

  void run(const RunContext& c, int thread_idx, int n_threads) const override {
    GetRowsArgs a = args;
    a.ids = input_of(c.inputs, ids).data();
    if (table.where != Ref::Where::none) a.table = reinterpret_cast<const std::byte*>(c.f32(table));
    a.y = c.f32(y);
    const WorkRange rows = split_range(n_split, thread_idx, n_threads);
    kernel(a, rows.begin, rows.end);
  }
};

void lower_get_rows(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const ir::Value &table = l.value(node.inputs[0]), &ids = l.value(node.inputs[1]);
  const Rows y = l.rows(node.output);
  auto& step = l.add<GetRowsStep>("get_rows");
  step.kernel = op_set(l.isa).get_rows;
  step.args = {.type = table.dtype, .row_elems = y.n, .y_stride = y.stride_elems};
  step.ids = ids.input_role;
  step.y = y.ref;
  step.writes = {y.ref};
  step.n_split = y.n_rows;
  if (table.kind == ir::ValueKind::weight) {
    step.args.table = l.weights.at(table.name).rows;
    step.split = Split::tokens;
  } else {
    CHECK(table.is_contiguous());
    step.table = l.rows(node.inputs[0]).ref;
    step.reads = {step.table};
  }
}

void lower_norm(Lowering& l, Nodes nodes) { add_norm(l, nodes, ir::kNone, ir::kNone); }
void lower_norm_mul(Lowering& l, Nodes nodes) { add_norm(l, nodes, other_of(l.graph, nodes[1], nodes[0]), ir::kNone); }
void lower_norm_mul_add(Lowering& l, Nodes nodes) {
  add_norm(l, nodes, other_of(l.graph, nodes[1], nodes[0]), other_of(l.graph, nodes[2], nodes[1]));
}
}  // namespace

bool supports_norm_mul(const ir::Graph& graph, Nodes nodes) {
  const ir::Node& norm = graph.node(nodes[0]);
  return is_row_weight(graph, other_of(graph, nodes[1], nodes[0]), graph.value(norm.output).shape.row_elems());
}

bool supports_norm_mul_add(const ir::Graph& graph, Nodes nodes) {
  if (!supports_norm_mul(graph, nodes)) return false;
  const ir::Value& addend = graph.value(other_of(graph, nodes[2], nodes[1]));
  const ir::Value& result = graph.value(graph.node(nodes[2]).output);
  return addend.kind != ir::ValueKind::weight && addend.shape.n_elements() == result.shape.n_elements() &&
         addend.shape.row_elems() == result.shape.row_elems();
}

bool supports_add_chain(const ir::Graph& graph, Nodes nodes) {
  const ir::Value& result = graph.value(graph.node(nodes.back()).output);
  const auto fits = [&](ir::ValueId id) {
    const ir::Value& value = graph.value(id);
    return value.kind == ir::ValueKind::weight ? value.shape.n_elements() == result.shape.row_elems()
                                               : value.shape == result.shape;
  };
  if (!fits(graph.node(nodes[0]).inputs[0]) || !fits(graph.node(nodes[0]).inputs[1])) return false;
  for (size_t i = 1; i < nodes.size(); ++i)
    if (!fits(other_of(graph, nodes[i], nodes[i - 1]))) return false;
  return true;
}

std::span<const OpLowering> row_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::get_rows, lower_get_rows},
      {ir::Op::add, lower_binary},
      {ir::Op::mul, lower_binary},
      {ir::Op::scale, lower_scale},
      {ir::Op::unary, lower_unary},
      {ir::Op::glu, lower_glu},
      {ir::Op::norm, lower_norm},
      {ir::Op::rms_norm, lower_norm},
  });
  return kRows;
}

std::span<const RuleLowering> row_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::norm_mul, supports_norm_mul, lower_norm_mul},
      {fuse::RuleId::norm_mul_add, supports_norm_mul_add, lower_norm_mul_add},
      {fuse::RuleId::rms_norm_mul, supports_norm_mul, lower_norm_mul},
      {fuse::RuleId::rms_norm_mul_add, supports_norm_mul_add, lower_norm_mul_add},
      {fuse::RuleId::add_2, supports_add_chain, lower_add_chain},
      {fuse::RuleId::add_3, supports_add_chain, lower_add_chain},
      {fuse::RuleId::add_4, supports_add_chain, lower_add_chain},
      {fuse::RuleId::add_5, supports_add_chain, lower_add_chain},
      {fuse::RuleId::add_6, supports_add_chain, lower_add_chain},
      {fuse::RuleId::add_7, supports_add_chain, lower_add_chain},
      {fuse::RuleId::softcap, nullptr, lower_softcap},
  });
  return kRows;
}

}  // namespace tokamak::cpu

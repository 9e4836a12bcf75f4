// Routing ops and the biases of experts.
#include "backend/cpu/lower_ops.h"

namespace tokamak::cpu {

namespace {
using ir::Attr;

void lower_soft_max(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  auto& step = l.add<RowStep<SoftMaxArgs>>("soft_max_f32");
  step.kernel = op_set(l.isa).soft_max;
  step.operands = {operand(l, node.output), operand(l, node.inputs[0])};
  const Rows &y = step.operands[0].rows, &x = step.operands[1].rows;
  step.args = {.row_elems = x.n, .x_stride = x.stride_elems, .y_stride = y.stride_elems};
  step.bind = [](SoftMaxArgs& args, const Pointers& p) {
    args.y = p[0];
    args.x = p[1];
  };
  divide_by_tokens(step, l.value(node.inputs[0]), x.n_rows);
}

void lower_sum_rows(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  auto& step = l.add<RowStep<SumRowsArgs>>("sum_rows_f32");
  step.kernel = op_set(l.isa).sum_rows;
  step.operands = {operand(l, node.output), operand(l, node.inputs[0])};
  const Rows& x = step.operands[1].rows;
  step.args = {.row_elems = x.n, .x_stride = x.stride_elems};
  step.bind = [](SumRowsArgs& args, const Pointers& p) {
    args.y = p[0];
    args.x = p[1];
  };
  divide_by_tokens(step, l.value(node.inputs[0]), x.n_rows);
}

void lower_argsort(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  auto& step = l.add<RowStep<ArgsortArgs>>("argsort");
  step.kernel = op_set(l.isa).argsort;
  step.operands = {operand(l, node.output), operand(l, node.inputs[0])};
  const Rows &y = step.operands[0].rows, &x = step.operands[1].rows;
  step.args = {.row_elems = x.n, .x_stride = x.stride_elems, .y_stride = y.stride_elems};
  step.bind = [](ArgsortArgs& args, const Pointers& p) {
    args.y = p.i32(0);
    args.x = p[1];
  };
  divide_by_tokens(step, l.value(node.inputs[0]), x.n_rows);
}

void lower_mask_groups(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  auto& step = l.add<RowStep<MaskGroupsArgs>>("mask_groups");
  step.kernel = op_set(l.isa).mask_groups;
  step.operands = {operand(l, node.output), operand(l, node.inputs[0])};
  const Rows &y = step.operands[0].rows, &x = step.operands[1].rows;
  step.args = {.row_elems = x.n,
               .n_group = node.attrs.integer(Attr::n_group),
               .n_group_used = node.attrs.integer(Attr::n_group_used),
               .n_best = node.attrs.integer(Attr::n_best),
               .x_stride = x.stride_elems,
               .y_stride = y.stride_elems};
  step.bind = [](MaskGroupsArgs& args, const Pointers& p) {
    args.y = p[0];
    args.x = p[1];
  };
  divide_by_tokens(step, l.value(node.inputs[0]), x.n_rows);
}

void lower_add_id(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  auto& step = l.add<RowStep<AddIdArgs>>("add_id_f32");
  step.kernel = op_set(l.isa).add_id;
  step.operands = {operand(l, node.output), operand(l, node.inputs[0]), operand(l, node.inputs[1]),
                   operand(l, node.inputs[2])};
  const Rows &y = step.operands[0].rows, &a = step.operands[1].rows;
  step.args = {.row_elems = a.n,
               .n_used = l.value(node.inputs[2]).shape[1],
               .a_stride = a.stride_elems,
               .b_stride = step.operands[2].rows.stride_elems,
               .ids_stride = step.operands[3].rows.stride_elems,
               .y_stride = y.stride_elems};
  step.bind = [](AddIdArgs& args, const Pointers& p) {
    args.y = p[0];
    args.a = p[1];
    args.b = p[2];
    args.ids = p.i32(3);
  };
  divide_by_tokens(step, l.value(node.inputs[0]), a.n_rows, step.operands[2].constant == nullptr);
}
}  // namespace

std::span<const OpLowering> routing_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::soft_max, lower_soft_max},
      {ir::Op::sum_rows, lower_sum_rows},
      {ir::Op::argsort, lower_argsort},
      {ir::Op::mask_groups, lower_mask_groups},
      {ir::Op::add_id, lower_add_id},
  });
  return kRows;
}

std::span<const RuleLowering> routing_rule_lowerings() { return {}; }

}  // namespace tokamak::cpu

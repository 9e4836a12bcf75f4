// Norms and GET_ROWS, and their fusions.
#include "backend/cpu/lower_ops.h"

namespace tokamak::cpu {

namespace {
using ir::Attr;

// Rows of an operand that repeats over the rows of `result`, or all of them.
int64_t rows_before_repeat(const Operand& x, int64_t n_rows) {
  return x.rows.n_rows == n_rows ? kNoRepeat : x.rows.n_rows;
}

// RMS_NORM, NORM, L2_NORM, with MUL and ADD behind; each node's first operand is its predecessor.
void lower_norm(Lowering& l, Nodes nodes) {
  const ir::Node& norm = l.graph.node(nodes[0]);
  auto& step = l.add<RowStep<NormArgs>>("norm_f32");
  step.kernel = op_set(l.isa).norm;
  step.operands = {operand(l, l.graph.node(nodes.back()).output), operand(l, norm.inputs[0])};
  const Rows y = step.operands[0].rows, x = step.operands[1].rows;
  step.args = {.kind = norm.op == ir::Op::norm      ? NormKind::centred
                       : norm.op == ir::Op::l2_norm ? NormKind::l2
                                                    : NormKind::rms,
               .eps = static_cast<float>(norm.attrs.number(Attr::eps)),
               .row_elems = x.n,
               .x_stride = x.stride_elems,
               .y_stride = y.stride_elems};
  bool shared = false;
  for (size_t i = 1; i < nodes.size(); ++i) {
    const Operand more = operand(l, l.graph.node(nodes[i]).inputs[1]);
    const int64_t n_rows = rows_before_repeat(more, x.n_rows);
    shared = shared || (more.constant == nullptr && n_rows != kNoRepeat);
    if (i == 1) {
      step.args.n_weight_rows = n_rows;
      step.args.weight_stride = more.rows.stride_elems;
    } else {
      step.args.n_addend_rows = n_rows;
      step.args.addend_stride = more.rows.stride_elems;
    }
    step.operands.push_back(more);
  }
  step.bind = [](NormArgs& args, const Pointers& p) {
    args.y = p[0];
    args.x = p[1];
    if (p.size() > 2) args.weight = p[2];
    if (p.size() > 3) args.addend = p[3];
  };
  divide_by_tokens(step, l.value(norm.inputs[0]), x.n_rows, shared);
}

struct GetRowsStep : Step {
  Kernel<GetRowsArgs> kernel = nullptr;
  GetRowsArgs args;
  Ref table, y, ids_ref;  // table: none for a weight; ids_ref: none for a step input
  ir::InputRole ids = ir::InputRole::none;

  void run(const RunContext& c, int thread_idx, int n_threads) const override {
    GetRowsArgs a = args;
    a.ids =
        ids == ir::InputRole::none ? reinterpret_cast<const int32_t*>(c.f32(ids_ref)) : input_of(c.inputs, ids).data();
    if (table.where != Ref::Where::none) a.table = reinterpret_cast<const std::byte*>(c.f32(table));
    a.y = c.f32(y);
    const WorkRange tokens = split_range(n_split, thread_idx, n_threads);
    kernel(a, tokens.begin * a.n_per_token, tokens.end * a.n_per_token);
  }
};

// Where the rows of the table lie. Views of a weight are taken from its file rows too.
void set_table(const Lowering& l, ir::ValueId id, GetRowsStep& step) {
  const ir::Value &table = l.value(id), &storage = l.value(l.graph.storage_of(id));
  const auto bytes_of = [&](int64_t n) {
    return static_cast<int64_t>(dtype_bytes(table.dtype, static_cast<uint64_t>(n)));
  };
  step.args.type = table.dtype;
  step.args.row_bytes = bytes_of(table.row_stride_elems);
  if (table.shape.rank() == 3) step.args.token_rows = table.shape[1];
  if (storage.kind == ir::ValueKind::weight) {
    step.args.table = l.weights.at(storage.name).rows + bytes_of(table.offset_elems);
  } else {
    step.table = l.rows(id).ref;
    step.reads.push_back(step.table);
  }
}

void lower_get_rows(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const ir::Value &table = l.value(node.inputs[0]), &ids = l.value(node.inputs[1]);
  const Rows y = l.rows(node.output);
  auto& step = l.add<GetRowsStep>("get_rows");
  step.kernel = op_set(l.isa).get_rows;
  step.args = {.row_elems = y.n,
               .n_per_token = ids.shape.rank() == 2 ? ids.shape[1] : 1,
               .ids_stride = ids.shape.rank() == 2 ? ids.row_stride_elems : 1,
               .y_stride = y.stride_elems};
  set_table(l, node.inputs[0], step);
  if (ids.kind == ir::ValueKind::input && ids.input_role != ir::InputRole::boundary) {
    step.ids = ids.input_role;
  } else {
    step.ids_ref = l.rows(node.inputs[1]).ref;
    step.reads.push_back(step.ids_ref);
  }
  step.y = y.ref;
  step.writes = {y.ref};
  step.n_split = ids.shape[0];
  // Rows of a table that a step makes may be any token's.
  step.split = step.table.where == Ref::Where::none || table.shape.rank() == 3 ? Split::tokens : Split::other;
}
}  // namespace

std::span<const OpLowering> row_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::get_rows, lower_get_rows},
      {ir::Op::norm, lower_norm},
      {ir::Op::rms_norm, lower_norm},
      {ir::Op::l2_norm, lower_norm},
  });
  return kRows;
}

std::span<const RuleLowering> row_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::norm_mul, nullptr, lower_norm},
      {fuse::RuleId::norm_mul_add, nullptr, lower_norm},
      {fuse::RuleId::rms_norm_mul, nullptr, lower_norm},
      {fuse::RuleId::rms_norm_mul_add, nullptr, lower_norm},
  });
  return kRows;
}

}  // namespace tokamak::cpu

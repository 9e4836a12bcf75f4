// Norms, GET_ROWS, softmax and sums, and their fusions.
#include "backend/cuda/lower.h"
#include "backend/cuda/matvec/matvec.h"
#include "backend/cuda/ops/rows.h"
#include "backend/cuda/tables/packed_rows.h"
#include "base/check.h"

namespace tokamak::cuda {

namespace {
using ir::Attr;

// 16-byte loads work on every row.
bool is_aligned(const Rows& x) {
  const uint64_t begin = x.address.offset + reinterpret_cast<uintptr_t>(x.address.data);
  return x.stride_elems % 4 == 0 && x.n % 4 == 0 && begin % 16 == 0;
}

// RMS_NORM (+MUL); in front of products with quantized weights the kernel leaves its result quantized too.
void add_quantizing_norm(Lowering& l, const NormArgs& args, const Rows& x, const Rows& weight, const Rows& y,
                         const Address& q8, bool low) {
  l.add(q8 ? "rms_norm_q8" : "rms_norm", [=](const RunContext& c) {
    return launch_rms_norm_q8({.x = c.at(x.address),
                               .weight = c.at(weight.address),
                               .n_cols = x.n_rows,
                               .k = x.n,
                               .x_stride = x.stride_elems,
                               .eps = args.eps,
                               .norm = c.at(y.address),
                               .q8 = c.at<std::byte>(q8),
                               .overlap = overlaps(x.n_rows),
                               .low = low},
                              c.stream);
  });
}

// RMS_NORM, NORM, L2_NORM, with MUL and ADD behind; each node's first operand is its predecessor.
Result<void> lower_norm(Lowering& l, Nodes nodes) {
  const ir::Node& norm = l.graph.node(nodes[0]);
  const Rows x = l.rows(norm.inputs[0]), y = l.rows(l.graph.node(nodes.back()).output);
  NormArgs args{.kind = norm.op == ir::Op::norm      ? NormKind::centred
                        : norm.op == ir::Op::l2_norm ? NormKind::l2
                                                     : NormKind::rms,
                .eps = static_cast<float>(norm.attrs.number(Attr::eps))};
  Rows weight, addend;
  if (nodes.size() > 1) {
    weight = l.rows(l.graph.node(nodes[1]).inputs[1]);
    args.weight_stride = weight.stride_elems;
    args.n_weight_rows = weight.n_rows;
  }
  if (nodes.size() > 2) {
    addend = l.rows(l.graph.node(nodes[2]).inputs[1]);
    args.addend_stride = addend.stride_elems;
    args.n_addend_rows = addend.n_rows;
  }
  // One kernel whether the weight and the quantization of the result are fused or not: the same bits.
  // It reads the weight before the kernel in front has ended: not what another node has made.
  const bool is_weight = weight.address.where == Address::Where::fixed && weight.n_rows == 1 && is_aligned(weight);
  const bool fits = nodes.size() <= 2 && norm.op == ir::Op::rms_norm && y.stride_elems == y.n && is_aligned(x) &&
                    is_aligned(y) && (nodes.size() == 1 || is_weight);
  if (fits) {
    const ir::ValueId result = l.graph.node(nodes.back()).output;
    add_quantizing_norm(l, args, x, weight, y, l.quantized_by_producer(result), l.wants_low(result));
    return {};
  }
  add_rows(l, "norm_f32", x, y, args, launch_norm, [=](NormArgs& a, const RunContext& c) {
    a.weight = c.at(weight.address);
    a.addend = c.at(addend.address);
  });
  return {};
}

// Which rows are gathered, as [n_tokens] or [n_tokens, n], and where they go.
template <class Args>
void set_gather(Args& args, const ir::Value& ids, const Rows& y) {
  const bool several = ids.shape.rank() == 2;
  args.n_per_token = several ? ids.shape[1] : 1;
  args.ids_stride = several ? ids.row_stride_elems : 1;
  args.y_stride = y.stride_elems;
  args.n_rows = y.n_rows;
  args.row_elems = y.n;
}

// Rows of a table that lies in the layout of products.
Result<void> lower_packed_rows(Lowering& l, const ir::Node& node, const CudaWeight& weight) {
  const ir::Value &table = l.value(node.inputs[0]), &ids = l.value(node.inputs[1]);
  const Rows y = l.rows(node.output);
  CHECK(table.shape.rank() == 2 && table.offset_elems == 0 && table.row_stride_elems == y.n, table.name);
  PackedRowsArgs args{.dtype = weight.dtype, .table = weight.packed, .n_table_rows = weight.shape.n_rows()};
  set_gather(args, ids, y);
  const Address chosen = l.indices(node.inputs[1]);
  l.add("get_rows_packed", [=](const RunContext& c) {
    PackedRowsArgs a = args;
    a.ids = c.at<int32_t>(chosen);
    a.y = c.at(y.address);
    return launch_packed_rows(a, c.stream);
  });
  return {};
}

Result<void> lower_get_rows(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const ir::Value &table = l.value(node.inputs[0]), &ids = l.value(node.inputs[1]);
  const ir::Value& storage = l.value(l.graph.storage_of(node.inputs[0]));
  const Rows y = l.rows(node.output);
  GetRowsArgs args{.table_stride = table.row_stride_elems, .token_rows = table.shape.rank() == 3 ? table.shape[1] : 0};
  set_gather(args, ids, y);
  Address rows;
  if (storage.kind == ir::ValueKind::weight) {
    const CudaWeight& weight = l.weights.at(storage.name);
    if (!weight.rows) return lower_packed_rows(l, node, weight);
    args.type = weight.row_dtype;
    rows = Address::of(weight.rows + dtype_bytes(weight.row_dtype, static_cast<uint64_t>(table.offset_elems)));
  } else {
    rows = l.rows(node.inputs[0]).address;
  }
  const Address chosen = l.indices(node.inputs[1]);
  l.add("get_rows", [=](const RunContext& c) {
    GetRowsArgs a = args;
    a.table = c.at(rows);
    a.ids = c.at<int32_t>(chosen);
    a.y = c.at(y.address);
    return launch_get_rows(a, c.stream);
  });
  return {};
}

Result<void> lower_soft_max(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  add_rows(l, "soft_max_f32", l.rows(node.inputs[0]), l.rows(node.output), RowArgs{}, launch_soft_max);
  return {};
}

Result<void> lower_sum_rows(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  add_rows(l, "sum_rows_f32", l.rows(node.inputs[0]), l.rows(node.output), RowArgs{}, launch_sum_rows);
  return {};
}

Result<void> lower_cont(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  add_rows(l, "copy_rows", l.rows(node.inputs[0]), l.rows(node.output), RowArgs{}, launch_copy_rows);
  return {};
}

Result<void> lower_concat(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  Rows y = l.rows(node.output);
  add_rows(l, "copy_rows", l.rows(node.inputs[0]), y, RowArgs{}, launch_copy_rows);
  y.address.offset += static_cast<uint64_t>(l.value(node.inputs[0]).shape[-1]) * sizeof(float);
  add_rows(l, "copy_rows", l.rows(node.inputs[1]), y, RowArgs{}, launch_copy_rows);
  return {};
}
}  // namespace

std::span<const OpLowering> row_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::get_rows, lower_get_rows},
      {ir::Op::norm, lower_norm},
      {ir::Op::rms_norm, lower_norm},
      {ir::Op::l2_norm, lower_norm},
      {ir::Op::soft_max, lower_soft_max},
      {ir::Op::sum_rows, lower_sum_rows},
      {ir::Op::cont, lower_cont},
      {ir::Op::concat, lower_concat},
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

}  // namespace tokamak::cuda

// Rules of the ops of mixtures of experts, and of small row-wise ops.
#include "ir/op_rules.h"

namespace tokamak::ir::op_rules {

Result<OperandType> infer_sum_rows(Operands in, const Attrs&) {
  TRY(need_activation(Op::sum_rows, in, 0));
  Shape out = in[0].shape;
  out.set(-1, 1);
  return OperandType{DType::f32, out};
}

Result<OperandType> infer_argsort(Operands in, const Attrs&) {
  TRY(need_activation(Op::argsort, in, 0));
  TRY(need_rank(Op::argsort, in, 0, 2));
  return OperandType{DType::i32, in[0].shape};
}
OpCost cost_argsort(Operands in, const OperandType& out, const Attrs&) {
  return {bytes_of(in) + bytes_of(out), elems(out)};
}

Result<OperandType> infer_mask_groups(Operands in, const Attrs& attrs) {
  constexpr Op op = Op::mask_groups;
  TRY(need_activation(op, in, 0));
  TRY(need_rank(op, in, 0, 2));
  const int64_t n_group = attrs.integer(Attr::n_group), n_used = attrs.integer(Attr::n_group_used);
  const int64_t n_expert = in[0].shape[1];
  if (n_expert % n_group != 0)
    return misuse(op, in, fmt::format("{} experts cannot form {} equal groups", n_expert, n_group));
  if (n_used > n_group) return misuse(op, in, fmt::format("{} of {} groups cannot be kept", n_used, n_group));
  if (attrs.integer(Attr::n_best) > n_expert / n_group)
    return misuse(op, in,
                  fmt::format("groups of {} experts have no {} best", n_expert / n_group, attrs.integer(Attr::n_best)));
  return OperandType{DType::f32, in[0].shape};
}

namespace {
// ids [n_tokens, n_used] beside x [n_tokens, ...].
Result<void> need_expert_ids(Op op, Operands in, size_t i, int64_t n_tokens) {
  TRY(need_dtype(op, in, i, DType::i32));
  TRY(need_rank(op, in, i, 2));
  return need_dim(op, in, i, 0, n_tokens, "n_tokens of x");
}
}  // namespace

Result<OperandType> infer_mul_mat_id(Operands in, const Attrs&) {
  constexpr Op op = Op::mul_mat_id;
  TRY(need_float(op, in, 0));
  TRY(need_rank(op, in, 0, 3));
  TRY(need_activation(op, in, 1));
  TRY(need_rank(op, in, 1, 3));
  TRY(need_dim(op, in, 1, 2, in[0].shape[2], "n_in of weights"));
  TRY(need_expert_ids(op, in, 2, in[1].shape[0]));
  const int64_t n_used = in[2].shape[1];
  if (in[1].shape[1] != 1) TRY(need_dim(op, in, 1, 1, n_used, "n_used of ids (or 1)"));
  return OperandType{DType::f32, {in[1].shape[0], n_used, in[0].shape[1]}};
}
// Every chosen expert's matrix is read once, at most all of them.
OpCost cost_mul_mat_id(Operands in, const OperandType& out, const Attrs&) {
  const double n_chosen = elems(in[2]), n_expert = static_cast<double>(in[0].shape[0]);
  const double share = n_chosen < n_expert ? n_chosen / n_expert : 1;
  return {share * bytes_of(in[0]) + bytes_of(in[1]) + bytes_of(in[2]) + bytes_of(out),
          2.0 * elems(out) * static_cast<double>(in[0].shape[2])};
}

Result<OperandType> infer_add_id(Operands in, const Attrs&) {
  constexpr Op op = Op::add_id;
  TRY(need_activation(op, in, 0));
  TRY(need_rank(op, in, 0, 3));
  TRY(need_dtype(op, in, 1, DType::f32));
  TRY(need_rank(op, in, 1, 2));
  TRY(need_dim(op, in, 1, 1, in[0].shape[2], "the row length of a"));
  TRY(need_expert_ids(op, in, 2, in[0].shape[0]));
  TRY(need_dim(op, in, 2, 1, in[0].shape[1], "n_used of a"));
  return OperandType{DType::f32, in[0].shape};
}
OpCost cost_add_id(Operands in, const OperandType& out, const Attrs&) {
  return {bytes_of(in[0]) + 2 * bytes_of(out) + bytes_of(in[2]), elems(out)};
}

Result<OperandType> infer_concat(Operands in, const Attrs&) {
  constexpr Op op = Op::concat;
  TRY(need_activation(op, in, 0));
  TRY(need_activation(op, in, 1));
  const Shape& b = in[1].shape;
  Shape out = in[0].shape;
  TRY(need_rank(op, in, 1, out.rank()));
  for (int i = 0; i + 1 < out.rank(); ++i) TRY(need_dim(op, in, 1, i, out[i], "that of a"));
  out.set(-1, out[-1] + b[-1]);
  return OperandType{DType::f32, out};
}

Result<OperandType> infer_clamp(Operands in, const Attrs& attrs) {
  if (attrs.number(Attr::min) > attrs.number(Attr::max)) return misuse(Op::clamp, in, "min must not exceed max");
  return infer_same<Op::clamp>(in, attrs);
}

Result<OperandType> infer_attn_temp(Operands in, const Attrs&) {
  constexpr Op op = Op::attn_temp;
  TRY(need_activation(op, in, 0));
  TRY(need_ids(op, in, 1, in[0].shape[0], "n_tokens of x"));
  return OperandType{DType::f32, in[0].shape};
}

Result<OperandType> infer_cross_entropy_loss(Operands in, const Attrs&) {
  constexpr Op op = Op::cross_entropy_loss;
  TRY(need_activation(op, in, 0));
  TRY(need_activation(op, in, 1));
  TRY(need_rank(op, in, 0, 2));
  if (in[0].shape != in[1].shape) return misuse(op, in, "logits and labels must have the same shape");
  return OperandType{DType::f32, {1}};
}

}  // namespace tokamak::ir::op_rules

// Shape and cost rules behind the op table, and the checks they share. Included by ops.cpp and op_rules_*.cpp only.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ir/ops.h"

namespace tokamak::ir::op_rules {

using Operands = std::span<const OperandType>;

inline Error misuse(Op op, Operands in, std::string what) {
  return Error{.code = ErrorCode::bad_tensor, .what = std::move(what), .where = describe_call(op, in)};
}

inline double bytes_of(const OperandType& t) {
  return static_cast<double>(dtype_bytes(t.dtype, static_cast<uint64_t>(t.shape.n_elements())));
}
inline double bytes_of(Operands in) {
  double sum = 0;
  for (const OperandType& t : in) sum += bytes_of(t);
  return sum;
}
inline double elems(const OperandType& t) { return static_cast<double>(t.shape.n_elements()); }

inline bool is_integer(DType t) { return t == DType::i8 || t == DType::i16 || t == DType::i32 || t == DType::i64; }

// Checks shared by the rules; each returns an Error that names the operand.
inline Result<void> need_dtype(Op op, Operands in, size_t i, DType dtype) {
  if (in[i].dtype == dtype) return {};
  return misuse(op, in, fmt::format("{} must be {}", operand_name(op, i), dtype_name(dtype)));
}
inline Result<void> need_float(Op op, Operands in, size_t i) {
  if (!is_integer(in[i].dtype)) return {};
  return misuse(op, in, fmt::format("{} must be a floating-point or quantized type", operand_name(op, i)));
}
inline Result<void> need_rank(Op op, Operands in, size_t i, int rank) {
  if (in[i].shape.rank() == rank) return {};
  return misuse(op, in, fmt::format("{} must have {} dimension{}", operand_name(op, i), rank, rank == 1 ? "" : "s"));
}
inline Result<void> need_dim(Op op, Operands in, size_t i, int dim, int64_t want, std::string_view meaning) {
  const Shape& s = in[i].shape;
  if (s[dim] == want) return {};
  return misuse(op, in,
                fmt::format("{} has {} in dimension {}, {} is {}", operand_name(op, i), s[dim],
                            dim < 0 ? s.rank() + dim : dim, meaning, want));
}
inline Result<void> need_ids(Op op, Operands in, size_t i, int64_t n, std::string_view meaning) {
  TRY(need_dtype(op, in, i, DType::i32));
  TRY(need_rank(op, in, i, 1));
  return need_dim(op, in, i, 0, n, meaning);
}
// An activation: f32 with at least one dimension.
inline Result<void> need_activation(Op op, Operands in, size_t i) {
  TRY(need_dtype(op, in, i, DType::f32));
  if (in[i].shape.rank() == 0) return misuse(op, in, fmt::format("{} must have a dimension", operand_name(op, i)));
  return {};
}

template <Op op>
Result<OperandType> infer_same(Operands in, const Attrs&) {
  TRY(need_activation(op, in, 0));
  return OperandType{DType::f32, in[0].shape};
}
template <int n_operations>  // per element of the result
OpCost cost_elementwise(Operands in, const OperandType& out, const Attrs&) {
  return {bytes_of(in) + bytes_of(out), n_operations * elems(out)};
}
inline OpCost cost_nothing(Operands, const OperandType&, const Attrs&) { return {}; }

// op_rules_basic.cpp
Result<OperandType> infer_get_rows(Operands in, const Attrs& attrs);
OpCost cost_get_rows(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_glu(Operands in, const Attrs& attrs);
Result<OperandType> infer_mul_mat(Operands in, const Attrs& attrs);
OpCost cost_mul_mat(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_rope(Operands in, const Attrs& attrs);
OpCost cost_rope(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_set_rows(Operands in, const Attrs& attrs);
OpCost cost_set_rows(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_flash_attn_ext(Operands in, const Attrs& attrs);
OpCost cost_flash_attn_ext(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_reshape(Operands in, const Attrs& attrs);
Result<OperandType> infer_view(Operands in, const Attrs& attrs);
// op_rules_moe.cpp
Result<OperandType> infer_sum_rows(Operands in, const Attrs& attrs);
Result<OperandType> infer_argsort(Operands in, const Attrs& attrs);
OpCost cost_argsort(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_mask_groups(Operands in, const Attrs& attrs);
Result<OperandType> infer_mul_mat_id(Operands in, const Attrs& attrs);
OpCost cost_mul_mat_id(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_add_id(Operands in, const Attrs& attrs);
OpCost cost_add_id(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_concat(Operands in, const Attrs& attrs);
Result<OperandType> infer_clamp(Operands in, const Attrs& attrs);
Result<OperandType> infer_attn_temp(Operands in, const Attrs& attrs);
Result<OperandType> infer_cross_entropy_loss(Operands in, const Attrs& attrs);
// op_rules_recurrent.cpp
Result<OperandType> infer_ssm_conv(Operands in, const Attrs& attrs);
OpCost cost_ssm_conv(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_ssm_conv_state(Operands in, const Attrs& attrs);
OpCost cost_ssm_conv_state(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_gated_delta_net(Operands in, const Attrs& attrs);
OpCost cost_gated_delta_net(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_cpy(Operands in, const Attrs& attrs);
OpCost cost_cpy(Operands in, const OperandType& out, const Attrs& attrs);
Result<OperandType> infer_elementwise(Op op, Operands in);
template <Op op>
Result<OperandType> infer_binary(Operands in, const Attrs&) {
  return infer_elementwise(op, in);
}
}  // namespace tokamak::ir::op_rules

// Rules of the ops with recurrent state: rows of a state tensor, n_snapshots of them per sequence.
#include "ir/op_rules.h"

namespace tokamak::ir::op_rules {

namespace {
Result<void> need_state_row(Op op, Operands in, size_t i, int64_t row_elems) {
  TRY(need_dtype(op, in, i, DType::f32));
  TRY(need_rank(op, in, i, 2));
  return need_dim(op, in, i, 1, row_elems, "the size of one state");
}
Result<void> need_sequences(Op op, Operands in, size_t state_src, size_t seq_ids, int64_t n_tokens) {
  TRY(need_dtype(op, in, state_src, DType::i32));
  TRY(need_rank(op, in, state_src, 1));
  return need_ids(op, in, seq_ids, n_tokens, "n_tokens of x");
}
}  // namespace

Result<OperandType> infer_ssm_conv(Operands in, const Attrs&) {
  constexpr Op op = Op::ssm_conv;
  TRY(need_activation(op, in, 0));
  TRY(need_rank(op, in, 0, 2));
  TRY(need_dtype(op, in, 1, DType::f32));
  TRY(need_rank(op, in, 1, 2));
  TRY(need_dim(op, in, 1, 0, in[0].shape[1], "n_channels of x"));
  if (in[1].shape[1] < 2) return misuse(op, in, "weight must have at least 2 taps");
  TRY(need_state_row(op, in, 2, (in[1].shape[1] - 1) * in[0].shape[1]));
  TRY(need_sequences(op, in, 3, 4, in[0].shape[0]));
  return OperandType{DType::f32, in[0].shape};
}
OpCost cost_ssm_conv(Operands in, const OperandType& out, const Attrs&) {
  return {bytes_of(in[0]) + bytes_of(in[1]) + bytes_of(out), 2 * elems(out) * static_cast<double>(in[1].shape[1])};
}

Result<OperandType> infer_ssm_conv_state(Operands in, const Attrs& attrs) {
  constexpr Op op = Op::ssm_conv_state;
  TRY(need_activation(op, in, 0));
  TRY(need_rank(op, in, 0, 2));
  TRY(need_dtype(op, in, 1, DType::f32));
  TRY(need_rank(op, in, 1, 2));
  if (in[1].shape[1] % in[0].shape[1] != 0) return misuse(op, in, "a state must hold whole rows of x");
  TRY(need_sequences(op, in, 2, 3, in[0].shape[0]));
  return OperandType{DType::f32, {in[2].shape[0] * attrs.integer(Attr::n_snapshots), in[1].shape[1]}};
}
OpCost cost_ssm_conv_state(Operands, const OperandType& out, const Attrs&) { return {2 * bytes_of(out), 0}; }

Result<OperandType> infer_gated_delta_net(Operands in, const Attrs& attrs) {
  constexpr Op op = Op::gated_delta_net;
  for (size_t i = 0; i < 5; ++i) TRY(need_activation(op, in, i));
  for (size_t i = 0; i < 3; ++i) TRY(need_rank(op, in, i, 3));
  const Shape &k = in[1].shape, &v = in[2].shape;
  if (in[0].shape != k) return misuse(op, in, "q and k must have the same shape");
  TRY(need_dim(op, in, 2, 0, k[0], "n_tokens of k"));
  if (v[1] % k[1] != 0)
    return misuse(op, in, fmt::format("{} value heads cannot share {} key heads evenly", v[1], k[1]));
  const bool per_channel = in[3].shape.rank() == 3;
  if (!per_channel) TRY(need_rank(op, in, 3, 2));
  TRY(need_dim(op, in, 3, 0, k[0], "n_tokens of k"));
  TRY(need_dim(op, in, 3, 1, v[1], "n_head of v"));
  if (per_channel) TRY(need_dim(op, in, 3, 2, k[2], "head_dim of k"));
  TRY(need_rank(op, in, 4, 2));
  TRY(need_dim(op, in, 4, 0, k[0], "n_tokens of k"));
  TRY(need_dim(op, in, 4, 1, v[1], "n_head of v"));
  const int64_t state_elems = v[1] * v[2] * k[2];
  TRY(need_state_row(op, in, 5, state_elems));
  TRY(need_sequences(op, in, 6, 7, k[0]));
  const int64_t n_states = in[6].shape[0] * attrs.integer(Attr::n_snapshots);
  return OperandType{DType::f32, {v.n_elements() + n_states * state_elems}};
}
// Per token and head: decay, S^T k, the update, S^T q.
OpCost cost_gated_delta_net(Operands in, const OperandType& out, const Attrs&) {
  const Shape &k = in[1].shape, &v = in[2].shape;
  const double state = static_cast<double>(v[1] * v[2] * k[2]);
  const double n_seqs = static_cast<double>(in[6].shape[0]);
  return {bytes_of(in.first(5)) + bytes_of(out) + 4 * n_seqs * state, 7 * static_cast<double>(k[0]) * state};
}

Result<OperandType> infer_cpy(Operands in, const Attrs&) {
  constexpr Op op = Op::cpy;
  TRY(need_dtype(op, in, 0, DType::f32));
  TRY(need_rank(op, in, 0, 2));
  TRY(need_activation(op, in, 1));
  TRY(need_rank(op, in, 1, 2));
  TRY(need_dim(op, in, 1, 1, in[0].shape[1], "the row length of state"));
  TRY(need_dtype(op, in, 2, DType::i32));
  TRY(need_rank(op, in, 2, 1));
  if (in[1].shape[0] % in[2].shape[0] != 0)
    return misuse(op, in, "every sequence must have the same number of states in x");
  return OperandType{in[0].dtype, in[0].shape};
}
OpCost cost_cpy(Operands in, const OperandType&, const Attrs&) { return {2 * bytes_of(in[1]), 0}; }

}  // namespace tokamak::ir::op_rules

// The op table: names, arity, attributes, shape rules and costs. Meaning in exact words: backend/reference.
// Names are those of ggml where it has the op, so that labels and counts compare.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/attrs.h"
#include "tensor/dtypes.h"
#include "tensor/shape.h"

namespace tokamak::ir {

enum class Op : uint8_t {
  get_rows,
  add,
  sub,
  mul,
  div,
  scale,
  clamp,
  unary,
  glu,
  norm,
  rms_norm,
  l2_norm,
  soft_max,
  sum_rows,
  argsort,
  mask_groups,
  concat,
  cont,
  mul_mat,
  mul_mat_id,
  add_id,
  rope,
  attn_temp,
  set_rows,
  flash_attn_ext,
  ssm_conv,
  ssm_conv_state,
  gated_delta_net,
  cpy,
  cross_entropy_loss,
  reshape,
  view,
  count_,
};

// What a shape rule sees of one input.
struct OperandType {
  DType dtype;
  Shape shape;
  bool is_contiguous = true;
};

// Bounds of every shape in a graph, so that products of dimensions and sizes in bytes cannot overflow.
inline constexpr int64_t kMaxElements = int64_t{1} << 44;
// An error when a dimension is < 1, the product exceeds kMaxElements, or a row is not whole blocks of `dtype`.
Result<void> check_type(DType dtype, const Shape& shape);

// Work of one node: bytes read and written once each, at the operands' real types; multiplies, adds and function values
// (exp, tanh, root) counted one by one. FLASH_ATTN_EXT counts every slot of K and V (or `window` of them): pass operand
// shapes with as many slots as there are keys to get the cost of a given context.
struct OpCost {
  double bytes = 0, operations = 0;
};

struct OpRow {
  Op op;
  std::string_view name;
  uint8_t min_inputs, max_inputs;
  std::span<const Attr> attrs = {};                                                       // exactly these, all present
  Result<OperandType> (*infer)(std::span<const OperandType> inputs, const Attrs& attrs);  // type of the result
  OpCost (*cost)(std::span<const OperandType> inputs, const OperandType& output, const Attrs& attrs);
  std::string_view signature;  // operands by name, for messages and docs
  std::string_view meaning;    // one line
  bool is_view = false;        // moves no data: transparent to fusion
  bool writes_state = false;   // operand 0 is a state; the result is that state after the write
  uint8_t state_inputs = 0;    // bit i: operand i must be a state (or the result of a write to one)
};

// In enum order. Defined in ops.cpp.
std::span<const OpRow> op_table();
inline const OpRow& op_row(Op op) { return op_table()[static_cast<size_t>(op)]; }
const OpRow* find_op(std::string_view name);

// How b of an element-wise op repeats into a.
enum class Broadcast : uint8_t {
  none,      // it does not
  same,      // equal shapes
  trailing,  // b has the shape of a's last dimensions
  column,    // b has a's shape but for a last dimension of 1: one number per row of a
  scalar,    // b is one element
};
Broadcast broadcast_of(const Shape& a, const Shape& b);

// Type of the result after checking arity, the set of attributes and their ranges, and the shape rule. The error names
// the op, its operands with their types, and the operand that does not fit.
Result<OperandType> infer_type(Op op, std::span<const OperandType> inputs, const Attrs& attrs);

// Name of operand i, from the signature: operand_name(Op::mul_mat, 1) = "x".
std::string_view operand_name(Op op, size_t input_idx);
// "MUL_MAT(weight F32 [4, 8], x F32 [3, 8])".
std::string describe_call(Op op, std::span<const OperandType> inputs);

// Operands, by op (n = n_tokens or n_outputs, all activations f32):
//   GET_ROWS(table [m, w] any type, ids i32 [n] or [n, k])                  -> f32 [n, w] or [n, k, w]
//   GET_ROWS(table f32 [n, m, w], ids i32 [n, k])                           -> f32 [n, k, w]
//   ADD, SUB, MUL, DIV(a, b)   b repeats into a, see Broadcast              -> like a
//   SCALE(x; scale, bias), CLAMP(x; min, max), UNARY(x; unary)              -> like x
//   GLU(gate, up; glu, alpha, limit)  same shape                            -> act(gate) * up
//   GLU(gate_up [n, 2 n_ff]; ...)     gate first                            -> f32 [n, n_ff]
//       swiglu_oai: g = min(gate, limit), u = clamp(up, -limit, limit): (u + 1) * g * sigmoid(alpha * g)
//   NORM, RMS_NORM, L2_NORM(x; eps), SOFT_MAX(x)                            -> like x, row by row
//   SUM_ROWS(x [..., w])                                                    -> [..., 1]
//   ARGSORT(x [n, m])                                                       -> i32 [n, m], NaN last
//   MASK_GROUPS(scores [n, n_expert]; n_group, n_group_used, n_best)        -> like scores
//       groups are runs of n_expert / n_group; a group counts as the sum of its n_best largest scores
//   CONCAT(a [..., p], b [..., q])                                          -> [..., p + q]
//   MUL_MAT(weight [n_out, n_in] any type, x f32 [n, n_in])                 -> f32 [n, n_out]
//   MUL_MAT(weight [n_head, n_out, n_in], x f32 [n, n_head, n_in])          -> f32 [n, n_head, n_out]
//   MUL_MAT_ID(weights [n_expert, n_out, n_in] any type, x f32 [n, n_used or 1, n_in], ids i32 [n, n_used])
//                                                                           -> f32 [n, n_used, n_out]
//   ADD_ID(a f32 [n, n_used, w], b f32 [n_expert, w], ids i32 [n, n_used])  -> like a
//   ROPE(x f32 [n, n_head, head_dim], positions i32 [n] (, freq_factors f32 [n_rot/2]); rope attributes)  -> like x
//   ATTN_TEMP(x f32 [n, ...], positions i32 [n]; temp_scale, temp_length, temp_offset)  -> like x
//   SET_ROWS(cache state [n_slots, n_head_kv, head_dim], x f32 [n, n_head_kv, head_dim], slots i32 [n]) -> the cache
//   FLASH_ATTN_EXT(q f32 [n, n_head, dk], k state [n_slots, n_head_kv, dk], v state [n_slots, n_head_kv, dv],
//                  positions i32 [n], seq_ids i32 [n] (, sinks f32 [n_head]); scale, softcap, window, chunk, causal)
//                                                                           -> f32 [n, n_head, dv]
//       The keys of a token are those of its sequence in the paged cache (page tables are step inputs of the cache).
//   RESHAPE(x; dims)  same number of elements, x contiguous                 -> shares storage
//   VIEW(x; offset, dims)  dims = x's with a smaller last dimension, starting at `offset` there -> shares storage
//
// Recurrent ops. A state is f32 [n_rows, row]; sequence s of the step starts from row state_src[s] of it, or from zeros
// when that is -1. Tokens of a sequence are contiguous and in order. K = n_snapshots: states as they stood after the
// last, the last but one, ... of the sequence's tokens in this step; where it has fewer tokens, zeros.
//   SSM_CONV(x f32 [n, c], weight f32 [c, taps], state [n_rows, (taps - 1) * c], state_src i32 [n_seqs], seq_ids)
//                                                                           -> f32 [n, c]
//       y[t, c] = sum over j of weight[c, j] * x[t - (taps - 1) + j, c]
//   SSM_CONV_STATE(x, state, state_src, seq_ids; n_snapshots)               -> f32 [n_seqs * K, (taps - 1) * c]
//       rows of x, oldest first
//   GATED_DELTA_NET(q, k f32 [n, hk, dk], v f32 [n, hv, dv], g f32 [n, hv] or [n, hv, dk], beta f32 [n, hv],
//                   state [n_rows, hv * dv * dk], state_src, seq_ids; scale, n_snapshots, head_map)
//                                                                           -> f32 [n * hv * dv + n_seqs * K * row]
//       y [n, hv, dv], then states [n_seqs, K, hv, dv, dk]
//   CPY(state [n_rows, row], x f32 [n_seqs * K, row], rows i32 [n_seqs])    -> the state
//       snapshot i of sequence s goes to row rows[s] + i

}  // namespace tokamak::ir

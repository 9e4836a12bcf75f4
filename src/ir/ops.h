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
  mul,
  scale,
  unary,
  glu,
  norm,
  rms_norm,
  mul_mat,
  rope,
  set_rows,
  flash_attn_ext,
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
  bool is_view;                 // moves no data: transparent to fusion
  std::span<const Attr> attrs;  // exactly these, all present
  Result<OperandType> (*infer)(std::span<const OperandType> inputs, const Attrs& attrs);  // type of the result
  OpCost (*cost)(std::span<const OperandType> inputs, const OperandType& output, const Attrs& attrs);
  std::string_view signature;  // operands by name, for messages and docs
  std::string_view meaning;    // one line
  uint8_t state_inputs = 0;    // bit i: input i must be a state (or the result of SET_ROWS on one)
};

// In enum order. Defined in ops.cpp.
std::span<const OpRow> op_table();
inline const OpRow& op_row(Op op) { return op_table()[static_cast<size_t>(op)]; }
const OpRow* find_op(std::string_view name);

// Type of the result after checking arity, the set of attributes and their ranges, and the shape rule. The error names
// the op, its operands with their types, and the operand that does not fit.
Result<OperandType> infer_type(Op op, std::span<const OperandType> inputs, const Attrs& attrs);

// Name of operand i, from the signature: operand_name(Op::mul_mat, 1) = "x".
std::string_view operand_name(Op op, size_t input_idx);
// "MUL_MAT(weight F32 [4, 8], x F32 [3, 8])".
std::string describe_call(Op op, std::span<const OperandType> inputs);

// Operands, by op (n = n_tokens or n_outputs, all activations f32):
//   GET_ROWS(table [n_vocab, n_embd] any type, ids i32 [n])                -> f32 [n, n_embd]
//   ADD, MUL(a, b)   b: same shape as a, or any trailing part of it ([n_embd], [n_head, head_dim], [head_dim]) -> like
//   a SCALE(x; scale, bias)                                                   -> scale * x + bias UNARY(x; unary)
//   GLU(gate, up; glu)  same shape                                          -> act(gate) * up
//   GLU(gate_up [n, 2 n_ff]; glu)  gate first                               -> f32 [n, n_ff]
//   NORM(x; eps)      (x - mean) / sqrt(variance + eps) over the last dimension
//   RMS_NORM(x; eps)  x / sqrt(mean(x^2) + eps) over the last dimension
//   MUL_MAT(weight [n_out, n_in] any type, x f32 [n, n_in])                 -> f32 [n, n_out]
//   ROPE(x f32 [n, n_head, head_dim], positions i32 [n] (, freq_factors f32 [n_rot/2]); rope attributes)  -> like x
//   SET_ROWS(cache state [n_slots, n_head_kv, head_dim], x f32 [n, n_head_kv, head_dim], slots i32 [n]) -> the cache
//   FLASH_ATTN_EXT(q f32 [n, n_head, dk], k state [n_slots, n_head_kv, dk], v state [n_slots, n_head_kv, dv],
//                  positions i32 [n], seq_ids i32 [n] (, sinks f32 [n_head]); scale, softcap, window, causal)
//                                                                           -> f32 [n, n_head, dv]
//       The keys of a token are those of its sequence in the paged cache (page tables are step inputs of the cache).
//   RESHAPE(x; dims)  same number of elements, x contiguous                 -> shares storage
//   VIEW(x; offset, dims)  dims = x's with a smaller last dimension, starting at `offset` there -> shares storage

}  // namespace tokamak::ir

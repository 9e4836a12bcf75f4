// Rules of the ops that every decoder needs.
#include "ir/op_rules.h"

namespace tokamak::ir::op_rules {

Result<OperandType> infer_get_rows(Operands in, const Attrs&) {
  constexpr Op op = Op::get_rows;
  TRY(need_float(op, in, 0));
  TRY(need_dtype(op, in, 1, DType::i32));
  const Shape &table = in[0].shape, &ids = in[1].shape;
  if (table.rank() == 2 && ids.rank() == 1) return OperandType{DType::f32, {ids[0], table[1]}};
  if (table.rank() == 2 && ids.rank() == 2) return OperandType{DType::f32, {ids[0], ids[1], table[1]}};
  if (table.rank() == 3 && ids.rank() == 2 && table[0] == ids[0])
    return OperandType{DType::f32, {ids[0], ids[1], table[2]}};
  return misuse(op, in, "table [m, w] takes ids [n] or [n, k]; table [n, m, w] takes ids [n, k]");
}
OpCost cost_get_rows(Operands in, const OperandType& out, const Attrs&) {
  return {bytes_of(OperandType{in[0].dtype, out.shape}) + bytes_of(in[1]) + bytes_of(out), 0};
}

Result<OperandType> infer_elementwise(Op op, Operands in) {
  TRY(need_activation(op, in, 0));
  TRY(need_activation(op, in, 1));
  if (broadcast_of(in[0].shape, in[1].shape) == Broadcast::none)
    return misuse(op, in,
                  "b must have the shape of a, or of its last dimensions, or one number per row of a, or one element");
  return OperandType{DType::f32, in[0].shape};
}

Result<OperandType> infer_glu(Operands in, const Attrs&) {
  constexpr Op op = Op::glu;
  TRY(need_activation(op, in, 0));
  if (in.size() == 2) {
    TRY(need_activation(op, in, 1));
    if (in[0].shape != in[1].shape) return misuse(op, in, "gate and up must have the same shape");
    return OperandType{DType::f32, in[0].shape};
  }
  Shape out = in[0].shape;
  if (out[-1] % 2 != 0) return misuse(op, in, "gate without up must have an even last dimension, the gate half first");
  out.set(-1, out[-1] / 2);
  return OperandType{DType::f32, out};
}

// One matrix, or one per head.
Result<OperandType> infer_mul_mat(Operands in, const Attrs&) {
  constexpr Op op = Op::mul_mat;
  TRY(need_float(op, in, 0));
  TRY(need_activation(op, in, 1));
  const Shape& weight = in[0].shape;
  if (weight.rank() != 2 && weight.rank() != 3) return misuse(op, in, "weight must have 2 or 3 dimensions");
  TRY(need_rank(op, in, 1, weight.rank()));
  TRY(need_dim(op, in, 1, -1, weight[-1], "n_in of weight"));
  if (weight.rank() == 2) return OperandType{DType::f32, {in[1].shape[0], weight[0]}};
  TRY(need_dim(op, in, 1, 1, weight[0], "n_head of weight"));
  return OperandType{DType::f32, {in[1].shape[0], weight[0], weight[1]}};
}
OpCost cost_mul_mat(Operands in, const OperandType& out, const Attrs&) {
  return {bytes_of(in) + bytes_of(out), 2.0 * elems(out) * static_cast<double>(in[0].shape[-1])};
}

Result<OperandType> infer_rope(Operands in, const Attrs& attrs) {
  constexpr Op op = Op::rope;
  TRY(need_activation(op, in, 0));
  TRY(need_rank(op, in, 0, 3));
  TRY(need_ids(op, in, 1, in[0].shape[0], "n_tokens of x"));
  const int64_t n_rot = attrs.integer(Attr::n_rot);
  if (n_rot % 2 != 0 || n_rot > in[0].shape[2])
    return misuse(op, in, fmt::format("n_rot={} must be even and at most head_dim = {}", n_rot, in[0].shape[2]));
  if (in.size() == 3) {
    TRY(need_dtype(op, in, 2, DType::f32));
    TRY(need_rank(op, in, 2, 1));
    TRY(need_dim(op, in, 2, 0, n_rot / 2, "n_rot/2"));
  }
  return OperandType{DType::f32, in[0].shape};
}
OpCost cost_rope(Operands in, const OperandType& out, const Attrs& attrs) {
  // A pair takes four multiplies and two adds.
  return {bytes_of(in) + bytes_of(out), 3.0 * static_cast<double>(out.shape.n_rows() * attrs.integer(Attr::n_rot))};
}

Result<OperandType> infer_set_rows(Operands in, const Attrs&) {
  constexpr Op op = Op::set_rows;
  TRY(need_float(op, in, 0));
  TRY(need_rank(op, in, 0, 3));
  TRY(need_activation(op, in, 1));
  TRY(need_rank(op, in, 1, 3));
  TRY(need_dim(op, in, 1, 1, in[0].shape[1], "n_head_kv of cache"));
  TRY(need_dim(op, in, 1, 2, in[0].shape[2], "head_dim of cache"));
  TRY(need_ids(op, in, 2, in[1].shape[0], "n_tokens of x"));
  return OperandType{in[0].dtype, in[0].shape};
}
OpCost cost_set_rows(Operands in, const OperandType& out, const Attrs&) {
  return {bytes_of(in[1]) + bytes_of(in[2]) + bytes_of(OperandType{out.dtype, in[1].shape}), 0};
}

Result<OperandType> infer_flash_attn_ext(Operands in, const Attrs&) {
  constexpr Op op = Op::flash_attn_ext;
  TRY(need_activation(op, in, 0));
  for (size_t i = 0; i < 3; ++i) TRY(need_rank(op, in, i, 3));
  for (size_t i = 1; i < 3; ++i) TRY(need_float(op, in, i));
  const Shape &q = in[0].shape, &k = in[1].shape, &v = in[2].shape;
  TRY(need_dim(op, in, 1, 2, q[2], "head_dim of q"));
  TRY(need_dim(op, in, 2, 0, k[0], "n_slots of k"));
  TRY(need_dim(op, in, 2, 1, k[1], "n_head_kv of k"));
  if (q[1] % k[1] != 0)
    return misuse(op, in, fmt::format("n_head = {} of q is no multiple of n_head_kv = {} of k", q[1], k[1]));
  TRY(need_ids(op, in, 3, q[0], "n_tokens of q"));
  TRY(need_ids(op, in, 4, q[0], "n_tokens of q"));
  if (in.size() == 6) {
    TRY(need_dtype(op, in, 5, DType::f32));
    TRY(need_rank(op, in, 5, 1));
    TRY(need_dim(op, in, 5, 0, q[1], "n_head of q"));
  }
  return OperandType{DType::f32, {q[0], q[1], v[2]}};
}
OpCost cost_flash_attn_ext(Operands in, const OperandType& out, const Attrs& attrs) {
  const Shape &q = in[0].shape, &k = in[1].shape, &v = in[2].shape;
  const int64_t window = attrs.integer(Attr::window);
  const int64_t chunk = attrs.integer(Attr::chunk);
  int64_t most = window > 0 && window < k[0] ? window : k[0];
  if (chunk > 0 && chunk < most) most = chunk;
  const double n_keys = static_cast<double>(most);
  const double kv_share = n_keys / static_cast<double>(k[0]);
  const double scores = static_cast<double>(q[0] * q[1]) * n_keys;
  return {bytes_of(in[0]) + kv_share * (bytes_of(in[1]) + bytes_of(in[2])) + bytes_of(in.subspan(3)) + bytes_of(out),
          scores * static_cast<double>(2 * q[2] + 2 * v[2])};
}

Result<OperandType> infer_reshape(Operands in, const Attrs& attrs) {
  constexpr Op op = Op::reshape;
  const Shape& dims = attrs.shape(Attr::dims);
  TRY(check_type(in[0].dtype, dims));
  if (!in[0].is_contiguous) return misuse(op, in, "x must be contiguous; it is a view that skips elements");
  if (dims.n_elements() != in[0].shape.n_elements())
    return misuse(op, in,
                  fmt::format("dims {} hold {} elements, x holds {}", dims.to_string(), dims.n_elements(),
                              in[0].shape.n_elements()));
  return OperandType{in[0].dtype, dims};
}

Result<OperandType> infer_view(Operands in, const Attrs& attrs) {
  constexpr Op op = Op::view;
  const Shape &x = in[0].shape, &dims = attrs.shape(Attr::dims);
  const int64_t offset = attrs.integer(Attr::offset);
  TRY(check_type(in[0].dtype, dims));
  bool same_outside = x.rank() == dims.rank() && x.rank() > 0;
  for (int i = 0; same_outside && i + 1 < x.rank(); ++i) same_outside = x[i] == dims[i];
  if (!same_outside)
    return misuse(op, in, fmt::format("dims {} may differ from x in the last dimension only", dims.to_string()));
  if (offset > x[-1] || dims[-1] > x[-1] - offset)
    return misuse(op, in, fmt::format("offset {} + {} elements run past the last dimension of x", offset, dims[-1]));
  if (offset % dtype_row(in[0].dtype).block_elems != 0)
    return misuse(op, in, fmt::format("offset {} is inside a block of {}", offset, dtype_name(in[0].dtype)));
  return OperandType{in[0].dtype, dims, x.rank() == 1 || (dims[-1] == x[-1] && in[0].is_contiguous)};
}

}  // namespace tokamak::ir::op_rules

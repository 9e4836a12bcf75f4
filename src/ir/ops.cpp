#include "ir/ops.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>

namespace tokamak::ir {

namespace {

using Operands = std::span<const OperandType>;

Error misuse(Op op, Operands in, std::string what) {
  return Error{.code = ErrorCode::bad_tensor, .what = std::move(what), .where = describe_call(op, in)};
}

double bytes_of(const OperandType& t) {
  return static_cast<double>(dtype_bytes(t.dtype, static_cast<uint64_t>(t.shape.n_elements())));
}
double bytes_of(Operands in) {
  double sum = 0;
  for (const OperandType& t : in) sum += bytes_of(t);
  return sum;
}
double elems(const OperandType& t) { return static_cast<double>(t.shape.n_elements()); }

bool is_integer(DType t) { return t == DType::i8 || t == DType::i16 || t == DType::i32 || t == DType::i64; }

// Checks shared by the rules; each returns an Error that names the operand.
Result<void> need_dtype(Op op, Operands in, size_t i, DType dtype) {
  if (in[i].dtype == dtype) return {};
  return misuse(op, in, fmt::format("{} must be {}", operand_name(op, i), dtype_name(dtype)));
}
Result<void> need_float(Op op, Operands in, size_t i) {
  if (!is_integer(in[i].dtype)) return {};
  return misuse(op, in, fmt::format("{} must be a floating-point or quantized type", operand_name(op, i)));
}
Result<void> need_rank(Op op, Operands in, size_t i, int rank) {
  if (in[i].shape.rank() == rank) return {};
  return misuse(op, in, fmt::format("{} must have {} dimension{}", operand_name(op, i), rank, rank == 1 ? "" : "s"));
}
Result<void> need_dim(Op op, Operands in, size_t i, int dim, int64_t want, std::string_view meaning) {
  const Shape& s = in[i].shape;
  if (s[dim] == want) return {};
  return misuse(op, in,
                fmt::format("{} has {} in dimension {}, {} is {}", operand_name(op, i), s[dim],
                            dim < 0 ? s.rank() + dim : dim, meaning, want));
}
Result<void> need_ids(Op op, Operands in, size_t i, int64_t n, std::string_view meaning) {
  TRY(need_dtype(op, in, i, DType::i32));
  TRY(need_rank(op, in, i, 1));
  return need_dim(op, in, i, 0, n, meaning);
}
// An activation: f32 with at least one dimension.
Result<void> need_activation(Op op, Operands in, size_t i) {
  TRY(need_dtype(op, in, i, DType::f32));
  if (in[i].shape.rank() == 0) return misuse(op, in, fmt::format("{} must have a dimension", operand_name(op, i)));
  return {};
}

Result<OperandType> infer_get_rows(Operands in, const Attrs&) {
  constexpr Op op = Op::get_rows;
  TRY(need_float(op, in, 0));
  TRY(need_rank(op, in, 0, 2));
  TRY(need_dtype(op, in, 1, DType::i32));
  TRY(need_rank(op, in, 1, 1));
  return OperandType{DType::f32, {in[1].shape[0], in[0].shape[1]}};
}
OpCost cost_get_rows(Operands in, const OperandType& out, const Attrs&) {
  return {bytes_of(OperandType{in[0].dtype, out.shape}) + bytes_of(in[1]) + bytes_of(out), 0};
}

Result<OperandType> infer_elementwise(Op op, Operands in) {
  TRY(need_activation(op, in, 0));
  TRY(need_activation(op, in, 1));
  const Shape &a = in[0].shape, &b = in[1].shape;
  bool trailing = b.rank() <= a.rank();
  for (int i = 1; trailing && i <= b.rank(); ++i) trailing = a[-i] == b[-i];
  if (!trailing) return misuse(op, in, "b must have the shape of a or of its last dimensions");
  return OperandType{DType::f32, a};
}
Result<OperandType> infer_add(Operands in, const Attrs&) { return infer_elementwise(Op::add, in); }
Result<OperandType> infer_mul(Operands in, const Attrs&) { return infer_elementwise(Op::mul, in); }

template <Op op>
Result<OperandType> infer_same(Operands in, const Attrs&) {
  TRY(need_activation(op, in, 0));
  return OperandType{DType::f32, in[0].shape};
}
template <int n_operations>  // per element of the result
OpCost cost_elementwise(Operands in, const OperandType& out, const Attrs&) {
  return {bytes_of(in) + bytes_of(out), n_operations * elems(out)};
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

Result<OperandType> infer_mul_mat(Operands in, const Attrs&) {
  constexpr Op op = Op::mul_mat;
  TRY(need_float(op, in, 0));
  TRY(need_rank(op, in, 0, 2));
  TRY(need_activation(op, in, 1));
  TRY(need_rank(op, in, 1, 2));
  TRY(need_dim(op, in, 1, 1, in[0].shape[1], "n_in of weight"));
  return OperandType{DType::f32, {in[1].shape[0], in[0].shape[0]}};
}
OpCost cost_mul_mat(Operands in, const OperandType& out, const Attrs&) {
  return {bytes_of(in) + bytes_of(out), 2.0 * elems(out) * static_cast<double>(in[0].shape[1])};
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
  const double n_keys = static_cast<double>(window > 0 && window < k[0] ? window : k[0]);
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
  return OperandType{in[0].dtype, dims, dims[-1] == x[-1] && in[0].is_contiguous};
}
OpCost cost_nothing(Operands, const OperandType&, const Attrs&) { return {}; }

constexpr Attr kScaleAttrs[] = {Attr::scale, Attr::bias};
constexpr Attr kUnaryAttrs[] = {Attr::unary};
constexpr Attr kGluAttrs[] = {Attr::glu};
constexpr Attr kNormAttrs[] = {Attr::eps};
constexpr Attr kRopeAttrs[] = {Attr::n_rot,       Attr::pairing,   Attr::theta,     Attr::freq_scale, Attr::ext_factor,
                               Attr::attn_factor, Attr::beta_fast, Attr::beta_slow, Attr::n_ctx_orig};
constexpr Attr kFlashAttrs[] = {Attr::scale, Attr::softcap, Attr::window, Attr::causal};
constexpr Attr kReshapeAttrs[] = {Attr::dims};
constexpr Attr kViewAttrs[] = {Attr::offset, Attr::dims};

constexpr auto kOps = std::to_array<OpRow>({
    {Op::get_rows,
     "GET_ROWS",
     2,
     2,
     false,
     {},
     infer_get_rows,
     cost_get_rows,
     "table, ids",
     "rows of a table by index, decoded to f32"},
    {Op::add,
     "ADD",
     2,
     2,
     false,
     {},
     infer_add,
     cost_elementwise<1>,
     "a, b",
     "a + b; b has the shape of a or of its last dimensions"},
    {Op::mul,
     "MUL",
     2,
     2,
     false,
     {},
     infer_mul,
     cost_elementwise<1>,
     "a, b",
     "a * b; b has the shape of a or of its last dimensions"},
    {Op::scale, "SCALE", 1, 1, false, kScaleAttrs, infer_same<Op::scale>, cost_elementwise<2>, "x", "scale * x + bias"},
    {Op::unary, "UNARY", 1, 1, false, kUnaryAttrs, infer_same<Op::unary>, cost_elementwise<1>, "x",
     "a function of each element"},
    {Op::glu, "GLU", 1, 2, false, kGluAttrs, infer_glu, cost_elementwise<2>, "gate, up",
     "activation(gate) * up; with one operand its halves are gate and up"},
    {Op::norm, "NORM", 1, 1, false, kNormAttrs, infer_same<Op::norm>, cost_elementwise<5>, "x",
     "(x - mean) / sqrt(variance + eps) over the last dimension"},
    {Op::rms_norm, "RMS_NORM", 1, 1, false, kNormAttrs, infer_same<Op::rms_norm>, cost_elementwise<3>, "x",
     "x / sqrt(mean(x^2) + eps) over the last dimension"},
    {Op::mul_mat,
     "MUL_MAT",
     2,
     2,
     false,
     {},
     infer_mul_mat,
     cost_mul_mat,
     "weight, x",
     "y[t, o] = sum over i of weight[o, i] * x[t, i]"},
    {Op::rope, "ROPE", 2, 3, false, kRopeAttrs, infer_rope, cost_rope, "x, positions, freq_factors",
     "rotates pairs of the first n_rot dimensions of each head by angles that grow with the position"},
    {Op::set_rows,
     "SET_ROWS",
     3,
     3,
     false,
     {},
     infer_set_rows,
     cost_set_rows,
     "cache, x, slots",
     "writes rows of x into slots of the cache, encoded to its type; returns the cache",
     0b001},
    {Op::flash_attn_ext, "FLASH_ATTN_EXT", 5, 6, false, kFlashAttrs, infer_flash_attn_ext, cost_flash_attn_ext,
     "q, k, v, positions, seq_ids, sinks",
     "softmax(scale * q k^T) v over the keys of the token's sequence in the paged cache", 0b110},
    {Op::reshape, "RESHAPE", 1, 1, true, kReshapeAttrs, infer_reshape, cost_nothing, "x",
     "the same elements under another shape"},
    {Op::view, "VIEW", 1, 1, true, kViewAttrs, infer_view, cost_nothing, "x",
     "a slice of the last dimension, starting at offset"},
});

constexpr bool table_matches_enum() {
  if (kOps.size() != static_cast<size_t>(Op::count_)) return false;
  for (size_t i = 0; i < kOps.size(); ++i)
    if (static_cast<size_t>(kOps[i].op) != i) return false;
  return true;
}
static_assert(table_matches_enum());

Error bad_attribute(Op op, std::string what) {
  return Error{.code = ErrorCode::bad_argument, .what = std::move(what), .where = std::string(op_row(op).name)};
}

Result<void> check_attr_value(Op op, const AttrRow& row, const AttrValue& value) {
  if (row.kind == AttrKind::number) {
    const double* x = std::get_if<double>(&value);
    if (!x) return bad_attribute(op, fmt::format("attribute {} must be a number", row.name));
    if (!(*x >= row.min && *x <= row.max))
      return bad_attribute(op, fmt::format("attribute {}={} is outside {} to {}", row.name, *x, row.min, row.max));
  } else if (row.kind == AttrKind::shape) {
    if (!std::holds_alternative<Shape>(value))
      return bad_attribute(op, fmt::format("attribute {} must be a shape", row.name));
  } else {
    const int64_t* x = std::get_if<int64_t>(&value);
    if (!x) return bad_attribute(op, fmt::format("attribute {} must be an integer or keyword", row.name));
    const bool keyword = row.kind == AttrKind::keyword;
    const double min = keyword ? 0 : row.min;
    const double max = keyword ? static_cast<double>(row.keywords.size()) - 1 : row.max;
    if (static_cast<double>(*x) < min || static_cast<double>(*x) > max)
      return bad_attribute(op, fmt::format("attribute {}={} is outside {} to {}", row.name, *x, min, max));
  }
  return {};
}

Result<void> check_attrs(Op op, const Attrs& attrs) {
  const OpRow& row = op_row(op);
  for (Attr id : row.attrs)
    if (!attrs.has(id)) return bad_attribute(op, fmt::format("attribute {} is missing", attr_row(id).name));
  for (const auto& [id, value] : attrs.entries()) {
    bool known = false;
    for (Attr a : row.attrs) known |= a == id;
    if (!known) return bad_attribute(op, fmt::format("has no attribute {}", attr_row(id).name));
    TRY(check_attr_value(op, attr_row(id), value));
  }
  return {};
}

}  // namespace

std::span<const OpRow> op_table() { return kOps; }

const OpRow* find_op(std::string_view name) {
  for (const OpRow& row : kOps)
    if (row.name == name) return &row;
  return nullptr;
}

Result<void> check_type(DType dtype, const Shape& shape) {
  const auto wrong = [&](std::string what) {
    return Error{.code = ErrorCode::bad_tensor,
                 .what = std::move(what),
                 .where = fmt::format("{} {}", dtype_name(dtype), shape.to_string())};
  };
  int64_t n_elements = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 1) return wrong(fmt::format("dimension {} is {}, not at least 1", i, shape[i]));
    if (shape[i] > kMaxElements / n_elements) return wrong(fmt::format("more than {} elements", kMaxElements));
    n_elements *= shape[i];
  }
  const int64_t block_elems = dtype_row(dtype).block_elems;
  if (shape.row_elems() % block_elems != 0)
    return wrong(fmt::format("rows of {} elements are not whole blocks of {}", shape.row_elems(), block_elems));
  return {};
}

Result<OperandType> infer_type(Op op, std::span<const OperandType> inputs, const Attrs& attrs) {
  const OpRow& row = op_row(op);
  if (inputs.size() < row.min_inputs || inputs.size() > row.max_inputs)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("takes {} ({} to {} operands), not {}", row.signature, row.min_inputs,
                                     row.max_inputs, inputs.size()),
                 .where = std::string(row.name)};
  TRY(check_attrs(op, attrs));
  OperandType out = TRY(row.infer(inputs, attrs));
  TRY(check_type(out.dtype, out.shape));
  return out;
}

std::string_view operand_name(Op op, size_t input_idx) {
  std::string_view rest = op_row(op).signature;
  for (size_t i = 0; i < input_idx; ++i) {
    const size_t comma = rest.find(", ");
    if (comma == std::string_view::npos) return "operand";
    rest.remove_prefix(comma + 2);
  }
  return rest.substr(0, rest.find(','));
}

std::string describe_call(Op op, std::span<const OperandType> inputs) {
  std::string out = std::string(op_row(op).name) + "(";
  for (size_t i = 0; i < inputs.size(); ++i)
    out += fmt::format("{}{} {} {}", i ? ", " : "", operand_name(op, i), dtype_name(inputs[i].dtype),
                       inputs[i].shape.to_string());
  return out + ")";
}

}  // namespace tokamak::ir

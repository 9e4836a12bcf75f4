#include "ir/ops.h"

#include <fmt/format.h>

#include "ir/op_rules.h"

namespace tokamak::ir {

namespace {

using namespace op_rules;

constexpr Attr kScaleAttrs[] = {Attr::scale, Attr::bias};
constexpr Attr kClampAttrs[] = {Attr::min, Attr::max};
constexpr Attr kUnaryAttrs[] = {Attr::unary};
constexpr Attr kGluAttrs[] = {Attr::glu, Attr::alpha, Attr::limit};
constexpr Attr kNormAttrs[] = {Attr::eps};
constexpr Attr kMaskGroupsAttrs[] = {Attr::n_group, Attr::n_group_used, Attr::n_best};
constexpr Attr kRopeAttrs[] = {Attr::n_rot,      Attr::pairing,     Attr::theta,     Attr::freq_scale,
                               Attr::ext_factor, Attr::attn_factor, Attr::beta_fast, Attr::beta_slow,
                               Attr::n_ctx_orig, Attr::round_range};
constexpr Attr kAttnTempAttrs[] = {Attr::temp_scale, Attr::temp_length, Attr::temp_offset};
constexpr Attr kFlashAttrs[] = {Attr::scale, Attr::softcap, Attr::window, Attr::chunk, Attr::causal};
constexpr Attr kSnapshotAttrs[] = {Attr::n_snapshots};
constexpr Attr kDeltaNetAttrs[] = {Attr::scale, Attr::n_snapshots, Attr::head_map};
constexpr Attr kReshapeAttrs[] = {Attr::dims};
constexpr Attr kViewAttrs[] = {Attr::offset, Attr::dims};

constexpr auto kOps = std::to_array<OpRow>({
    {.op = Op::get_rows,
     .name = "GET_ROWS",
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_get_rows,
     .cost = cost_get_rows,
     .signature = "table, ids",
     .meaning = "rows of a table by index, decoded to f32; a table of rank 3 has one part per token"},
    {.op = Op::add,
     .name = "ADD",
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_binary<Op::add>,
     .cost = cost_elementwise<1>,
     .signature = "a, b",
     .meaning = "a + b; b repeats into a"},
    {.op = Op::sub,
     .name = "SUB",
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_binary<Op::sub>,
     .cost = cost_elementwise<1>,
     .signature = "a, b",
     .meaning = "a - b; b repeats into a"},
    {.op = Op::mul,
     .name = "MUL",
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_binary<Op::mul>,
     .cost = cost_elementwise<1>,
     .signature = "a, b",
     .meaning = "a * b; b repeats into a"},
    {.op = Op::div,
     .name = "DIV",
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_binary<Op::div>,
     .cost = cost_elementwise<1>,
     .signature = "a, b",
     .meaning = "a / b; b repeats into a"},
    {.op = Op::scale,
     .name = "SCALE",
     .min_inputs = 1,
     .max_inputs = 1,
     .attrs = kScaleAttrs,
     .infer = infer_same<Op::scale>,
     .cost = cost_elementwise<2>,
     .signature = "x",
     .meaning = "scale * x + bias"},
    {.op = Op::clamp,
     .name = "CLAMP",
     .min_inputs = 1,
     .max_inputs = 1,
     .attrs = kClampAttrs,
     .infer = infer_clamp,
     .cost = cost_elementwise<2>,
     .signature = "x",
     .meaning = "min(max(x, min), max)"},
    {.op = Op::unary,
     .name = "UNARY",
     .min_inputs = 1,
     .max_inputs = 1,
     .attrs = kUnaryAttrs,
     .infer = infer_same<Op::unary>,
     .cost = cost_elementwise<1>,
     .signature = "x",
     .meaning = "a function of each element"},
    {.op = Op::glu,
     .name = "GLU",
     .min_inputs = 1,
     .max_inputs = 2,
     .attrs = kGluAttrs,
     .infer = infer_glu,
     .cost = cost_elementwise<2>,
     .signature = "gate, up",
     .meaning = "activation(gate) * up; with one operand its halves are gate and up"},
    {.op = Op::norm,
     .name = "NORM",
     .min_inputs = 1,
     .max_inputs = 1,
     .attrs = kNormAttrs,
     .infer = infer_same<Op::norm>,
     .cost = cost_elementwise<5>,
     .signature = "x",
     .meaning = "(x - mean) / sqrt(variance + eps) over the last dimension"},
    {.op = Op::rms_norm,
     .name = "RMS_NORM",
     .min_inputs = 1,
     .max_inputs = 1,
     .attrs = kNormAttrs,
     .infer = infer_same<Op::rms_norm>,
     .cost = cost_elementwise<3>,
     .signature = "x",
     .meaning = "x / sqrt(mean(x^2) + eps) over the last dimension"},
    {.op = Op::l2_norm,
     .name = "L2_NORM",
     .min_inputs = 1,
     .max_inputs = 1,
     .attrs = kNormAttrs,
     .infer = infer_same<Op::l2_norm>,
     .cost = cost_elementwise<3>,
     .signature = "x",
     .meaning = "x / sqrt(sum(x^2) + eps) over the last dimension"},
    {.op = Op::soft_max,
     .name = "SOFT_MAX",
     .min_inputs = 1,
     .max_inputs = 1,
     .infer = infer_same<Op::soft_max>,
     .cost = cost_elementwise<4>,
     .signature = "x",
     .meaning = "exp(x - max) / sum over the last dimension"},
    {.op = Op::sum_rows,
     .name = "SUM_ROWS",
     .min_inputs = 1,
     .max_inputs = 1,
     .infer = infer_sum_rows,
     .cost = cost_elementwise<1>,
     .signature = "x",
     .meaning = "sum over the last dimension, which becomes 1"},
    {.op = Op::argsort,
     .name = "ARGSORT",
     .min_inputs = 1,
     .max_inputs = 1,
     .infer = infer_argsort,
     .cost = cost_argsort,
     .signature = "x",
     .meaning = "indices of the last dimension by falling value, the lower index first among equals"},
    {.op = Op::mask_groups,
     .name = "MASK_GROUPS",
     .min_inputs = 1,
     .max_inputs = 1,
     .attrs = kMaskGroupsAttrs,
     .infer = infer_mask_groups,
     .cost = cost_elementwise<2>,
     .signature = "scores",
     .meaning = "scores of experts outside the best groups become -inf"},
    {.op = Op::concat,
     .name = "CONCAT",
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_concat,
     .cost = cost_elementwise<0>,
     .signature = "a, b",
     .meaning = "a and b side by side in the last dimension"},
    {.op = Op::cont,
     .name = "CONT",
     .min_inputs = 1,
     .max_inputs = 1,
     .infer = infer_same<Op::cont>,
     .cost = cost_elementwise<0>,
     .signature = "x",
     .meaning = "a contiguous copy"},
    {.op = Op::mul_mat,
     .name = "MUL_MAT",
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_mul_mat,
     .cost = cost_mul_mat,
     .signature = "weight, x",
     .meaning = "y[t, o] = sum over i of weight[o, i] * x[t, i]; a weight of rank 3 has one matrix per head"},
    {.op = Op::mul_mat_id,
     .name = "MUL_MAT_ID",
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = infer_mul_mat_id,
     .cost = cost_mul_mat_id,
     .signature = "weights, x, ids",
     .meaning = "y[t, u, o] = sum over i of weights[ids[t, u], o, i] * x[t, u or 0, i]"},
    {.op = Op::add_id,
     .name = "ADD_ID",
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = infer_add_id,
     .cost = cost_add_id,
     .signature = "a, b, ids",
     .meaning = "a[t, u] + b[ids[t, u]]"},
    {.op = Op::rope,
     .name = "ROPE",
     .min_inputs = 2,
     .max_inputs = 3,
     .attrs = kRopeAttrs,
     .infer = infer_rope,
     .cost = cost_rope,
     .signature = "x, positions, freq_factors",
     .meaning = "rotates pairs of the first n_rot dimensions of each head by angles that grow with the position"},
    {.op = Op::attn_temp,
     .name = "ATTN_TEMP",
     .min_inputs = 2,
     .max_inputs = 2,
     .attrs = kAttnTempAttrs,
     .infer = infer_attn_temp,
     .cost = cost_elementwise<1>,
     .signature = "x, positions",
     .meaning = "x * (1 + temp_scale * ln(1 + floor((position + temp_offset) / temp_length)))"},
    {.op = Op::set_rows,
     .name = "SET_ROWS",
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = infer_set_rows,
     .cost = cost_set_rows,
     .signature = "cache, x, slots",
     .meaning = "writes rows of x into slots of the cache, encoded to its type; returns the cache",
     .writes_state = true,
     .state_inputs = 0b001},
    {.op = Op::flash_attn_ext,
     .name = "FLASH_ATTN_EXT",
     .min_inputs = 5,
     .max_inputs = 6,
     .attrs = kFlashAttrs,
     .infer = infer_flash_attn_ext,
     .cost = cost_flash_attn_ext,
     .signature = "q, k, v, positions, seq_ids, sinks",
     .meaning = "softmax(scale * q k^T) v over the keys of the token's sequence in the paged cache",
     .state_inputs = 0b110},
    {.op = Op::ssm_conv,
     .name = "SSM_CONV",
     .min_inputs = 5,
     .max_inputs = 5,
     .infer = infer_ssm_conv,
     .cost = cost_ssm_conv,
     .signature = "x, weight, state, state_src, seq_ids",
     .meaning =
         "causal convolution of each channel over the sequence's tokens; those of earlier steps are in its state",
     .state_inputs = 0b100},
    {.op = Op::ssm_conv_state,
     .name = "SSM_CONV_STATE",
     .min_inputs = 4,
     .max_inputs = 4,
     .attrs = kSnapshotAttrs,
     .infer = infer_ssm_conv_state,
     .cost = cost_ssm_conv_state,
     .signature = "x, state, state_src, seq_ids",
     .meaning = "the last rows of x (before them: of the state) of each sequence, as they stood after each of its last "
                "n_snapshots tokens",
     .state_inputs = 0b10},
    {.op = Op::gated_delta_net,
     .name = "GATED_DELTA_NET",
     .min_inputs = 8,
     .max_inputs = 8,
     .attrs = kDeltaNetAttrs,
     .infer = infer_gated_delta_net,
     .cost = cost_gated_delta_net,
     .signature = "q, k, v, g, beta, state, state_src, seq_ids",
     .meaning = "per head S = exp(g) S; S += k (beta (v - S^T k))^T; y = scale * S^T q; returns all y, then the last "
                "n_snapshots states of each sequence",
     .state_inputs = 0b100000},
    {.op = Op::cpy,
     .name = "CPY",
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = infer_cpy,
     .cost = cost_cpy,
     .signature = "state, x, rows",
     .meaning = "writes the states of sequence s in x to rows of the state from rows[s] on; returns the state",
     .writes_state = true,
     .state_inputs = 0b001},
    {.op = Op::cross_entropy_loss,
     .name = "CROSS_ENTROPY_LOSS",
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_cross_entropy_loss,
     .cost = cost_elementwise<4>,
     .signature = "logits, labels",
     .meaning = "-mean over rows of sum(labels * log(softmax(logits)))"},
    {.op = Op::reshape,
     .name = "RESHAPE",
     .min_inputs = 1,
     .max_inputs = 1,
     .attrs = kReshapeAttrs,
     .infer = infer_reshape,
     .cost = cost_nothing,
     .signature = "x",
     .meaning = "the same elements under another shape",
     .is_view = true},
    {.op = Op::view,
     .name = "VIEW",
     .min_inputs = 1,
     .max_inputs = 1,
     .attrs = kViewAttrs,
     .infer = infer_view,
     .cost = cost_nothing,
     .signature = "x",
     .meaning = "a slice of the last dimension, starting at offset",
     .is_view = true},
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

Broadcast broadcast_of(const Shape& a, const Shape& b) {
  if (a == b) return Broadcast::same;
  bool trailing = b.rank() <= a.rank();
  for (int i = 1; trailing && i <= b.rank(); ++i) trailing = a[-i] == b[-i];
  if (trailing) return Broadcast::trailing;
  if (b.n_elements() == 1 && b.rank() <= a.rank()) return Broadcast::scalar;
  bool column = b.rank() == a.rank() && b[-1] == 1;
  for (int i = 0; column && i + 1 < a.rank(); ++i) column = a[i] == b[i];
  return column ? Broadcast::column : Broadcast::none;
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

// MUL_MAT and its epilogues: post-scale, bias or residual, gate and up with GLU.
#include <fmt/format.h>

#include <numeric>

#include "backend/cuda/columns/columns.h"
#include "backend/cuda/lower_gemm.h"
#include "backend/cuda/lower_matmul.h"
#include "backend/cuda/lower_siblings.h"
#include "backend/cuda/matvec/layout.h"
#include "backend/cuda/matvec/matvec.h"
#include "base/check.h"

namespace tokamak::cuda {

cudaError_t Product::launch_rows(const RunContext& c) const {
  MatmulArgs a = args;
  a.weights = c.at<std::byte>(weights);
  a.up = c.at<std::byte>(up);
  a.x = c.at(x);
  a.y = c.at(y);
  a.scale = c.at(scale);
  a.up_scale = c.at(up_scale);
  a.bias = c.at(bias);
  a.up_bias = c.at(up_bias);
  a.residual = c.at(residual);
  return launch_matmul(a, c.stream);
}

MatvecArgs Product::packed_args(const RunContext& c) const {
  return {.dtype = dtype,
          .weights = c.at<std::byte>(weights),
          .up = c.at<std::byte>(up),
          .n_rows = args.n_rows,
          .k = args.k,
          .n_cols = static_cast<int>(args.n_cols),
          .x = c.at<std::byte>(x),
          .x_stride = args.x_stride,
          .y = c.at(y),
          .y_stride = args.y_stride,
          .y_q8 = c.at<std::byte>(y_q8),
          .y_low = y_low,
          .scale = c.at(scale),
          .up_scale = c.at(up_scale),
          .bias = c.at(bias),
          .up_bias = c.at(up_bias),
          .residual = c.at(residual),
          .residual_stride = args.residual_stride,
          .glu = args.glu,
          .alpha = args.alpha,
          .limit = args.limit,
          .ids = c.at<int32_t>(ids),
          .n_used = static_cast<int>(n_used),
          .ids_stride = ids_stride,
          .x_per_token = x_per_token,
          .overlap = on_tensor_columns || on_gemm || overlaps(args.n_cols),
          .ids_are_settled = ids_are_settled};
}

GemmArgs Product::gemm_args(const RunContext& c) const {
  return {.product = packed_args(c),
          .x_low = c.at<std::byte>(x_low),
          .workspace = c.at<std::byte>(workspace),
          .shape = route ? &shape : nullptr,
          .route = c.at<std::byte>(route)};
}

cudaError_t Product::launch(const RunContext& c) const {
  if (!is_packed) return launch_rows(c);
  if (on_gemm) return launch_gemm(gemm_args(c), c.stream);
  return on_tensor_columns ? launch_columns(packed_args(c), c.stream) : launch_matvec(packed_args(c), c.stream);
}

namespace {
std::string_view kernel_of(const CudaWeight& weight) {
  return weight.packed ? find_matvec_layout(weight.dtype)->kernel : "matmul_f32";
}
std::string_view note_of(const CudaWeight& weight) {
  return weight.packed ? "" : "no kernel for this type: decoded to f32 at load";
}
}  // namespace

const CudaWeight& weight_of(const Lowering& l, const ir::Node& product) {
  return l.weights.at(l.value(product.inputs[0]).name);
}
Product product_of(Lowering& l, const ir::Node& node, ir::ValueId result) {
  const CudaWeight& weight = weight_of(l, node);
  const bool quantized = weight.packed && activation_of(weight.dtype) != ActivationForm::f32;
  const Rows y = l.rows(result);
  Product out{.dtype = weight.dtype,
              .is_packed = weight.packed != nullptr,
              .args = {.type = weight.row_dtype,
                       .n_rows = l.value(node.inputs[0]).shape[-2],  // the file may have left out a dimension of 1
                       .n_cols = y.n_rows,
                       .k = weight.shape.row_elems(),
                       .y_stride = y.stride_elems},
              .weights = kernel_form(weight),
              .y = y.address};
  const bool in_glu = l.group().rule == static_cast<uint16_t>(fuse::RuleId::mul_mat_glu);
  if (uses_gemm(l, node) && !(in_glu && weight.dtype == DType::f32)) {
    out.on_gemm = true;
    if (node.op == ir::Op::mul_mat_id) {
      const ExpertColumns columns = expert_columns(l, node);
      out.x = columns.columns;
      out.route = columns.route;
      out.shape = columns.shape;
    } else {
      out.x = half_columns(l, node.inputs[1]);
      if (weight.dtype == DType::f32) out.x_low = half_columns(l, node.inputs[1], true);
    }
  } else if (out.is_packed && l.on_tensor_columns(node)) {
    out.on_tensor_columns = true;
    out.x = l.halves(node.inputs[1]);
  } else if (quantized) {
    out.x = l.quantized(node.inputs[1]);
  } else {
    const Rows x = l.rows(node.inputs[1]);
    out.x = x.address;
    out.args.x_stride = x.stride_elems;
  }
  return out;
}

void quantize_result(Lowering& l, ir::ValueId result, Product& product) {
  const bool on_matvec = product.is_packed && !product.on_gemm && !product.on_tensor_columns;
  if (!on_matvec || (product.args.n_cols != 1 && !product.ids) || product.args.y_stride % 4 != 0) return;
  const ir::ValueId x = l.same_rows(result);
  product.y_q8 = l.quantized_by_producer(x, product.x);
  product.y_low = l.wants_low(x);
}

void add_product(Lowering& l, const ir::Node& node, const Product& product) {
  if (product.on_gemm) return add_gemm(l, product);
  const CudaWeight& weight = weight_of(l, node);
  const auto launch = [product](const RunContext& c) { return product.launch(c); };
  if (product.on_tensor_columns)
    l.add(columns_kernel(product.dtype), launch, kDependsOnColumns);
  else
    l.add(kernel_of(weight), launch, note_of(weight));
}

namespace {

std::string beyond_mul_mat(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value& weight = graph.value(node.inputs[0]);
  if (weight.shape.rank() < 3 || has_matvec(weight.dtype)) return {};
  return fmt::format("stacks of {} matrices", dtype_name(weight.dtype));
}

// One matrix per head: x and y are [n, n_head, ...]. As experts of which every token uses all, in order.
Result<void> add_head_products(Lowering& l, const ir::Node& node) {
  const CudaWeight& weight = weight_of(l, node);
  CHECK(weight.packed != nullptr, node.name);
  Product product = product_of(l, node, node.output);
  std::vector<int32_t> heads(static_cast<size_t>(weight.shape[0]));
  std::iota(heads.begin(), heads.end(), 0);
  product.ids = TRY(l.constant(std::as_bytes(std::span(heads))));
  product.n_used = weight.shape[0];
  product.x_per_token = false;
  product.ids_are_settled = true;
  add_product(l, node, product);
  return {};
}

Result<void> lower_mul_mat(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  if (l.value(node.inputs[0]).shape.rank() == 3) return add_head_products(l, node);
  add_with_siblings(l, node, product_of(l, node, node.output));
  return {};
}

Address scale_of(const Lowering& l, const Lane& lane) {
  const ir::ValueId scale = lowering::scale_weight(l.graph, lane);
  return scale == ir::kNone ? Address{} : l.rows(scale).address;
}
// None when there is none, or when it is a residual.
Address bias_of(const Lowering& l, const Lane& lane) {
  const ir::ValueId bias = lowering::bias_weight(l.graph, lane);
  return bias == ir::kNone ? Address{} : l.rows(bias).address;
}

}  // namespace

Product epilogue_product(Lowering& l, Nodes nodes) {
  const Lane lane = lowering::epilogue_lane(nodes);
  Product product = product_of(l, l.graph.node(lane.product), lowering::result_of(l.graph, lane));
  product.scale = scale_of(l, lane);
  product.bias = bias_of(l, lane);
  if (const ir::ValueId addend = lowering::residual_of(l.graph, lane); addend != ir::kNone) {
    const Rows residual = l.rows(addend);
    product.residual = residual.address;
    product.args.residual_stride = residual.stride_elems;
  }
  return product;
}

namespace {

Result<void> lower_mul_mat_epilogue(Lowering& l, Nodes nodes) {
  add_with_siblings(l, l.graph.node(nodes[0]), epilogue_product(l, nodes));
  return {};
}

Result<void> lower_mul_mat_glu(Lowering& l, Nodes nodes) {
  const Lane gate = lowering::epilogue_lane(nodes), up = lowering::up_lane(nodes);
  const ir::Node& node = l.graph.node(gate.product);
  const ir::Node& glu = l.graph.node(nodes[6]);
  Product product = product_of(l, node, glu.output);
  product.up = kernel_form(weight_of(l, l.graph.node(up.product)));
  product.scale = scale_of(l, gate);
  product.up_scale = scale_of(l, up);
  product.bias = bias_of(l, gate);
  product.up_bias = bias_of(l, up);
  lowering::set_glu(product.args, glu.attrs);
  quantize_result(l, glu.output, product);
  add_product(l, node, product);
  return {};
}

}  // namespace

std::span<const OpLowering> matmul_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({{ir::Op::mul_mat, lower_mul_mat, beyond_mul_mat}});
  return kRows;
}

std::span<const RuleLowering> matmul_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::mul_mat_epilogue, lowering::supports_mul_mat_epilogue, lower_mul_mat_epilogue},
      {fuse::RuleId::mul_mat_glu, lowering::supports_mul_mat_glu, lower_mul_mat_glu},
  });
  return kRows;
}

}  // namespace tokamak::cuda

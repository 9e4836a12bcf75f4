// What the lowerings of products share.
#pragma once

#include "backend/cuda/gemm/gemm.h"
#include "backend/cuda/lower.h"
#include "backend/cuda/matvec/matvec.h"
#include "backend/cuda/ops/matmul.h"
#include "backend/lowering/attributes.h"
#include "backend/lowering/products.h"

namespace tokamak::cuda {

using lowering::Lane;

// Where the arguments of one product come from. Weights with a layout of matvec/ go there, others are rows.
struct Product {
  DType dtype = DType::f32;
  bool is_packed = false;
  bool on_tensor_columns = false;  // a kernel of columns/
  bool on_gemm = false;            // a kernel of gemm/
  MatmulArgs args;                 // shapes and constants
  Address weights, up, x, y, scale, up_scale, bias, up_bias, residual;
  Address ids;  // of stacks of matrices: int32 [n_cols / n_used, n_used]
  int64_t n_used = 1, ids_stride = 0;
  bool x_per_token = true, ids_are_settled = false;
  RouteShape shape;          // of experts on gemm/
  Address route, workspace;  // of gemm/
  Address x_low;             // of F32 on gemm/
  Address y_q8;              // of matvec/: the result quantized for the next product; none = not wanted
  bool y_low = false;        // with low bytes

  cudaError_t launch(const RunContext& c) const;
  GemmArgs gemm_args(const RunContext& c) const;

 private:
  cudaError_t launch_rows(const RunContext& c) const;
  MatvecArgs packed_args(const RunContext& c) const;
};

const CudaWeight& weight_of(const Lowering& lowering, const ir::Node& product);
// What the kernels of MUL_MAT read.
inline Address kernel_form(const CudaWeight& weight) {
  return Address::of(weight.packed ? weight.packed : weight.rows);
}
// The product `node` writing `result`, without epilogue; adds the step that quantizes its input where it needs that.
Product product_of(Lowering& lowering, const ir::Node& node, ir::ValueId result);
// The nodes of mul_mat_epilogue: the product with scale, bias or residual.
Product epilogue_product(Lowering& lowering, Nodes nodes);
void add_product(Lowering& lowering, const ir::Node& node, const Product& product);
// Has the product leave `result` quantized for the next one, where one column (or one per expert) is made.
void quantize_result(Lowering& lowering, ir::ValueId result, Product& product);

}  // namespace tokamak::cuda

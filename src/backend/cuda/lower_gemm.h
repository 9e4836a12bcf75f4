// Which products run on the kernels of gemm/, and their inputs.
#pragma once

#include "backend/cuda/lower_matmul.h"

namespace tokamak::cuda {

// With fewer columns (tokens, for experts) the kernels of matvec/ and columns/ are faster.
inline constexpr int64_t kMinGemmColumns = 17;
// F32 weights take three products.
inline constexpr int64_t kMinGemmColumnsF32 = 128;

// MUL_MAT with one matrix, and MUL_MAT_ID; F32 only outside of a GLU. Results then depend on the number of columns.
bool uses_gemm(const Lowering& lowering, const ir::Node& node);

// x in binary16 (launch_half_columns), or what that leaves of it. Adds the step that does it unless that is still at
// hand.
Address half_columns(Lowering& lowering, ir::ValueId x, bool low = false);
// The same for the input of a MUL_MAT_ID: in the columns that the route of its ids gives to its pairs.
struct ExpertColumns {
  RouteShape shape;
  Address route, columns;
};
ExpertColumns expert_columns(Lowering& lowering, const ir::Node& product);

// Adds the step of a product on gemm/.
void add_gemm(Lowering& lowering, Product product);

}  // namespace tokamak::cuda

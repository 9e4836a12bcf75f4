#include "backend/cuda/columns/columns.h"

#include <algorithm>
#include <array>

#include "backend/cuda/columns/launchers.h"
#include "backend/cuda/matvec/launchers.h"

namespace tokamak::cuda {

namespace {

struct ColumnsKernel {
  DType dtype;
  std::string_view name;
  LaunchColumns* launch;
};
constexpr auto kKernels = std::to_array<ColumnsKernel>({
    {DType::f16, "columns_f16", columns_f16},
    {DType::bf16, "columns_bf16", columns_bf16},
    {DType::q4_0, "columns_q4_0", columns_q4_0},
    {DType::q4_1, "columns_q4_1", columns_q4_1},
    {DType::q5_0, "columns_q5_0", columns_q5_0},
    {DType::q5_1, "columns_q5_1", columns_q5_1},
    {DType::q8_0, "columns_q8_0", columns_q8_0},
    {DType::mxfp4, "columns_mxfp4", columns_mxfp4},
    {DType::nvfp4, "columns_nvfp4", columns_nvfp4},
    {DType::iq4_nl, "columns_iq4_nl", columns_iq4_nl},
    {DType::iq4_xs, "columns_iq4_xs", columns_iq4_xs},
    {DType::q2_k, "columns_q2_k", columns_q2_k},
    {DType::q3_k, "columns_q3_k", columns_q3_k},
    {DType::q4_k, "columns_q4_k", columns_q4_k},
    {DType::q5_k, "columns_q5_k", columns_q5_k},
    {DType::q6_k, "columns_q6_k", columns_q6_k},
    {DType::q1_0, "columns_q1_0", columns_q1_0},
    {DType::q2_0, "columns_q2_0", columns_q2_0},
    {DType::tq2_0, "columns_tq2_0", columns_tq2_0},
    {DType::tq1_0, "columns_tq2_0", columns_tq2_0},
    {DType::iq2_xxs, "columns_iq2_xxs", columns_iq2_xxs},
    {DType::iq2_xs, "columns_iq2_xs", columns_iq2_xs},
    {DType::iq2_s, "columns_iq2_s", columns_iq2_s},
    {DType::iq3_xxs, "columns_iq3_xxs", columns_iq3_xxs},
    {DType::iq3_s, "columns_iq3_s", columns_iq3_s},
    {DType::iq1_s, "columns_iq1_s", columns_iq1_s},
    {DType::iq1_m, "columns_iq1_m", columns_iq1_m},
});

const ColumnsKernel* find(DType dtype) {
  for (const ColumnsKernel& kernel : kKernels)
    if (kernel.dtype == dtype) return &kernel;
  return nullptr;
}

cudaError_t launch(DType dtype, MatvecParams params, const MatvecParts& parts, cudaStream_t stream) {
  const ColumnsKernel* kernel = find(dtype);
  if (!kernel || params.ids || params.n_cols < 1 || params.n_cols > kMaxTensorColumns) return cudaErrorInvalidValue;
  params.x_stride_bytes = halves_column_bytes(params.k);
  return kernel->launch(params, parts, stream);
}

}  // namespace

bool has_columns(DType dtype) { return find(dtype) != nullptr; }
std::string_view columns_kernel(DType dtype) { return find(dtype)->name; }

cudaError_t launch_columns(const MatvecArgs& args, cudaStream_t stream) {
  const MatvecParams params = params_of(args);
  return launch(args.dtype, params, parts_of(params), stream);
}

cudaError_t launch_columns_group(const MatvecGroupArgs& group, cudaStream_t stream) {
  if (group.parts.empty() || group.parts.size() > kMaxMatvecParts) return cudaErrorInvalidValue;
  MatvecParts parts;
  const MatvecParams params = params_of(group, parts);
  return launch(group.dtype, params, parts, stream);
}

cudaError_t launch_halve(const HalveArgs& a, cudaStream_t stream) {
  return run_halve(a.x, a.n_cols, a.k, a.x_stride, static_cast<uint8_t*>(a.halves), a.overlap, stream);
}

}  // namespace tokamak::cuda

// Launch functions of the .cu files. Capturable: no allocation, no synchronization.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/gemm/params.h"

namespace tokamak::cuda {

// Columns and warpgroups of a CTA, parts of k (n_splits of split_groups times 128, the last the rest).
struct GemmPlan {
  int columns, warpgroups, n_splits, split_groups;
};

using LaunchGemm = cudaError_t(const GemmParams& params, const GemmPlan& plan, cudaStream_t stream);
LaunchGemm gemm_f32_high, gemm_f32_low, gemm_f16, gemm_bf16, gemm_q4_0, gemm_q4_1, gemm_q5_0, gemm_q5_1, gemm_q8_0,
    gemm_mxfp4, gemm_nvfp4, gemm_iq4_nl, gemm_iq4_xs, gemm_q2_k, gemm_q3_k, gemm_q4_k, gemm_q5_k, gemm_q6_k, gemm_q1_0,
    gemm_q2_0, gemm_tq2_0, gemm_iq2_xxs, gemm_iq2_xs, gemm_iq2_s, gemm_iq3_xxs, gemm_iq3_s, gemm_iq1_s, gemm_iq1_m;

// Parts of a split k, and the epilogue.
cudaError_t run_reduce(const GemmParams& params, cudaStream_t stream);

// Meaning: HalfColumnsArgs in gemm.h.
struct HalfColumnsParams {
  const float* x;
  int64_t n_cols, k, x_stride;
  int64_t n_groups, n_padded;
  uint8_t* tiles;
  float* factor;
  bool low;
  const int32_t* positions;
  int n_copies;
  bool overlap;
};
cudaError_t run_half_columns(const HalfColumnsParams& params, cudaStream_t stream);

struct RouteParams {
  const int32_t* ids;
  int64_t ids_stride;
  RouteShape shape;
  Route route;
  bool overlap;
};
cudaError_t run_route(const RouteParams& params, cudaStream_t stream);

}  // namespace tokamak::cuda

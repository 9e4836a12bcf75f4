// Launch functions of the .cu files. Capturable: no allocation, no synchronization.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/gemm/params.h"
#include "backend/cuda/matvec/packed_types.h"

namespace tokamak::cuda {

// Columns and warpgroups of a CTA, parts of k (n_splits of split_groups times 128, the last the rest).
struct GemmPlan {
  int columns, warpgroups, n_splits, split_groups;
};

using LaunchGemm = cudaError_t(const GemmParams& params, const GemmPlan& plan, cudaStream_t stream);
LaunchGemm gemm_f32_high, gemm_f32_low;
#define TOKAMAK_DECLARE(dtype, code) LaunchGemm gemm_##code;
TOKAMAK_PACKED_TYPES(TOKAMAK_DECLARE)
#undef TOKAMAK_DECLARE

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

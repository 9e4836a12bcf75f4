// The end of a product, as in matvec/: value = dot * scale + bias for each matrix, then GLU(gate, up), then + residual.
#pragma once

#include "backend/cuda/gemm/params.h"
#include "backend/cuda/matvec/epilogue.cuh"

namespace tokamak::cuda {

// Of one row: scale and bias of both matrices.
struct GemmRow {
  float scale[2], bias[2];
};
__device__ inline GemmRow load_gemm_row(const GemmParams& p, int64_t row, int expert) {
  GemmRow out{{1.0f, 1.0f}, {0.0f, 0.0f}};
#pragma unroll
  for (int l = 0; l < 2; ++l) {
    if (p.lanes[l].scale) out.scale[l] = p.lanes[l].scale[expert];
    if (p.lanes[l].bias) out.bias[l] = p.lanes[l].bias[expert * p.n_rows + row];
  }
  return out;
}
__device__ inline float finish_value(const GemmParams& p, float gate, float up, const GemmRow& in) {
  const float value = gate * in.scale[0] + in.bias[0];
  return p.n_lanes == 2 ? glu_of(p.glu, value, up * in.scale[1] + in.bias[1], p.alpha, p.limit) : value;
}

}  // namespace tokamak::cuda

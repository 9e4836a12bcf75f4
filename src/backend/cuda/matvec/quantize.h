// Parameters of the kernels of quantize.cu; meaning: QuantizeQ8Args and RmsNormQ8Args in matvec.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tokamak::cuda {

struct QuantizeParams {
  const float* x;
  int64_t n_cols, k, x_stride;
  uint8_t* q8;
  bool low;
};
struct RmsNormParams {
  const float *x, *add, *weight;
  int64_t n_cols, k, x_stride;
  float eps;
  float *sum, *norm;
  uint8_t* q8;
  bool low;
  bool rehearses = false;  // set by the launch
};
cudaError_t run_quantize(const QuantizeParams& params, bool overlap, cudaStream_t stream);
cudaError_t run_rms_norm(RmsNormParams params, bool overlap, cudaStream_t stream);

}  // namespace tokamak::cuda

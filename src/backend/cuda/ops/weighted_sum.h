// What a token's experts made, times their weights, summed. f32; strides in elements between rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tokamak::cuda {

inline constexpr int kMaxAddends = 2;

// y[t] = w[t, 0] * x[t, 0] + w[t, 1] * x[t, 1] + ... + addend[0][t] + ..., from left to right, every step rounded as
// the op that it stands for. Rows of x and w: t * n_used + i.
struct WeightedSumArgs {
  const float* x = nullptr;
  const float* weights = nullptr;  // one number per row
  const float* addends[kMaxAddends] = {};
  float* y = nullptr;
  int64_t x_stride = 0, weight_stride = 0, addend_strides[kMaxAddends] = {}, y_stride = 0;
  int64_t n_tokens = 0, row_elems = 0;
  int n_used = 0, n_addends = 0;
};
cudaError_t launch_weighted_sum(const WeightedSumArgs& args, cudaStream_t stream);

}  // namespace tokamak::cuda

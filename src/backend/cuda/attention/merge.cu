// The results over a token's chunks become one. A block takes 32 dimensions of one head; eight warps each take every
// eighth chunk, and their sums are added in order: an order given by the number of the token's chunks.
#include "backend/cuda/attention/tokens.cuh"

namespace tokamak::cuda {

namespace {
constexpr int kWarps = 8;

constexpr int kPerWarp = kWarp / kWarps;  // chunks of 32 that a warp takes

__global__ void __launch_bounds__(kWarps* kWarp) merge_kernel(const __grid_constant__ AttentionArgs a) {
  allow_next_kernel();
  __shared__ float sums[kWarps][kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t head = blockIdx.y, token = blockIdx.z, d = blockIdx.x * int64_t{kWarp} + lane;
  const int n = static_cast<int>(chunks_of(a, token_keys(a, token)).count);
  wait_for_previous_kernel();
  const float2* all_stats = partial_stats(a, token, head, 0);
  const float* all_values = partial_values(a, token, head, 0) + d;
  // Of chunks base .. base + 31: lane i has the i-th chunk's stats, a warp the values of every eighth.
  float2 stats;
  float values[kPerWarp];
  const auto load = [&](int base) {
    stats = base + lane < n ? all_stats[base + lane] : make_float2(-INFINITY, 0.0f);
#pragma unroll
    for (int i = 0; i < kPerWarp; ++i) {
      const int chunk = base + warp + i * kWarps;
      values[i] = chunk < n && d < a.dv ? all_values[chunk * a.dv] : 0.0f;
    }
  };
  load(0);
  float largest = stats.x;
  for (int chunk = kWarp + lane; chunk < n; chunk += kWarp) largest = fmaxf(largest, all_stats[chunk].x);
  largest = warp_max(largest);
  float sum = 0, weight = 0;
  for (int base = 0; base < n; base += kWarp) {
    if (base > 0) load(base);
    const float factor = stats.y == 0 ? 0.0f : exp2f(stats.x - largest);
    weight = fmaf(stats.y, factor, weight);
#pragma unroll
    for (int i = 0; i < kPerWarp; ++i) sum = fmaf(values[i], __shfl_sync(~0u, factor, warp + i * kWarps), sum);
  }
  weight = warp_sum(weight);
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += sums[w][lane];
  sum *= final_factor(a, head, largest, weight);
  if (d < a.dv) a.y[(token * a.n_head + head) * a.dv + d] = sum;
  if (a.dv % kWarp == 0) quantize_group(a, token, head * a.dv + d - lane, sum, lane);
}
}  // namespace

cudaError_t launch_attention_merge(const AttentionArgs& a, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(a.dv, kWarp)), static_cast<unsigned>(a.n_head),
                  static_cast<unsigned>(a.n_tokens));
  return launch_overlapped(merge_kernel, grid, kWarps * kWarp, 0, stream, a);
}

}  // namespace tokamak::cuda

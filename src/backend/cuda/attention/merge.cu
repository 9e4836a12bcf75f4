// The results over a token's chunks become one. A block takes 32 dimensions of one head; eight warps each take every
// eighth chunk, and their sums are added in order: an order given by the number of the token's chunks.
#include "backend/cuda/attention/tokens.cuh"

namespace tokamak::cuda {

namespace {
constexpr int kWarps = 8;

__device__ float largest_score(const AttentionArgs& a, int64_t token, int64_t head, int64_t n, int lane) {
  float largest = -INFINITY;
  for (int64_t c = lane; c < n; c += kWarp) largest = fmaxf(largest, partial_stats(a, token, head, c)->x);
  return warp_max(largest);
}

__global__ void __launch_bounds__(kWarps* kWarp) merge_kernel(const __grid_constant__ AttentionArgs a) {
  allow_next_kernel();
  __shared__ float sums[kWarps][kWarp], weights[kWarps];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t head = blockIdx.y, token = blockIdx.z, d = blockIdx.x * int64_t{kWarp} + lane;
  const int64_t n = chunks_of(a, token_keys(a, token)).count;
  wait_for_previous_kernel();
  const float largest = largest_score(a, token, head, n, lane);
  float sum = 0, weight = 0;
#pragma unroll 4
  for (int64_t c = warp; c < n; c += kWarps) {
    const float2 stats = *partial_stats(a, token, head, c);
    const float value = d < a.dv ? partial_values(a, token, head, c)[d] : 0.0f;
    const float factor = stats.y == 0 ? 0.0f : exp2f(stats.x - largest);
    sum = fmaf(value, factor, sum);
    weight = fmaf(stats.y, factor, weight);
  }
  sums[warp][lane] = sum;
  if (lane == 0) weights[warp] = weight;
  __syncthreads();
  if (warp > 0) return;
  for (int w = 1; w < kWarps; ++w) sum += sums[w][lane], weight += weights[w];
  sum *= final_factor(a, head, largest, weight);
  if (a.dv % kWarp == 0)
    write_group(a, token, head * a.dv + d - lane, sum, lane);
  else if (d < a.dv)
    a.y[(token * a.n_head + head) * a.dv + d] = sum;
}
}  // namespace

cudaError_t launch_attention_merge(const AttentionArgs& a, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(a.dv, kWarp)), static_cast<unsigned>(a.n_head),
                  static_cast<unsigned>(a.n_tokens));
  return launch_overlapped(merge_kernel, grid, kWarps * kWarp, 0, stream, a);
}

}  // namespace tokamak::cuda

// ROPE, its table, and writes to the cache: one warp per head of a token.
#include <cuda_fp16.h>

#include "backend/cuda/ops/attention.h"
#include "backend/cuda/ops/launch.h"

namespace tokamak::cuda {

namespace {
constexpr int kWarps = 4;

__global__ void rope_table_kernel(RopeTableArgs a) {
  const int64_t n_pairs = a.n_rot / 2;
  for (int64_t i = first_item(); i < a.n_tokens * n_pairs; i += item_step()) {
    const int64_t token = i / n_pairs, pair = i % n_pairs;
    double sine, cosine;
    sincos(static_cast<double>(a.positions[token]) * a.frequencies[pair], &sine, &cosine);
    const auto c = static_cast<float>(cosine * a.attn_factor), s = static_cast<float>(sine * a.attn_factor);
    const int64_t first = a.neox ? pair : 2 * pair, second = a.neox ? pair + n_pairs : 2 * pair + 1;
    float* row = a.rows + token * 2 * a.n_rot;
    row[first] = row[second] = c;
    row[a.n_rot + first] = -s;
    row[a.n_rot + second] = s;
  }
}

__device__ int64_t partner_of(const HeadArgs& a, int64_t i) {
  if (!a.neox) return i ^ 1;
  return i < a.n_rot / 2 ? i + a.n_rot / 2 : i - a.n_rot / 2;
}

__device__ void store(const HeadArgs& a, int64_t token, int64_t head, int64_t i, float x) {
  if (a.y) {
    a.y[(token * a.n_head + head) * a.head_dim + i] = x;
    return;
  }
  const int64_t at = (int64_t{a.slots[token]} * a.n_head + head) * cache_stride(a.head_dim) + i;
  if (a.cache_type == KvType::f16)
    static_cast<__half*>(a.cache)[at] = __float2half_rn(x);
  else
    static_cast<float*>(a.cache)[at] = x;
}

__global__ void heads_kernel(HeadArgs a) {
  extern __shared__ float heads[];
  const int64_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t item = blockIdx.x * int64_t{kWarps} + warp;
  if (item >= a.n_tokens * a.n_head) return;
  const int64_t token = item / a.n_head, head = item % a.n_head;
  const float* x = a.x + token * a.x_stride + head * a.x_head_stride;
  float* own = heads + warp * a.head_dim;
  float squares = 0;
  for (int64_t i = lane; i < a.head_dim; i += kWarp) {
    own[i] = x[i];
    squares = fmaf(x[i], x[i], squares);
  }
  if (a.norm_weight) {
    const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(a.head_dim) + a.eps);
    for (int64_t i = lane; i < a.head_dim; i += kWarp) own[i] = own[i] * factor * a.norm_weight[i];
  }
  __syncwarp();
  const float* row = a.table + token * 2 * a.n_rot;
  for (int64_t i = lane; i < a.head_dim; i += kWarp) {
    float y = own[i];
    if (a.table && i < a.n_rot) y = fmaf(y, row[i], own[partner_of(a, i)] * row[a.n_rot + i]);
    store(a, token, head, i, y);
  }
}
}  // namespace

cudaError_t launch_rope_table(const RopeTableArgs& args, cudaStream_t stream) {
  rope_table_kernel<<<grid_for(args.n_tokens * args.n_rot / 2, 128), 128, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t launch_heads(const HeadArgs& args, cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(ceil_div(args.n_tokens * args.n_head, kWarps));
  const size_t shared = static_cast<size_t>(kWarps * args.head_dim) * sizeof(float);
  heads_kernel<<<grid, kWarps * kWarp, shared, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace tokamak::cuda

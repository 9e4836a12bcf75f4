#include "backend/cuda/attention/prefill.h"

#include <algorithm>

#include "backend/cuda/attention/prefill_kernel.cuh"
#include "backend/cuda/attention/prefill_kernels.h"
#include "backend/cuda/attention/prefill_merge.cuh"
#include "backend/cuda/device_attribute.h"
#include "backend/cuda/overlap.h"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 1024, kWarps = kThreads / 32;

struct Larger {
  __device__ int operator()(int a, int b) const { return max(a, b); }
};
struct Sum {
  __device__ int operator()(int a, int b) const { return a + b; }
};

// Combines x of all threads up to and with this one; `all`: of the whole block. All threads.
template <class Combine>
__device__ int scan(int x, int& all, Combine combine) {
  __shared__ int parts[kWarps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int d = 1; d < 32; d *= 2) {
    const int other = __shfl_up_sync(~0u, x, d);
    if (lane >= d) x = combine(other, x);
  }
  __syncthreads();  // parts may still be read by an earlier call
  if (lane == 31) parts[warp] = x;
  __syncthreads();
  all = parts[0];
  for (int w = 1; w < kWarps; ++w) {
    if (w == warp) x = combine(all, x);
    all = combine(all, parts[w]);
  }
  return x;
}

// One block, which goes over the tokens in order.
__global__ void __launch_bounds__(kThreads)
    prefill_tiles_kernel(const int32_t* seq_ids, int n_tokens, int tile_tokens, int32_t* tiles) {
  int run = 0, n_tiles = 0;  // where the run of the last token seen begins; tiles seen
  for (int first = 0; first < n_tokens; first += kThreads) {
    const int token = first + static_cast<int>(threadIdx.x);
    const bool exists = token < n_tokens, begins_run = exists && token > 0 && seq_ids[token] != seq_ids[token - 1];
    int last_run, n_new;
    const int begin = max(run, scan(begins_run ? token : 0, last_run, Larger()));
    const bool begins_tile = exists && (token - begin) % tile_tokens == 0;
    const int tile = n_tiles + scan(begins_tile ? 1 : 0, n_new, Sum());
    if (begins_tile) tiles[tile] = token;
    run = max(run, last_run);
    n_tiles += n_new;
  }
  if (threadIdx.x == 0) tiles[0] = n_tiles, tiles[1 + n_tiles] = n_tokens;
}

// A warp per row.
constexpr int kMergeThreads = 128, kMostMergedDims = 256;
__global__ void __launch_bounds__(kMergeThreads) prefill_merge_kernel(const __grid_constant__ PrefillAttentionArgs a) {
  using prefill::Merged;
  const int64_t row = blockIdx.x * int64_t{kMergeThreads / 32} + threadIdx.x / 32;
  if (row >= a.n_tokens * a.n_head) return;
  const int64_t token = row / a.n_head;
  const int head = static_cast<int>(row % a.n_head), lane = threadIdx.x % 32, dv = static_cast<int>(a.dv);
  float sums[kMostMergedDims / 32] = {};
  Merged merged;
  for (int part = 0; part < a.n_parts; ++part) {
    const float* from = prefill::partial_of(a, token, head, part);
    if (from[dv + 1] == 0) continue;  // the row sees none of these keys
    const Merged::Factors f = merged.take(from[dv], from[dv + 1]);
#pragma unroll
    for (int i = 0; i < kMostMergedDims / 32; ++i)
      if (32 * i + lane < dv) sums[i] = prefill::merged_sum(sums[i], from[32 * i + lane], f);
  }
  const float factor = prefill::final_factor(a, head, merged.largest, merged.total);
#pragma unroll
  for (int i = 0; i < kMostMergedDims / 32; ++i)
    if (32 * i + lane < dv) a.y[row * dv + 32 * i + lane] = sums[i] * factor;
}

const prefill::Kernel* find(std::span<const prefill::Kernel> kernels, int64_t dk, int64_t dv) {
  const auto found = std::ranges::find_if(kernels, [=](const prefill::Kernel& k) { return k.dk == dk && k.dv == dv; });
  return found == kernels.end() ? nullptr : &*found;
}

// Whether there is room for a block with single buffers; kernels that have two of each take less than 99 KB.
bool fits(const prefill::Kernel& kernel, KvType type) {
  constexpr int kOfPlans = 227 * 1024;  // of 9.0
  prefill::Params p = prefill::params_of(
      {.type = type, .n_head = 1, .n_head_kv = 1, .dk = kernel.dk, .dv = kernel.dv, .page_size = prefill::kBlockKeys});
  const int n_bytes = prefill::place(p, kernel.tile_rows, type == KvType::f16, 1);
  return n_bytes <= device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, kOfPlans);
}

const prefill::Kernel* find(KvType type, int64_t dk, int64_t dv, bool wide) {
  const int major = device_attribute(cudaDevAttrComputeCapabilityMajor, 9);
  if (type == KvType::f32 || major < 9) return nullptr;
  const bool is_f16 = type == KvType::f16;
  const prefill::Kernel* kernel = nullptr;
  if (wide && major == 9)
    kernel = find(is_f16 ? prefill::wide_f16_kernels() : prefill::wide_decoding_kernels(), dk, dv);
  if (kernel) return kernel;
  kernel = find(is_f16 ? prefill::f16_kernels() : prefill::decoding_kernels(), dk, dv);
  return kernel && fits(*kernel, type) ? kernel : nullptr;
}
}  // namespace

int64_t prefill_tile_tokens(KvType type, int64_t dk, int64_t dv, int64_t n_head, int64_t n_head_kv, bool wide) {
  const prefill::Kernel* kernel = find(type, dk, dv, wide);
  return kernel ? kernel->tile_rows / (n_head / n_head_kv) : 0;
}

cudaError_t launch_prefill_tiles(const int32_t* seq_ids, int64_t n_tokens, int64_t tile_tokens, int32_t* tiles,
                                 cudaStream_t stream) {
  return launch_in_turn(prefill_tiles_kernel, 1, kThreads, 0, stream, seq_ids, static_cast<int>(n_tokens),
                        static_cast<int>(tile_tokens), tiles);
}

bool prefill_splits(KvType type, int64_t dk, int64_t dv) {
  const prefill::Kernel* kernel = find(type, dk, dv, true);
  return kernel && kernel->splits;
}

cudaError_t launch_prefill_attention(const PrefillAttentionArgs& args, cudaStream_t stream) {
  const prefill::Kernel* kernel = find(args.type, args.dk, args.dv, args.wide);
  return kernel ? kernel->launch(args, stream) : cudaErrorInvalidValue;
}

cudaError_t launch_prefill_merge(const PrefillAttentionArgs& args, cudaStream_t stream) {
  constexpr int kRows = kMergeThreads / 32;
  const int64_t blocks = (args.n_tokens * args.n_head + kRows - 1) / kRows;
  return launch_in_turn(prefill_merge_kernel, static_cast<unsigned>(blocks), kMergeThreads, 0, stream, args);
}

}  // namespace tokamak::cuda

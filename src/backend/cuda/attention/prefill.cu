#include "backend/cuda/attention/prefill.h"

#include <algorithm>

#include "backend/cuda/attention/prefill_kernels.h"

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

const prefill::Kernel* find(std::span<const prefill::Kernel> kernels, int64_t dk, int64_t dv) {
  const auto found = std::ranges::find_if(kernels, [=](const prefill::Kernel& k) { return k.dk == dk && k.dv == dv; });
  return found == kernels.end() ? nullptr : &*found;
}

bool multiplies_by_warpgroups() {
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major == 9;
}

const prefill::Kernel* find(KvType type, int64_t dk, int64_t dv, bool wide) {
  if (type == KvType::f32) return nullptr;
  if (type != KvType::f16) return find(prefill::decoding_kernels(), dk, dv);
  const prefill::Kernel* kernel = wide && multiplies_by_warpgroups() ? find(prefill::wide_kernels(), dk, dv) : nullptr;
  return kernel ? kernel : find(prefill::f16_kernels(), dk, dv);
}
}  // namespace

int64_t prefill_tile_tokens(KvType type, int64_t dk, int64_t dv, int64_t n_head, int64_t n_head_kv, bool wide) {
  const prefill::Kernel* kernel = find(type, dk, dv, wide);
  return kernel ? kernel->tile_rows / (n_head / n_head_kv) : 0;
}

cudaError_t launch_prefill_tiles(const int32_t* seq_ids, int64_t n_tokens, int64_t tile_tokens, int32_t* tiles,
                                 cudaStream_t stream) {
  prefill_tiles_kernel<<<1, kThreads, 0, stream>>>(seq_ids, static_cast<int>(n_tokens), static_cast<int>(tile_tokens),
                                                   tiles);
  return cudaGetLastError();
}

cudaError_t launch_prefill_attention(const PrefillAttentionArgs& args, cudaStream_t stream) {
  const prefill::Kernel* kernel = find(args.type, args.dk, args.dv, args.wide);
  return kernel ? kernel->launch(args, stream) : cudaErrorInvalidValue;
}

}  // namespace tokamak::cuda

// Attention over the paged cache. A block takes one token, one key head, up to kHeads of its query heads, and one chunk
// of keys (or all, one after the other): scores from a tile of keys in shared memory, a thread per key; then softmax;
// then values straight from memory, a thread per two dimensions.
#include "backend/cuda/ops/attention.h"

#include <cuda_fp16.h>

#include "backend/cuda/ops/launch.h"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 128;
constexpr int kHeads = 8;
constexpr int64_t kSharedLimit = 200 * 1024;

__device__ float2 load2(const float* p) { return *reinterpret_cast<const float2*>(p); }
__device__ float2 load2(const __half* p) { return __half22float2(*reinterpret_cast<const __half2*>(p)); }

// Where a block works, and its shared memory.
struct Block {
  int64_t token, head_kv, first_head;
  int n_heads;
  const int32_t* pages;
  int64_t begin, end;  // visible keys
};

__device__ Block this_block(const AttentionArgs& a) {
  const int64_t group = a.n_head / a.n_head_kv, pieces = (group + kHeads - 1) / kHeads;
  Block b;
  const int64_t piece = blockIdx.x % pieces;
  b.head_kv = blockIdx.x / pieces % a.n_head_kv;
  b.token = blockIdx.x / pieces / a.n_head_kv;
  b.first_head = b.head_kv * group + piece * kHeads;
  const int64_t left = group - piece * kHeads;
  b.n_heads = static_cast<int>(left < kHeads ? left : kHeads);
  const int32_t seq = a.seq_ids[b.token];
  const int64_t position = a.positions[b.token];
  b.pages = a.pages + a.page_begin[seq];
  b.end = a.causal ? position + 1 : a.n_keys[seq];
  b.begin = 0;
  if (a.window > 0) {
    b.begin = position - a.window + 1 > 0 ? position - a.window + 1 : 0;
    b.end = b.end < position + 1 ? b.end : position + 1;
  }
  if (a.chunk > 0 && position / a.chunk * a.chunk > b.begin) b.begin = position / a.chunk * a.chunk;
  return b;
}

template <class T>
__device__ const T* row_of(const AttentionArgs& a, const Block& b, const void* plane, int64_t key, int64_t head_dim) {
  const auto at = static_cast<uint32_t>(key), size = static_cast<uint32_t>(a.page_size);  // 64-bit division is slow
  const int64_t slot = int64_t{b.pages[at / size]} * a.page_size + at % size;
  return static_cast<const T*>(plane) + (slot * a.n_head_kv + b.head_kv) * cache_stride(head_dim);
}

// Elements from one row of a tile to the next: an odd number of 4-byte words, so that there are no bank conflicts.
template <class T>
__host__ __device__ int64_t tile_stride(int64_t dk) {
  return cache_stride(dk) + static_cast<int64_t>(4 / sizeof(T));
}

struct Shared {
  float* q;       // [kHeads][cache_stride(dk)]
  float* scores;  // [kHeads][kKeyChunk]
  float* acc;     // [kHeads][cache_stride(dv)]
  float* parts;   // [kThreads][2], sums of one head while values are added up
  float* state;   // [kHeads][2]: running maximum and sum
  float* fresh;   // [kHeads][2]: of this chunk
  void* tile;
};
__host__ __device__ int64_t shared_floats(const AttentionArgs& a) {
  return kHeads * (cache_stride(a.dk) + kKeyChunk + cache_stride(a.dv) + 4) + 2 * kThreads;
}
__device__ Shared carve(const AttentionArgs& a, float* at) {
  Shared s;
  s.q = at;
  s.scores = s.q + kHeads * cache_stride(a.dk);
  s.acc = s.scores + kHeads * kKeyChunk;
  s.parts = s.acc + kHeads * cache_stride(a.dv);
  s.state = s.parts + 2 * kThreads;
  s.fresh = s.state + 2 * kHeads;
  s.tile = s.fresh + 2 * kHeads;
  return s;
}

// Copies n keys into the tile, 16 bytes per thread, several loads in flight.
template <class T>
__device__ void load_tile(const AttentionArgs& a, const Block& b, T* tile, int64_t first, int64_t n) {
  constexpr int kInFlight = 8;
  const int stride = static_cast<int>(tile_stride<T>(a.dk) * sizeof(T) / 4);  // words
  const int vectors = static_cast<int>(cache_stride(a.dk) * sizeof(T) / 16), total = static_cast<int>(n) * vectors;
  for (int begin = threadIdx.x; begin < total; begin += kInFlight * kThreads) {
    uint4 loaded[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = begin + i * kThreads;
      if (at < total)
        loaded[i] = reinterpret_cast<const uint4*>(row_of<T>(a, b, a.keys, first + at / vectors, a.dk))[at % vectors];
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = begin + i * kThreads;
      if (at >= total) continue;
      uint32_t* to = reinterpret_cast<uint32_t*>(tile) + at / vectors * stride + at % vectors * 4;
      to[0] = loaded[i].x, to[1] = loaded[i].y, to[2] = loaded[i].z, to[3] = loaded[i].w;
    }
  }
}

__device__ float2 tile2(const float* row, int64_t i) { return {row[i], row[i + 1]}; }
__device__ float2 tile2(const __half* row, int64_t i) { return load2(row + i); }

template <class T>
__device__ void score_tile(const AttentionArgs& a, const Block& b, const Shared& s, const T* tile, int64_t offset,
                           int64_t n) {
  if (threadIdx.x >= n) return;
  const T* row = tile + threadIdx.x * tile_stride<T>(a.dk);
  float sums[kHeads] = {};
  const int64_t q_stride = cache_stride(a.dk);
  for (int64_t i = 0; i < q_stride; i += 2) {
    const float2 k = tile2(row, i);
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
      if (h < b.n_heads) {
        const float2 q = *reinterpret_cast<const float2*>(s.q + h * q_stride + i);
        sums[h] = fmaf(k.y, q.y, fmaf(k.x, q.x, sums[h]));
      }
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= b.n_heads) continue;
    float score = sums[h] * a.scale;
    if (a.softcap != 0) score = a.softcap * tanhf(score / a.softcap);
    s.scores[h * kKeyChunk + offset + threadIdx.x] = score;
  }
}

// Scores of keys [begin, end) become exp(score - maximum); fresh = {maximum, sum}.
__device__ void soft_max(const Block& b, const Shared& s, int64_t n) {
  const int lane = threadIdx.x % kWarp;
  for (int h = threadIdx.x / kWarp; h < b.n_heads; h += kThreads / kWarp) {
    float* scores = s.scores + h * kKeyChunk;
    float largest = -INFINITY, sum = 0;
    for (int64_t i = lane; i < n; i += kWarp) largest = fmaxf(largest, scores[i]);
    largest = warp_max(largest);
    for (int64_t i = lane; i < n; i += kWarp) {
      scores[i] = expf(scores[i] - largest);
      sum += scores[i];
    }
    sum = warp_sum(sum);
    if (lane == 0) s.fresh[2 * h] = largest, s.fresh[2 * h + 1] = sum;
  }
}

// A result over earlier keys and one over later keys become one: factors of the two.
struct Merge {
  float largest, earlier, later;
};
__device__ Merge merge_of(float earlier, float later) {
  const float largest = fmaxf(earlier, later);
  return {largest, expf(earlier - largest), expf(later - largest)};
}

// acc = acc * factor + sum over keys of p * v, per head; several groups of threads share the keys.
template <class T>
__device__ void add_values(const AttentionArgs& a, const Block& b, const Shared& s, int64_t begin, int64_t n) {
  constexpr int kInFlight = 8;
  const int pairs = static_cast<int>(cache_stride(a.dv) / 2);
  const int lanes = pairs < kThreads ? pairs : kThreads, splits = kThreads / lanes;
  for (int first = 0; first < pairs; first += lanes) {
    const int pair = first + static_cast<int>(threadIdx.x) % lanes, split = threadIdx.x / lanes;
    const bool works = split < splits && pair < pairs;
    float2 sums[kHeads] = {};
    for (int64_t key = split; works && key < n; key += kInFlight * splits) {
      float2 loaded[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i)
        if (key + i * splits < n)
          loaded[i] = load2(row_of<T>(a, b, a.values, begin + key + i * splits, a.dv) + 2 * pair);
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (key + i * splits >= n) continue;
#pragma unroll
        for (int h = 0; h < kHeads; ++h)
          if (h < b.n_heads) {
            const float p = s.scores[h * kKeyChunk + key + i * splits];
            sums[h] = {fmaf(p, loaded[i].x, sums[h].x), fmaf(p, loaded[i].y, sums[h].y)};
          }
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h >= b.n_heads) continue;
      __syncthreads();
      s.parts[2 * threadIdx.x] = sums[h].x, s.parts[2 * threadIdx.x + 1] = sums[h].y;
      __syncthreads();
      if (split != 0 || !works) continue;
      float2 total = sums[h];
      for (int other = 1; other < splits; ++other) {
        total.x += s.parts[2 * (threadIdx.x + other * lanes)];
        total.y += s.parts[2 * (threadIdx.x + other * lanes) + 1];
      }
      const Merge m = merge_of(s.state[2 * h], s.fresh[2 * h]);
      float* acc = s.acc + h * cache_stride(a.dv) + 2 * pair;
      acc[0] = fmaf(acc[0], m.earlier, total.x * m.later);
      acc[1] = fmaf(acc[1], m.earlier, total.y * m.later);
    }
  }
}

template <class T>
__device__ void walk_chunk(const AttentionArgs& a, const Block& b, const Shared& s, int64_t chunk, int64_t tile_keys) {
  const int64_t first = chunk * kKeyChunk > b.begin ? chunk * kKeyChunk : b.begin;
  const int64_t last = (chunk + 1) * kKeyChunk < b.end ? (chunk + 1) * kKeyChunk : b.end;
  if (first >= last) return;
  T* tile = static_cast<T*>(s.tile);
  for (int64_t at = first; at < last; at += tile_keys) {
    const int64_t n = last - at < tile_keys ? last - at : tile_keys;
    __syncthreads();
    load_tile<T>(a, b, tile, at, n);
    __syncthreads();
    score_tile<T>(a, b, s, tile, at - first, n);
  }
  __syncthreads();
  soft_max(b, s, last - first);
  __syncthreads();
  add_values<T>(a, b, s, first, last - first);
  __syncthreads();
  if (threadIdx.x < b.n_heads) {
    float* state = s.state + 2 * threadIdx.x;
    const float* fresh = s.fresh + 2 * threadIdx.x;
    const Merge m = merge_of(state[0], fresh[0]);
    state[0] = m.largest;
    state[1] = fmaf(state[1], m.earlier, fresh[1] * m.later);
  }
  __syncthreads();
}

// The factor that makes a sum of exponentials' weighted values the result.
__device__ float final_factor(const AttentionArgs& a, int64_t head, float largest, float sum) {
  if (sum == 0) return 0;
  if (!a.sinks) return 1.0f / sum;
  const Merge m = merge_of(largest, a.sinks[head]);
  return m.earlier / fmaf(sum, m.earlier, m.later);
}

template <class T>
__global__ void __launch_bounds__(kThreads) attention_kernel(AttentionArgs a, int64_t tile_keys) {
  extern __shared__ float memory[];
  const Block b = this_block(a);
  const Shared s = carve(a, memory);
  const bool split = a.partials != nullptr;
  const int64_t from = split ? blockIdx.y : b.begin / kKeyChunk;
  const int64_t to = split ? blockIdx.y + 1 : (b.end + kKeyChunk - 1) / kKeyChunk;
  float* out =
      split ? a.partials + ((b.token * a.n_head + b.first_head) * a.n_chunks + blockIdx.y) * (a.dv + 2) : nullptr;
  const int64_t head_step = a.n_chunks * (a.dv + 2);
  if (split && (from * kKeyChunk >= b.end || (to * kKeyChunk <= b.begin))) {
    if (threadIdx.x < b.n_heads) out[threadIdx.x * head_step + 1] = 0;  // a sum of nothing
    return;
  }
  const int64_t q_stride = cache_stride(a.dk), acc_stride = cache_stride(a.dv);
  for (int64_t i = threadIdx.x; i < b.n_heads * q_stride; i += kThreads) {
    const int64_t h = b.first_head + i / q_stride, d = i % q_stride;
    s.q[i] = d < a.dk ? a.q[b.token * a.q_stride + h * a.q_head_stride + d] : 0;
  }
  for (int64_t i = threadIdx.x; i < b.n_heads * acc_stride; i += kThreads) s.acc[i] = 0;
  if (threadIdx.x < kHeads) s.state[2 * threadIdx.x] = -INFINITY, s.state[2 * threadIdx.x + 1] = 0;
  for (int64_t chunk = from; chunk < to; ++chunk) walk_chunk<T>(a, b, s, chunk, tile_keys);
  __syncthreads();
  for (int64_t i = threadIdx.x; i < b.n_heads * a.dv; i += kThreads) {
    const int64_t h = i / a.dv, d = i % a.dv;
    const float acc = s.acc[h * acc_stride + d];
    if (split)
      out[h * head_step + 2 + d] = acc;
    else
      a.y[(b.token * a.n_head + b.first_head + h) * a.dv + d] =
          acc * final_factor(a, b.first_head + h, s.state[2 * h], s.state[2 * h + 1]);
  }
  if (split && threadIdx.x < b.n_heads) {
    out[threadIdx.x * head_step] = s.state[2 * threadIdx.x];
    out[threadIdx.x * head_step + 1] = s.state[2 * threadIdx.x + 1];
  }
}

// One block per token and head, a thread per dimension.
__global__ void merge_kernel(AttentionArgs a) {
  const float* parts = a.partials + blockIdx.x * a.n_chunks * (a.dv + 2);
  for (int64_t d = threadIdx.x; d < a.dv; d += blockDim.x) {
    float largest = -INFINITY, sum = 0, acc = 0;
    for (int64_t c = 0; c < a.n_chunks; ++c) {
      const float* part = parts + c * (a.dv + 2);
      if (part[1] == 0) continue;
      const Merge m = merge_of(largest, part[0]);
      largest = m.largest;
      sum = fmaf(sum, m.earlier, part[1] * m.later);
      acc = fmaf(acc, m.earlier, part[2 + d] * m.later);
    }
    a.y[blockIdx.x * a.dv + d] = acc * final_factor(a, blockIdx.x % a.n_head, largest, sum);
  }
}

template <class T>
cudaError_t launch(const AttentionArgs& a, cudaStream_t stream) {
  const int64_t fixed = shared_floats(a) * static_cast<int64_t>(sizeof(float));
  const int64_t row = tile_stride<T>(a.dk) * static_cast<int64_t>(sizeof(T));
  int64_t tile_keys = kThreads;
  while (tile_keys > kWarp && fixed + tile_keys * row > kSharedLimit / 4) tile_keys /= 2;  // several blocks per SM
  const auto shared = static_cast<int>(fixed + tile_keys * row);
  if (shared > kSharedLimit) return cudaErrorInvalidValue;
  static const cudaError_t raised =
      cudaFuncSetAttribute(attention_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedLimit);
  if (raised != cudaSuccess) return raised;
  const int64_t pieces = ceil_div(a.n_head / a.n_head_kv, kHeads);
  const dim3 grid(static_cast<unsigned>(a.n_tokens * a.n_head_kv * pieces),
                  a.partials ? static_cast<unsigned>(a.n_chunks) : 1);
  attention_kernel<T><<<grid, kThreads, static_cast<size_t>(shared), stream>>>(a, tile_keys);
  return cudaGetLastError();
}
}  // namespace

cudaError_t launch_attention(const AttentionArgs& args, cudaStream_t stream) {
  return args.type == KvType::f16 ? launch<__half>(args, stream) : launch<float>(args, stream);
}

cudaError_t launch_attention_merge(const AttentionArgs& args, cudaStream_t stream) {
  merge_kernel<<<static_cast<unsigned>(args.n_tokens * args.n_head), 128, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace tokamak::cuda

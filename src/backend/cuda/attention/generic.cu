// Attention for any head size and cache type, in f32. A block takes one token, one key head, up to kHeads of its query
// heads, and one chunk of keys (or all, one after the other): scores from a tile of keys in shared memory, a thread per
// key; then softmax; then values straight from memory, a thread per two dimensions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/attention/generic.h"
#include "backend/cuda/attention/tokens.cuh"
#include "backend/cuda/device_attribute.h"
#include "backend/cuda/ptx/memory.cuh"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 128;
constexpr int kHeads = 8;
constexpr int kKeys = 256;  // worked on together
constexpr int kSharedLimit = 200 * 1024;

// Elements from their bits; scaled ones still lack their scale.
template <KvType kType>
__device__ float elem_of(uint32_t bits) {
  if constexpr (kType == KvType::f32) return __uint_as_float(bits);
  if constexpr (kType == KvType::f16) return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  if constexpr (kType == KvType::bf16) return __uint_as_float(bits << 16);
  if constexpr (kType == KvType::q8_0) return static_cast<float>(static_cast<int>(bits) - kQ8Bias);
  // e4m3 moved to where f16 has sign, exponent and mantissa is 2^-8 times the number.
  const uint32_t moved = (bits & 0x80) << 8 | (bits & 0x7F) << 7;
  return 256.0f * __half2float(__ushort_as_half(static_cast<unsigned short>(moved)));
}
template <KvType kType>
__device__ float scale_of(const KvHeadLayout& l, const uint8_t* page, int slot, int d) {
  if constexpr (kType == KvType::q8_0)
    return __half2float(*reinterpret_cast<const __half*>(page + l.scale_offset(slot, d / kKvScaleDims)));
  else if constexpr (kType == KvType::f8)
    return *reinterpret_cast<const float*>(page + l.scale_offset(slot, 0));
  else
    return 1.0f;
}

// Where a block works, and its shared memory.
struct Block {
  int64_t token, head_kv, first_head;
  int n_heads;
  TokenKeys keys;
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
  b.keys = token_keys(a, b.token);
  return b;
}

// The head page that holds a key, and the slot in it.
struct Place {
  const uint8_t* page;
  int slot;
};
__device__ Place place_of(const AttentionArgs& a, const KvHeadLayout& l, const Block& b, const void* plane, int key) {
  const int64_t page = b.keys.pages[key / l.page_size];
  return {static_cast<const uint8_t*>(plane) + l.head_page_offset(page, b.head_kv, a.n_head_kv), key % l.page_size};
}

__host__ __device__ int64_t even(int64_t n) { return (n + 1) / 2 * 2; }
// Floats from one row of a tile to the next: odd, so that there are no bank conflicts. Rows are whole chunks.
template <KvType kType>
__host__ __device__ int64_t tile_stride(int64_t dk) {
  constexpr int kPerChunk = kKvChunkBytes / kv_elem_bytes(kType);
  return (dk + kPerChunk - 1) / kPerChunk * kPerChunk + 1;
}

struct Shared {
  float* q;       // [kHeads][even(dk)]
  float* scores;  // [kHeads][kKeys]
  float* acc;     // [kHeads][even(dv)]
  float* parts;   // [kThreads][2], sums of one head while values are added up
  float* state;   // [kHeads][2]: running maximum and sum
  float* fresh;   // [kHeads][2]: of these keys
  float* tile;
};
__host__ __device__ int64_t shared_floats(const AttentionArgs& a) {
  return kHeads * (even(a.dk) + kKeys + even(a.dv) + 4) + 2 * kThreads;
}
__device__ Shared carve(const AttentionArgs& a, float* at) {
  Shared s;
  s.q = at;
  s.scores = s.q + kHeads * even(a.dk);
  s.acc = s.scores + kHeads * kKeys;
  s.parts = s.acc + kHeads * even(a.dv);
  s.state = s.parts + 2 * kThreads;
  s.fresh = s.state + 2 * kHeads;
  s.tile = s.fresh + 2 * kHeads;
  return s;
}

// Decodes n keys into the tile, a thread per chunk of 16 bytes, several loads in flight.
template <KvType kType>
__device__ void load_tile(const AttentionArgs& a, const KvHeadLayout& l, const Block& b, float* tile, int first,
                          int n) {
  constexpr int kInFlight = 8, kBytes = kv_elem_bytes(kType), kPerChunk = kKvChunkBytes / kBytes;
  const int stride = static_cast<int>(tile_stride<kType>(a.dk)), chunks = l.row_chunks(), total = n * chunks;
  for (int begin = threadIdx.x; begin < total; begin += kInFlight * kThreads) {
    uint4 loaded[kInFlight];
    float scales[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = begin + i * kThreads;
      if (at >= total) continue;
      const Place p = place_of(a, l, b, a.keys, first + at / chunks);
      loaded[i] = *reinterpret_cast<const uint4*>(p.page + l.chunk_offset(p.slot, at % chunks));
      scales[i] = scale_of<kType>(l, p.page, p.slot, at % chunks * kPerChunk);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = begin + i * kThreads;
      if (at >= total) continue;
      float* to = tile + at / chunks * stride + at % chunks * kPerChunk;
      const uint32_t words[4] = {loaded[i].x, loaded[i].y, loaded[i].z, loaded[i].w};
#pragma unroll
      for (int e = 0; e < kPerChunk; ++e)
        to[e] = elem_of<kType>(words[e * kBytes / 4] >> e * kBytes % 4 * 8 & (~0u >> (32 - 8 * kBytes))) * scales[i];
    }
  }
}

__device__ void score_tile(const AttentionArgs& a, const Block& b, const Shared& s, const float* row, int to) {
  float sums[kHeads] = {};
  const int n = static_cast<int>(a.dk), q_stride = static_cast<int>(even(n));
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
      if (h < b.n_heads) sums[h] = fmaf(row[i], s.q[h * q_stride + i], sums[h]);
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= b.n_heads) continue;
    float score = sums[h] * a.scale;
    if (a.softcap != 0) score = a.softcap * tanhf(score / a.softcap);
    s.scores[h * kKeys + to] = score * kLog2e;
  }
}

// Scores of n keys become powers of 2 of what they exceed the maximum by; fresh = {maximum, sum}.
__device__ void soft_max(const Block& b, const Shared& s, int n) {
  const int lane = threadIdx.x % kWarp;
  for (int h = threadIdx.x / kWarp; h < b.n_heads; h += kThreads / kWarp) {
    float* scores = s.scores + h * kKeys;
    float largest = -INFINITY, sum = 0;
    for (int i = lane; i < n; i += kWarp) largest = fmaxf(largest, scores[i]);
    largest = warp_max(largest);
    for (int i = lane; i < n; i += kWarp) {
      scores[i] = exp2f(scores[i] - largest);
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
  return {largest, exp2f(earlier - largest), exp2f(later - largest)};
}

// acc = acc * factor + sum over keys of p * v, per head; several groups of threads share the keys.
template <KvType kType>
__device__ void add_values(const AttentionArgs& a, const KvHeadLayout& l, const Block& b, const Shared& s, int begin,
                           int n) {
  constexpr int kInFlight = 8, kBytes = kv_elem_bytes(kType);
  const int pairs = static_cast<int>(even(a.dv)) / 2;
  const int lanes = pairs < kThreads ? pairs : kThreads, splits = kThreads / lanes;
  for (int first = 0; first < pairs; first += lanes) {
    const int pair = first + static_cast<int>(threadIdx.x) % lanes, split = static_cast<int>(threadIdx.x) / lanes;
    const bool works = split < splits && pair < pairs;
    float2 sums[kHeads] = {};
    for (int key = split; works && key < n; key += kInFlight * splits) {
      uint32_t loaded[kInFlight][2];
      float scales[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (key + i * splits >= n) continue;
        const Place p = place_of(a, l, b, a.values, begin + key + i * splits);
        const uint8_t* at = p.page + l.elem_offset(p.slot, 2 * pair);
        if constexpr (kBytes == 4)
          loaded[i][0] = reinterpret_cast<const uint32_t*>(at)[0],
          loaded[i][1] = reinterpret_cast<const uint32_t*>(at)[1];
        else if constexpr (kBytes == 2)
          loaded[i][0] = *reinterpret_cast<const uint32_t*>(at);
        else
          loaded[i][0] = *reinterpret_cast<const uint16_t*>(at);
        scales[i] = scale_of<kType>(l, p.page, p.slot, 2 * pair);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (key + i * splits >= n) continue;
        constexpr uint32_t kMask = ~0u >> (32 - 8 * kBytes);
        const uint32_t second = kBytes == 4 ? loaded[i][1] : loaded[i][0] >> 8 * kBytes % 32;
        const float2 v = {elem_of<kType>(loaded[i][0] & kMask) * scales[i], elem_of<kType>(second & kMask) * scales[i]};
#pragma unroll
        for (int h = 0; h < kHeads; ++h)
          if (h < b.n_heads) {
            const float p = s.scores[h * kKeys + key + i * splits];
            sums[h] = {fmaf(p, v.x, sums[h].x), fmaf(p, v.y, sums[h].y)};
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
      float* acc = s.acc + h * even(a.dv) + 2 * pair;
      acc[0] = fmaf(acc[0], m.earlier, total.x * m.later);
      acc[1] = fmaf(acc[1], m.earlier, total.y * m.later);
    }
  }
}

struct Layouts {
  KvHeadLayout keys, values;
};

// Keys [first, last), at most kKeys.
template <KvType kType>
__device__ void walk_keys(const AttentionArgs& a, const Layouts& l, const Block& b, const Shared& s, int first,
                          int last, int tile_keys) {
  for (int at = first; at < last; at += tile_keys) {
    const int n = last - at < tile_keys ? last - at : tile_keys, key = static_cast<int>(threadIdx.x);
    __syncthreads();
    load_tile<kType>(a, l.keys, b, s.tile, at, n);
    __syncthreads();
    if (key < n) score_tile(a, b, s, s.tile + key * tile_stride<kType>(a.dk), at - first + key);
  }
  __syncthreads();
  soft_max(b, s, last - first);
  __syncthreads();
  add_values<kType>(a, l.values, b, s, first, last - first);
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

__device__ void write_results(const AttentionArgs& a, const Block& b, const Shared& s, const float* acc, int chunk) {
  const int dv = static_cast<int>(a.dv);
  for (int i = threadIdx.x; i < b.n_heads * dv; i += kThreads) {
    const int h = i / dv, d = i % dv;
    const float sum = acc[h * even(dv) + d];
    if (a.partials)
      partial_values(a, b.token, b.first_head + h, chunk)[d] = sum;
    else
      a.y[(b.token * a.n_head + b.first_head + h) * dv + d] =
          sum * final_factor(a, b.first_head + h, s.state[2 * h], s.state[2 * h + 1]);
  }
  if (a.partials && threadIdx.x < b.n_heads)
    *partial_stats(a, b.token, b.first_head + threadIdx.x, chunk) =
        make_float2(s.state[2 * threadIdx.x], s.state[2 * threadIdx.x + 1]);
}

struct Params {
  AttentionArgs a;
  int tile_keys;
};
template <KvType kType>
__global__ void __launch_bounds__(kThreads) attention_kernel(const __grid_constant__ Params p) {
  TOKAMAK_DYNAMIC_SHARED(4, float, memory);
  allow_next_kernel();
  wait_for_previous_kernel();
  const AttentionArgs& a = p.a;
  const Block b = this_block(a);
  const KeyChunks chunks = chunks_of(a, b.keys);
  const int chunk = static_cast<int>(blockIdx.y);
  if (a.partials && chunk >= chunks.count) return;
  const int64_t begin = chunks.first_key + (a.partials ? chunk * chunks.size : 0);
  const int64_t end = a.partials ? begin + chunks.size : b.keys.end;
  const Shared s = carve(a, memory);
  const int q_stride = static_cast<int>(even(a.dk)), acc_stride = static_cast<int>(even(a.dv));
  for (int i = threadIdx.x; i < b.n_heads * q_stride; i += kThreads) {
    const int h = i / q_stride, d = i % q_stride;
    s.q[i] = d < a.dk ? a.q[b.token * a.q_stride + (b.first_head + h) * a.q_head_stride + d] : 0;
  }
  for (int i = threadIdx.x; i < b.n_heads * acc_stride; i += kThreads) s.acc[i] = 0;
  if (threadIdx.x < kHeads) s.state[2 * threadIdx.x] = -INFINITY, s.state[2 * threadIdx.x + 1] = 0;
  const auto page_size = static_cast<int>(a.page_size);
  const Layouts layouts = {kv_head_layout(kType, static_cast<int>(a.dk), page_size),
                           kv_head_layout(kType, static_cast<int>(a.dv), page_size)};
  for (int64_t at = begin; at < end; at += kKeys) {
    const int first = static_cast<int>(at > b.keys.begin ? at : b.keys.begin);
    const int last = static_cast<int>(min(int64_t{b.keys.end}, min(at + kKeys, end)));
    if (first < last) walk_keys<kType>(a, layouts, b, s, first, last, p.tile_keys);
  }
  __syncthreads();
  write_results(a, b, s, s.acc, chunk);
}

template <KvType kType>
cudaError_t launch(const AttentionArgs& a, cudaStream_t stream) {
  const int64_t fixed = shared_floats(a) * 4, row = tile_stride<kType>(a.dk) * 4;
  const int most = min(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), kSharedLimit);
  int tile_keys = kThreads;  // how many changes no bit of a result
  while (tile_keys > kWarp && fixed + tile_keys * row > kSharedLimit / 4) tile_keys /= 2;  // several blocks per SM
  while (tile_keys > 1 && fixed + tile_keys * row > most) tile_keys /= 2;  // latent heads on GPUs of 8.6, 8.9, 12.0
  const int64_t shared = fixed + tile_keys * row;
  if (shared > most) return cudaErrorInvalidValue;
  const cudaError_t raised = cudaFuncSetAttribute(attention_kernel<kType>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  most);  // of the current device
  if (raised != cudaSuccess) return raised;
  const int64_t pieces = ceil_div(a.n_head / a.n_head_kv, kHeads);
  const dim3 grid(static_cast<unsigned>(a.n_tokens * a.n_head_kv * pieces),
                  a.partials ? static_cast<unsigned>(a.n_chunks) : 1);
  return launch_overlapped(attention_kernel<kType>, grid, kThreads, static_cast<size_t>(shared), stream,
                           Params{a, tile_keys});
}
}  // namespace

cudaError_t launch_generic_attention(const AttentionArgs& args, cudaStream_t stream) {
  switch (args.type) {
    case KvType::f32:
      return launch<KvType::f32>(args, stream);
    case KvType::f16:
      return launch<KvType::f16>(args, stream);
    case KvType::bf16:
      return launch<KvType::bf16>(args, stream);
    case KvType::q8_0:
      return launch<KvType::q8_0>(args, stream);
    case KvType::f8:
      return launch<KvType::f8>(args, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace tokamak::cuda

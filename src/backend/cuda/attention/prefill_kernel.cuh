// The kernel of prefill attention. Four warps, each with 16 or 32 rows (a row: one query head of one token) of a tile.
// Resident blocks take tiles in turn, those with the most keys first.
#pragma once

#include <algorithm>

#include "backend/cuda/attention/prefill.h"
#include "backend/cuda/attention/prefill_blocks.cuh"
#include "backend/cuda/attention/prefill_kernels.h"
#include "backend/cuda/attention/prefill_rows.cuh"
#include "backend/cuda/device_attribute.h"
#include "backend/cuda/overlap.h"
#include "backend/cuda/ptx/mma.cuh"

namespace tokamak::cuda::prefill {

// Row blocks of 16 per warp, as many as registers hold sums for.
template <int kDv>
inline constexpr int kRowBlocks = kDv <= 128 ? 2 : 1;
template <int kDv>
inline constexpr int kTileRows = 16 * kWarps* kRowBlocks<kDv>;

inline constexpr int kMultiprocessorBytes = 228 * 1024, kReservedBytes = 1024;  // of shared memory; per block
constexpr int aligned(int n) { return (n + 127) / 128 * 128; }

// Buffers of keys, and of values: two where two blocks then still fit a multiprocessor.
constexpr int queries_bytes(int dk, int n_rows) { return aligned(n_rows * dk * 2); }
template <int kDk, int kDv, bool kIsF16>
inline constexpr int kStages = kIsF16 && 2 * (queries_bytes(kDk, kTileRows<kDv>) + 4 * kBlockKeys * (kDk + kDv) +
                                              2 * kReservedBytes) <=
                                             kMultiprocessorBytes - 2 * kReservedBytes
                                   ? 2
                                   : 1;

struct Params {
  PrefillAttentionArgs a;
  KvHeadLayout keys, values;
  int group;
  int stage_bytes[2];                             // keys, values
  int buffers_at[2], decoded_at[2], barriers_at;  // in shared memory; queries are at 0
};

// A warp's rows.
template <int kDk, int kDv>
struct Warp : Rows<kDv, kRowBlocks<kDv>, kBlockKeys> {
  using Base = Rows<kDv, kRowBlocks<kDv>, kBlockKeys>;
  using Base::kN, Base::scores, Base::sums;
  static constexpr int kR = kRowBlocks<kDv>;

  // Queries of the warp at q, keys at k.
  __device__ void multiply_keys(uint32_t q, uint32_t k) {
    constexpr KvHeadLayout kQ = f16_block(kDk);
    const int lane = threadIdx.x % 32, sub = lane % 8;
    const uint32_t q_swizzle = (kQ.swizzled_chunk(0, sub) ^ lane / 16) * 16;
    const uint32_t k_swizzle = (kQ.swizzled_chunk(0, sub) ^ lane / 8 % 2) * 16;
    q += lane % 16 * kQ.row_bytes;
    k += (lane / 16 * 8 + sub) * kQ.row_bytes;
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[r][n][i] = 0;
#pragma unroll
    for (int step = 0; step < kDk / 16; ++step) {
      uint32_t a[kR][4];
#pragma unroll
      for (int r = 0; r < kR; ++r) ptx::load_matrices(a[r], q + 16 * r * kQ.row_bytes + (32 * step ^ q_swizzle));
#pragma unroll
      for (int n = 0; n < kN; n += 2) {
        uint32_t b[4];
        ptx::load_matrices(b, k + 8 * n * kQ.row_bytes + (32 * step ^ k_swizzle));
#pragma unroll
        for (int r = 0; r < kR; ++r) {
          ptx::multiply_f16(scores[r][n], a[r], b[0], b[1]);
          ptx::multiply_f16(scores[r][n + 1], a[r], b[2], b[3]);
        }
      }
    }
  }

  __device__ void add_values(uint32_t v) {
    constexpr KvHeadLayout kV = f16_block(kDv);
    const int lane = threadIdx.x % 32, sub = lane % 8;
    const uint32_t swizzle = (kV.swizzled_chunk(0, sub) ^ lane / 16) * 16;
    v += (lane / 8 % 2 * 8 + sub) * kV.row_bytes;
#pragma unroll
    for (int step = 0; step < kBlockKeys / 16; ++step) {
      uint32_t a[kR][4];
#pragma unroll
      for (int r = 0; r < kR; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* p = &scores[r][2 * step + i / 2][i % 2 * 2];
          a[r][i] = ptx::to_halves(p[0], p[1]);
        }
#pragma unroll
      for (int n = 0; n < kDv / 8; n += 2) {
        uint32_t b[4];
        ptx::load_transposed(b, v + 16 * step * kV.row_bytes + (16 * n ^ swizzle));
#pragma unroll
        for (int r = 0; r < kR; ++r) {
          ptx::multiply_f16(sums[r][n], a[r], b[0], b[1]);
          ptx::multiply_f16(sums[r][n + 1], a[r], b[2], b[3]);
        }
      }
    }
  }
};

template <int kDk>
__device__ void load_queries(const Params& p, const Item& item, uint32_t to, int n_rows, float factor) {
  constexpr KvHeadLayout kQ = f16_block(kDk);
  constexpr int kChunks = kDk / 8;
  for (int i = threadIdx.x; i < n_rows * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks, at = row / p.group;
    uint4 v = {0, 0, 0, 0};
    if (at < item.n_tokens) {
      const float* q = p.a.q + (item.token + at) * p.a.q_stride +
                       (item.head_kv * p.group + row % p.group) * p.a.q_head_stride + 8 * chunk;
      const float4 low = *reinterpret_cast<const float4*>(q), high = *reinterpret_cast<const float4*>(q + 4);
      v = {ptx::to_halves_clamped(low.x * factor, low.y * factor),
           ptx::to_halves_clamped(low.z * factor, low.w * factor),
           ptx::to_halves_clamped(high.x * factor, high.y * factor),
           ptx::to_halves_clamped(high.z * factor, high.w * factor)};
    }
    ptx::store_shared(to + kQ.chunk_offset(row, chunk), v);
  }
}

template <int kDims, bool kIsF16, int kStages>
__device__ Blocks<kDims, kIsF16, kStages> plane_of(const Params& p, uint32_t shared, PagedRows* rows, int plane) {
  Blocks<kDims, kIsF16, kStages> out;
  out.rows = rows + plane;
  out.layout = plane == 0 ? &p.keys : &p.values;
  out.barriers.full = shared + p.barriers_at + 32 * plane;
  out.barriers.empty = out.barriers.full + 16;
  out.buffers = shared + p.buffers_at[plane];
  out.decoded = shared + p.decoded_at[plane];
  out.stage_bytes = p.stage_bytes[plane];
  out.count = 0;
  return out;
}
template <int kDk, int kDv, bool kIsF16, int kStages>
__device__ void walk(const Scores& s, uint32_t queries, Warp<kDk, kDv>& warp, const Blocks<kDk, kIsF16, kStages>& keys,
                     const Blocks<kDv, kIsF16, kStages>& values) {
  const uint32_t q = queries + threadIdx.x / 32 * 16 * kRowBlocks<kDv> * f16_block(kDk).row_bytes;
  const bool fetches = threadIdx.x == 0, late = kStages > 1;
  for (int block = 0; block < keys.walk.count; ++block) {
    const int key = keys.walk.key(block);
    const bool sees = warp.sees(key);
    // One stage: at once. More: when the other warps are likely to be through.
    if (fetches && !late && block > 0) values.refill(block - 1);
    const uint32_t k = keys.template wait<false>(block);
    if (sees) warp.multiply_keys(q, k);
    keys.release(block);
    if (fetches && late && block > 0) values.refill(block - 1);
    __syncwarp();
    if (sees) {
      warp.finish_scores(s, key);
      warp.soften();
      warp.rescale();
    }
    if (fetches) keys.refill(block);
    const uint32_t v = values.template wait<true>(block);
    if (sees) warp.add_values(v);
    values.release(block);
  }
}

template <int kDk, int kDv, bool kIsF16>
__global__ void __launch_bounds__(kThreads, 2) prefill_kernel(const __grid_constant__ Params p) {
#if __CUDA_ARCH__ >= 900  // bulk copies
  TOKAMAK_DYNAMIC_SHARED(128, uint8_t, memory);
  constexpr int kRows = kTileRows<kDv>;
  const uint32_t shared = ptx::shared_address(memory);
  const int first_row = threadIdx.x / 32 * 16 * kRowBlocks<kDv>;
  __shared__ PagedRows sources[2];
  constexpr int kN = kStages<kDk, kDv, kIsF16>;
  auto keys = plane_of<kDk, kIsF16, kN>(p, shared, sources, 0);
  auto values = plane_of<kDv, kIsF16, kN>(p, shared, sources, 1);
  if (threadIdx.x == 0) {
    keys.init_barriers();
    values.init_barriers();
  }
  __syncthreads();
  const Scores s(p.a);
  const int n_items = p.a.tiles[0] * static_cast<int>(p.a.n_head_kv), grid = static_cast<int>(gridDim.x);
  for (int first = 0, round = 0; first < n_items; first += grid, ++round) {
    // To and fro, so that who had the longest item of a round has the shortest of the next.
    const int index = first + static_cast<int>(round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    if (index >= n_items) continue;
    const Item item = item_of(p.a, index);
    __syncthreads();  // the item before is through with the queries
    keys.walk = values.walk = BlockWalk<kBlockKeys>(hull(p.a, item));
    if (threadIdx.x == 0) {
      sources[0] = rows_of(p.a, p.keys, p.a.keys, item);
      sources[1] = rows_of(p.a, p.values, p.a.values, item);
      keys.fetch_first();
      values.fetch_first();
    }
    load_queries<kDk>(p, item, shared, kRows, s.q_factor);
    Warp<kDk, kDv> warp;
    warp.begin(first_row, [&](int row) { return range_of(p.a, item, row); });
    __syncthreads();
    walk(s, shared, warp, keys, values);
    keys.count += keys.walk.count;
    values.count += values.walk.count;
    warp.add_totals();
    warp.store(p.a, item, first_row);
  }
#endif
}

// --- host

// Places everything in shared memory; returns its size.
inline int place(Params& p, int n_rows, bool is_f16, int n_stages) {
  int at = queries_bytes(p.keys.head_dim, n_rows);
  const KvHeadLayout* layouts[2] = {&p.keys, &p.values};
  for (int plane = 0; plane < 2; ++plane) {
    const KvHeadLayout& l = *layouts[plane];
    p.stage_bytes[plane] = aligned(kBlockKeys * (l.row_bytes + l.n_scales * l.scale_bytes));
    p.buffers_at[plane] = at;
    at += n_stages * p.stage_bytes[plane];
    p.decoded_at[plane] = at;
    if (!is_f16) at += aligned(kBlockKeys * l.head_dim * 2);
  }
  p.barriers_at = at;
  return at + 64;
}

inline Params params_of(const PrefillAttentionArgs& a) {
  Params p{};
  p.a = a;
  p.keys = kv_head_layout(a.type, static_cast<int>(a.dk), static_cast<int>(a.page_size));
  p.values = kv_head_layout(a.type, static_cast<int>(a.dv), static_cast<int>(a.page_size));
  p.group = static_cast<int>(a.n_head / a.n_head_kv);
  return p;
}

template <int kDk, int kDv, bool kIsF16>
cudaError_t launch(const PrefillAttentionArgs& a, cudaStream_t stream) {
  constexpr int kRows = kTileRows<kDv>;
  Params p = params_of(a);
  const int n_bytes = place(p, kRows, kIsF16, kStages<kDk, kDv, kIsF16>);
  const auto kernel = prefill_kernel<kDk, kDv, kIsF16>;
  int per_sm = 0;
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes);
  if (error == cudaSuccess) error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, kThreads, n_bytes);
  if (error != cudaSuccess) return error;
  const int64_t most = a.n_tokens * a.n_head_kv,
                resident = int64_t{device_attribute(cudaDevAttrMultiProcessorCount, 1)} * per_sm;
  return launch_in_turn(kernel, static_cast<unsigned>(std::min(most, resident)), kThreads, n_bytes, stream, p);
}

template <int kDk, int kDv, bool kIsF16>
constexpr Kernel kernel_row() {
  return {kDk, kDv, kTileRows<kDv>, false, launch<kDk, kDv, kIsF16>};
}

}  // namespace tokamak::cuda::prefill

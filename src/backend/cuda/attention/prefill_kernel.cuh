// The kernel of prefill attention. Four warps, each with 16 or 32 rows (a row: one query head of one token) of a tile.
// Resident blocks take tiles in turn, those with the most keys first.
#pragma once

#include <algorithm>
#include <climits>

#include "backend/cuda/attention/prefill.h"
#include "backend/cuda/attention/prefill_blocks.cuh"
#include "backend/cuda/attention/prefill_kernels.h"

namespace tokamak::cuda::prefill {

inline constexpr float kLog2e = 1.44269504088896340736f;

// Row blocks of 16 per warp, as many as registers hold sums for.
template <int kDv>
inline constexpr int kRowBlocks = kDv <= 128 ? 2 : 1;
template <int kDv>
inline constexpr int kTileRows = 16 * kRowBlocks<kDv> * kWarps;

inline constexpr int kMultiprocessorBytes = 228 * 1024, kReservedBytes = 1024;  // of shared memory; per block
constexpr int aligned(int n) { return (n + 127) / 128 * 128; }

// Buffers of keys, and of values: two where two blocks then still fit a multiprocessor.
constexpr int queries_bytes(int dk, int n_rows) { return aligned(n_rows * dk * 2); }
template <int kDk, int kDv, bool kIsF16>
inline constexpr int kStages =
    kIsF16 && 2 * (queries_bytes(kDk, kTileRows<kDv>) + 4 * kBlockKeys * (kDk + kDv) + 2 * kReservedBytes) <=
                  kMultiprocessorBytes - 2 * kReservedBytes
        ? 2
        : 1;

struct Params {
  PrefillAttentionArgs a;
  KvHeadLayout keys, values;
  int group, tile_tokens;
  int stage_bytes[2];                                      // keys, values
  int buffers_at[2], decoded_at[2], rows_at, barriers_at;  // in shared memory; queries are at 0
};

// Keys that a row sees. Rows beyond the tile's tokens begin at kNoRow.
struct Range {
  int begin, end;
};
inline constexpr int kNoRow = INT_MAX;
__device__ inline Range hull_of_warp(const Range& r) {
  return {__reduce_min_sync(~0u, r.begin), __reduce_max_sync(~0u, r.end)};
}
__device__ inline Range visible(const PrefillAttentionArgs& a, int token) {
  const int position = a.positions[token];
  Range r{0, a.causal ? position + 1 : a.n_keys[a.seq_ids[token]]};
  if (a.window > 0) {
    r.begin = max(0, position + 1 - static_cast<int>(a.window));
    r.end = min(r.end, position + 1);
  }
  if (a.chunk > 0) r.begin = max(r.begin, position / static_cast<int>(a.chunk) * static_cast<int>(a.chunk));
  return r;
}

// What a row's scores mean: exponents of two are score * factor, or that of tanh where scores are capped.
struct Scores {
  float q_factor;  // into the f16 queries
  float cap;       // 0, or softcap * log2(e); q_factor then makes scores 2 log2(e) * scale * score / softcap

  __device__ explicit Scores(const PrefillAttentionArgs& a)
      : q_factor(a.softcap > 0 ? 2 * kLog2e * a.scale / a.softcap : kLog2e * a.scale), cap(a.softcap * kLog2e) {}
  // softcap * log2(e) * tanh(x), from x = score * 2 log2(e).
  __device__ float capped(float x) const {
    return fmaf(-2 * cap, reciprocal(exp2_fast(x) + 1), cap);
  }
};

// One tile's rows in a thread: blocks of 16 rows, of which the thread has rows lane / 4 and that + 8.
template <int kDk, int kDv>
struct Warp {
  static constexpr int kR = kRowBlocks<kDv>;
  static constexpr int kN = kBlockKeys / 8;  // 8 keys each

  float sums[kR][kDv / 8][4];
  float scores[kR][kN][4];
  float largest[kR][2], total[kR][2];  // of exponents; total: of this thread's keys
  Range range[kR][2];
  Range any, all;  // keys that some row of the warp sees, and that all rows see

  __device__ void begin(const Range* rows) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16 * kR;
    any = {kNoRow, 0}, all = {0, INT_MAX};
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Range row = range[r][half] = rows[first + 16 * r + lane / 4 + 8 * half];
        any = {min(any.begin, row.begin), max(any.end, row.end)};
        if (row.begin != kNoRow) all = {max(all.begin, row.begin), min(all.end, row.end)};
        largest[r][half] = -INFINITY;
        total[r][half] = 0;
      }
    any = hull_of_warp(any);
    all = {__reduce_max_sync(~0u, all.begin), __reduce_min_sync(~0u, all.end)};
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int n = 0; n < kDv / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[r][n][i] = 0;
  }

  __device__ bool sees(int key) const { return key < any.end && key + kBlockKeys > any.begin; }

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
      for (int r = 0; r < kR; ++r) load_matrices(a[r], q + 16 * r * kQ.row_bytes + (32 * step ^ q_swizzle));
#pragma unroll
      for (int n = 0; n < kN; n += 2) {
        uint32_t b[4];
        load_matrices(b, k + 8 * n * kQ.row_bytes + (32 * step ^ k_swizzle));
#pragma unroll
        for (int r = 0; r < kR; ++r) {
          multiply(scores[r][n], a[r], b[0], b[1]);
          multiply(scores[r][n + 1], a[r], b[2], b[3]);
        }
      }
    }
  }

  // scores become exponents of two: capped, -infinity where hidden.
  __device__ void cap(const Scores& s) {
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[r][n][i] = s.capped(scores[r][n][i]);
  }
  __device__ void hide(int first_key) {
    const int key = first_key + threadIdx.x % 4 * 2;
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int begin = range[r][half].begin - key;
        const auto n_visible = static_cast<uint32_t>(max(0, range[r][half].end - range[r][half].begin));
#pragma unroll
        for (int n = 0; n < kN; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (static_cast<uint32_t>(8 * n + i - begin) >= n_visible) scores[r][n][2 * half + i] = -INFINITY;
      }
  }

  // Exponents become probabilities relative to the largest so far; what was summed before is brought in line.
  __device__ void soften() {
    bool changed = false;
    float factor[kR][2];
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = largest[r][half];
#pragma unroll
        for (int n = 0; n < kN; ++n) most = fmaxf(most, fmaxf(scores[r][n][2 * half], scores[r][n][2 * half + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        const float base = most == -INFINITY ? 0 : most;  // nothing seen yet
        factor[r][half] = exp2_fast(largest[r][half] - base);
        changed |= most != largest[r][half];
        largest[r][half] = most;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < kN; ++n)
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores[r][n][i] = exp2_fast(scores[r][n][i] - base);
            sum += scores[r][n][i];
          }
        // The sum of a row that sees nothing keeps its bits: 1 times itself, plus zero.
        total[r][half] = fmaf(total[r][half], factor[r][half], sum);
      }
    if (!__any_sync(~0u, changed)) return;
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int n = 0; n < kDv / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[r][n][i] *= factor[r][i / 2];
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
          a[r][i] = pack(p[0], p[1]);
        }
#pragma unroll
      for (int n = 0; n < kDv / 8; n += 2) {
        uint32_t b[4];
        load_transposed(b, v + 16 * step * kV.row_bytes + (16 * n ^ swizzle));
#pragma unroll
        for (int r = 0; r < kR; ++r) {
          multiply(sums[r][n], a[r], b[0], b[1]);
          multiply(sums[r][n + 1], a[r], b[2], b[3]);
        }
      }
    }
  }

  // Divides by the totals and writes rows [first, ..) of a tile of n_tokens tokens.
  __device__ void store(const Params& p, int token, int n_tokens, int head_kv) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16 * kR;
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = total[r][half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        const int row = first + 16 * r + lane / 4 + 8 * half, at = row / p.group;
        if (at >= n_tokens) continue;
        const int head = head_kv * p.group + row % p.group;
        if (p.a.sinks && sum > 0) sum += exp2_fast(p.a.sinks[head] * kLog2e - largest[r][half]);
        const float factor = sum > 0 ? 1.0f / sum : 0.0f;
        float* y = p.a.y + ((token + at) * p.a.n_head + head) * kDv + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < kDv / 8; ++n)
          *reinterpret_cast<float2*>(y + 8 * n) = {sums[r][n][2 * half] * factor, sums[r][n][2 * half + 1] * factor};
      }
  }
};

// One item of work: a tile of tokens and a key head.
struct Item {
  int token, n_tokens, head_kv;
};
__device__ inline Item item_of(const Params& p, int index) {
  const int n_tiles = p.a.tiles[0], heads = static_cast<int>(p.a.n_head_kv), tile = n_tiles - 1 - index / heads;
  const int token = p.a.tiles[1 + tile];
  return {token, p.a.tiles[2 + tile] - token, index % heads};
}

// Ranges of the tile's rows; those beyond its tokens see nothing.
__device__ inline void store_ranges(const Params& p, const Item& item, Range* rows, int n_rows) {
  const int row = threadIdx.x, at = row / p.group;
  if (row >= n_rows) return;
  rows[row] = at < item.n_tokens ? visible(p.a, item.token + at) : Range{kNoRow, 0};
}
// The hull of all ranges, in every thread.
__device__ inline Range hull(const Range* rows, int n_rows) {
  Range out{kNoRow, 0};
  for (int row = threadIdx.x % 32; row < n_rows; row += 32)
    out = {min(out.begin, rows[row].begin), max(out.end, rows[row].end)};
  return hull_of_warp(out);
}

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
      v = {pack_clamped(low.x * factor, low.y * factor), pack_clamped(low.z * factor, low.w * factor),
           pack_clamped(high.x * factor, high.y * factor), pack_clamped(high.z * factor, high.w * factor)};
    }
    store_vector(to + kQ.chunk_offset(row, chunk), v);
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
// Turns to an item.
__device__ inline PagedRows rows_of(const Params& p, const KvHeadLayout& layout, const void* plane, const Item& item) {
  return {.head = static_cast<const uint8_t*>(plane) + item.head_kv * layout.head_page_bytes,
          .page_stride = p.a.n_head_kv * layout.head_page_bytes,
          .pages = p.a.pages + p.a.page_begin[p.a.seq_ids[item.token]]};
}
__device__ inline KeyBlocks blocks_of(const Range& seen) {
  const int first = seen.begin / kBlockKeys, end = (seen.end + kBlockKeys - 1) / kBlockKeys;
  return {.begin = seen.begin,
          .end = seen.end,
          .first_block = first,
          .n_blocks = seen.begin < seen.end ? end - first : 0};
}

template <int kDk, int kDv, bool kIsF16, int kStages>
__device__ void walk(const Scores& s, uint32_t queries, Warp<kDk, kDv>& warp, const Blocks<kDk, kIsF16, kStages>& keys,
                     const Blocks<kDv, kIsF16, kStages>& values) {
  const uint32_t q = queries + threadIdx.x / 32 * 16 * kRowBlocks<kDv> * f16_block(kDk).row_bytes;
  const bool fetches = threadIdx.x == 0, late = kStages > 1;
  for (int block = 0; block < keys.walk.n_blocks; ++block) {
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
      if (s.cap > 0) warp.cap(s);
      if (key < warp.all.begin || key + kBlockKeys > warp.all.end) warp.hide(key);
      warp.soften();
    }
    if (fetches) keys.refill(block);
    const uint32_t v = values.template wait<true>(block);
    if (sees) warp.add_values(v);
    values.release(block);
  }
}

template <int kDk, int kDv, bool kIsF16>
__global__ void __launch_bounds__(kThreads, kDk <= 64 ? 3 : 2) prefill_kernel(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) uint8_t memory[];
  constexpr int kRows = kTileRows<kDv>;
  const uint32_t shared = shared_address(memory);
  Range* rows = reinterpret_cast<Range*>(memory + p.rows_at);
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
    const Item item = item_of(p, index);
    __syncthreads();  // the item before is through with rows and queries
    store_ranges(p, item, rows, kRows);
    __syncthreads();
    keys.walk = values.walk = blocks_of(hull(rows, kRows));
    if (threadIdx.x == 0) {
      sources[0] = rows_of(p, p.keys, p.a.keys, item);
      sources[1] = rows_of(p, p.values, p.a.values, item);
      keys.fetch_first();
      values.fetch_first();
    }
    load_queries<kDk>(p, item, shared, kRows, s.q_factor);
    Warp<kDk, kDv> warp;
    warp.begin(rows);
    __syncthreads();
    walk(s, shared, warp, keys, values);
    keys.count += keys.walk.n_blocks;
    values.count += values.walk.n_blocks;
    warp.store(p, item.token, item.n_tokens, item.head_kv);
  }
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
  p.rows_at = at;
  at += aligned(n_rows * static_cast<int>(sizeof(Range)));
  p.barriers_at = at;
  return at + 64;
}

inline Params params_of(const PrefillAttentionArgs& a, int n_rows) {
  Params p{};
  p.a = a;
  p.keys = kv_head_layout(a.type, static_cast<int>(a.dk), static_cast<int>(a.page_size));
  p.values = kv_head_layout(a.type, static_cast<int>(a.dv), static_cast<int>(a.page_size));
  p.group = static_cast<int>(a.n_head / a.n_head_kv);
  p.tile_tokens = n_rows / p.group;
  return p;
}

template <int kDk, int kDv, bool kIsF16>
cudaError_t launch(const PrefillAttentionArgs& a, cudaStream_t stream) {
  constexpr int kRows = kTileRows<kDv>;
  Params p = params_of(a, kRows);
  const int n_bytes = place(p, kRows, kIsF16, kStages<kDk, kDv, kIsF16>);
  const auto kernel = prefill_kernel<kDk, kDv, kIsF16>;
  int device = 0, n_sms = 0, per_sm = 0;
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes);
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&n_sms, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess)
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, kThreads, n_bytes);
  if (error != cudaSuccess) return error;
  const int64_t most = a.n_tokens * a.n_head_kv, resident = int64_t{n_sms} * per_sm;
  kernel<<<static_cast<unsigned>(std::min(most, resident)), kThreads, n_bytes, stream>>>(p);
  return cudaGetLastError();
}

template <int kDk, int kDv, bool kIsF16>
constexpr Kernel kernel_row() {
  return {kDk, kDv, kTileRows<kDv>, launch<kDk, kDv, kIsF16>};
}

}  // namespace tokamak::cuda::prefill

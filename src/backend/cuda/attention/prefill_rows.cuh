// What a thread knows of the rows it works on (a row: one query head of one token): scores, the running softmax and the
// sums of values, in the registers where both kinds of matrix products leave them.
#pragma once

#include <climits>

#include "backend/cuda/attention/prefill.h"
#include "backend/cuda/ptx/arithmetic.cuh"

namespace tokamak::cuda::prefill {

inline constexpr float kLog2e = 1.44269504088896340736f;

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
  __device__ float capped(float x) const { return fmaf(-2 * cap, ptx::reciprocal(ptx::exp2_fast(x) + 1), cap); }
};

// One item of work: a tile of tokens, a key head and the keys [begin, end) at most.
struct Item {
  int token, n_tokens, head_kv;
  int begin = 0, end = INT_MAX;
};
__device__ inline Item item_of(const PrefillAttentionArgs& a, int index) {
  const int n_tiles = a.tiles[0], heads = static_cast<int>(a.n_head_kv), tile = n_tiles - 1 - index / heads;
  const int token = a.tiles[1 + tile];
  return {token, a.tiles[2 + tile] - token, index % heads};
}

// Keys that row `row` of the item sees.
__device__ inline Range range_of(const PrefillAttentionArgs& a, const Item& item, int row) {
  const int at = row / static_cast<int>(a.n_head / a.n_head_kv);
  return at < item.n_tokens ? visible(a, item.token + at) : Range{kNoRow, 0};
}
// The hull of what the item's rows see of its keys, in every thread of a warp.
__device__ inline Range hull(const PrefillAttentionArgs& a, const Item& item) {
  Range out{kNoRow, 0};
  for (int at = threadIdx.x % 32; at < item.n_tokens; at += 32) {
    const Range r = visible(a, item.token + at);
    out = {min(out.begin, r.begin), max(out.end, r.end)};
  }
  out = hull_of_warp(out);
  return {max(out.begin, item.begin), min(out.end, item.end)};
}

// What makes sums of values the result; largest is an exponent of two.
__device__ inline float final_factor(const PrefillAttentionArgs& a, int head, float largest, float total) {
  if (!(total > 0)) return 0;
  return 1.0f / (a.sinks ? total + ptx::exp2_fast(a.sinks[head] * kLog2e - largest) : total);
}

// kR blocks of 16 rows, of which the thread has rows lane / 4 and that + 8; of these, elements lane % 4 * 2 + {0, 1} of
// every 8 keys or dimensions.
template <int kDv, int kR, int kKeys>
struct Rows {
  static constexpr int kN = kKeys / 8;

  float sums[kR][kDv / 8][4];
  float scores[kR][kN][4];
  float largest[kR][2], total[kR][2];  // of exponents; total: of this thread's keys
  float factor[kR][2];                 // that brings in line what was summed before the last block
  bool changed;                        // some factor of the warp is not 1
  Range range[kR][2];
  Range any, all;  // keys that some row of the warp sees, and that all rows see

  // range_of(row) of rows [first, first + 16 kR).
  template <class RangeOf>
  __device__ void begin(int first, RangeOf range_of) {
    const int lane = threadIdx.x % 32;
    any = {kNoRow, 0}, all = {0, INT_MAX};
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Range row = range[r][half] = range_of(first + 16 * r + lane / 4 + 8 * half);
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

  __device__ bool sees(int key) const { return key < any.end && key + kKeys > any.begin; }

  // The block's scores, from key on, become exponents of two: capped, -infinity where hidden.
  __device__ void finish_scores(const Scores& s, int key) {
    if (s.cap > 0) cap(s);
    if (key < all.begin || key + kKeys > all.end) hide(key);
  }
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

  // Exponents become probabilities relative to the largest so far.
  __device__ void soften() {
    changed = false;
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
        factor[r][half] = ptx::exp2_fast(largest[r][half] - base);
        changed |= most != largest[r][half];
        largest[r][half] = most;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < kN; ++n)
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores[r][n][i] = ptx::exp2_fast(scores[r][n][i] - base);
            sum += scores[r][n][i];
          }
        // The sum of a row that sees nothing keeps its bits: 1 times itself, plus zero.
        total[r][half] = fmaf(total[r][half], factor[r][half], sum);
      }
    changed = __any_sync(~0u, changed);
  }
  __device__ void rescale() {
    if (!changed) return;
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int n = 0; n < kDv / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[r][n][i] *= factor[r][i / 2];
  }

  // Totals of the rows, in each of their threads, instead of those of the threads' keys.
  __device__ void add_totals() {
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        total[r][half] += __shfl_xor_sync(~0u, total[r][half], 1);
        total[r][half] += __shfl_xor_sync(~0u, total[r][half], 2);
      }
  }

  // fn(r, half, token, head) for the thread's rows that are tokens of the item.
  template <class Fn>
  __device__ static void for_each_row(const PrefillAttentionArgs& a, const Item& item, int first, Fn fn) {
    const int lane = threadIdx.x % 32, group = static_cast<int>(a.n_head / a.n_head_kv);
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first + 16 * r + lane / 4 + 8 * half, at = row / group;
        if (at < item.n_tokens) fn(r, half, item.token + at, item.head_kv * group + row % group);
      }
  }

  // After add_totals: divides by the totals and writes the rows of an item; first as in begin.
  __device__ void store(const PrefillAttentionArgs& a, const Item& item, int first) const {
    for_each_row(a, item, first, [&](int r, int half, int64_t token, int head) {
      const float factor = final_factor(a, head, largest[r][half], total[r][half]);
      float* y = a.y + (token * a.n_head + head) * kDv + threadIdx.x % 4 * 2;
#pragma unroll
      for (int n = 0; n < kDv / 8; ++n)
        *reinterpret_cast<float2*>(y + 8 * n) = {sums[r][n][2 * half] * factor, sums[r][n][2 * half + 1] * factor};
    });
  }
};

}  // namespace tokamak::cuda::prefill

// The attention kernel over a vector layer V. Included by ops_ISA.cpp only.
//
// Order of one row: score of a key = fma chain over the dimensions; per block of 64 keys the maximum, then weights
// exp(s - max), their sum in 16 lanes ((v0 + v1) + (v2 + v3) added to the running lanes), then output = fma chain over
// the keys in ascending order. Tile shapes change nothing: every element has its own chain.
#pragma once

#include <limits>
#include <type_traits>

#include "backend/cpu/ops/attention_tiles.h"
#include "backend/cpu/ops/ops.h"

namespace tokamak::cpu {
namespace {

// Row states of one item and the buffers it works in; all inside the thread's scratch.
struct AttentionItem {
  const AttentionArgs* args;
  const AttentionSequence* sequence;
  int64_t first_token, kv_head, first_head, n_heads;  // rows: token-major, heads [first_head, first_head + n_heads)
  int64_t dk, dv;                                     // dv padded to 16
  int n_rows;
  KeyRange keys;  // of all rows
  float *q, *acc, *total, *lane_sums, *weights, *key_block, *value_block;
  KeyRange row_keys[kMaxTileRows];
  float max[kMaxTileRows], total_max[kMaxTileRows], total_sum[kMaxTileRows];
  bool has_total[kMaxTileRows];

  int64_t token(int row) const { return first_token + row / n_heads; }
  int64_t head(int row) const { return first_head + row % n_heads; }
};

template <class V>
struct Attention {
  using F = typename V::F;
  using A = Math<V>;
  using R = Rows<V>;
  using Tiles = AttentionTiles<V>;
  static constexpr float kNegInf = -std::numeric_limits<float>::infinity();
  static constexpr int kGroups = static_cast<int>(kKeyBlock / kSlotGroup);

  static float exp1(float x) { return V::first_lane(A::exp(V::set1(x))); }

  static void run(const AttentionCall& call, float* scratch, int64_t begin, int64_t end) {
    AttentionItem item;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t chunk = call.plan.split_keys ? i % call.plan.max_chunks : 0;
      const int64_t rest = call.plan.split_keys ? i / call.plan.max_chunks : i;
      if (!set_up(call, rest, scratch, item)) {
        if (chunk == 0 && !call.plan.split_keys) finish_all(item);
        continue;
      }
      const int64_t first = item.keys.begin / kKeyChunk, last = (item.keys.end - 1) / kKeyChunk;
      if (call.plan.split_keys) {
        if (first + chunk > last) continue;
        run_chunk(item, first + chunk);
        store_partials(call, item, first + chunk);
      } else {
        for (int64_t c = first; c <= last; ++c) {
          run_chunk(item, c);
          fold_chunk(item, c);
        }
        finish_all(item);
      }
    }
  }

  // False when no row sees a key.
  static bool set_up(const AttentionCall& call, int64_t idx, float* scratch, AttentionItem& item) {
    const AttentionArgs& a = call.args;
    const KvLayout& kl = a.keys.layout;
    const int64_t group = a.n_head / kl.n_head_kv, n_lanes = kl.n_head_kv * call.plan.n_parts;
    const auto n_tiles = static_cast<int64_t>(a.tiles.size());
    const int64_t order = idx / n_lanes, lane = idx % n_lanes, part = lane % call.plan.n_parts;
    // Cheap first tiles and dear last ones alternate.
    const AttentionTile& tile = a.tiles[static_cast<size_t>(order % 2 == 0 ? order / 2 : n_tiles - 1 - order / 2)];
    item.args = &a;
    item.sequence = &a.sequences[static_cast<size_t>(a.seq_ids[tile.first_token])];
    item.first_token = tile.first_token;
    item.kv_head = lane / call.plan.n_parts;
    item.first_head = item.kv_head * group + part * kMaxTileRows;
    item.n_heads = group - part * kMaxTileRows < kMaxTileRows ? group - part * kMaxTileRows : kMaxTileRows;
    item.n_rows = static_cast<int>(tile.n_tokens * item.n_heads);
    item.dk = kl.head_dim;
    item.dv = a.values.layout.dim_stride;
    const auto take = [&scratch](int64_t n) {
      float* p = scratch;
      scratch += n;
      return p;
    };
    item.q = take(kMaxTileRows * ((item.dk + 15) / 16 * 16));
    item.acc = take(kMaxTileRows * item.dv);
    item.total = take(kMaxTileRows * item.dv);
    item.lane_sums = take(kMaxTileRows * kSlotGroup);
    item.weights = take(kMaxTileRows * kKeyBlock);
    item.value_block = take(kKeyBlock * item.dv);
    item.key_block = take(kKeyBlock * item.dk);
    return set_up_rows(item);
  }

  static bool set_up_rows(AttentionItem& item) {
    const AttentionArgs& a = *item.args;
    const F scale = V::set1(a.scale);
    item.keys = {std::numeric_limits<int64_t>::max(), 0};
    for (int r = 0; r < item.n_rows; ++r) {
      const KeyRange keys = item.row_keys[r] = visible_keys(a, item.token(r));
      item.has_total[r] = false;
      if (keys.begin < keys.end) {
        item.keys.begin = keys.begin < item.keys.begin ? keys.begin : item.keys.begin;
        item.keys.end = keys.end > item.keys.end ? keys.end : item.keys.end;
      }
      const float* q = a.q + item.token(r) * a.q_stride + item.head(r) * (a.q_head_stride ? a.q_head_stride : item.dk);
      float* scaled = item.q + r * item.dk;
      for_vectors(item.dk, [&](int64_t i, int n) { R::store(scaled + i, V::mul(R::load(q + i, n), scale), n); });
    }
    return item.keys.begin < item.keys.end;
  }

  // Part of the row's keys inside [begin, begin + width), relative to begin.
  static KeyRange clip(KeyRange keys, int64_t begin, int64_t width) {
    const int64_t lo = keys.begin - begin, hi = keys.end - begin;
    return {lo < 0 ? 0 : lo, hi > width ? width : hi};
  }

  static void run_chunk(AttentionItem& item, int64_t chunk) {
    for (int r = 0; r < item.n_rows; ++r) {
      item.max[r] = kNegInf;
      V::store(item.lane_sums + r * kSlotGroup, V::zero());
      for (int64_t i = 0; i < item.dv; i += 16) V::store(item.acc + r * item.dv + i, V::zero());
    }
    const DType type = item.args->keys.layout.type;
    for (int64_t begin = chunk * kKeyChunk; begin < (chunk + 1) * kKeyChunk; begin += kKeyBlock) {
      const KeyRange keys = clip(item.keys, begin, kKeyBlock);
      if (keys.begin >= keys.end) continue;
      const int g0 = static_cast<int>(keys.begin / kSlotGroup);
      const int g1 = static_cast<int>((keys.end + kSlotGroup - 1) / kSlotGroup);
      if (type == DType::f32)
        run_block(item, begin, Tiles::template in_place<float>(item, begin, g0, g1));
      else if (type == DType::f16 && item.n_rows <= V::kQueryRows)  // converted while it is used, once
        run_block(item, begin, Tiles::template in_place<uint16_t>(item, begin, g0, g1));
      else
        run_block(item, begin, Tiles::converted(item, begin, g0, g1));
    }
  }

  template <class T>
  static void run_block(AttentionItem& item, int64_t begin, const KeyBlock<T>& block) {
    for (int r = 0; r < item.n_rows; r += V::kQueryRows) {
      const int n = item.n_rows - r < V::kQueryRows ? item.n_rows - r : V::kQueryRows;
      run_rows(item, begin, block, r, n);
    }
  }

  template <class T>
  static void run_rows(AttentionItem& item, int64_t begin, const KeyBlock<T>& block, int first, int n_rows) {
    KeyRange seen[V::kQueryRows];
    KeyRange any{kKeyBlock, 0}, common{0, kKeyBlock};
    for (int r = 0; r < n_rows; ++r) {
      seen[r] = clip(item.row_keys[first + r], begin, kKeyBlock);
      if (seen[r].begin < seen[r].end) {
        any.begin = seen[r].begin < any.begin ? seen[r].begin : any.begin;
        any.end = seen[r].end > any.end ? seen[r].end : any.end;
      }
      common.begin = seen[r].begin > common.begin ? seen[r].begin : common.begin;
      common.end = seen[r].end < common.end ? seen[r].end : common.end;
    }
    if (any.begin >= any.end) return;
    const int g0 = static_cast<int>(any.begin / kSlotGroup);
    const int g1 = static_cast<int>((any.end + kSlotGroup - 1) / kSlotGroup);
    Tiles::scores(item.q + first * item.dk, item.dk, n_rows, block.keys + g0, g1 - g0, item.weights + g0 * kSlotGroup);
    for (int r = 0; r < n_rows; ++r)
      if (seen[r].begin < seen[r].end) softmax_row(item, item.weights + r * kKeyBlock, seen[r], first + r);
    mix(item, block, first, n_rows, seen, common);
  }

  // Scores of one row to weights; brings the row's maximum, sum and output so far to the new maximum.
  static void softmax_row(AttentionItem& item, float* s, KeyRange seen, int row) {
    const float softcap = item.args->softcap, inverse = softcap != 0 ? 1 / softcap : 0;
    const int g0 = static_cast<int>(seen.begin / kSlotGroup), g1 = static_cast<int>((seen.end + 15) / kSlotGroup);
    F x[kGroups], largest = V::set1(kNegInf);
    for (int g = 0; g < kGroups; ++g) {
      x[g] = V::zero();
      if (g < g0 || g >= g1) continue;
      F v = V::load(s + g * kSlotGroup);
      if (softcap != 0) v = A::softcap(v, softcap, inverse);
      const KeyRange lanes = clip(seen, g * kSlotGroup, kSlotGroup);
      if (lanes.begin > 0 || lanes.end < kSlotGroup)
        v = V::select(V::lanes(static_cast<int>(lanes.begin), static_cast<int>(lanes.end)), v, V::set1(kNegInf));
      x[g] = v;
      largest = V::max(v, largest);
    }
    const float block_max = V::max_lane(largest), old = item.max[row];
    const float now = old > block_max ? old : block_max;
    for (int g = g0; g < g1; ++g) {
      x[g] = A::exp(V::sub(x[g], V::set1(now)));
      V::store(s + g * kSlotGroup, x[g]);
    }
    const F sum = V::add(V::add(x[0], x[1]), V::add(x[2], x[3]));
    float* lane_sums = item.lane_sums + row * kSlotGroup;
    const F shrink = now == old ? V::set1(1.0f) : A::exp(V::set1(old - now));
    V::store(lane_sums, V::fma(V::load(lane_sums), shrink, sum));
    if (now == old) return;
    item.max[row] = now;
    for (int64_t i = 0; i < item.dv; i += 16)
      V::store(item.acc + row * item.dv + i, V::mul(V::load(item.acc + row * item.dv + i), shrink));
  }

  // Adds weights times values: rows with a common range together, what sticks out at either end row by row.
  template <class T>
  static void mix(AttentionItem& item, const KeyBlock<T>& block, int first, int n_rows, const KeyRange* seen,
                  KeyRange common) {
    const bool together = common.begin < common.end;
    const auto one = [&](int r, int64_t begin, int64_t end) {
      if (begin < end)
        Tiles::mix(item.weights + r * kKeyBlock, block, 1, begin, end, item.acc + (first + r) * item.dv, item.dv);
    };
    for (int r = 0; r < n_rows; ++r) one(r, seen[r].begin, together ? common.begin : seen[r].end);
    if (!together) return;
    Tiles::mix(item.weights, block, n_rows, common.begin, common.end, item.acc + first * item.dv, item.dv);
    for (int r = 0; r < n_rows; ++r) one(r, common.end, seen[r].end);
  }

  // total = total and part, both relative to their own maxima.
  static void fold(float& total_max, float& total_sum, float* total, float max, float sum, const float* acc, int64_t dv,
                   bool first) {
    if (first) {
      total_max = max;
      total_sum = sum;
      for (int64_t i = 0; i < dv; i += 16) V::store(total + i, V::load(acc + i));
      return;
    }
    const float now = total_max > max ? total_max : max;
    const float keep = exp1(total_max - now), take = exp1(max - now);
    total_max = now;
    total_sum = std::fma(sum, take, total_sum * keep);
    const F k = V::set1(keep), t = V::set1(take);
    for (int64_t i = 0; i < dv; i += 16)
      V::store(total + i, V::fma(V::load(acc + i), t, V::mul(V::load(total + i), k)));
  }
  static bool sees_chunk(KeyRange keys, int64_t chunk) {
    return keys.begin < keys.end && keys.begin < (chunk + 1) * kKeyChunk && keys.end > chunk * kKeyChunk;
  }
  static void fold_chunk(AttentionItem& item, int64_t chunk) {
    for (int r = 0; r < item.n_rows; ++r) {
      if (!sees_chunk(item.row_keys[r], chunk)) continue;
      fold(item.total_max[r], item.total_sum[r], item.total + r * item.dv, item.max[r],
           V::sum(V::load(item.lane_sums + r * kSlotGroup)), item.acc + r * item.dv, item.dv, !item.has_total[r]);
      item.has_total[r] = true;
    }
  }

  // y = total / sum, with the sink in the sum.
  static void finish_row(const AttentionArgs& a, int64_t token, int64_t head, bool any, float max, float sum,
                         const float* total) {
    const int64_t dv = a.values.layout.head_dim;
    float* y = a.y + token * a.y_stride + head * dv;
    float factor = 0;
    if (any && a.sinks) {
      const float sink = a.sinks[head], now = max > sink ? max : sink, keep = exp1(max - now);
      factor = keep / std::fma(sum, keep, exp1(sink - now));
    } else if (any) {
      factor = 1 / sum;
    }
    const F f = V::set1(factor);
    for_vectors(dv, [&](int64_t i, int n) { R::store(y + i, any ? V::mul(V::load(total + i), f) : V::zero(), n); });
  }
  static void finish_all(const AttentionItem& item) {
    for (int r = 0; r < item.n_rows; ++r)
      finish_row(*item.args, item.token(r), item.head(r), item.has_total[r], item.total_max[r], item.total_sum[r],
                 item.total + r * item.dv);
  }

  // A partial result: maximum, sum, 14 unused, acc[dv].
  static float* partial(const AttentionCall& call, int64_t row, int64_t chunk) {
    return call.partials + (row * call.plan.max_chunks + chunk) * (kSlotGroup + call.args.values.layout.dim_stride);
  }
  static void store_partials(const AttentionCall& call, const AttentionItem& item, int64_t chunk) {
    for (int r = 0; r < item.n_rows; ++r) {
      if (!sees_chunk(item.row_keys[r], chunk)) continue;
      float* p =
          partial(call, item.token(r) * call.args.n_head + item.head(r), chunk - item.row_keys[r].begin / kKeyChunk);
      p[0] = item.max[r];
      p[1] = V::sum(V::load(item.lane_sums + r * kSlotGroup));
      for (int64_t i = 0; i < item.dv; i += 16) V::store(p + kSlotGroup + i, V::load(item.acc + r * item.dv + i));
    }
  }
  static void merge(const AttentionCall& call, int64_t begin, int64_t end) {
    const AttentionArgs& a = call.args;
    alignas(64) float total[kMaxHeadDim];
    for (int64_t row = begin; row < end; ++row) {
      const KeyRange keys = visible_keys(a, row / a.n_head);
      const bool any = keys.begin < keys.end;
      const int64_t n_chunks = any ? (keys.end - 1) / kKeyChunk - keys.begin / kKeyChunk + 1 : 0;
      float max = 0, sum = 0;
      for (int64_t c = 0; c < n_chunks; ++c) {
        const float* p = partial(call, row, c);
        fold(max, sum, total, p[0], p[1], p + kSlotGroup, a.values.layout.dim_stride, c == 0);
      }
      finish_row(a, row / a.n_head, row % a.n_head, any, max, sum, total);
    }
  }
};

}  // namespace
}  // namespace tokamak::cpu

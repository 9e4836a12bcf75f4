// Register tiles of the attention kernel over a vector layer V, and the block of 64 keys they read.
// Included by ops_ISA.cpp only.
#pragma once

#include "backend/cpu/ops/rows_generic.h"

namespace tokamak::cpu {
namespace {

struct AttentionItem;

// 64 keys and their values as four groups of 16; groups outside the wanted range are not set.
template <class T>
struct KeyBlock {
  const T* keys[4];    // [head_dim][16]
  const T* values[4];  // [16] rows `value_stride` elements apart
  int64_t value_stride;
};

template <class V>
struct AttentionTiles {
  using F = typename V::F;

  // s[r][c] = sum_d q[r][d] * key vector c [d]; rows of s are kKeyBlock apart.
  template <int kRows, int kVecs, class T>
  static void score_tile(const float* q, int64_t dk, const T* const* keys, float* s) {
    F sum[kRows][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < kVecs; ++c) sum[r][c] = V::zero();
    for (int64_t d = 0; d < dk; ++d) {
      F k[kVecs];
#pragma GCC unroll 8
      for (int c = 0; c < kVecs; ++c) k[c] = V::load(keys[c] + d * kSlotGroup);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const F x = V::set1(q[r * dk + d]);
#pragma GCC unroll 8
        for (int c = 0; c < kVecs; ++c) sum[r][c] = V::fma(x, k[c], sum[r][c]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < kVecs; ++c) V::store(s + r * kKeyBlock + c * kSlotGroup, sum[r][c]);
  }

  // acc[r][c] += sum over keys [begin, end) of p[r][key] * value vector c of the key.
  template <int kRows, int kVecs, class T>
  static void mix_tile(const float* p, const KeyBlock<T>& block, int64_t column, int64_t begin, int64_t end, float* acc,
                       int64_t dv) {
    F sum[kRows][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < kVecs; ++c) sum[r][c] = V::load(acc + r * dv + c * 16);
    while (begin < end) {
      const int64_t group = begin / kSlotGroup, stop = end < (group + 1) * kSlotGroup ? end : (group + 1) * kSlotGroup;
      const T* v = block.values[group] + (begin % kSlotGroup) * block.value_stride + column;
      for (; begin < stop; ++begin, v += block.value_stride) {
        F x[kVecs];
#pragma GCC unroll 8
        for (int c = 0; c < kVecs; ++c) x[c] = V::load(v + c * 16);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const F w = V::set1(p[r * kKeyBlock + begin]);
#pragma GCC unroll 8
          for (int c = 0; c < kVecs; ++c) sum[r][c] = V::fma(w, x[c], sum[r][c]);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < kVecs; ++c) V::store(acc + r * dv + c * 16, sum[r][c]);
  }

  // Covers n_rows x n_vecs with register tiles: fn.operator()<rows, vectors>(row, vector).
  template <class Fn>
  static void cover(int n_rows, int n_vecs, Fn fn) {
    int c = 0;
    if constexpr (V::kTileVecs >= 4)
      for (; c + 4 <= n_vecs; c += 4) cover_rows<4>(n_rows, c, fn);
    if constexpr (V::kTileVecs >= 2)
      for (; c + 2 <= n_vecs; c += 2) cover_rows<2>(n_rows, c, fn);
    for (; c < n_vecs; ++c) cover_rows<1>(n_rows, c, fn);
  }
  template <int kVecs, class Fn>
  static void cover_rows(int n_rows, int c, Fn fn) {
    int r = 0;
    if constexpr (V::kQueryRows >= 6) {
      for (; r + 6 <= n_rows; r += 6) fn.template operator()<6, kVecs>(r, c);
      if (r + 4 <= n_rows) fn.template operator()<4, kVecs>(r, c), r += 4;
      if (r + 3 <= n_rows) fn.template operator()<3, kVecs>(r, c), r += 3;
      if (r + 2 <= n_rows) fn.template operator()<2, kVecs>(r, c), r += 2;
    }
    for (; r < n_rows; ++r) fn.template operator()<1, kVecs>(r, c);
  }

  template <class T>
  static void scores(const float* q, int64_t dk, int n_rows, const T* const* keys, int n_groups, float* s) {
    cover(n_rows, n_groups, [&]<int kRows, int kVecs>(int r, int c) {
      score_tile<kRows, kVecs>(q + r * dk, dk, keys + c, s + r * kKeyBlock + c * kSlotGroup);
    });
  }
  template <class T>
  static void mix(const float* p, const KeyBlock<T>& block, int n_rows, int64_t begin, int64_t end, float* acc,
                  int64_t dv) {
    cover(n_rows, static_cast<int>(dv / 16), [&]<int kRows, int kVecs>(int r, int c) {
      mix_tile<kRows, kVecs>(p + r * kKeyBlock, block, c * 16, begin, end, acc + r * dv + c * 16, dv);
    });
  }

  // Address of the group of 16 slots that begins at `position`.
  static const std::byte* group_at(const KvPlane& plane, const AttentionSequence& sequence, int64_t head,
                                   int64_t position) {
    const int64_t page_size = plane.layout.page_size;
    return plane.pages +
           plane.layout.group_offset(sequence.pages[position / page_size], head, position % page_size / kSlotGroup);
  }

  // Groups [g0, g1) of the block that begins at position `begin`, as they lie in the cache (f32, f16).
  template <class T, class Item>
  static KeyBlock<T> in_place(const Item& item, int64_t begin, int g0, int g1) {
    KeyBlock<T> block{.value_stride = item.dv};
    for (int g = g0; g < g1; ++g) {
      const int64_t at = begin + g * kSlotGroup;
      block.keys[g] = reinterpret_cast<const T*>(group_at(item.args->keys, *item.sequence, item.kv_head, at));
      block.values[g] = reinterpret_cast<const T*>(group_at(item.args->values, *item.sequence, item.kv_head, at));
    }
    return block;
  }

  // The same converted to f32 in the item's scratch (all types but f32).
  template <class Item>
  static KeyBlock<float> converted(const Item& item, int64_t begin, int g0, int g1) {
    KeyBlock<float> block{.value_stride = item.dv};
    const DType type = item.args->keys.layout.type;
    for (int g = g0; g < g1; ++g) {
      const int64_t at = begin + g * kSlotGroup;
      const std::byte* keys = group_at(item.args->keys, *item.sequence, item.kv_head, at);
      const std::byte* values = group_at(item.args->values, *item.sequence, item.kv_head, at);
      float* k = item.key_block + g * kSlotGroup * item.dk;
      float* v = item.value_block + g * kSlotGroup * item.dv;
      if (type == DType::f16) {
        widen(reinterpret_cast<const uint16_t*>(keys), item.dk, k);
        widen(reinterpret_cast<const uint16_t*>(values), item.dv, v);
      } else if (type == DType::bf16) {
        widen_bf16(reinterpret_cast<const uint16_t*>(keys), item.dk, k);
        widen_bf16(reinterpret_cast<const uint16_t*>(values), item.dv, v);
      } else if (type == DType::f8_e4m3) {
        decode_f8_keys(keys, item.dk, k);
        decode_f8_values(values, item.args->values.layout, v);
      } else {
        decode_keys(keys, item.dk, k);
        decode_values(values, item.args->values.layout, v);
      }
      block.keys[g] = k;
      block.values[g] = v;
    }
    return block;
  }
  static void widen(const uint16_t* x, int64_t n_vecs, float* y) {
    for (int64_t i = 0; i < n_vecs; ++i) V::store(y + 16 * i, V::load(x + 16 * i));
  }
  static void widen_bf16(const uint16_t* x, int64_t n_vecs, float* y) {
    for (int64_t i = 0; i < 16 * n_vecs; ++i) y[i] = bf16_to_f32(x[i]);
  }
  // 16 numbers e4m3 / 256: as f16 the same bits with a longer exponent. Never NaN: a row with one has the scale NaN.
  static F load_f8(const uint8_t* codes) {
    alignas(32) uint16_t half[16];
    for (int i = 0; i < 16; ++i) half[i] = static_cast<uint16_t>((codes[i] & 0x80) << 8 | (codes[i] & 0x7F) << 7);
    return V::load(half);
  }
  static void decode_f8_keys(const std::byte* group, int64_t dk, float* k) {
    const auto* codes = reinterpret_cast<const uint8_t*>(group);
    const F scales = V::mul(V::load(reinterpret_cast<const float*>(group + dk * kSlotGroup)), V::set1(256.0f));
    for (int64_t d = 0; d < dk; ++d) V::store(k + d * 16, V::mul(scales, load_f8(codes + d * 16)));
  }
  static void decode_f8_values(const std::byte* group, const KvLayout& l, float* v) {
    for (int64_t slot = 0; slot < kSlotGroup; ++slot, group += l.slot_bytes, v += l.dim_stride) {
      const auto* codes = reinterpret_cast<const uint8_t*>(group);
      const F scale = V::set1(256.0f * *reinterpret_cast<const float*>(group + l.dim_stride));
      for (int64_t d = 0; d < l.dim_stride; d += 16) V::store(v + d, V::mul(scale, load_f8(codes + d)));
    }
  }
  static void decode_keys(const std::byte* group, int64_t dk, float* k) {
    const auto* codes = reinterpret_cast<const int8_t*>(group);
    const auto* scales = reinterpret_cast<const uint16_t*>(group + dk * kSlotGroup);
    for (int64_t d = 0; d < dk; ++d)
      V::store(k + d * 16, V::mul(V::load(scales + d / kKvScaleDims * 16), V::load_i8(codes + d * 16)));
  }
  static void decode_values(const std::byte* group, const KvLayout& l, float* v) {
    for (int64_t slot = 0; slot < kSlotGroup; ++slot, group += l.slot_bytes, v += l.dim_stride) {
      const auto* codes = reinterpret_cast<const int8_t*>(group);
      const auto* scales = reinterpret_cast<const uint16_t*>(group + l.dim_stride);
      for (int64_t d = 0; d < l.dim_stride; d += 16)
        V::store(v + d, V::mul(V::set1(f16_to_f32(scales[d / kKvScaleDims])), V::load_i8(codes + d)));
    }
  }
};

}  // namespace
}  // namespace tokamak::cpu

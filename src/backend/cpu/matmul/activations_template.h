// Quantizing and packing activations over a vector layer V: the same bytes on every instruction set.
#pragma once

#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/tile_common.h"

namespace tokamak::cpu {
namespace {

// Where column `col` lies: its panel, the panel's width, its place in it.
struct ColumnPlace {
  std::byte* panel;
  int64_t n_cols, index;

  ColumnPlace(const PackActivationsTask& t, ActivationKind kind, int64_t col) {
    const int64_t first = col / kPanelCols * kPanelCols;
    panel = t.out + first * activation_bytes(kind, 1, t.k);
    n_cols = t.n_cols - first < kPanelCols ? t.n_cols - first : kPanelCols;
    index = col - first;
  }
};

struct GroupScale {
  float d;        // what a code is worth
  float inverse;  // codes = round(x * inverse)
};

// From the bits of max|x| (see pack_activations).
inline GroupScale group_scale(int32_t max_bits) {
  float max_abs;
  std::memcpy(&max_abs, &max_bits, sizeof max_abs);
  if (max_bits >= 0x7F800000) return {max_abs - max_abs, 0.0f};  // NaN
  if (max_abs < 0x1p-120f) return {0.0f, 0.0f};
  return {max_abs / 127.0f, 127.0f / max_abs};
}

// 16 codes of x, stored and returned. inverse 0 gives zeros, also for infinities and NaN.
template <class V>
[[gnu::always_inline]] inline typename V::I quantize16(const float* x, float inverse, std::byte* codes) {
  const auto q = inverse == 0.0f ? V::zero_i() : V::round_i32(V::mul(V::load(x), V::set1(inverse)));
  V::store_i8(codes, q);
  return q;
}

template <class T>
inline void store_scalar(std::byte* p, T x) {
  std::memcpy(p, &x, sizeof x);
}

template <class V>
inline void quantize_group32(const float* x, std::byte* block, int64_t n_cols, int64_t index) {
  const auto max_bits = V::max_abs_bits(V::max_abs_bits(V::zero_i(), V::load(x)), V::load(x + 16));
  const GroupScale scale = group_scale(V::reduce_max(max_bits));
  std::byte* codes = block + 32 * index;
  const int32_t sum =
      V::reduce_add(V::add_i(quantize16<V>(x, scale.inverse, codes), quantize16<V>(x + 16, scale.inverse, codes + 16)));
  std::byte* meta = block + 32 * n_cols + 4 * index;
  store_scalar(meta, scale.d);
  store_scalar(meta + 4 * n_cols, scale.d * static_cast<float>(sum));
  store_scalar(meta + 8 * n_cols, -8 * sum);
  store_scalar(meta + 12 * n_cols, -16 * sum);
  store_scalar(meta + 16 * n_cols, -128 * sum);
}

template <class V>
inline void quantize_group256(const float* x, std::byte* block, int64_t n_cols, int64_t index) {
  auto max_bits = V::zero_i();
  for (int i = 0; i < 256; i += 16) max_bits = V::max_abs_bits(max_bits, V::load(x + i));
  const GroupScale scale = group_scale(V::reduce_max(max_bits));
  std::byte* run_sums = block + 320 * n_cols + 16 * index;
  for (int run = 0; run < 8; ++run) {
    int32_t run_sum = 0;
    for (int half = 0; half < 2; ++half) {
      std::byte* codes = block + run * 32 * n_cols + 32 * index + 16 * half;
      const int32_t sum = V::reduce_add(quantize16<V>(x + 32 * run + 16 * half, scale.inverse, codes));
      store_scalar(block + 256 * n_cols + 4 * ((2 * run + half) * n_cols + index), -32 * sum);
      run_sum += sum;
    }
    run_sums[run] = static_cast<std::byte>(run_sum & 127);
    run_sums[8 + run] = static_cast<std::byte>(run_sum >> 7);
  }
  store_scalar(block + 336 * n_cols + 4 * index, scale.d);
}

// The int8 kinds; blocks past k (a weight chunk may hold two groups) are zero.
template <class V, ActivationKind kKind>
void pack_int8(const PackActivationsTask& t) {
  constexpr const ActivationFormat& kFormat = activation_format(kKind);
  const int64_t n_blocks = activation_blocks(kKind, t.k);
  const float zeros[kFormat.group_elems] = {};
  for (int64_t col = t.col_begin; col < t.col_end; ++col) {
    const ColumnPlace place(t, kKind, col);
    const float* x = t.x + col * t.x_stride_elems;
    for (int64_t b = 0; b < n_blocks; ++b) {
      std::byte* block = place.panel + b * kFormat.block_bytes_per_col * place.n_cols;
      const float* group = b * kFormat.group_elems < t.k ? x + b * kFormat.group_elems : zeros;
      if constexpr (kKind == ActivationKind::int8_group32)
        quantize_group32<V>(group, block, place.n_cols, place.index);
      else
        quantize_group256<V>(group, block, place.n_cols, place.index);
    }
  }
}

template <class V>
void pack_activations_with(ActivationKind kind, const PackActivationsTask& t) {
  if (kind == ActivationKind::int8_group32)
    pack_int8<V, ActivationKind::int8_group32>(t);
  else
    pack_int8<V, ActivationKind::int8_group256>(t);
}

}  // namespace
}  // namespace tokamak::cpu

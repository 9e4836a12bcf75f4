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

// Smaller groups are zero: the scale of a group times that of any weight must be a normal number even after division by
// 64 (tile_low_bits.h), 2^-80 / 16256 * 2^-24 / 64 > 2^-126.
constexpr float kSmallestMax = 0x1p-80f;

// From the bits of max|x| (see pack_activations).
inline GroupScale group_scale(int32_t max_bits, float max_code) {
  float max_abs;
  std::memcpy(&max_abs, &max_bits, sizeof max_abs);
  if (max_bits >= 0x7F800000) return {max_abs - max_abs, 0.0f};  // NaN
  if (max_abs < kSmallestMax) return {0.0f, 0.0f};
  return {max_abs / max_code, max_code / max_abs};
}

template <class T>
inline void store_scalar(std::byte* p, T x) {
  std::memcpy(p, &x, sizeof x);
}

// Writes 16 codes of x (their high and low bytes for int16) to each column's place; returns their sum.
// inverse 0 gives zeros, also for infinities and NaN.
template <class V, ActivationKind kKind>
[[gnu::always_inline]] inline int32_t quantize16(const float* x, float inverse, std::byte* codes, int64_t low_offset) {
  const auto q = inverse == 0.0f ? V::zero_i() : V::round_i32(V::mul(V::load(x), V::set1(inverse)));
  if constexpr (kKind == ActivationKind::int8) {
    V::store_i8(codes, q);
  } else {
    const auto high = V::shift_right7(V::add_i(q, V::set1_i(64)));
    V::store_i8(codes, high);
    V::store_i8(codes + low_offset, V::sub_i(q, V::shl7_add(high, V::zero_i())));
  }
  return V::reduce_add(q);
}

// One group of one column: codes and arrays (formats.h).
template <class V, ActivationKind kKind>
inline void quantize_group(const float* x, std::byte* group, int64_t n_cols, int64_t index) {
  constexpr int64_t kTerms = kKind == ActivationKind::int8 ? 1 : 2;
  const auto max_bits = V::max_abs_bits(V::max_abs_bits(V::zero_i(), V::load(x)), V::load(x + 16));
  const GroupScale scale = group_scale(V::reduce_max(max_bits), static_cast<float>(activation_format(kKind).max_code));
  std::byte* codes = group + 32 * index;
  const int32_t s0 = quantize16<V, kKind>(x, scale.inverse, codes, 32 * n_cols);
  const int32_t s1 = quantize16<V, kKind>(x + 16, scale.inverse, codes + 16, 32 * n_cols);
  const int32_t s = s0 + s1;
  const auto place = [&](GroupArray array) {
    return group + 32 * kTerms * n_cols + 4 * (static_cast<int64_t>(array) * n_cols + index);
  };
  store_scalar(place(GroupArray::d), scale.d);
  store_scalar(place(GroupArray::d_s), scale.d * static_cast<float>(s));
  store_scalar(place(GroupArray::minus8_s), -8 * s);
  store_scalar(place(GroupArray::minus16_s), -16 * s);
  store_scalar(place(GroupArray::minus128_s), -128 * s);
  store_scalar(place(GroupArray::minus32_s0), -32 * s0);
  store_scalar(place(GroupArray::minus32_s1), -32 * s1);
  store_scalar(place(GroupArray::d_s0), scale.d * static_cast<float>(s0));
  store_scalar(place(GroupArray::d_s1), scale.d * static_cast<float>(s1));
}

// Groups past k (a weight chunk may hold several) are zero.
template <class V, ActivationKind kKind>
void pack_groups(const PackActivationsTask& t) {
  constexpr const ActivationFormat& kFormat = activation_format(kKind);
  const int64_t n_groups = activation_groups(kKind, t.k);
  const float zeros[kGroupElems] = {};
  for (int64_t col = t.col_begin; col < t.col_end; ++col) {
    const ColumnPlace place(t, kKind, col);
    const float* x = t.x + (t.x_rows == nullptr ? col : t.x_rows[col]) * t.x_stride_elems;
    for (int64_t g = 0; g < n_groups; ++g)
      quantize_group<V, kKind>(g * kGroupElems < t.k ? x + g * kGroupElems : zeros,
                               place.panel + g * kFormat.group_bytes_per_col * place.n_cols, place.n_cols, place.index);
  }
}

template <class V>
void pack_activations_with(ActivationKind kind, const PackActivationsTask& t) {
  if (kind == ActivationKind::int8)
    pack_groups<V, ActivationKind::int8>(t);
  else
    pack_groups<V, ActivationKind::int16>(t);
}

}  // namespace
}  // namespace tokamak::cpu

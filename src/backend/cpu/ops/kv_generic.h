// Table rows and cache rows over a vector layer V: GET_ROWS and writing keys and values. Included by ops_ISA.cpp only.
#pragma once

#include "backend/cpu/ops/op_sets.h"
#include "backend/cpu/ops/rows_generic.h"
#include "base/e4m3.h"

namespace tokamak::cpu {

namespace {

template <class V>
struct KvRows {
  using F = typename V::F;
  using R = Rows<V>;

  static void get_rows(const GetRowsArgs& a, int64_t begin, int64_t end) {
    if (a.type != DType::f32 && a.type != DType::f16 && a.type != DType::q8_0) return get_rows_any(a, begin, end);
    for (int64_t r = begin; r < end; ++r) {
      const std::byte* row = a.row(r);
      float* y = a.y + r * a.y_stride;
      if (a.type == DType::f32)
        std::memcpy(y, row, static_cast<size_t>(a.row_elems) * sizeof(float));
      else if (a.type == DType::f16)
        decode_f16(row, a.row_elems, y);
      else
        decode_q8_0(row, a.row_elems, y);
    }
  }
  static void decode_f16(const std::byte* row, int64_t n_elems, float* y) {  // the row may be unaligned
    int64_t i = 0;
    for (; i + 16 <= n_elems; i += 16) V::store(y + i, V::load(reinterpret_cast<const uint16_t*>(row + 2 * i)));
    for (; i < n_elems; ++i) y[i] = f16_to_f32(read_u16(row + 2 * i));
  }
  static void decode_q8_0(const std::byte* row, int64_t n_elems, float* y) {
    for (int64_t i = 0; i < n_elems; i += 32, row += 34) {
      const F d = V::set1(f16_to_f32(read_u16(row)));
      const auto* codes = reinterpret_cast<const int8_t*>(row + 2);
      V::store(y + i, V::mul(d, V::load_i8(codes)));
      V::store(y + i + 16, V::mul(d, V::load_i8(codes + 16)));
    }
  }
  static uint16_t read_u16(const std::byte* p) {
    uint16_t x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }

  static void kv_write(const KvWriteArgs& a, int64_t begin, int64_t end) {
    const KvLayout& l = a.plane.layout;
    alignas(64) float head_row[kMaxHeadDim];
    for (int64_t item = begin; item < end; ++item) {
      const int64_t token = item / l.n_head_kv, head = item % l.n_head_kv;
      const float* x = a.x + token * a.x_stride + head * (a.x_head_stride ? a.x_head_stride : l.head_dim);
      if (a.norm_weight) {
        R::norm_head(x, a.norm_weight, a.eps, l.head_dim, head_row);
        x = head_row;
      }
      if (a.rope_table) {
        R::rotate(x, a.rope_table + token * 2 * a.n_rot, a.pairing, a.n_rot, l.head_dim, head_row);
        x = head_row;
      }
      const int64_t slot = a.slots[token], offset = slot % l.page_size;
      std::byte* group = a.plane.pages + l.group_offset(slot / l.page_size, head, offset / kSlotGroup);
      write_slot(l, group, offset % kSlotGroup, x);
    }
  }

  static void write_slot(const KvLayout& l, std::byte* group, int64_t lane, const float* x) {
    const bool keys = l.role == KvRole::keys;
    const int64_t scales_bytes = l.n_scales * l.scale_bytes;
    std::byte* first = group + (keys ? lane * (l.slot_bytes - scales_bytes) / l.dim_stride : lane * l.slot_bytes);
    std::byte* scales = keys ? group + l.head_dim * kSlotGroup + l.scale_bytes * lane : first + l.dim_stride;
    const int64_t step = keys ? kSlotGroup : 1;  // elements from one dimension to the next
    if (l.type == DType::f32) {
      for (int64_t d = 0; d < l.head_dim; ++d) reinterpret_cast<float*>(first)[d * step] = x[d];
    } else if (l.type == DType::f16) {
      write_f16(x, l.head_dim, step, reinterpret_cast<uint16_t*>(first));
    } else if (l.type == DType::bf16) {
      for (int64_t d = 0; d < l.head_dim; ++d) reinterpret_cast<uint16_t*>(first)[d * step] = f32_to_bf16(x[d]);
    } else if (l.type == DType::f8_e4m3) {
      write_f8(x, l.head_dim, step, reinterpret_cast<uint8_t*>(first), reinterpret_cast<float*>(scales));
    } else {
      write_q8_0(x, l.head_dim, step, reinterpret_cast<int8_t*>(first), reinterpret_cast<uint16_t*>(scales));
    }
  }
  static void write_f16(const float* x, int64_t n_elems, int64_t step, uint16_t* out) {
    alignas(64) uint16_t half[16];
    for_vectors(n_elems, [&](int64_t i, int n) {
      if (step == 1 && n == 16) return V::store_f16(out + i, V::load(x + i));
      V::store_f16(half, R::load(x + i, n));
      for (int k = 0; k < n; ++k) out[(i + k) * step] = half[k];
    });
  }
  static void write_q8_0(const float* x, int64_t n_elems, int64_t step, int8_t* codes, uint16_t* scales) {
    alignas(64) float rounded[32];
    for (int64_t i = 0; i < n_elems; i += kKvScaleDims) {
      const int64_t n = n_elems - i < kKvScaleDims ? n_elems - i : kKvScaleDims;
      F largest = V::zero();
      for_vectors(n, [&](int64_t k, int lanes) { largest = V::max(V::abs(R::load(x + i + k, lanes)), largest); });
      const float d = V::max_lane(largest) / 127, inverse = d == 0 ? 0 : 1 / d;
      for_vectors(n, [&](int64_t k, int lanes) {
        const F code = V::round(V::mul(R::load(x + i + k, lanes), V::set1(inverse)));
        V::store(rounded + k, V::min(V::set1(127.0f), V::max(V::set1(-127.0f), code)));
      });
      for (int64_t k = 0; k < n; ++k) codes[(i + k) * step] = to_code(rounded[k]);
      scales[i / kKvScaleDims * step] = f32_to_f16(d);
    }
  }
  static void write_f8(const float* x, int64_t n_elems, int64_t step, uint8_t* codes, float* scale) {
    uint32_t largest = 0;  // the bits of |x| are in its order, NaN above all
    for (int64_t d = 0; d < n_elems; ++d) {
      const uint32_t bits = std::bit_cast<uint32_t>(x[d]) & 0x7FFFFFFF;
      largest = largest < bits ? bits : largest;
    }
    const F8Scale f8 = f8_scale(std::bit_cast<float>(largest));
    for (int64_t d = 0; d < n_elems; ++d) codes[d * step] = f32_to_f8_e4m3(x[d] * f8.inverse);
    *scale = f8.scale;
  }
  static int8_t to_code(float x) { return static_cast<int8_t>(x == x ? x : 0.0f); }
};

}  // namespace
}  // namespace tokamak::cpu

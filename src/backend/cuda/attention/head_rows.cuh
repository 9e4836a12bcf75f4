// A head of a token on its way from a product to attention or to the cache: its norm, its rotation and the forms in
// which caches keep it. A warp works on a head, lane l on dimensions l, l + 32, ... For .cu files only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <type_traits>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/ops/launch.h"

namespace tokamak::cuda {

// squares: of the lane's dimensions, added in ascending order.
__device__ inline float norm_factor(float squares, int n, float eps) {
  return 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(n) + eps);
}
__device__ inline float normed(float x, float factor, float weight) { return x * factor * weight; }

// Which dimension is turned together with the i-th.
__device__ inline int rotation_partner(int i, int n_rot, bool neox) {
  if (!neox) return i ^ 1;
  const int half = n_rot / 2;
  return i < half ? i + half : i - half;
}
__device__ inline float rotated(float own, float factor, float partner, float partner_factor) {
  return fmaf(own, factor, partner * partner_factor);
}

// Where a row and its scales are stored. slot: what chunks are exchanged by.
struct StoredRow {
  uint8_t *elems, *scales;
  int slot;
};
// In slot `at` of a job's cache.
__device__ inline StoredRow stored_row(const HeadJob& job, int at, int64_t head) {
  const KvHeadLayout& l = job.layout;
  const int page = at / l.page_size, slot = at % l.page_size;
  uint8_t* head_page = static_cast<uint8_t*>(job.cache) + l.head_page_offset(page, head, job.n_head);
  return {head_page + slot * l.row_bytes, head_page + l.scale_offset(slot, 0), slot};
}

template <class T>
__device__ inline void store_plain(const KvHeadLayout& l, const StoredRow& to, const float* row, int lane) {
  for (int i = lane; i < l.head_dim; i += kWarp) {
    T value;
    if constexpr (sizeof(T) == 4)
      value = row[i];
    else if constexpr (std::is_same_v<T, __half>)
      value = __float2half_rn(row[i]);
    else
      value = __float2bfloat16_rn(row[i]);
    *reinterpret_cast<T*>(to.elems + l.elem_in_row(to.slot, i)) = value;
  }
}

// As quant/ has it: d = largest / 127 as f16, codes rounded with the d before that.
__device__ inline void store_q8(const KvHeadLayout& l, const StoredRow& to, const float* row, int lane) {
  for (int s = 0; s < l.n_scales; ++s) {
    const int i = s * kKvScaleDims + lane;
    const float x = i < l.head_dim ? row[i] : 0.0f, d = warp_max(fabsf(x)) / 127.0f;
    const float inverse = d == 0 ? 0.0f : 1.0f / d;
    if (i < l.row_bytes)
      to.elems[l.elem_in_row(to.slot, i)] = static_cast<uint8_t>(__float2int_rn(x * inverse) + kQ8Bias);
    if (lane == 0) reinterpret_cast<__half*>(to.scales)[s] = __float2half_rn(d);
  }
}

// One scale per row makes the largest element 448. A row with an infinity or NaN is NaN as a whole.
__device__ inline void store_f8(const KvHeadLayout& l, const StoredRow& to, const float* row, int lane) {
  uint32_t bits = 0;
  for (int i = lane; i < l.head_dim; i += kWarp) bits = max(bits, __float_as_uint(row[i]) & 0x7FFFFFFF);
  const float largest = __uint_as_float(__reduce_max_sync(~0u, bits));
  const bool is_finite = largest < INFINITY, is_zero = largest < 0x1p-80f;
  const float inverse = is_finite && !is_zero ? kF8Largest / largest : 0.0f;
  for (int i = lane; i < l.row_bytes; i += kWarp) {
    const float x = i < l.head_dim && is_finite ? row[i] * inverse : 0.0f;
    to.elems[l.elem_in_row(to.slot, i)] = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
  }
  if (lane == 0)
    *reinterpret_cast<float*>(to.scales) = is_zero     ? 0.0f
                                           : is_finite ? largest / kF8Largest
                                                       : __uint_as_float(0x7FC00000);
}

// row: in shared memory, of head_dim elements. All lanes of a warp must call.
__device__ inline void store_head(const KvHeadLayout& l, const StoredRow& to, const float* row, int lane) {
  switch (l.type) {
    case KvType::f32:
      return store_plain<float>(l, to, row, lane);
    case KvType::f16:
      return store_plain<__half>(l, to, row, lane);
    case KvType::bf16:
      return store_plain<__nv_bfloat16>(l, to, row, lane);
    case KvType::q8_0:
      return store_q8(l, to, row, lane);
    case KvType::f8:
      return store_f8(l, to, row, lane);
  }
}

}  // namespace tokamak::cuda

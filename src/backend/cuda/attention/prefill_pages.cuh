// The keys that a tile sees: which blocks they make, how their bytes come from the paged cache, and how other types
// become f16.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "backend/cuda/attention/layout.h"
#include "backend/cuda/attention/prefill_rows.cuh"
#include "backend/cuda/ptx/barrier.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/memory.cuh"

namespace tokamak::cuda::prefill {

inline constexpr int kPieceKeys = 16;  // copies begin and end at multiples: page sizes are

// Block i begins at key kKeys * (first + i).
template <int kKeys>
struct BlockWalk {
  Range seen;
  int first, count;

  BlockWalk() = default;
  __device__ explicit BlockWalk(const Range& r)
      : seen(r), first(r.begin / kKeys), count(r.begin < r.end ? (r.end + kKeys - 1) / kKeys - first : 0) {}
  __device__ int key(int block) const { return kKeys * (first + block); }
  __device__ bool is_whole(int block) const { return key(block) >= seen.begin && key(block) + kKeys <= seen.end; }
  __device__ bool is_hidden(int key) const { return key < seen.begin || key >= seen.end; }
};

// A copy that never comes is an error after less than a second.
__device__ __forceinline__ void wait_copied(uint32_t barrier, uint32_t parity) {
  ptx::barrier_wait<1u << 24>(barrier, parity);
}

// Where a sequence's rows of one head lie.
struct PagedRows {
  const uint8_t* head;   // of page 0
  int64_t page_stride;   // bytes
  const int32_t* pages;  // of the sequence
};

__device__ inline PagedRows rows_of(const PrefillAttentionArgs& a, const KvHeadLayout& layout, const void* plane,
                                    const Item& item) {
  return {.head = static_cast<const uint8_t*>(plane) + item.head_kv * layout.head_page_bytes,
          .page_stride = a.n_head_kv * layout.head_page_bytes,
          .pages = a.pages + a.page_begin[a.seq_ids[item.token]]};
}

// Starts copies of a block's rows as they are in the cache, then of their scales, to `to`, and announces them to the
// barrier: those rows that are seen, and what shares kPieceKeys with them. One thread.
template <int kKeys>
__device__ void fetch_rows(const PagedRows& rows, const KvHeadLayout& layout, const BlockWalk<kKeys>& walk, int block,
                           uint32_t to, uint32_t barrier) {
  const int first = walk.key(block);
  int key = max(first, walk.seen.begin / kPieceKeys * kPieceKeys);
  const int end = min(first + kKeys, (walk.seen.end + kPieceKeys - 1) / kPieceKeys * kPieceKeys);
  const int row_bytes = layout.row_bytes, scales_of_row = layout.n_scales * layout.scale_bytes;
  ptx::barrier_expect(barrier, (end - key) * (row_bytes + scales_of_row));
  while (key < end) {
    const uint32_t page = static_cast<uint32_t>(key) / static_cast<uint32_t>(layout.page_size);
    const int slot = key - static_cast<int>(page) * layout.page_size, n_rows = min(layout.page_size - slot, end - key);
    const uint8_t* from = rows.head + rows.pages[page] * rows.page_stride;
    ptx::copy_bulk(to + (key - first) * row_bytes, from + slot * row_bytes, n_rows * row_bytes, barrier);
    if (scales_of_row > 0)
      ptx::copy_bulk(to + kKeys * row_bytes + (key - first) * scales_of_row, from + layout.scale_offset(slot, 0),
                     n_rows * scales_of_row, barrier);
    key += n_rows;
  }
}

// 8 dimensions of one slot as f16.
__device__ __forceinline__ uint4 decode_bf16(uint4 raw) {
  const auto two = [](uint32_t x) {
    return ptx::to_halves_clamped(__uint_as_float(x << 16), __uint_as_float(x & 0xFFFF0000));
  };
  return {two(raw.x), two(raw.y), two(raw.z), two(raw.w)};
}
__device__ __forceinline__ uint32_t scaled(__half2 x, __half2 scale) {
  const __half2 y = __hmul2(x, scale);
  return *reinterpret_cast<const uint32_t*>(&y);
}
__device__ __forceinline__ uint4 decode_q8_0(uint2 raw, __half scale) {
  const __half2 s = __half2half2(scale);
  // Bytes under the exponent of 1024 are 1024 + code.
  const auto two = [s](uint32_t bytes) {
    const __half2 x = __hsub2(*reinterpret_cast<const __half2*>(&bytes), __half2half2(__float2half(1024.0f + kQ8Bias)));
    return scaled(x, s);
  };
  constexpr uint32_t kExponent = 0x64646464;
  return {two(__byte_perm(raw.x, kExponent, 0x4140)), two(__byte_perm(raw.x, kExponent, 0x4342)),
          two(__byte_perm(raw.y, kExponent, 0x4140)), two(__byte_perm(raw.y, kExponent, 0x4342))};
}
__device__ __forceinline__ uint4 decode_f8(uint2 raw, float scale) {
  const auto two = [scale](uint32_t bits) {
    const __half2_raw h = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bits & 0xFFFF), __NV_E4M3);
    const float2 x = __half22float2(__half2(h));
    return ptx::to_halves_clamped(x.x * scale, x.y * scale);
  };
  return {two(raw.x), two(raw.x >> 16), two(raw.y), two(raw.y >> 16)};
}

// Dimensions [8 chunk, 8 chunk + 8) of a row of a block that fetch_rows has copied to `at`; its scales are at `scales`.
// Loading and decoding are apart so that several loads are under way.
struct RawChunk {
  uint4 bytes;
  uint32_t scale;

  __device__ __forceinline__ void load(const KvHeadLayout& layout, uint32_t at, uint32_t scales, int row, int chunk) {
    if (layout.type == KvType::bf16) {
      bytes = ptx::load_shared_16(at + layout.chunk_offset(row, chunk));
      return;
    }
    const uint2 codes = ptx::load_shared_8(at + layout.chunk_offset(row, chunk / 2) + chunk % 2 * 8);
    bytes.x = codes.x, bytes.y = codes.y;
    if (layout.type == KvType::f8) {
      scale = ptx::load_shared_4(scales + 4 * row);
      return;
    }
    const uint32_t scale_at = scales + 2 * (row * layout.n_scales + chunk * 8 / kKvScaleDims);
    scale = ptx::load_shared_2(scale_at);
  }
  __device__ __forceinline__ uint4 decode(KvType type) const {
    if (type == KvType::bf16) return decode_bf16(bytes);
    if (type == KvType::f8) return decode_f8({bytes.x, bytes.y}, __uint_as_float(scale));
    return decode_q8_0({bytes.x, bytes.y}, __ushort_as_half(static_cast<uint16_t>(scale)));
  }
};

// Decodes a block of kKeys rows of kDims to f16, several warps together: kWarps of them, of which this is the one with
// number `warp`. Rows that are not seen become 0. store(row, chunk, 8 dimensions).
template <int kKeys, int kDims, int kWarps, class Store>
__device__ __forceinline__ void decode_block(const KvHeadLayout& layout, const BlockWalk<kKeys>& walk, int block,
                                             uint32_t at, int warp, Store store) {
  // Steps of 8 rows times 4 chunks: the lanes of a row's chunk are in different banks on both sides.
  constexpr int kParts = (kDims + 31) / 32, kSteps = kKeys / 8 * kParts, kAtOnce = 4;
  const uint32_t scales = at + kKeys * layout.row_bytes;
  const int lane = threadIdx.x % 32;
  const auto row_of = [&](int step) { return step / kParts * 8 + lane % 8; };
  const auto chunk_of = [&](int step) { return step % kParts * 4 + lane / 8; };
  for (int first = warp; first < kSteps; first += kAtOnce * kWarps) {
    RawChunk raw[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int step = first + i * kWarps;
      if (step < kSteps && chunk_of(step) < kDims / 8) raw[i].load(layout, at, scales, row_of(step), chunk_of(step));
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int step = first + i * kWarps, row = row_of(step);
      if (step >= kSteps || chunk_of(step) >= kDims / 8) continue;
      const bool hidden = walk.is_hidden(walk.key(block) + row);
      store(row, chunk_of(step), hidden ? uint4{0, 0, 0, 0} : raw[i].decode(layout.type));
    }
  }
}

}  // namespace tokamak::cuda::prefill

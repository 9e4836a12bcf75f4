// Blocks of 64 keys (or values) in shared memory: bulk copies from the paged cache and, for types other than f16,
// decoding.
//
// A plane has kStages buffers of bytes as in the cache. With f16 they are what the products read; a warp that is done
// with one says so and the buffer is filled again. Other types are decoded into one f16 block, by all threads, and the
// buffer is filled again at once.
#pragma once

#include <cuda_fp8.h>

#include "backend/cuda/attention/layout.h"
#include "backend/cuda/attention/prefill_ops.cuh"

namespace tokamak::cuda::prefill {

inline constexpr int kWarps = 4, kThreads = 32 * kWarps;
inline constexpr int kBlockKeys = 64;
inline constexpr int kPieceKeys = 16;  // copies begin and end at multiples: page sizes are

// A block of rows as the products read it.
TOKAMAK_KV_HD constexpr KvHeadLayout f16_block(int dims) { return kv_head_layout(KvType::f16, dims, kBlockKeys); }

// The keys that a tile's tokens see, in blocks.
struct KeyBlocks {
  int begin, end;   // keys
  int first_block;  // block i of the walk begins at key kBlockKeys * (first_block + i)
  int n_blocks;

  __device__ int key(int block) const { return kBlockKeys * (first_block + block); }
  __device__ bool is_whole(int block) const { return key(block) >= begin && key(block) + kBlockKeys <= end; }
};

// Where a sequence's rows of one head lie. In shared memory: only the thread that fetches reads it.
struct PagedRows {
  const uint8_t* head;   // of page 0
  int64_t page_stride;   // bytes
  const int32_t* pages;  // of the sequence
};

struct Barriers {
  uint32_t full, empty;  // of stage 0; 8 bytes each, stage after stage
};

// 8 dimensions of one slot as f16.
__device__ __forceinline__ uint4 decode_bf16(uint4 raw) {
  const auto two = [](uint32_t x) { return pack_clamped(__uint_as_float(x << 16), __uint_as_float(x & 0xFFFF0000)); };
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
    return pack_clamped(x.x * scale, x.y * scale);
  };
  return {two(raw.x), two(raw.x >> 16), two(raw.y), two(raw.y >> 16)};
}

// One plane's buffers. kDims: dimensions of a row; kStages: 1 or 2, 1 unless f16.
template <int kDims, bool kIsF16, int kStages>
struct Blocks {
  const KvHeadLayout* layout;
  KeyBlocks walk;
  PagedRows* rows;
  Barriers barriers;
  uint32_t buffers, decoded;  // decoded: where blocks are f16, unless buffers are
  uint32_t stage_bytes;
  uint32_t count;  // blocks of earlier tiles

  __device__ uint32_t stage(int block) const { return (count + block) % kStages; }
  __device__ uint32_t round(int block) const { return (count + block) / kStages; }
  __device__ int row_bytes() const { return kIsF16 ? f16_block(kDims).row_bytes : layout->row_bytes; }

  // One thread, before all others use anything here.
  __device__ void init_barriers() const {
    for (int s = 0; s < kStages; ++s) {
      barrier_init(barriers.full + 8 * s, 1);
      barrier_init(barriers.empty + 8 * s, kWarps);
    }
    fence_bulk();
  }
  // One thread. Waits until all warps are done with what the buffer held.
  __device__ void fetch(int block) const {
    const uint32_t s = stage(block), n = round(block), to = buffers + s * stage_bytes, full = barriers.full + 8 * s;
    if (kIsF16 && n > 0) barrier_wait(barriers.empty + 8 * s, (n - 1) & 1);
    const int first = walk.key(block);
    int key = max(first, walk.begin / kPieceKeys * kPieceKeys);
    const int end = min(first + kBlockKeys, (walk.end + kPieceKeys - 1) / kPieceKeys * kPieceKeys);
    const uint32_t scales_of_row = layout->n_scales * layout->scale_bytes;
    barrier_expect(full, (end - key) * (row_bytes() + scales_of_row));
    while (key < end) {
      const uint32_t page = static_cast<uint32_t>(key) / static_cast<uint32_t>(layout->page_size);
      const int slot = key - static_cast<int>(page) * layout->page_size;
      const int n_rows = min(layout->page_size - slot, end - key);
      const uint8_t* from = rows->head + rows->pages[page] * rows->page_stride;
      copy_bulk(to + (key - first) * row_bytes(), from + slot * row_bytes(), n_rows * row_bytes(), full);
      if (!kIsF16)
        if (scales_of_row > 0)
          copy_bulk(to + kBlockKeys * row_bytes() + (key - first) * scales_of_row, from + layout->scale_offset(slot, 0),
                    n_rows * scales_of_row, full);
      key += n_rows;
    }
  }
  __device__ void fetch_first() const {
    for (int block = 0; block < min(kStages, walk.n_blocks); ++block) fetch(block);
  }

  // The f16 block, complete. All threads; rows that no token of the tile sees are zero with kZeros, else anything.
  template <bool kZeros>
  __device__ uint32_t wait(int block) const {
    const uint32_t s = stage(block), at = buffers + s * stage_bytes;
    barrier_wait(barriers.full + 8 * s, round(block) & 1);
    if constexpr (!kIsF16) {
      decode(block, at);
      __syncthreads();
      if (threadIdx.x == 0 && block + 1 < walk.n_blocks) fetch(block + 1);
      return decoded;
    }
    if (kZeros && !walk.is_whole(block)) {
      clear_hidden(block, at);
      fence_bulk();
      __syncthreads();
    }
    return at;
  }
  // The warp is done with the block.
  __device__ void release(int block) const {
    if constexpr (kIsF16) {
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(barriers.empty + 8 * stage(block));
    }
  }
  // One thread, after its release.
  __device__ void refill(int block) const {
    if (kIsF16 && block + kStages < walk.n_blocks) fetch(block + kStages);
  }

 private:
  static constexpr int kChunks = kDims / 8;

  __device__ bool is_hidden(int block, int row) const {
    const int key = walk.key(block) + row;
    return key < walk.begin || key >= walk.end;
  }
  __device__ void clear_hidden(int block, uint32_t at) const {
    for (int i = threadIdx.x; i < kBlockKeys * kChunks; i += kThreads)
      if (is_hidden(block, i / kChunks)) store_vector(at + 16 * i, {0, 0, 0, 0});
  }
  __device__ void decode(int block, uint32_t at) const {
    constexpr KvHeadLayout kF16 = f16_block(kDims);
    const uint32_t scales = at + kBlockKeys * row_bytes();
    for (int i = threadIdx.x; i < kBlockKeys * kChunks; i += kThreads) {
      const int row = i / kChunks, chunk = i % kChunks;
      uint4 v = {0, 0, 0, 0};
      if (!is_hidden(block, row)) v = decode_chunk(at, scales, row, chunk);
      store_vector(decoded + kF16.chunk_offset(row, chunk), v);
    }
  }
  __device__ uint4 decode_chunk(uint32_t at, uint32_t scales, int row, int chunk) const {
    if (layout->type == KvType::bf16) return decode_bf16(load_vector(at + layout->chunk_offset(row, chunk)));
    const uint2 codes = load_pair(at + layout->chunk_offset(row, chunk / 2) + chunk % 2 * 8);
    if (layout->type == KvType::f8) {
      float scale;
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(scale) : "r"(scales + 4 * row) : "memory");
      return decode_f8(codes, scale);
    }
    uint16_t scale;
    asm volatile("ld.shared.u16 %0, [%1];"
                 : "=h"(scale)
                 : "r"(scales + 2 * (row * layout->n_scales + chunk * 8 / kKvScaleDims))
                 : "memory");
    return decode_q8_0(codes, __ushort_as_half(scale));
  }
};

}  // namespace tokamak::cuda::prefill

// Where keys and values lie on the device, for the kernels (CUDA and host code alike).
//
// The keys (or values) of one layer are a plane [n_pages][n_head_kv][head page]. A head page holds page_size slots of
// one head and is contiguous, so that tiles are fetched by bulk copies:
//   rows    [page_size][row_bytes]: f32, f16, bf16, int8 codes + 128 (q8_0) or e4m3 (f8)
//   scales  [page_size][scales_of_row]: f16 per 32 dimensions (q8_0), f32 per row (f8); nothing for other types
// Rows are 16-byte chunks; what pads the last one decodes to 0. Chunk c of slot r is stored at swizzled_chunk(c, r,
// ..): the same chunk of 8 slots in a row then lies in 8 different groups of banks, whatever the head size (ldmatrix
// without conflicts). Slots count within the page; page sizes are multiples of 16, so a tile that begins at a multiple
// of 8 needs only r % 8.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define TOKAMAK_KV_HD __host__ __device__ __forceinline__
#else
#define TOKAMAK_KV_HD inline
#endif

namespace tokamak::cuda {

enum class KvType : uint8_t { f32, f16, bf16, q8_0, f8 };

inline constexpr int kKvChunkBytes = 16;
inline constexpr int kKvScaleDims = 32;  // dimensions that share a scale of q8_0
inline constexpr int kQ8Bias = 128;      // stored code = code + 128
inline constexpr float kF8Largest = 448;

// Bytes of one element of a row, and of one scale.
TOKAMAK_KV_HD constexpr int kv_elem_bytes(KvType type) {
  return type == KvType::f32 ? 4 : type == KvType::f16 || type == KvType::bf16 ? 2 : 1;
}
TOKAMAK_KV_HD constexpr int kv_scale_bytes(KvType type) {
  return type == KvType::q8_0 ? 2 : type == KvType::f8 ? 4 : 0;
}

// Sizes of one head's pages, from the type and head size. Plain numbers, cheap to make anywhere.
struct KvHeadLayout {
  KvType type;
  int head_dim, page_size;
  int elem_bytes, row_bytes;  // row_bytes is a multiple of 16
  int n_scales, scale_bytes;  // per slot
  int swizzle_shift, swizzle_mask;
  int64_t head_page_bytes;  // rows and scales of one head of one page; a multiple of 16

  TOKAMAK_KV_HD int row_chunks() const { return row_bytes / kKvChunkBytes; }
  TOKAMAK_KV_HD int swizzled_chunk(int chunk, int slot) const { return chunk ^ (slot >> swizzle_shift & swizzle_mask); }
  // Bytes from the beginning of the head page to element d, chunk c or scale s of a slot.
  TOKAMAK_KV_HD int chunk_offset(int slot, int chunk) const {
    return slot * row_bytes + swizzled_chunk(chunk, slot) * kKvChunkBytes;
  }
  TOKAMAK_KV_HD int elem_offset(int slot, int d) const { return slot * row_bytes + elem_in_row(slot, d); }
  // Bytes from the beginning of the slot's row; of the slot, only slot % 8 counts.
  TOKAMAK_KV_HD int elem_in_row(int slot, int d) const {
    const int at = d * elem_bytes;
    return swizzled_chunk(at / kKvChunkBytes, slot) * kKvChunkBytes + at % kKvChunkBytes;
  }
  TOKAMAK_KV_HD int scale_offset(int slot, int s) const {
    return page_size * row_bytes + (slot * n_scales + s) * scale_bytes;
  }
  // From the beginning of the plane.
  TOKAMAK_KV_HD int64_t head_page_offset(int64_t page, int64_t head, int64_t n_head_kv) const {
    return (page * n_head_kv + head) * head_page_bytes;
  }
};

// page_size: a multiple of 16. Of n 16-byte chunks per row, n = odd * 2^z, the lowest min(z, 3) bits of the chunk are
// exchanged; the bank groups that the rows' own lengths already tell apart are the other 3 - z.
TOKAMAK_KV_HD constexpr KvHeadLayout kv_head_layout(KvType type, int head_dim, int page_size) {
  KvHeadLayout out{};
  out.type = type;
  out.head_dim = head_dim;
  out.page_size = page_size;
  out.elem_bytes = kv_elem_bytes(type);
  out.row_bytes = (head_dim * out.elem_bytes + kKvChunkBytes - 1) / kKvChunkBytes * kKvChunkBytes;
  out.scale_bytes = kv_scale_bytes(type);
  out.n_scales = type == KvType::q8_0 ? (head_dim + kKvScaleDims - 1) / kKvScaleDims : type == KvType::f8 ? 1 : 0;
  int z = 0;
  while (z < 3 && (out.row_bytes / kKvChunkBytes >> z) % 2 == 0) ++z;
  out.swizzle_shift = 3 - z;
  out.swizzle_mask = (1 << z) - 1;
  out.head_page_bytes = int64_t{page_size} * (out.row_bytes + out.n_scales * out.scale_bytes);
  return out;
}

}  // namespace tokamak::cuda

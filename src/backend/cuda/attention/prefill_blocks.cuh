// Blocks of 64 keys (or values) in shared memory: bulk copies from the paged cache and, for types other than f16,
// decoding.
//
// A plane has kStages buffers of bytes as in the cache. With f16 they are what the products read; a warp that is done
// with one says so and the buffer is filled again. Other types are decoded into one f16 block, by all threads, and the
// buffer is filled again at once.
#pragma once

#include "backend/cuda/attention/prefill_pages.cuh"

namespace tokamak::cuda::prefill {

inline constexpr int kWarps = 4, kThreads = 32 * kWarps;
inline constexpr int kBlockKeys = 64;

// A block of rows as the products read it.
TOKAMAK_KV_HD constexpr KvHeadLayout f16_block(int dims) { return kv_head_layout(KvType::f16, dims, kBlockKeys); }

struct Barriers {
  uint32_t full, empty;  // of stage 0; 8 bytes each, stage after stage
};

// One plane's buffers. kDims: dimensions of a row; kStages: 1 or 2, 1 unless f16.
template <int kDims, bool kIsF16, int kStages>
struct Blocks {
  const KvHeadLayout* layout;
  BlockWalk<kBlockKeys> walk;
  PagedRows* rows;  // in shared memory: only the thread that fetches reads it
  Barriers barriers;
  uint32_t buffers, decoded;  // decoded: where blocks are f16, unless buffers are
  uint32_t stage_bytes;
  uint32_t count;  // blocks of earlier tiles

  __device__ uint32_t stage(int block) const { return (count + block) % kStages; }
  __device__ uint32_t round(int block) const { return (count + block) / kStages; }

  // One thread, before all others use anything here.
  __device__ void init_barriers() const {
    for (int s = 0; s < kStages; ++s) {
      ptx::barrier_init(barriers.full + 8 * s, 1);
      ptx::barrier_init(barriers.empty + 8 * s, kThreads);
    }
    ptx::fence_bulk();
  }
  // One thread. Waits until all warps are done with what the buffer held.
  __device__ void fetch(int block) const {
    const uint32_t s = stage(block), n = round(block), to = buffers + s * stage_bytes, full = barriers.full + 8 * s;
    if (kIsF16 && n > 0) wait_copied(barriers.empty + 8 * s, (n - 1) & 1);
    fetch_rows(*rows, *layout, walk, block, to, full);
  }
  __device__ void fetch_first() const {
    for (int block = 0; block < min(kStages, walk.count); ++block) fetch(block);
  }

  // The f16 block, complete. All threads; rows that no token of the tile sees are zero with kZeros, else anything.
  template <bool kZeros>
  __device__ uint32_t wait(int block) const {
    const uint32_t s = stage(block), at = buffers + s * stage_bytes;
    wait_copied(barriers.full + 8 * s, round(block) & 1);
    if constexpr (!kIsF16) {
      decode(block, at);
      __syncthreads();
      if (threadIdx.x == 0 && block + 1 < walk.count) fetch(block + 1);
      return decoded;
    }
    if (kZeros && !walk.is_whole(block)) {
      clear_hidden(block, at);
      ptx::fence_bulk();
      __syncthreads();
    }
    return at;
  }
  // The thread is done with the block.
  __device__ void release(int block) const {
    if constexpr (kIsF16) ptx::barrier_arrive(barriers.empty + 8 * stage(block));
  }
  // One thread, after its release.
  __device__ void refill(int block) const {
    if (kIsF16 && block + kStages < walk.count) fetch(block + kStages);
  }

 private:
  static constexpr int kChunks = kDims / 8;

  __device__ void clear_hidden(int block, uint32_t at) const {
    for (int i = threadIdx.x; i < kBlockKeys * kChunks; i += kThreads)
      if (walk.is_hidden(walk.key(block) + i / kChunks)) ptx::store_shared(at + 16 * i, {0, 0, 0, 0});
  }
  __device__ void decode(int block, uint32_t at) const {
    constexpr KvHeadLayout kF16 = f16_block(kDims);
    decode_block<kBlockKeys, kDims, kWarps>(
        *layout, walk, block, at, threadIdx.x / 32,
        [&](int row, int chunk, const uint4& v) { ptx::store_shared(decoded + kF16.chunk_offset(row, chunk), v); });
  }
};

}  // namespace tokamak::cuda::prefill

// Weights on their way through shared memory: a warp's ring of stages, each the next kStageUnits units of 8 row blocks,
// copied asynchronously so that whole lines are read and many are in flight. No other warp touches them.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/matvec/geometry.h"

namespace tokamak::cuda {

inline constexpr int kStageUnits = 8, kStageBlocks = 8;

// A row block's part of a stage is a tile of kStageUnits units. The distance of two keeps the lanes that read together
// on different banks.
template <class P>
constexpr int stage_block_bytes() {
  int n = tile_bytes<P>(kStageUnits);
  while (n % 128 != 4 * P::kStride) n += 16;
  return n;
}
template <class P>
constexpr int stage_bytes() {
  return kStageBlocks * stage_block_bytes<P>();
}

constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }

template <int n_bytes>
__device__ inline void copy_async(uint32_t to, const uint8_t* from) {
  if constexpr (n_bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(n_bytes) : "memory");
}
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All but the last n groups are there.
template <int n>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

// What is copied: units [first, first + n) of row blocks first_block .. first_block + 7 (none past last_block) in the
// tiles of a slice of n_units units. slice: the tile of row block 0.
struct StageSource {
  const uint8_t* slice;
  int64_t row_block_bytes;
  int first_block, last_block, first, n, n_units;
};

// Pieces of kWidth bytes, neighbouring lanes neighbouring pieces.
template <class P, int i, int kWidth>
__device__ inline void copy_plane(const StageSource& s, uint32_t to, int lane) {
  constexpr Plane kPlane = P::kPlanes[i];
  constexpr int kEntry = kPlane.bytes / kPlane.parts, kPart = kEntry * kStageUnits / kPlane.units;
  constexpr int kPieces = kPart / kWidth, kPerBlock = kPieces * kPlane.parts, kAll = kPerBlock * kStageBlocks;
  const uint8_t* plane = s.slice + plane_offset<P, i>(s.n_units) + s.first / kPlane.units * kEntry;
  const int part_bytes = s.n_units / kPlane.units * kEntry, valid = s.n / kPlane.units * kEntry;
#pragma unroll
  for (int begin = 0; begin < kAll; begin += 32) {
    const int at = begin + lane, block = at / kPerBlock, part = at % kPerBlock / kPieces;
    const int offset = at % kPieces * kWidth;
    if ((kAll % 32 == 0 || at < kAll) && offset < valid)
      copy_async<kWidth>(
          to + block * stage_block_bytes<P>() + plane_offset<P, i>(kStageUnits) + part * kPart + offset,
          plane + min(s.first_block + block, s.last_block) * s.row_block_bytes + part * part_bytes + offset);
  }
}
template <class P, int i = 0>
__device__ inline void copy_planes(const StageSource& s, uint32_t to, int lane) {
  if constexpr (i < plane_count<P>()) {
    constexpr Plane kPlane = P::kPlanes[i];
    constexpr int kEntry = kPlane.bytes / kPlane.parts;
    // Slices of whole stages are aligned as those are; others (of types with blocks of less than kStageUnits units
    // only) as their entries.
    constexpr int kWide =
        common_divisor(common_divisor(16, plane_offset<P, i>(kStageUnits)), kEntry * kStageUnits / kPlane.units);
    if (kEntry < 4 || s.n_units % kStageUnits == 0)
      copy_plane<P, i, kWide>(s, to, lane);
    else if constexpr (kEntry >= 4)
      copy_plane<P, i, common_divisor(16, kEntry)>(s, to, lane);
    copy_planes<P, i + 1>(s, to, lane);
  }
}

}  // namespace tokamak::cuda

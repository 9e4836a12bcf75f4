// src/backend/cuda/ptx/copy.cuh, emulated. Copies are made at once or, in descending order, when no thread can go on.
#pragma once

#include <cstdint>

#include "backend/cuda/emulator/copy.h"

namespace tokamak::cuda::ptx {

inline void copy_bulk(uint32_t to, const void* from, uint32_t n_bytes, uint32_t barrier) {
  emulator::copy_bulk(to, from, n_bytes, barrier);
}
inline void copy_box(uint32_t to, const void* map, int x, int y, int z, uint32_t barrier) {
  emulator::copy_box(to, map, {x, y, z}, barrier);
}
inline void fence_bulk() {}
inline void copy_16(uint32_t to, const void* from) {
  std::memcpy(emulator::shared_at(to, 16, 16), emulator::readable(from, 16, 16), 16);
}
inline void arrive_after_copies(uint32_t barrier) { emulator::barrier_arrive(barrier); }

}  // namespace tokamak::cuda::ptx

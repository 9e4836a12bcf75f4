// src/backend/cuda/ptx/barrier.cuh, emulated.
#pragma once

#include <cstdint>

#include "backend/cuda/emulator/block.h"

namespace tokamak::cuda::ptx {

inline void barrier_init(uint32_t barrier, uint32_t n_arrivals) { emulator::barrier_init(barrier, n_arrivals); }
inline void fence_barrier_init() {}
inline void barrier_arrive(uint32_t barrier) { emulator::barrier_arrive(barrier); }
inline void barrier_announce(uint32_t barrier, uint32_t n_bytes) { emulator::barrier_announce(barrier, n_bytes); }
inline void barrier_expect(uint32_t barrier, uint32_t n_bytes) {
  emulator::barrier_announce(barrier, n_bytes);
  emulator::barrier_arrive(barrier);
}
inline bool barrier_passed(uint32_t barrier, uint32_t parity) { return emulator::barrier_passed(barrier, parity); }
template <uint32_t kMostPolls = 1u << 26>
void barrier_wait(uint32_t barrier, uint32_t parity) {
  emulator::barrier_wait(barrier, parity);
}
inline void sync_threads(int id, int n_threads) { emulator::sync_some(id, n_threads); }

}  // namespace tokamak::cuda::ptx

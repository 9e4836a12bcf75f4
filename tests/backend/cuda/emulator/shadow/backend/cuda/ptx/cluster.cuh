// src/backend/cuda/ptx/cluster.cuh, emulated: the device says that it has no clusters.
#pragma once

#include <cstdint>

#include "backend/cuda/emulator/block.h"

namespace tokamak::cuda::ptx {

inline uint32_t rank_in_cluster() { emulator::fail("a cluster"); }
inline void begin_in_cluster() { emulator::fail("a cluster"); }
inline void wait_for_cluster() { emulator::fail("a cluster"); }
inline void store_in_cluster(uint32_t, uint32_t, uint32_t, float) { emulator::fail("a cluster"); }

}  // namespace tokamak::cuda::ptx

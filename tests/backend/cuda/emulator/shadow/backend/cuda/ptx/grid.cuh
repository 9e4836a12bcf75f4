// src/backend/cuda/ptx/grid.cuh, emulated: grids run one after another.
#pragma once

#include <chrono>
#include <cstdint>

namespace tokamak::cuda::ptx {

inline void launch_dependents() {}
inline void wait_for_prerequisites() {}
inline uint64_t nanoseconds_now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

}  // namespace tokamak::cuda::ptx

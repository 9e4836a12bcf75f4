// What a kernel knows of the world outside its grid.
// Source: PTX ISA 9.0, 9.7.13 griddepcontrol (GPUs from 9.0 on), 10 "Special registers" %globaltimer.
#pragma once

#include <cstdint>

namespace tokamak::cuda::ptx {

// The next grid of the stream may begin, if it was launched so.
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// Until the grids before have ended and what they wrote is visible.
__device__ __forceinline__ void wait_for_prerequisites() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

__device__ __forceinline__ uint64_t nanoseconds_now() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

}  // namespace tokamak::cuda::ptx

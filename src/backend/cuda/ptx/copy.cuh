// Copies from global to shared memory that go on while the thread does, and count into barriers (barrier.cuh).
// Source: PTX ISA 9.0, 9.7.9.25 "Asynchronous copy": cp.async, cp.async.bulk, cp.async.bulk.tensor;
// fence.proxy.async.
#pragma once

#include <cstdint>

namespace tokamak::cuda::ptx {

// --- bulk copies: GPUs from 9.0 on.
// n_bytes: a multiple of 16, as are both addresses. Counts into the barrier's phase.
__device__ __forceinline__ void copy_bulk(uint32_t to, const void* from, uint32_t n_bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(n_bytes), "r"(barrier)
               : "memory");
}
// The box at (x, y, z) of a tensor map of three dimensions (a CUtensorMap in constant or global memory).
__device__ __forceinline__ void copy_box(uint32_t to, const void* map, int x, int y, int z, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}
// Orders this thread's plain accesses to shared memory before later bulk copies and warpgroup products.
__device__ __forceinline__ void fence_bulk() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- copies of 16 bytes: GPUs from 8.0 on.
__device__ __forceinline__ void copy_16(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// An arrival, of those that barrier_init counted, once all earlier copy_16 of this thread are done.
__device__ __forceinline__ void arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

}  // namespace tokamak::cuda::ptx

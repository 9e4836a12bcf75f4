// Blocks of a cluster: they run at once and reach each other's shared memory. GPUs from 9.0 on.
// Source: PTX ISA 9.0, 9.7.13 barrier.cluster, 9.7.9 mapa and st.async, 10 %cluster_ctarank.
#pragma once

#include <cstdint>

namespace tokamak::cuda::ptx {

__device__ __forceinline__ uint32_t rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Every thread of the cluster says that it has begun, and later waits for all others; barriers that a thread made
// before (fence_barrier_init) are seen by then.
__device__ __forceinline__ void begin_in_cluster() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ __forceinline__ void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
// To where block `rank` has what is at `at` in the caller's shared memory, and 4 bytes into its barrier (barrier.cuh)
// once there. That block must have begun, and must not end before.
__device__ __forceinline__ void store_in_cluster(uint32_t at, uint32_t barrier, uint32_t rank, float value) {
  asm volatile(
      "{\n.reg .b32 there, its;\nmapa.shared::cluster.u32 there, %0, %2;\nmapa.shared::cluster.u32 its, %1, %2;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [there], %3, [its];\n}" ::"r"(at),
      "r"(barrier), "r"(rank), "r"(__float_as_uint(value))
      : "memory");
}

}  // namespace tokamak::cuda::ptx

// Barriers in shared memory, by address, 8 bytes each: a phase ends when as many arrivals as barrier_init said have
// come, and all bytes that were announced. Phases alternate between parities 0 and 1. GPUs from 8.0 on; bytes from 9.0.
// Source: PTX ISA 9.0, 9.7.13 "Parallel synchronization and communication instructions": mbarrier, bar, fence.
#pragma once

#include <cstdint>

namespace tokamak::cuda::ptx {

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t n_arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(n_arrivals) : "memory");
}
// Initial states are seen by copies that begin later.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// By each thread whose accesses to shared memory it orders. One lane may arrive for its warp, behind __syncwarp(), but
// racecheck does not follow that and reports the other lanes' accesses (compute-sanitizer 2025.3 and 2026.4).
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}
// Announces bytes that copies of this phase will deliver.
__device__ __forceinline__ void barrier_announce(uint32_t barrier, uint32_t n_bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared.b64 [%0], %1;" ::"r"(barrier), "r"(n_bytes) : "memory");
}
// Announces bytes and arrives.
__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t n_bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(n_bytes) : "memory");
}
// Whether the phase of this parity is over; may wait a while for that.
__device__ __forceinline__ bool barrier_passed(uint32_t barrier, uint32_t parity) {
  uint32_t done;
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
#else
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
#endif
  return done != 0;
}
// A wait that never ends is a fault of the kernel: better an error than a GPU that hangs.
template <uint32_t kMostPolls = 1u << 26>
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  for (uint32_t n_polls = 0; !barrier_passed(barrier, parity); ++n_polls)
    if (n_polls > kMostPolls) __trap();
}

// Barrier `id` (1 to 15) of n_threads of the block, apart from __syncthreads.
__device__ __forceinline__ void sync_threads(int id, int n_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

}  // namespace tokamak::cuda::ptx

#include "backend/cuda/ops/probe.h"

#include "backend/cuda/ops/launch.h"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 512;
constexpr int kInFlight = 8;

__global__ void hold_kernel(uint64_t nanoseconds) {
  const uint64_t start = ptx::nanoseconds_now();
  while (ptx::nanoseconds_now() - start < nanoseconds) {
  }
}

// Each block reads one stretch; sums that are never equal to `impossible` keep the loads.
__global__ void __launch_bounds__(kThreads)
    read_kernel(const uint4* memory, int64_t n, int64_t per_block, uint32_t* impossible) {
  start_after_previous_kernel();
  const int64_t begin = blockIdx.x * per_block, end = min(n, begin + per_block);
  uint32_t sum = 0;
  for (int64_t at = begin + threadIdx.x; at < end; at += kInFlight * kThreads) {
    uint4 v[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      v[i] = at + i * kThreads < end ? __ldg(memory + at + i * kThreads) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) sum |= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  if (sum == 0xFFFFFFFF && impossible) *impossible = sum;
}
}  // namespace

cudaError_t launch_hold(uint64_t nanoseconds, cudaStream_t stream) {
  return launch_in_turn(hold_kernel, 1, 1, 0, stream, nanoseconds);
}

cudaError_t launch_read(const std::byte* memory, uint64_t n_bytes, cudaStream_t stream) {
  const auto n = static_cast<int64_t>(n_bytes / sizeof(uint4));
  constexpr int64_t kLeast = kInFlight * kThreads, kBlocks = 132 * 4;
  const int64_t per_block = max(kLeast, ceil_div(ceil_div(n, kBlocks), kLeast) * kLeast);
  return launch_overlapped(read_kernel, static_cast<unsigned>(ceil_div(n, per_block)), kThreads, 0, stream,
                           reinterpret_cast<const uint4*>(memory), n, per_block, static_cast<uint32_t*>(nullptr));
}

}  // namespace tokamak::cuda

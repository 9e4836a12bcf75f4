// Programmatic dependent launch: a kernel begins while the one before it in the stream still runs. For .cu files only.
//
// Every kernel that is launched so calls allow_next_kernel() first, may then read what no kernel of the step writes
// (weights, tables), and calls wait_for_previous_kernel() before anything else, in every thread, before it ends: the
// kernel before is complete then, and by the same rule all before that one. GPUs before 9.0 run kernels in turn.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/ptx/grid.cuh"

namespace tokamak::cuda {

__device__ inline void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  ptx::launch_dependents();
#endif
}
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  ptx::wait_for_prerequisites();
#endif
}
// For kernels that have nothing to do in between.
__device__ inline void start_after_previous_kernel() {
  allow_next_kernel();
  wait_for_previous_kernel();
}

struct LaunchShape {
  dim3 grid, block;
  size_t shared_bytes = 0;      // dynamic
  bool overlap = false;         // it begins early, as above
  unsigned cluster_blocks = 1;  // in a row: they run at once (GPUs from 9.0 on)
};
template <class... Params, class... Args>
cudaError_t enqueue(void (*kernel)(Params...), const LaunchShape& shape, cudaStream_t stream, const Args&... args) {
  cudaLaunchAttribute attributes[3] = {};
  cudaLaunchConfig_t config{};
  config.attrs = attributes;
  if (shape.overlap) {
    cudaLaunchAttribute& begins_early = attributes[config.numAttrs++];
    begins_early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    begins_early.val.programmaticStreamSerializationAllowed = 1;
    // One split of L1 and shared memory for all of them: a multiprocessor changes it only when it is empty, and a
    // kernel that asks for another one would not begin beside the one before.
    cudaLaunchAttribute& split = attributes[config.numAttrs++];
    split.id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    split.val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  }
  if (shape.cluster_blocks > 1) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = shape.cluster_blocks;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  }
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, args...);
}
template <class... Params, class... Args>
cudaError_t launch_in_turn(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                           const Args&... args) {
  return enqueue(kernel, {grid, block, shared_bytes, false}, stream, args...);
}
template <class... Params, class... Args>
cudaError_t launch_overlapped(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                              cudaStream_t stream, const Args&... args) {
  return enqueue(kernel, {grid, block, shared_bytes, true}, stream, args...);
}

}  // namespace tokamak::cuda

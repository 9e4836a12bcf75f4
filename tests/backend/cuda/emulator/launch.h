// Launches of kernels and what the runtime is asked about them, for kernel sources. What needs no template is in
// runtime.cpp.
#pragma once

#include <cuda_runtime.h>

#include <tuple>

#include "backend/cuda/emulator/block.h"

namespace tokamak::cuda::emulator {

// kernel: by which attributes are known. Runs the grid in both orders and compares what they wrote.
cudaError_t launch_grid(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread);
cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);

template <class... Params, class... Args>
cudaError_t launch(const cudaLaunchConfig_t* config, void (*kernel)(Params...), const Args&... args) {
  return launch_grid(*config, reinterpret_cast<const void*>(kernel),
                     [kernel, params = std::tuple<Params...>(args...)] { std::apply(kernel, params); });
}

}  // namespace tokamak::cuda::emulator

#define cudaLaunchKernelEx ::tokamak::cuda::emulator::launch

template <class... Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params...), cudaFuncAttribute attribute, int value) {
  return tokamak::cuda::emulator::set_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class... Params>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*)(Params...)) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
template <class... Params>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void (*)(Params...), int, size_t) {
  *n = 1;
  return cudaSuccess;
}

// What every launch of this folder says: sizes, stream, and whether it begins while the kernel before it still runs.
#pragma once

#include <cuda_runtime_api.h>

namespace tokamak::cuda {

class LaunchConfig {
 public:
  LaunchConfig(dim3 grid, int n_threads, int shared_bytes, bool overlap, cudaStream_t stream) {
    config_.gridDim = grid;
    config_.blockDim = dim3(static_cast<unsigned>(n_threads));
    config_.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    config_.stream = stream;
    attribute_.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute_.val.programmaticStreamSerializationAllowed = 1;
    config_.attrs = &attribute_;
    config_.numAttrs = overlap ? 1 : 0;
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;

  const cudaLaunchConfig_t* get() const { return &config_; }

 private:
  cudaLaunchConfig_t config_{};
  cudaLaunchAttribute attribute_{};
};

}  // namespace tokamak::cuda

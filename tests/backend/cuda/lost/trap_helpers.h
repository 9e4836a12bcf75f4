// A kernel that fails, as one with a wrong address does.
#pragma once

#include <cuda_runtime_api.h>

namespace tokamak::cuda {

cudaError_t launch_trap(cudaStream_t stream);

}  // namespace tokamak::cuda

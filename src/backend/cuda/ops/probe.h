// Kernels that do nothing useful: they hold a stream back, or read memory as fast as it goes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tokamak::cuda {

// The stream does nothing for so many nanoseconds.
cudaError_t launch_hold(uint64_t nanoseconds, cudaStream_t stream);
// Reads n_bytes once; 16-byte aligned, a multiple of 16.
cudaError_t launch_read(const std::byte* memory, uint64_t n_bytes, cudaStream_t stream);

}  // namespace tokamak::cuda

// What the calling thread's current device has; for launches, which know no Device.
#pragma once

#include <cuda_runtime_api.h>

namespace tokamak::cuda {

// `otherwise` where the driver does not say. Without a GPU there is only planning, which takes it to be of 9.0.
inline int device_attribute(cudaDeviceAttr attribute, int otherwise) {
  int device = 0, n = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return otherwise;
  return cudaDeviceGetAttribute(&n, attribute, device) == cudaSuccess ? n : otherwise;
}

}  // namespace tokamak::cuda

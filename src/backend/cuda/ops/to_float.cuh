// Elements of plain rows as f32. For .cu files only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tokamak::cuda {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

}  // namespace tokamak::cuda

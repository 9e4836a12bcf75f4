// Attention for any head size and cache type, in f32: slower than the kernels made for one size.
#pragma once

#include "backend/cuda/attention/attention.h"

namespace tokamak::cuda {

cudaError_t launch_generic_attention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace tokamak::cuda

// The instances of prefill attention, by the type of the cache.
#pragma once

#include <span>

#include "backend/cuda/attention/prefill.h"

namespace tokamak::cuda::prefill {

struct Kernel {
  int dk, dv;     // head sizes
  int tile_rows;  // tokens times heads of the group
  cudaError_t (*launch)(const PrefillAttentionArgs& args, cudaStream_t stream);
};
std::span<const Kernel> f16_kernels();
std::span<const Kernel> decoding_kernels();  // bf16, q8_0, f8
std::span<const Kernel> wide_kernels();      // f16, products of warpgroups: compute capability 9.0

}  // namespace tokamak::cuda::prefill

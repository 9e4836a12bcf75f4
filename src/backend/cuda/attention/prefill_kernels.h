// The instances of prefill attention, by the type of the cache.
#pragma once

#include <span>

#include "backend/cuda/attention/prefill.h"

namespace tokamak::cuda::prefill {

struct Kernel {
  int dk, dv;     // head sizes
  int tile_rows;  // tokens times heads of the group
  bool splits;    // takes partials
  cudaError_t (*launch)(const PrefillAttentionArgs& args, cudaStream_t stream);
};
// f16; bf16, q8_0 and f8. With products of warps: compute capability 9.0 and up.
std::span<const Kernel> f16_kernels();
std::span<const Kernel> decoding_kernels();
// With products of warpgroups: 9.0 only.
std::span<const Kernel> wide_f16_kernels();
std::span<const Kernel> wide_decoding_kernels();

}  // namespace tokamak::cuda::prefill

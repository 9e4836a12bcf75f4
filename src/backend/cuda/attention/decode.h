// Attention of few tokens on tensor cores, by cache type.
#pragma once

#include <iterator>

#include "backend/cuda/attention/attention.h"

namespace tokamak::cuda::decode {

struct DecodeDims {
  int dk, dv;  // of keys and values
};
inline constexpr DecodeDims kDecodeDims[] = {{64, 64},   {80, 80},   {96, 96},  {128, 128},
                                             {192, 128}, {192, 192}, {256, 256}};
constexpr bool has_kernel(KvType type, DecodeDims dims) {
  const int step = kv_elem_bytes(type) == 1 ? 32 : 16;  // dimensions of one load of matrices
  return type != KvType::f32 && dims.dk % step == 0 && dims.dv % step == 0;
}

struct DecodeParams {
  AttentionArgs a;
  int piece = 16;  // keys that lie in a row whatever the pages: a power of two, 16 to 64
  int n_stages = 0;
  // Where the heads are made here too; the rotation is that of every job that has one.
  bool makes_heads = false;
  TokenHeads heads;
  const float* table = nullptr;
  int n_rot = 0;
  bool neox = false;
};

// heads: null where the queries are ready and the cache is written.
cudaError_t launch_f16(const AttentionArgs& args, const TokenHeads* heads, cudaStream_t stream);
cudaError_t launch_bf16(const AttentionArgs& args, const TokenHeads* heads, cudaStream_t stream);
cudaError_t launch_q8_0(const AttentionArgs& args, const TokenHeads* heads, cudaStream_t stream);
cudaError_t launch_f8(const AttentionArgs& args, const TokenHeads* heads, cudaStream_t stream);

}  // namespace tokamak::cuda::decode

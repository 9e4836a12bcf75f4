#include "backend/cuda/attention/decode.cuh"

namespace tokamak::cuda::decode {

cudaError_t launch_bf16(const AttentionArgs& args, const TokenHeads* heads, cudaStream_t stream) {
  return launch_type<KvType::bf16>(args, heads, stream);
}

}  // namespace tokamak::cuda::decode

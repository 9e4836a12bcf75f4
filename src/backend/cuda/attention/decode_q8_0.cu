#include "backend/cuda/attention/decode.cuh"

namespace tokamak::cuda::decode {

cudaError_t launch_q8_0(const AttentionArgs& args, const TokenHeads* heads, cudaStream_t stream) {
  return launch_type<KvType::q8_0>(args, heads, stream);
}

}  // namespace tokamak::cuda::decode

#include "backend/cuda/attention/decode.cuh"

namespace tokamak::cuda::decode {

cudaError_t launch_f8(const AttentionArgs& args, const TokenHeads* heads, cudaStream_t stream) {
  return launch_type<KvType::f8>(args, heads, stream);
}

}  // namespace tokamak::cuda::decode

#include "backend/cuda/attention/decode.cuh"

namespace tokamak::cuda::decode {

cudaError_t launch_q8_0(const AttentionArgs& args, cudaStream_t stream) {
  return launch_type<KvType::q8_0>(args, stream);
}

}  // namespace tokamak::cuda::decode

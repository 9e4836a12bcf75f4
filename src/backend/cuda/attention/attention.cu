// Which kernel attends.
#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/generic.h"

namespace tokamak::cuda {

bool has_decode_attention(const AttentionArgs&) { return false; }

cudaError_t launch_attention(const AttentionArgs& args, cudaStream_t stream) {
  return launch_generic_attention(args, stream);
}

}  // namespace tokamak::cuda

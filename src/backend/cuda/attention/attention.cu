// Which kernel attends.
#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/decode.h"
#include "backend/cuda/attention/generic.h"

namespace tokamak::cuda {

bool has_decode_attention(const AttentionArgs& a) {
  if (a.q_stride % 2 != 0 || a.q_head_stride % 2 != 0) return false;
  for (const decode::DecodeDims& dims : decode::kDecodeDims)
    if (dims.dk == a.dk && dims.dv == a.dv && decode::has_kernel(a.type, dims)) return true;
  return false;
}

cudaError_t launch_attention(const AttentionArgs& a, cudaStream_t stream) {
  if (!has_decode_attention(a)) return launch_generic_attention(a, stream);
  switch (a.type) {
    case KvType::f16:
      return decode::launch_f16(a, stream);
    case KvType::bf16:
      return decode::launch_bf16(a, stream);
    case KvType::q8_0:
      return decode::launch_q8_0(a, stream);
    case KvType::f8:
      return decode::launch_f8(a, stream);
    case KvType::f32:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace tokamak::cuda

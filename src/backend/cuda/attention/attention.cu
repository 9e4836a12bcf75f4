// Which kernel attends.
#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/decode.h"
#include "backend/cuda/attention/decode_heads.cuh"
#include "backend/cuda/attention/generic.h"
#include "backend/cuda/device_attribute.h"

namespace tokamak::cuda {

namespace {
cudaError_t launch_decode(const AttentionArgs& a, const TokenHeads* heads, cudaStream_t stream) {
  switch (a.type) {
    case KvType::f16:
      return decode::launch_f16(a, heads, stream);
    case KvType::bf16:
      return decode::launch_bf16(a, heads, stream);
    case KvType::q8_0:
      return decode::launch_q8_0(a, heads, stream);
    case KvType::f8:
      return decode::launch_f8(a, heads, stream);
    case KvType::f32:
      break;
  }
  return cudaErrorInvalidValue;
}

// Shared memory that the kernel for these head sizes takes at least: two stages, and the heads that it makes itself.
template <KvType kType, size_t kRow = 0>
int least_shared_bytes(const AttentionArgs& a) {
  if constexpr (kRow == std::size(decode::kDecodeDims)) {
    return INT_MAX;
  } else {
    constexpr decode::DecodeDims kDims = decode::kDecodeDims[kRow];
    if constexpr (decode::has_kernel(kType, kDims)) {
      using C = decode::Config<kDims.dk, kDims.dv, kType, false>;
      if (a.dk == kDims.dk && a.dv == kDims.dv)
        return decode::kBarrierBytes + 2 * C::kStageBytes + static_cast<int>(sizeof(decode::OwnHeads<C>));
    }
    return least_shared_bytes<kType, kRow + 1>(a);
  }
}
int least_shared_bytes(const AttentionArgs& a) {
  switch (a.type) {
    case KvType::f16:
      return least_shared_bytes<KvType::f16>(a);
    case KvType::bf16:
      return least_shared_bytes<KvType::bf16>(a);
    case KvType::q8_0:
      return least_shared_bytes<KvType::q8_0>(a);
    case KvType::f8:
      return least_shared_bytes<KvType::f8>(a);
    case KvType::f32:
      break;
  }
  return INT_MAX;
}

// Not where there is no room: heads of 192 and 256 in f16 and bf16 on GPUs of 8.6, 8.9 and 12.0.
bool has_kernel(const AttentionArgs& a) {
  constexpr int kOfPlans = 227 * 1024;  // of 9.0
  return least_shared_bytes(a) <= device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, kOfPlans);
}
bool is_same_rotation(const HeadJob& a, const HeadJob& b) {
  return !a.table || !b.table || (a.table == b.table && a.n_rot == b.n_rot && a.neox == b.neox);
}
}  // namespace

bool has_decode_attention(const AttentionArgs& a) {
  return a.q_stride % 2 == 0 && a.q_head_stride % 2 == 0 && has_kernel(a);
}

cudaError_t launch_attention(const AttentionArgs& a, cudaStream_t stream) {
  return has_decode_attention(a) ? launch_decode(a, nullptr, stream) : launch_generic_attention(a, stream);
}

bool attention_makes_heads(const AttentionArgs& a, const TokenHeads& heads) {
  const HeadJob &q = heads.q, &k = heads.k, &v = heads.v;
  const bool are_whole = q.n_head == a.n_head && q.head_dim == a.dk && k.n_head == a.n_head_kv && k.head_dim == a.dk &&
                         v.n_head == a.n_head_kv && v.head_dim == a.dv;
  return a.n_tokens == 1 && a.n_step_tokens <= 1 && a.causal && has_kernel(a) && are_whole && k.cache == a.keys &&
         v.cache == a.values && k.slots == v.slots && is_same_rotation(q, k) && is_same_rotation(q, v) &&
         is_same_rotation(k, v);
}

cudaError_t launch_attention_with_heads(const AttentionArgs& a, const TokenHeads& heads, cudaStream_t stream) {
  return attention_makes_heads(a, heads) ? launch_decode(a, &heads, stream) : cudaErrorInvalidValue;
}

}  // namespace tokamak::cuda

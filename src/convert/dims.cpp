// The sizes that shapes and keys are made of (declared in model_config.h).
#include "base/check.h"
#include "convert/model_config.h"

namespace tokamak::convert {

using arch::Dim;

namespace {
// Sizes of one part of the model each; nothing: none of them.
int64_t latent_dim(const ModelConfig& m, Dim dim) {
  switch (dim) {
    case Dim::q_lora:
      return m.q_lora;
    case Dim::kv_lora:
      return m.kv_lora;
    case Dim::kv_lora_rope:
      return m.kv_lora + m.rope_dim;
    case Dim::mla_q:
      return m.n_head * (m.nope_dim + m.rope_dim);
    case Dim::mla_q_direct:
      return m.q_lora > 0 ? 0 : m.n_head * (m.nope_dim + m.rope_dim);
    case Dim::mla_nope_v:
      return m.nope_dim + m.mla_v_dim;
    case Dim::mla_out:
      return m.n_head * m.mla_v_dim;
    case Dim::mla_k:
      return m.nope_dim + m.rope_dim;
    case Dim::mla_v:
      return m.mla_v_dim;
    default:
      return -1;
  }
}

int64_t delta_net_dim(const ModelConfig& m, Dim dim) {
  const int64_t keys = m.n_key_head * m.key_head_dim, values = m.n_value_head * m.value_head_dim;
  switch (dim) {
    case Dim::n_key_head:
      return m.n_key_head;
    case Dim::key_head:
      return m.key_head_dim;
    case Dim::n_value_head:
      return m.n_value_head;
    case Dim::n_value_head_twice:
      return 2 * m.n_value_head;
    case Dim::value_head:
      return m.value_head_dim;
    case Dim::delta_value:
      return values;
    case Dim::delta_qkv:
      return 2 * keys + values;
    case Dim::delta_qkvz:
      return 2 * (keys + values);
    case Dim::conv_kernel:
      return m.conv_kernel;
    default:
      return -1;
  }
}

int64_t ffn_dim(const ModelConfig& m, Dim dim) {
  switch (dim) {
    case Dim::ff:
      return m.n_ff;
    case Dim::ff_twice:
      return 2 * m.n_ff;
    case Dim::n_expert:
      return m.n_expert;
    case Dim::n_expert_used:
      return m.n_expert_used;
    case Dim::n_shared_expert:
      return m.n_shared_expert;
    case Dim::expert_ff:
      return m.expert_ff;
    case Dim::expert_ff_twice:
      return 2 * m.expert_ff;
    case Dim::shared_ff:
      return m.shared_ff;
    case Dim::shared_ff_twice:
      return 2 * m.shared_ff;
    default:
      return -1;
  }
}

int64_t common_dim(const ModelConfig& m, Dim dim) {
  const bool is_latent = m.has(arch::kLatentAttention);
  switch (dim) {
    case Dim::vocab:
      return m.n_vocab;
    case Dim::ctx:
      return m.n_ctx;
    case Dim::embd:
      return m.n_embd;
    case Dim::n_layer:
      return m.n_layer;
    case Dim::head:
      return m.head_dim;
    case Dim::n_head:
      return m.n_head;
    case Dim::n_group:
      return m.n_head_kv;
    case Dim::q:
      return m.n_head * m.head_dim;
    case Dim::kv:
      return m.n_head_kv * m.head_dim;
    case Dim::q_gated:
      return 2 * m.n_head * m.head_dim;
    case Dim::qkv:
      return (m.n_head + 2 * m.n_head_kv) * m.head_dim;
    // The cache of latent attention holds one head: the latents, and for keys what is rotated.
    case Dim::n_kv_cached:
      return is_latent ? 1 : m.n_head_kv;
    case Dim::k_cached:
      return is_latent ? m.kv_lora + m.rope_dim : m.head_dim;
    case Dim::v_cached:
      return is_latent ? m.kv_lora : m.head_dim;
    default:
      return -1;
  }
}
}  // namespace

int64_t ModelConfig::dim(Dim dim) const {
  for (const auto& part : {common_dim, ffn_dim, latent_dim, delta_net_dim})
    if (const int64_t size = part(*this, dim); size >= 0) return size;
  CHECK(false, static_cast<int>(dim));
  return 0;
}

}  // namespace tokamak::convert

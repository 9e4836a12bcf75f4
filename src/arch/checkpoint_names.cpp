#include "arch/checkpoint_names.h"

#include <vector>

#include "arch/checkpoint_parts.h"

namespace tokamak::arch {

namespace {
constexpr auto kSizeKeys = std::to_array<SizeKey>({
    {Dim::vocab, "vocab_size"},
    {Dim::ctx, "context_length"},
    {Dim::embd, "embedding_length"},
    {Dim::n_layer, "block_count"},
    {Dim::ff, "feed_forward_length"},
    {Dim::n_head, "attention.head_count"},
    {Dim::n_kv_cached, "attention.head_count_kv"},
    {Dim::k_cached, "attention.key_length"},
    {Dim::v_cached, "attention.value_length"},
    {Dim::q_lora, "attention.q_lora_rank", kLatentAttention, true},
    {Dim::kv_lora, "attention.kv_lora_rank", kLatentAttention},
    {Dim::mla_k, "attention.key_length_mla", kLatentAttention},
    {Dim::mla_v, "attention.value_length_mla", kLatentAttention},
    {Dim::n_expert, "expert_count", kExperts},
    {Dim::n_expert_used, "expert_used_count", kExperts},
    {Dim::expert_ff, "expert_feed_forward_length", kExperts},
    {Dim::n_shared_expert, "expert_shared_count", kExperts, true},
    {Dim::shared_ff, "expert_shared_feed_forward_length", kExperts, true},
    {Dim::conv_kernel, "ssm.conv_kernel", kDeltaNet},
    {Dim::key_head, "ssm.state_size", kDeltaNet},
    {Dim::n_key_head, "ssm.group_count", kDeltaNet},
    {Dim::n_value_head, "ssm.time_step_rank", kDeltaNet},
    {Dim::delta_value, "ssm.inner_size", kDeltaNet},
});

// The norms' epsilon, rope, windows and the pattern of the layers are read by rule (convert/).
constexpr auto kKeys = std::to_array<CheckpointKey>({
    {"final_logit_softcapping", "final_logit_softcapping", KeyType::f32},
    {"attn_logit_softcapping", "attn_logit_softcapping", KeyType::f32},
    {"embedding_multiplier", "embedding_scale", KeyType::f32},
    {"residual_multiplier", "residual_scale", KeyType::f32},
    {"attention_multiplier", "attention.scale", KeyType::f32},
    {"logits_scaling", "logit_scale", KeyType::f32},
    {"logit_scale", "logit_scale", KeyType::f32},
    {"clip_qkv", "attention.clamp_kqv", KeyType::f32},
    {"use_parallel_residual", "use_parallel_residual", KeyType::boolean},
    {"routed_scaling_factor", "expert_weights_scale", KeyType::f32, kExperts},
    {"norm_topk_prob", "expert_weights_norm", KeyType::boolean, kExperts},
});

constexpr auto kFieldNames = std::to_array<FieldName>({
    {"hidden_size", "n_embd"},
    {"num_hidden_layers", "n_layer"},
    {"num_attention_heads", "n_head"},
    {"max_position_embeddings", "n_positions"},
    {"intermediate_size", "n_inner"},
    {"intermediate_size", "ffn_hidden_size"},
    {"num_key_value_heads", "num_kv_heads"},
    {"norm_eps", "rms_norm_eps"},
    {"norm_eps", "layer_norm_eps"},
    {"norm_eps", "layer_norm_epsilon"},
    {"norm_eps", "norm_epsilon"},
    {"hidden_act", "activation_function"},
    {"hidden_act", "activation"},
    {"rope_theta", "rotary_emb_base"},
    {"partial_rotary_factor", "rotary_pct"},
    {"partial_rotary_factor", "rope_pct"},
    {"num_experts", "num_local_experts"},
    {"num_experts", "n_routed_experts"},
    {"num_experts", "moe_num_experts"},
    {"num_experts_per_tok", "moe_k"},
    {"num_experts_per_tok", "moe_topk"},
    {"n_shared_experts", "num_shared_experts"},
    {"n_shared_experts", "moe_num_shared_experts"},
    {"n_shared_experts", "num_shared_expert"},
    {"shared_expert_intermediate_size", "shared_intermediate_size"},
    {"routed_scaling_factor", "router_scaling_factor"},
});
}  // namespace

std::span<const CheckpointFamily> checkpoint_families() {
  static const std::vector<CheckpointFamily> all = [] {
    std::vector<CheckpointFamily> families;
    for (const auto& part :
         {dense_families(), classic_families(), moe_families(), latent_families(), delta_net_families()})
      families.insert(families.end(), part.begin(), part.end());
    return families;
  }();
  return all;
}

std::span<const SizeKey> size_keys() { return kSizeKeys; }
std::span<const CheckpointKey> checkpoint_keys() { return kKeys; }
std::span<const FieldName> field_names() { return kFieldNames; }

const CheckpointFamily* find_checkpoint_family(std::string_view hf_class) {
  for (const CheckpointFamily& family : checkpoint_families())
    if (family.hf_class == hf_class) return &family;
  return nullptr;
}

}  // namespace tokamak::arch

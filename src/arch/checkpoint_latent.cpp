// Families with latent attention. Defaults are those of the classes in transformers 5.24.
#include "arch/checkpoint_experts.h"

namespace tokamak::arch {

namespace {
using namespace checkpoint;
using enum Dim;

// The absorbed form: kv_b_proj apart, the keys' part of each head transposed.
constexpr CheckpointTensor kKeysOfLatent{.hf = "model.layers.{}.self_attn.kv_b_proj",
                                         .gguf = "blk.{}.attn_k_b",
                                         .rows = mla_nope_v,
                                         .cols = kv_lora,
                                         .order = WeightOrder::head_keys,
                                         .matrices = n_head};
constexpr CheckpointTensor kValuesOfLatent{.hf = "model.layers.{}.self_attn.kv_b_proj",
                                           .gguf = "blk.{}.attn_v_b",
                                           .rows = mla_nope_v,
                                           .cols = kv_lora,
                                           .order = WeightOrder::head_values,
                                           .matrices = n_head};
constexpr auto kLatentAttentionRows =
    rows(kAttnNorm, CheckpointTensor{"model.layers.{}.self_attn.q_a_proj", "blk.{}.attn_q_a", q_lora, embd},
         CheckpointTensor{"model.layers.{}.self_attn.q_a_layernorm", "blk.{}.attn_q_a_norm", q_lora},
         CheckpointTensor{"model.layers.{}.self_attn.q_b_proj", "blk.{}.attn_q_b", mla_q, q_lora},
         CheckpointTensor{"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q", mla_q_direct, embd},
         CheckpointTensor{"model.layers.{}.self_attn.kv_a_proj_with_mqa", "blk.{}.attn_kv_a_mqa", kv_lora_rope, embd},
         CheckpointTensor{"model.layers.{}.self_attn.kv_a_layernorm", "blk.{}.attn_kv_a_norm", kv_lora}, kKeysOfLatent,
         kValuesOfLatent, CheckpointTensor{"model.layers.{}.self_attn.o_proj", "blk.{}.attn_output", embd, mla_out});

constexpr auto kDeepseekV2 = join(rows(kEmbedding), kLatentAttentionRows, rows(kFfnNorm), kDenseLayers,
                                  expert_layers(kRouter, kExpertTensors, kSharedExperts), kEnd);
constexpr auto kDeepseekV3 =
    join(rows(kEmbedding), kLatentAttentionRows, rows(kFfnNorm), kDenseLayers,
         expert_layers(kRouter, rows(selection_bias("model.layers.{}.mlp.gate.e_score_correction_bias")),
                       kExpertTensors, kSharedExperts),
         kEnd);

constexpr auto kDeepseekV2Defaults = std::to_array<ConfigValue>({{"vocab_size", 102400},
                                                                 {"max_position_embeddings", 2048},
                                                                 {"num_attention_heads", 32},
                                                                 {"norm_eps", 1e-6},
                                                                 {"num_experts", 64},
                                                                 {"moe_intermediate_size", 1407},
                                                                 {"n_shared_experts", 2},
                                                                 {"first_k_dense_replace", 0},
                                                                 {"routed_scaling_factor", 1},
                                                                 {"norm_topk_prob", 0},
                                                                 {"q_lora_rank", 1536},
                                                                 {"kv_lora_rank", 512},
                                                                 {"qk_nope_head_dim", 128},
                                                                 {"qk_rope_head_dim", 64},
                                                                 {"v_head_dim", 128}});
constexpr auto kDeepseekV3Defaults = std::to_array<ConfigValue>({{"vocab_size", 129280},
                                                                 {"max_position_embeddings", 4096},
                                                                 {"num_attention_heads", 128},
                                                                 {"norm_eps", 1e-6},
                                                                 {"num_experts", 256},
                                                                 {"num_experts_per_tok", 8},
                                                                 {"moe_intermediate_size", 2048},
                                                                 {"n_shared_experts", 1},
                                                                 {"first_k_dense_replace", 3},
                                                                 {"n_group", 8},
                                                                 {"topk_group", 4},
                                                                 {"routed_scaling_factor", 2.5},
                                                                 {"norm_topk_prob", 1},
                                                                 {"q_lora_rank", 1536},
                                                                 {"kv_lora_rank", 512},
                                                                 {"qk_nope_head_dim", 128},
                                                                 {"qk_rope_head_dim", 64},
                                                                 {"v_head_dim", 128}});
constexpr auto kMistral4Defaults = std::to_array<ConfigValue>({{"vocab_size", 131072},
                                                               {"max_position_embeddings", 1048576},
                                                               {"num_attention_heads", 32},
                                                               {"norm_eps", 1e-6},
                                                               {"num_experts", 128},
                                                               {"num_experts_per_tok", 4},
                                                               {"moe_intermediate_size", 2048},
                                                               {"n_shared_experts", 1},
                                                               {"first_k_dense_replace", 0},
                                                               {"routed_scaling_factor", 1},
                                                               {"norm_topk_prob", 1},
                                                               {"q_lora_rank", 1024},
                                                               {"kv_lora_rank", 256},
                                                               {"qk_nope_head_dim", 64},
                                                               {"qk_rope_head_dim", 64},
                                                               {"v_head_dim", 128}});
constexpr auto kRequired = std::to_array<ConfigValue>({{"rope_interleave", 1}, {"moe_layer_freq", 1}});

constexpr uint8_t kLatentParts = kRope | kLatentAttention | kExperts;

constexpr auto kFamilies = std::to_array<CheckpointFamily>({
    {.hf_class = "DeepseekV2ForCausalLM",
     .architecture = "deepseek2",
     .activation = "silu",
     .defaults = kDeepseekV2Defaults,
     .tensors = kDeepseekV2,
     .required = kRequired,
     .ignored = kExtraBlocks,
     .parts = kLatentParts,
     .partial_rotary = 1,
     .yarn_log = 0.1,
     .router = Gating::softmax,
     .pre_names = "deepseek-llm"},
    {.hf_class = "DeepseekV3ForCausalLM",
     .architecture = "deepseek2",
     .activation = "silu",
     .defaults = kDeepseekV3Defaults,
     .tensors = kDeepseekV3,
     .required = kRequired,
     .ignored = kExtraBlocks,
     .parts = kLatentParts,
     .partial_rotary = 1,
     .yarn_log = 0.1,
     .router = Gating::sigmoid,
     .pre_names = "deepseek-v3"},
    {.hf_class = "Mistral4ForCausalLM",
     .architecture = "mistral4",
     .activation = "silu",
     .defaults = kMistral4Defaults,
     .tensors = kDeepseekV2,
     .required = kRequired,
     .ignored = kExtraBlocks,
     .parts = kLatentParts,
     .partial_rotary = 1,
     .yarn_log = 0.1,
     .router = Gating::softmax,
     .pre_names = "tekken"},
});
}  // namespace

std::span<const CheckpointFamily> latent_families() { return kFamilies; }

}  // namespace tokamak::arch

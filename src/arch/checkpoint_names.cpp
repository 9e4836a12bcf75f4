#include "arch/checkpoint_names.h"

#include <array>

namespace tokamak::arch {

namespace {
using enum Dim;
using WeightChange::add_one;
using WeightChange::rope_pairs;

// Sizes and constants that all decoder families share. Rope and windows are read by rule (convert/model_config.cpp).
constexpr auto kKeys = std::to_array<CheckpointKey>({
    {"vocab_size", "vocab_size", KeyType::u32},
    {"max_position_embeddings", "context_length", KeyType::u32},
    {"hidden_size", "embedding_length", KeyType::u32},
    {"num_hidden_layers", "block_count", KeyType::u32},
    {"intermediate_size", "feed_forward_length", KeyType::u32},
    {"num_attention_heads", "attention.head_count", KeyType::u32},
    {"num_key_value_heads", "attention.head_count_kv", KeyType::u32},
    {"head_dim", "attention.key_length", KeyType::u32},
    {"head_dim", "attention.value_length", KeyType::u32},
    {"head_dim", "rope.dimension_count", KeyType::u32},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", KeyType::f32},
    {"final_logit_softcapping", "final_logit_softcapping", KeyType::f32, true},
    {"attn_logit_softcapping", "attn_logit_softcapping", KeyType::f32, true},
});

constexpr CheckpointTensor kEmbedding{"model.embed_tokens", "token_embd", vocab, embd};
constexpr CheckpointTensor kHead{"lm_head", "output", vocab, embd};  // absent when tied
constexpr CheckpointTensor kGate{"model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate", ff, embd};
constexpr CheckpointTensor kUp{"model.layers.{}.mlp.up_proj", "blk.{}.ffn_up", ff, embd};
constexpr CheckpointTensor kDown{"model.layers.{}.mlp.down_proj", "blk.{}.ffn_down", embd, ff};
constexpr CheckpointTensor kV{"model.layers.{}.self_attn.v_proj", "blk.{}.attn_v", kv, embd};
constexpr CheckpointTensor kOut{"model.layers.{}.self_attn.o_proj", "blk.{}.attn_output", embd, q};
constexpr CheckpointTensor kPairsQ{"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q", q, embd, rope_pairs};
constexpr CheckpointTensor kPairsK{"model.layers.{}.self_attn.k_proj", "blk.{}.attn_k", kv, embd, rope_pairs};
constexpr CheckpointTensor kHalvesQ{"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q", q, embd};
constexpr CheckpointTensor kHalvesK{"model.layers.{}.self_attn.k_proj", "blk.{}.attn_k", kv, embd};
constexpr CheckpointTensor kAttnNorm{"model.layers.{}.input_layernorm", "blk.{}.attn_norm", embd};
constexpr CheckpointTensor kFfnNorm{"model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", embd};
constexpr CheckpointTensor kFinalNorm{"model.norm", "output_norm", embd};

constexpr auto kLlama = std::to_array<CheckpointTensor>(
    {kEmbedding, kAttnNorm, kPairsQ, kPairsK, kV, kOut, kFfnNorm, kGate, kUp, kDown, kFinalNorm, kHead});
constexpr auto kQwen2 = std::to_array<CheckpointTensor>(
    {kEmbedding, kAttnNorm, kHalvesQ, kHalvesK, kV, kOut, kFfnNorm, kGate, kUp, kDown, kFinalNorm, kHead});
constexpr auto kQwen3 = std::to_array<CheckpointTensor>({
    kEmbedding,
    kAttnNorm,
    kHalvesQ,
    {"model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", head},
    kHalvesK,
    {"model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", head},
    kV,
    kOut,
    kFfnNorm,
    kGate,
    kUp,
    kDown,
    kFinalNorm,
    kHead,
});
constexpr auto kGemma3 = std::to_array<CheckpointTensor>({
    kEmbedding,
    {"model.layers.{}.input_layernorm", "blk.{}.attn_norm", embd, Dim::none, add_one},
    kHalvesQ,
    {"model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", head, Dim::none, add_one},
    kHalvesK,
    {"model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", head, Dim::none, add_one},
    kV,
    kOut,
    {"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", embd, Dim::none, add_one},
    {"model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm", embd, Dim::none, add_one},
    kGate,
    kUp,
    kDown,
    {"model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", embd, Dim::none, add_one},
    {"model.norm", "output_norm", embd, Dim::none, add_one},
    kHead,
});

// Of the classes in transformers 5.24.
constexpr auto kLlamaDefaults =
    std::to_array<ConfigDefault>({{"vocab_size", 32000}, {"max_position_embeddings", 2048}, {"rms_norm_eps", 1e-6}});
constexpr auto kMistralDefaults = std::to_array<ConfigDefault>({{"vocab_size", 32000},
                                                                {"max_position_embeddings", 131072},
                                                                {"num_key_value_heads", 8},
                                                                {"rms_norm_eps", 1e-6},
                                                                {"sliding_window", 4096}});
constexpr auto kSmolLm3Defaults = std::to_array<ConfigDefault>(
    {{"vocab_size", 128256}, {"max_position_embeddings", 32768}, {"num_key_value_heads", 4}, {"rms_norm_eps", 1e-6}});
constexpr auto kQwen2Defaults = std::to_array<ConfigDefault>({{"vocab_size", 151936},
                                                              {"max_position_embeddings", 32768},
                                                              {"num_key_value_heads", 32},
                                                              {"rms_norm_eps", 1e-6},
                                                              {"sliding_window", 4096},
                                                              {"max_window_layers", 28}});
constexpr auto kQwen3Defaults = std::to_array<ConfigDefault>({{"vocab_size", 151936},
                                                              {"max_position_embeddings", 32768},
                                                              {"num_key_value_heads", 32},
                                                              {"head_dim", 128},
                                                              {"rms_norm_eps", 1e-6},
                                                              {"sliding_window", 4096},
                                                              {"max_window_layers", 28}});
constexpr auto kGemma3Defaults = std::to_array<ConfigDefault>({{"vocab_size", 262208},
                                                               {"max_position_embeddings", 131072},
                                                               {"num_attention_heads", 8},
                                                               {"num_key_value_heads", 4},
                                                               {"head_dim", 256},
                                                               {"rms_norm_eps", 1e-6},
                                                               {"query_pre_attn_scalar", 256},
                                                               {"sliding_window", 4096}});

constexpr auto kMultimodalNames = std::to_array<NameChange>({{"model.language_model.", "model."},
                                                             {"language_model.model.", "model."},
                                                             {"language_model.lm_head.", "lm_head."}});
constexpr auto kMultimodalParts = std::to_array<std::string_view>(
    {"vision_tower.", "model.vision_tower.", "multi_modal_projector.", "model.multi_modal_projector."});

constexpr CheckpointFamily kGemma3Text{.hf_class = "Gemma3ForCausalLM",
                                       .architecture = "gemma3",
                                       .activation = "gelu_pytorch_tanh",
                                       .defaults = kGemma3Defaults,
                                       .tensors = kGemma3,
                                       .tied = true,
                                       .rope_theta = 1e6,
                                       .rope_by_layer_type = true,
                                       .windows = Windows::by_layer_type,
                                       .window_period = 6,
                                       .pre_names = "default"};

constexpr CheckpointFamily multimodal(CheckpointFamily family, std::string_view hf_class) {
  family.hf_class = hf_class;
  family.section = "text_config";
  family.renames = kMultimodalNames;
  family.ignored = kMultimodalParts;
  return family;
}

constexpr auto kFamilies = std::to_array<CheckpointFamily>({
    {.hf_class = "LlamaForCausalLM",
     .architecture = "llama",
     .activation = "silu",
     .defaults = kLlamaDefaults,
     .tensors = kLlama,
     .tied = false,
     .rope_theta = 10000,
     .pre_names = "llama-bpe smollm"},
    {.hf_class = "MistralForCausalLM",
     .architecture = "llama",
     .activation = "silu",
     .defaults = kMistralDefaults,
     .tensors = kLlama,
     .tied = false,
     .rope_theta = 10000,
     .windows = Windows::every_layer,
     .pre_names = "tekken"},
    {.hf_class = "SmolLM3ForCausalLM",
     .architecture = "smollm3",
     .activation = "silu",
     .defaults = kSmolLm3Defaults,
     .tensors = kLlama,
     .tied = true,
     .rope_theta = 2e6,
     .windows = Windows::by_layer_type,
     .nope_interval = 4,
     .pre_names = "smaug-bpe"},
    {.hf_class = "Qwen2ForCausalLM",
     .architecture = "qwen2",
     .activation = "silu",
     .defaults = kQwen2Defaults,
     .tensors = kQwen2,
     .tied = false,
     .rope_theta = 10000,
     .windows = Windows::by_layer_type,
     .pre_names = "qwen2"},
    {.hf_class = "Qwen3ForCausalLM",
     .architecture = "qwen3",
     .activation = "silu",
     .defaults = kQwen3Defaults,
     .tensors = kQwen3,
     .tied = false,
     .rope_theta = 10000,
     .windows = Windows::by_layer_type,
     .pre_names = "qwen2"},
    kGemma3Text,
    multimodal(kGemma3Text, "Gemma3ForConditionalGeneration"),
});

}  // namespace

std::span<const CheckpointFamily> checkpoint_families() { return kFamilies; }
std::span<const CheckpointKey> checkpoint_keys() { return kKeys; }

const CheckpointFamily* find_checkpoint_family(std::string_view hf_class) {
  for (const CheckpointFamily& family : kFamilies)
    if (family.hf_class == hf_class) return &family;
  return nullptr;
}

}  // namespace tokamak::arch

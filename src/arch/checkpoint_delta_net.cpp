// Families with gated delta net layers. Defaults are those of the classes in transformers 5.24.
#include "arch/checkpoint_experts.h"

namespace tokamak::arch {

namespace {
using namespace checkpoint;
using enum Dim;
using enum WeightOrder;

constexpr auto kGatedAttention = all_in_layers(
    LayerSet::attention, rows(CheckpointTensor{"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q", q_gated, embd},
                              plus_one(kQNorm), kK, plus_one(kKNorm), kV, kOut));

constexpr CheckpointTensor ordered(CheckpointTensor row, WeightOrder order) {
  row.order = order;
  return row;
}
constexpr CheckpointTensor kConv{.hf = "model.layers.{}.linear_attn.conv1d",
                                 .gguf = "blk.{}.ssm_conv1d",
                                 .rows = delta_qkv,
                                 .cols = conv_kernel,
                                 .is_small = true};
constexpr CheckpointTensor kDt{.hf = "model.layers.{}.linear_attn.dt_bias",
                               .gguf = "blk.{}.ssm_dt",
                               .rows = n_value_head,
                               .bare = true,
                               .ending = ".bias"};
constexpr CheckpointTensor kDecay{.hf = "model.layers.{}.linear_attn.A_log",
                                  .gguf = "blk.{}.ssm_a",
                                  .rows = n_value_head,
                                  .change = ValueChange::minus_exp,
                                  .bare = true,
                                  .ending = ""};
constexpr CheckpointTensor kDeltaNorm{"model.layers.{}.linear_attn.norm", "blk.{}.ssm_norm", value_head};
constexpr CheckpointTensor kDeltaOut{"model.layers.{}.linear_attn.out_proj", "blk.{}.ssm_out", embd, delta_value};

// Value heads stand grouped by their key head.
constexpr CheckpointTensor kQkvz{"model.layers.{}.linear_attn.in_proj_qkvz", "blk.{}.attn_qkv", delta_qkvz, embd};
constexpr auto kGroupedDeltaNet = all_in_layers(
    LayerSet::recurrent,
    rows(ordered(kQkvz, key_head_qkv), ordered(renamed(kQkvz, "blk.{}.attn_gate"), key_head_gate),
         CheckpointTensor{"model.layers.{}.linear_attn.in_proj_ba", "blk.{}.ssm_ba", n_value_head_twice, embd}, kConv,
         kDt, kDecay, kDeltaNorm, kDeltaOut));
// Value heads are dealt out to the key heads in turn.
constexpr CheckpointTensor kQkv{"model.layers.{}.linear_attn.in_proj_qkv", "blk.{}.attn_qkv", delta_qkv, embd};
constexpr CheckpointTensor kZ{"model.layers.{}.linear_attn.in_proj_z", "blk.{}.attn_gate", delta_value, embd};
constexpr CheckpointTensor kBeta{"model.layers.{}.linear_attn.in_proj_b", "blk.{}.ssm_beta", n_value_head, embd};
constexpr CheckpointTensor kAlpha{"model.layers.{}.linear_attn.in_proj_a", "blk.{}.ssm_alpha", n_value_head, embd};
constexpr auto kDealtDeltaNet =
    all_in_layers(LayerSet::recurrent,
                  rows(ordered(kQkv, value_heads_of_qkv), ordered(kZ, value_heads), ordered(kBeta, value_heads),
                       ordered(kAlpha, value_heads), ordered(kConv, value_heads_of_qkv), ordered(kDt, value_heads),
                       ordered(kDecay, value_heads), kDeltaNorm, ordered(kDeltaOut, value_head_columns)));

constexpr auto kStart = rows(kEmbedding, plus_one(kAttnNorm));
constexpr auto kNormedEnd = rows(plus_one(kFinalNorm), kHead);
constexpr auto kMoeRows = join(kRouter, kExpertTensors, kGatedSharedExpert);

constexpr auto kQwen3Next =
    join(kStart, kGatedAttention, kGroupedDeltaNet, rows(plus_one(kFfnNormAsPost)), kMoeRows, kNormedEnd);
constexpr auto kQwen35 =
    join(kStart, kGatedAttention, kDealtDeltaNet, rows(plus_one(kFfnNormAsPost)), kGatedFfn, kNormedEnd);
constexpr auto kQwen35Moe =
    join(kStart, kGatedAttention, kDealtDeltaNet, rows(plus_one(kFfnNormAsPost)), kMoeRows, kNormedEnd);

constexpr auto kQwen3NextDefaults = std::to_array<ConfigValue>({{"vocab_size", 151936},
                                                                {"max_position_embeddings", 32768},
                                                                {"num_key_value_heads", 2},
                                                                {"head_dim", 256},
                                                                {"norm_eps", 1e-6},
                                                                {"num_experts", 512},
                                                                {"num_experts_per_tok", 10},
                                                                {"moe_intermediate_size", 512},
                                                                {"shared_expert_intermediate_size", 512},
                                                                {"norm_topk_prob", 1},
                                                                {"linear_num_key_heads", 16},
                                                                {"linear_num_value_heads", 32},
                                                                {"linear_key_head_dim", 128},
                                                                {"linear_value_head_dim", 128},
                                                                {"linear_conv_kernel_dim", 4},
                                                                {"full_attention_interval", 4}});
constexpr auto kQwen35Defaults = std::to_array<ConfigValue>({{"vocab_size", 248320},
                                                             {"max_position_embeddings", 32768},
                                                             {"num_key_value_heads", 4},
                                                             {"head_dim", 256},
                                                             {"norm_eps", 1e-6},
                                                             {"linear_num_key_heads", 16},
                                                             {"linear_num_value_heads", 32},
                                                             {"linear_key_head_dim", 128},
                                                             {"linear_value_head_dim", 128},
                                                             {"linear_conv_kernel_dim", 4},
                                                             {"full_attention_interval", 4}});
constexpr auto kQwen35MoeDefaults = std::to_array<ConfigValue>({{"vocab_size", 248320},
                                                                {"max_position_embeddings", 32768},
                                                                {"num_key_value_heads", 2},
                                                                {"head_dim", 256},
                                                                {"norm_eps", 1e-6},
                                                                {"num_experts", 256},
                                                                {"num_experts_per_tok", 8},
                                                                {"moe_intermediate_size", 512},
                                                                {"shared_expert_intermediate_size", 512},
                                                                {"norm_topk_prob", 1},
                                                                {"linear_num_key_heads", 16},
                                                                {"linear_num_value_heads", 32},
                                                                {"linear_key_head_dim", 128},
                                                                {"linear_value_head_dim", 128},
                                                                {"linear_conv_kernel_dim", 4},
                                                                {"full_attention_interval", 4}});

constexpr uint8_t kDeltaParts = kRope | kPlainAttention | kDeltaNet;

constexpr CheckpointFamily kQwen35Text{.hf_class = "Qwen3_5ForCausalLM",
                                       .architecture = "qwen35",
                                       .activation = "silu",
                                       .defaults = kQwen35Defaults,
                                       .tensors = kQwen35,
                                       .renames = kMultimodalNames,
                                       .ignored = kMultimodalParts,
                                       .parts = kDeltaParts,
                                       .partial_rotary = 0.25,
                                       .pre_names = "qwen35"};
constexpr CheckpointFamily kQwen35MoeText{.hf_class = "Qwen3_5MoeForCausalLM",
                                          .architecture = "qwen35moe",
                                          .activation = "silu",
                                          .defaults = kQwen35MoeDefaults,
                                          .tensors = kQwen35Moe,
                                          .renames = kMultimodalNames,
                                          .ignored = kMultimodalParts,
                                          .parts = kDeltaParts | kExperts,
                                          .partial_rotary = 0.25,
                                          .router = Gating::softmax,
                                          .pre_names = "qwen35"};

constexpr auto kFamilies = std::to_array<CheckpointFamily>({
    {.hf_class = "Qwen3NextForCausalLM",
     .architecture = "qwen3next",
     .activation = "silu",
     .defaults = kQwen3NextDefaults,
     .tensors = kQwen3Next,
     .ignored = kExtraBlocks,
     .parts = kDeltaParts | kExperts,
     .partial_rotary = 0.25,
     .router = Gating::softmax,
     .pre_names = "qwen2"},
    kQwen35Text,
    multimodal(kQwen35Text, "Qwen3_5ForConditionalGeneration"),
    kQwen35MoeText,
    multimodal(kQwen35MoeText, "Qwen3_5MoeForConditionalGeneration"),
});
}  // namespace

std::span<const CheckpointFamily> delta_net_families() { return kFamilies; }

}  // namespace tokamak::arch

// Families with experts. Defaults are those of the classes in transformers 5.24.
#include "arch/checkpoint_experts.h"

namespace tokamak::arch {

namespace {
using namespace checkpoint;
using enum Dim;
using enum WeightOrder;

constexpr auto kMixtral = join(rows(kEmbedding), kPairedAttention, rows(kFfnNorm), kMixtralExperts, kEnd);
constexpr auto kQwen3Moe = join(rows(kEmbedding), kHeadNormAttention, rows(kFfnNorm), kRouter, kExpertTensors, kEnd);
constexpr auto kQwen2Moe =
    join(rows(kEmbedding), kAttention, rows(kFfnNorm), kRouter, kExpertTensors, kGatedSharedExpert, kEnd);
constexpr auto kFullNormAttention = rows(kAttnNorm, kQ, kFullQNorm, kK, kFullKNorm, kV, kOut);
constexpr auto kOlmoe = join(rows(kEmbedding), kFullNormAttention, rows(kFfnNorm), kRouter, kExpertTensors, kEnd);
constexpr auto kMiniMaxM2 = join(
    rows(kEmbedding), kFullNormAttention,
    rows(kFfnNorm, selection_bias("model.layers.{}.block_sparse_moe.e_score_correction_bias")), kMixtralExperts, kEnd);
constexpr auto kDots1 =
    join(rows(kEmbedding), kHeadNormAttention, rows(kFfnNorm), kDenseLayers,
         expert_layers(kRouter, rows(selection_bias("model.layers.{}.mlp.gate.e_score_correction_bias")),
                       kExpertTensors, kSharedExperts),
         kEnd);
constexpr auto kGlm4Moe = join(
    rows(kEmbedding, kAttnNorm, kQ, optional(kQNorm), kK, optional(kKNorm), kV, kOut, kFfnNormAsPost), kDenseLayers,
    expert_layers(kRouter, rows(selection_bias("model.layers.{}.mlp.gate.e_score_correction_bias")), kExpertTensors,
                  kSharedExperts),
    kEnd);
constexpr auto kHyV3 = join(rows(kEmbedding), kHeadNormAttention, rows(kFfnNorm), kDenseLayers,
                            expert_layers(rows(router("model.layers.{}.mlp.router.gate"),
                                               unsuffixed(selection_bias("model.layers.{}.mlp.expert_bias"))),
                                          kExpertTensors, kSharedMlp),
                            kEnd);
constexpr auto kErnieMoe =
    join(rows(kEmbedding), kAttention, rows(kFfnNorm), kDenseLayers,
         expert_layers(kRouter, rows(selection_bias("model.layers.{}.mlp.moe_statics.e_score_correction_bias")),
                       kExpertTensors, kSharedExperts),
         kEnd);
constexpr auto kHunyuanMoe =
    join(rows(kEmbedding, kAttnNorm, kQ,
              CheckpointTensor{"model.layers.{}.self_attn.query_layernorm", "blk.{}.attn_q_norm", head}, kK,
              CheckpointTensor{"model.layers.{}.self_attn.key_layernorm", "blk.{}.attn_k_norm", head}, kV, kOut,
              kFfnNorm, router("model.layers.{}.mlp.gate.wg")),
         kExpertTensors, kSharedMlp, kEnd);

constexpr CheckpointTensor kGraniteShared{.hf = "model.layers.{}.shared_mlp.input_linear",
                                          .gguf = "blk.{}.ffn_gate_shexp",
                                          .rows = shared_ff_twice,
                                          .cols = embd,
                                          .order = first_half};
constexpr auto kGraniteMoe =
    join(rows(kEmbedding), kPairedAttention,
         rows(kFfnNorm, router("model.layers.{}.block_sparse_moe.router.layer"),
              gate_of_fused(gate_experts("model.layers.{}.block_sparse_moe.input_linear")),
              up_of_fused(up_experts("model.layers.{}.block_sparse_moe.input_linear")),
              down_experts("model.layers.{}.block_sparse_moe.output_linear"), kGraniteShared,
              CheckpointTensor{.hf = "model.layers.{}.shared_mlp.input_linear",
                               .gguf = "blk.{}.ffn_up_shexp",
                               .rows = shared_ff_twice,
                               .cols = embd,
                               .order = second_half},
              CheckpointTensor{"model.layers.{}.shared_mlp.output_linear", "blk.{}.ffn_down_shexp", embd, shared_ff}),
         kEnd);

// Plain experts stand transposed, MXFP4 ones do not; gate and up take turns.
constexpr CheckpointTensor interleaved(CheckpointTensor experts, WeightOrder order) {
  experts.order = order;
  experts.rows = expert_ff_twice;
  return experts;
}
constexpr CheckpointTensor transposed_experts(CheckpointTensor experts, WeightOrder order, Dim rows, Dim cols) {
  experts.order = order;
  experts.rows = rows;
  experts.cols = cols;
  experts.bare = true;
  return experts;
}
constexpr CheckpointTensor expert_bias(std::string_view hf, std::string_view gguf, Dim width, WeightOrder order) {
  return {.hf = hf, .gguf = gguf, .rows = width, .order = order, .matrices = n_expert, .bare = true, .ending = ".bias"};
}
constexpr std::string_view kOssGateUp = "model.layers.{}.mlp.experts.gate_up_proj";
constexpr std::string_view kOssGateUpBias = "model.layers.{}.mlp.experts.gate_up_proj_bias";
constexpr std::string_view kOssDown = "model.layers.{}.mlp.experts.down_proj";
constexpr auto kGptOss =
    join(rows(kEmbedding), kAttention,
         rows(
             CheckpointTensor{
                 .hf = "model.layers.{}.self_attn.sinks", .gguf = "blk.{}.attn_sinks", .rows = n_head, .bare = true},
             kFfnNormAsPost, router("model.layers.{}.mlp.router"), interleaved(gate_experts(kOssGateUp), even),
             transposed_experts(gate_experts(kOssGateUp), transposed_even, embd, expert_ff_twice),
             expert_bias(kOssGateUpBias, "blk.{}.ffn_gate_exps", expert_ff_twice, even),
             interleaved(up_experts(kOssGateUp), odd),
             transposed_experts(up_experts(kOssGateUp), transposed_odd, embd, expert_ff_twice),
             expert_bias(kOssGateUpBias, "blk.{}.ffn_up_exps", expert_ff_twice, odd), down_experts(kOssDown),
             transposed_experts(down_experts(kOssDown), transposed, expert_ff, embd),
             expert_bias("model.layers.{}.mlp.experts.down_proj_bias", "blk.{}.ffn_down_exps", embd, as_is)),
         kEnd);

constexpr std::string_view kLlama4GateUp = "model.layers.{}.feed_forward.experts.gate_up_proj";
constexpr auto kLlama4 = join(
    rows(kEmbedding), kAttention, rows(kFfnNorm),
    all_in_layers(LayerSet::dense,
                  rows(CheckpointTensor{"model.layers.{}.feed_forward.gate_proj", "blk.{}.ffn_gate", ff, embd},
                       CheckpointTensor{"model.layers.{}.feed_forward.up_proj", "blk.{}.ffn_up", ff, embd},
                       CheckpointTensor{"model.layers.{}.feed_forward.down_proj", "blk.{}.ffn_down", embd, ff})),
    expert_layers(rows(router("model.layers.{}.feed_forward.router"),
                       transposed_experts(gate_experts(kLlama4GateUp), transposed_first_half, embd, expert_ff_twice),
                       transposed_experts(up_experts(kLlama4GateUp), transposed_second_half, embd, expert_ff_twice),
                       transposed_experts(down_experts("model.layers.{}.feed_forward.experts.down_proj"), transposed,
                                          expert_ff, embd)),
                  shared_expert("model.layers.{}.feed_forward.shared_expert.gate_proj",
                                "model.layers.{}.feed_forward.shared_expert.up_proj",
                                "model.layers.{}.feed_forward.shared_expert.down_proj")),
    kEnd);
constexpr auto kLlama4Fields = std::to_array<FieldName>(
    {{"intermediate_size", "intermediate_size_mlp"}, {"moe_intermediate_size", "intermediate_size"}});

constexpr auto kMixtralDefaults = std::to_array<ConfigValue>({{"vocab_size", 32000},
                                                              {"max_position_embeddings", 131072},
                                                              {"num_key_value_heads", 8},
                                                              {"norm_eps", 1e-5},
                                                              {"num_experts", 8},
                                                              {"num_experts_per_tok", 2},
                                                              {"norm_topk_prob", 1}});
constexpr auto kQwen3MoeDefaults = std::to_array<ConfigValue>({{"vocab_size", 151936},
                                                               {"max_position_embeddings", 32768},
                                                               {"num_key_value_heads", 4},
                                                               {"norm_eps", 1e-6},
                                                               {"num_experts", 128},
                                                               {"num_experts_per_tok", 8},
                                                               {"moe_intermediate_size", 768},
                                                               {"norm_topk_prob", 0},
                                                               {"sliding_window", 4096},
                                                               {"max_window_layers", 28}});
constexpr auto kQwen2MoeDefaults = std::to_array<ConfigValue>({{"vocab_size", 151936},
                                                               {"max_position_embeddings", 32768},
                                                               {"num_key_value_heads", 16},
                                                               {"norm_eps", 1e-6},
                                                               {"num_experts", 60},
                                                               {"num_experts_per_tok", 4},
                                                               {"moe_intermediate_size", 1408},
                                                               {"shared_expert_intermediate_size", 5632},
                                                               {"norm_topk_prob", 0},
                                                               {"sliding_window", 4096},
                                                               {"max_window_layers", 28}});
constexpr auto kOlmoeDefaults = std::to_array<ConfigValue>({{"vocab_size", 50304},
                                                            {"max_position_embeddings", 4096},
                                                            {"norm_eps", 1e-5},
                                                            {"num_experts", 64},
                                                            {"num_experts_per_tok", 8},
                                                            {"norm_topk_prob", 0}});
constexpr auto kGptOssDefaults = std::to_array<ConfigValue>({{"vocab_size", 201088},
                                                             {"max_position_embeddings", 131072},
                                                             {"num_key_value_heads", 8},
                                                             {"head_dim", 64},
                                                             {"norm_eps", 1e-5},
                                                             {"num_experts", 128},
                                                             {"num_experts_per_tok", 4},
                                                             {"sliding_window", 128}});
constexpr auto kGptOssRequired = std::to_array<ConfigValue>({{"swiglu_limit", 7}, {"swiglu_alpha", 1.702}});
constexpr auto kGraniteMoeDefaults = std::to_array<ConfigValue>({{"vocab_size", 32000},
                                                                 {"max_position_embeddings", 2048},
                                                                 {"norm_eps", 1e-6},
                                                                 {"embedding_multiplier", 1},
                                                                 {"residual_multiplier", 1},
                                                                 {"attention_multiplier", 1},
                                                                 {"logits_scaling", 1},
                                                                 {"num_experts", 8},
                                                                 {"num_experts_per_tok", 2}});
constexpr auto kErnieMoeDefaults = std::to_array<ConfigValue>({{"vocab_size", 103424},
                                                               {"max_position_embeddings", 131072},
                                                               {"num_key_value_heads", 4},
                                                               {"norm_eps", 1e-5},
                                                               {"num_experts", 64},
                                                               {"num_experts_per_tok", 6},
                                                               {"moe_intermediate_size", 1536},
                                                               {"n_shared_experts", 2},
                                                               {"norm_topk_prob", 1},
                                                               {"moe_layer_start_index", 1}});
constexpr auto kHunyuanMoeDefaults = std::to_array<ConfigValue>({{"vocab_size", 290943},
                                                                 {"max_position_embeddings", 2048},
                                                                 {"norm_eps", 1e-5},
                                                                 {"num_experts", 1},
                                                                 {"num_experts_per_tok", 1},
                                                                 {"n_shared_experts", 1},
                                                                 {"norm_topk_prob", 1}});
constexpr auto kHunyuanRequired = std::to_array<ConfigValue>({{"use_cla", 0}, {"use_qk_norm", 1}});
constexpr auto kDots1Defaults = std::to_array<ConfigValue>({{"vocab_size", 152064},
                                                            {"max_position_embeddings", 2048},
                                                            {"num_key_value_heads", 32},
                                                            {"norm_eps", 1e-6},
                                                            {"moe_intermediate_size", 1408},
                                                            {"first_k_dense_replace", 0},
                                                            {"routed_scaling_factor", 1},
                                                            {"norm_topk_prob", 0},
                                                            {"sliding_window", 4096},
                                                            {"max_window_layers", 62}});
constexpr auto kGlm4MoeDefaults = std::to_array<ConfigValue>({{"vocab_size", 151552},
                                                              {"max_position_embeddings", 131072},
                                                              {"num_key_value_heads", 8},
                                                              {"norm_eps", 1e-5},
                                                              {"num_experts", 128},
                                                              {"num_experts_per_tok", 8},
                                                              {"moe_intermediate_size", 1408},
                                                              {"n_shared_experts", 1},
                                                              {"first_k_dense_replace", 1},
                                                              {"routed_scaling_factor", 1},
                                                              {"norm_topk_prob", 1}});
constexpr auto kHyV3Defaults = std::to_array<ConfigValue>({{"vocab_size", 120832},
                                                           {"max_position_embeddings", 131072},
                                                           {"num_key_value_heads", 8},
                                                           {"head_dim", 128},
                                                           {"norm_eps", 1e-5},
                                                           {"num_experts", 192},
                                                           {"num_experts_per_tok", 8},
                                                           {"moe_intermediate_size", 1536},
                                                           {"n_shared_experts", 1},
                                                           {"first_k_dense_replace", 1},
                                                           {"routed_scaling_factor", 2.826},
                                                           {"norm_topk_prob", 1}});
constexpr auto kMiniMaxM2Defaults = std::to_array<ConfigValue>({{"vocab_size", 200064},
                                                                {"max_position_embeddings", 196608},
                                                                {"num_key_value_heads", 8},
                                                                {"head_dim", 128},
                                                                {"norm_eps", 1e-6},
                                                                {"num_experts", 256},
                                                                {"num_experts_per_tok", 8},
                                                                {"norm_topk_prob", 1}});
constexpr auto kMiniMaxM2Required = std::to_array<ConfigValue>({{"use_qk_norm", 1}});
constexpr auto kLlama4Defaults = std::to_array<ConfigValue>({{"vocab_size", 202048},
                                                             {"max_position_embeddings", 131072},
                                                             {"num_attention_heads", 40},
                                                             {"num_key_value_heads", 8},
                                                             {"head_dim", 128},
                                                             {"norm_eps", 1e-5},
                                                             {"num_experts", 16},
                                                             {"num_experts_per_tok", 1},
                                                             {"n_shared_experts", 1},
                                                             {"interleave_moe_layer_step", 1},
                                                             {"attention_chunk_size", 8192},
                                                             {"attn_temperature_tuning", 1},
                                                             {"floor_scale", 8192},
                                                             {"attn_scale", 0.1},
                                                             {"use_qk_norm", 1}});

constexpr uint8_t kMoeParts = kRope | kPlainAttention | kExperts;

constexpr CheckpointFamily kGraniteMoeText{.hf_class = "GraniteMoeForCausalLM",
                                           .architecture = "granitemoe",
                                           .activation = "silu",
                                           .defaults = kGraniteMoeDefaults,
                                           .tensors = kGraniteMoe,
                                           .fields = kExpertsInDenseField,
                                           .parts = kMoeParts,
                                           .router = Gating::selected_softmax,
                                           .pre_names = "starcoder"};
constexpr CheckpointFamily kLlama4Text{.hf_class = "Llama4ForCausalLM",
                                       .architecture = "llama4",
                                       .activation = "silu",
                                       .defaults = kLlama4Defaults,
                                       .tensors = kLlama4,
                                       .fields = kLlama4Fields,
                                       .parts = kMoeParts,
                                       .rope_theta = 5e5,
                                       .windows = Windows::chunks,
                                       .nope_interval = 4,
                                       .router = Gating::sigmoid,
                                       .pre_names = "llama4"};

constexpr auto kFamilies = std::to_array<CheckpointFamily>({
    {.hf_class = "MixtralForCausalLM",
     .architecture = "llama",
     .activation = "silu",
     .defaults = kMixtralDefaults,
     .tensors = kMixtral,
     .fields = kExpertsInDenseField,
     .parts = kMoeParts,
     .rope_theta = 1e6,
     .windows = Windows::every_layer,
     .router = Gating::softmax,
     .pre_names = "tekken"},
    {.hf_class = "Qwen3MoeForCausalLM",
     .architecture = "qwen3moe",
     .activation = "silu",
     .defaults = kQwen3MoeDefaults,
     .tensors = kQwen3Moe,
     .parts = kMoeParts,
     .windows = Windows::if_used,
     .router = Gating::softmax,
     .pre_names = "qwen2"},
    {.hf_class = "Qwen2MoeForCausalLM",
     .architecture = "qwen2moe",
     .activation = "silu",
     .defaults = kQwen2MoeDefaults,
     .tensors = kQwen2Moe,
     .parts = kMoeParts,
     .windows = Windows::if_used,
     .router = Gating::softmax,
     .pre_names = "qwen2"},
    {.hf_class = "OlmoeForCausalLM",
     .architecture = "olmoe",
     .activation = "silu",
     .defaults = kOlmoeDefaults,
     .tensors = kOlmoe,
     .fields = kExpertsInDenseField,
     .parts = kMoeParts,
     .router = Gating::softmax,
     .pre_names = "olmo"},
    {.hf_class = "GptOssForCausalLM",
     .architecture = "gpt-oss",
     .activation = "silu",
     .defaults = kGptOssDefaults,
     .tensors = kGptOss,
     .required = kGptOssRequired,
     .fields = kExpertsInDenseField,
     .parts = kMoeParts,
     .rope_theta = 150000,
     .yarn_rounded = false,
     .windows = Windows::by_layer_type,
     .window_period = 2,
     .router = Gating::selected_softmax,
     .pre_names = "gpt-4o"},
    kGraniteMoeText,
    [] {
      CheckpointFamily family = kGraniteMoeText;
      family.hf_class = "GraniteMoeSharedForCausalLM";
      return family;
    }(),
    {.hf_class = "Ernie4_5_MoeForCausalLM",
     .architecture = "ernie4_5-moe",
     .activation = "silu",
     .defaults = kErnieMoeDefaults,
     .tensors = kErnieMoe,
     .ignored = kExtraBlocks,
     .tied = true,
     .parts = kMoeParts,
     .rope_theta = 5e5,
     .router = Gating::softmax,
     .pre_names = "default"},
    {.hf_class = "HunYuanMoEV1ForCausalLM",
     .architecture = "hunyuan-moe",
     .activation = "silu",
     .defaults = kHunyuanMoeDefaults,
     .tensors = kHunyuanMoe,
     .required = kHunyuanRequired,
     .fields = kExpertsInDenseField,
     .parts = kMoeParts,
     .router = Gating::softmax,
     .pre_names = "hunyuan"},
    {.hf_class = "Dots1ForCausalLM",
     .architecture = "dots1",
     .activation = "silu",
     .defaults = kDots1Defaults,
     .tensors = kDots1,
     .parts = kMoeParts,
     .windows = Windows::by_layer_type,
     .router = Gating::sigmoid,
     .pre_names = "qwen2"},
    {.hf_class = "Glm4MoeForCausalLM",
     .architecture = "glm4moe",
     .activation = "silu",
     .defaults = kGlm4MoeDefaults,
     .tensors = kGlm4Moe,
     .ignored = kExtraBlocks,
     .parts = kMoeParts,
     .partial_rotary = 0.5,
     .router = Gating::sigmoid,
     .pre_names = "glm4"},
    {.hf_class = "HYV3ForCausalLM",
     .architecture = "hy_v3",
     .activation = "silu",
     .defaults = kHyV3Defaults,
     .tensors = kHyV3,
     .ignored = kExtraBlocks,
     .parts = kMoeParts,
     .rope_theta = 11158840,
     .router = Gating::sigmoid,
     .pre_names = "hunyuan"},
    {.hf_class = "MiniMaxM2ForCausalLM",
     .architecture = "minimax-m2",
     .activation = "silu",
     .defaults = kMiniMaxM2Defaults,
     .tensors = kMiniMaxM2,
     .required = kMiniMaxM2Required,
     .fields = kExpertsInDenseField,
     .ignored = kExtraBlocks,
     .parts = kMoeParts,
     .rope_theta = 5e6,
     .partial_rotary = 1,
     .router = Gating::sigmoid,
     .pre_names = "minimax-m2"},
    kLlama4Text,
    multimodal(kLlama4Text, "Llama4ForConditionalGeneration"),
});
}  // namespace

std::span<const CheckpointFamily> moe_families() { return kFamilies; }

}  // namespace tokamak::arch

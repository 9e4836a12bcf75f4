// Dense families with RMSNorm. Defaults are those of the classes in transformers 5.24.
#include "arch/checkpoint_parts.h"

namespace tokamak::arch {

namespace {
using namespace checkpoint;
using enum Dim;

constexpr auto kLlama = join(rows(kEmbedding), kPairedAttention, rows(kFfnNorm), kGatedFfn, kEnd);
constexpr auto kArcee = join(rows(kEmbedding), kPairedAttention, rows(kFfnNorm, kUp, kDown), kEnd);
constexpr auto kQwen2 = join(rows(kEmbedding), kAttention, rows(kFfnNorm), kGatedFfn, kEnd);
constexpr auto kQwen3 = join(rows(kEmbedding), kHeadNormAttention, rows(kFfnNorm), kGatedFfn, kEnd);
constexpr auto kSeedOss = join(rows(kEmbedding), kAttention, rows(kFfnNormAsPost), kGatedFfn, kEnd);

constexpr CheckpointTensor kPostAttnNorm{"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm",
                                         embd};
constexpr CheckpointTensor kPreFfnNorm{"model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm", embd};
constexpr CheckpointTensor kPostFfnNorm{"model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", embd};

constexpr auto kGemma = join(rows(kEmbedding, plus_one(kAttnNorm), kQ, kK, kV, kOut, plus_one(kFfnNorm)), kGatedFfn,
                             rows(plus_one(kFinalNorm), kHead));
constexpr auto kGemma2 =
    join(rows(kEmbedding, plus_one(kAttnNorm), kQ, kK, kV, kOut, plus_one(kPostAttnNorm), plus_one(kPreFfnNorm)),
         kGatedFfn, rows(plus_one(kPostFfnNorm), plus_one(kFinalNorm), kHead));
constexpr auto kGemma3 = join(rows(kEmbedding, plus_one(kAttnNorm), kQ, plus_one(kQNorm), kK, plus_one(kKNorm), kV,
                                   kOut, plus_one(kPostAttnNorm), plus_one(kPreFfnNorm)),
                              kGatedFfn, rows(plus_one(kPostFfnNorm), plus_one(kFinalNorm), kHead));

// Norms behind the blocks only.
constexpr auto kOlmo2 = join(rows(kEmbedding, kQ, kFullQNorm, kK, kFullKNorm, kV, kOut, kPostAttnNorm), kGatedFfn,
                             rows(kPostFfnNorm), kEnd);
constexpr auto kExaone4 =
    join(rows(kEmbedding, kQ, kQNorm, kK, kKNorm, kV, kOut, kPostAttnNorm), kGatedFfn, rows(kPostFfnNorm), kEnd);

constexpr auto kPhi3 = join(
    rows(kEmbedding, kAttnNorm, CheckpointTensor{"model.layers.{}.self_attn.qkv_proj", "blk.{}.attn_qkv", qkv, embd},
         kOut, kFfnNorm, kGateUp, kDown),
    kEnd);
constexpr auto kGlm = join(rows(kEmbedding), kAttention, rows(kFfnNorm, kGateUp, kDown), kEnd);
constexpr auto kGlm4 = join(
    rows(kEmbedding), kAttention,
    rows(CheckpointTensor{"model.layers.{}.post_self_attn_layernorm", "blk.{}.post_attention_norm", embd}, kFfnNorm,
         kGateUp, kDown, CheckpointTensor{"model.layers.{}.post_mlp_layernorm", "blk.{}.post_ffw_norm", embd}),
    kEnd);
constexpr auto kHunyuan = join(
    rows(kEmbedding, kAttnNorm, kQ,
         CheckpointTensor{"model.layers.{}.self_attn.query_layernorm", "blk.{}.attn_q_norm", head}, kK,
         CheckpointTensor{"model.layers.{}.self_attn.key_layernorm", "blk.{}.attn_k_norm", head}, kV, kOut, kFfnNorm),
    kGatedFfn, kEnd);

constexpr auto kLlamaDefaults =
    std::to_array<ConfigValue>({{"vocab_size", 32000}, {"max_position_embeddings", 2048}, {"norm_eps", 1e-6}});
constexpr auto kMistralDefaults = std::to_array<ConfigValue>({{"vocab_size", 32000},
                                                              {"max_position_embeddings", 131072},
                                                              {"num_key_value_heads", 8},
                                                              {"norm_eps", 1e-6},
                                                              {"sliding_window", 4096}});
constexpr auto kMinistral3Defaults = std::to_array<ConfigValue>({{"vocab_size", 131072},
                                                                 {"max_position_embeddings", 262144},
                                                                 {"num_key_value_heads", 8},
                                                                 {"head_dim", 128},
                                                                 {"norm_eps", 1e-5}});
constexpr auto kSmolLm3Defaults = std::to_array<ConfigValue>(
    {{"vocab_size", 128256}, {"max_position_embeddings", 32768}, {"num_key_value_heads", 4}, {"norm_eps", 1e-6}});
constexpr auto kQwen2Defaults = std::to_array<ConfigValue>({{"vocab_size", 151936},
                                                            {"max_position_embeddings", 32768},
                                                            {"num_key_value_heads", 32},
                                                            {"norm_eps", 1e-6},
                                                            {"sliding_window", 4096},
                                                            {"max_window_layers", 28}});
constexpr auto kQwen3Defaults = std::to_array<ConfigValue>({{"vocab_size", 151936},
                                                            {"max_position_embeddings", 32768},
                                                            {"num_key_value_heads", 32},
                                                            {"head_dim", 128},
                                                            {"norm_eps", 1e-6},
                                                            {"sliding_window", 4096},
                                                            {"max_window_layers", 28}});
constexpr auto kGraniteDefaults = std::to_array<ConfigValue>({{"vocab_size", 32000},
                                                              {"max_position_embeddings", 2048},
                                                              {"norm_eps", 1e-6},
                                                              {"embedding_multiplier", 1},
                                                              {"residual_multiplier", 1},
                                                              {"attention_multiplier", 1},
                                                              {"logits_scaling", 1}});
constexpr auto kOlmoDefaults = std::to_array<ConfigValue>(
    {{"vocab_size", 50304}, {"max_position_embeddings", 2048}, {"norm_eps", 1e-5}, {"sliding_window", 4096}});
constexpr auto kGemmaDefaults = std::to_array<ConfigValue>({{"vocab_size", 256000},
                                                            {"max_position_embeddings", 8192},
                                                            {"num_attention_heads", 16},
                                                            {"num_key_value_heads", 16},
                                                            {"head_dim", 256},
                                                            {"norm_eps", 1e-6}});
constexpr auto kGemma2Defaults = std::to_array<ConfigValue>({{"vocab_size", 256000},
                                                             {"max_position_embeddings", 8192},
                                                             {"num_attention_heads", 8},
                                                             {"num_key_value_heads", 4},
                                                             {"head_dim", 256},
                                                             {"norm_eps", 1e-6},
                                                             {"query_pre_attn_scalar", 256},
                                                             {"final_logit_softcapping", 30},
                                                             {"attn_logit_softcapping", 50},
                                                             {"sliding_window", 4096}});
constexpr auto kGemma3Defaults = std::to_array<ConfigValue>({{"vocab_size", 262208},
                                                             {"max_position_embeddings", 131072},
                                                             {"num_attention_heads", 8},
                                                             {"num_key_value_heads", 4},
                                                             {"head_dim", 256},
                                                             {"norm_eps", 1e-6},
                                                             {"query_pre_attn_scalar", 256},
                                                             {"sliding_window", 4096}});
constexpr auto kPhi3Defaults =
    std::to_array<ConfigValue>({{"vocab_size", 32064}, {"max_position_embeddings", 4096}, {"norm_eps", 1e-5}});
constexpr auto kSeedOssDefaults = std::to_array<ConfigValue>({{"vocab_size", 155136},
                                                              {"max_position_embeddings", 524288},
                                                              {"num_key_value_heads", 8},
                                                              {"head_dim", 128},
                                                              {"norm_eps", 1e-6}});
constexpr auto kGlmDefaults = std::to_array<ConfigValue>({{"vocab_size", 151552},
                                                          {"max_position_embeddings", 131072},
                                                          {"num_key_value_heads", 2},
                                                          {"head_dim", 128},
                                                          {"norm_eps", 1.5625e-7}});
constexpr auto kArceeDefaults =
    std::to_array<ConfigValue>({{"vocab_size", 32000}, {"max_position_embeddings", 4096}, {"norm_eps", 1e-5}});
constexpr auto kExaone4Defaults = std::to_array<ConfigValue>(
    {{"vocab_size", 102400}, {"max_position_embeddings", 2048}, {"norm_eps", 1e-5}, {"sliding_window", 4096}});
constexpr auto kErnieDefaults = std::to_array<ConfigValue>({{"vocab_size", 103424},
                                                            {"max_position_embeddings", 131072},
                                                            {"num_key_value_heads", 2},
                                                            {"head_dim", 128},
                                                            {"norm_eps", 1e-5}});
constexpr auto kHunyuanDefaults =
    std::to_array<ConfigValue>({{"vocab_size", 290943}, {"max_position_embeddings", 2048}, {"norm_eps", 1e-5}});
constexpr auto kHunyuanRequired = std::to_array<ConfigValue>({{"use_cla", 0}, {"use_qk_norm", 1}});

constexpr CheckpointFamily kGemma3Text{.hf_class = "Gemma3ForCausalLM",
                                       .architecture = "gemma3",
                                       .activation = "gelu_pytorch_tanh",
                                       .defaults = kGemma3Defaults,
                                       .tensors = kGemma3,
                                       .tied = true,
                                       .rope_theta = 1e6,
                                       .rope_by_layer_type = true,
                                       .rope_theta_local = 10000,
                                       .windows = Windows::by_layer_type,
                                       .window_period = 6,
                                       .pre_names = "default"};
constexpr CheckpointFamily kMinistral3{.hf_class = "Ministral3ForCausalLM",
                                       .architecture = "mistral3",
                                       .activation = "silu",
                                       .defaults = kMinistral3Defaults,
                                       .tensors = kLlama,
                                       .rope_theta = 1e6,
                                       .yarn_log = 1,
                                       .windows = Windows::every_layer,
                                       .pre_names = "tekken"};
constexpr CheckpointFamily kOlmo2Text{.hf_class = "Olmo2ForCausalLM",
                                      .architecture = "olmo2",
                                      .activation = "silu",
                                      .defaults = kOlmoDefaults,
                                      .tensors = kOlmo2,
                                      .pre_names = "dbrx"};

constexpr auto kFamilies = std::to_array<CheckpointFamily>({
    {.hf_class = "LlamaForCausalLM",
     .architecture = "llama",
     .activation = "silu",
     .defaults = kLlamaDefaults,
     .tensors = kLlama,
     .pre_names = "llama-bpe smollm"},
    {.hf_class = "MistralForCausalLM",
     .architecture = "llama",
     .activation = "silu",
     .defaults = kMistralDefaults,
     .tensors = kLlama,
     .windows = Windows::every_layer,
     .pre_names = "tekken"},
    kMinistral3,
    multimodal(kMinistral3, "Mistral3ForConditionalGeneration"),
    {.hf_class = "SmolLM3ForCausalLM",
     .architecture = "smollm3",
     .activation = "silu",
     .defaults = kSmolLm3Defaults,
     .tensors = kLlama,
     .tied = true,
     .rope_theta = 2e6,
     .windows = Windows::if_used,
     .nope_interval = 4,
     .pre_names = "smaug-bpe"},
    {.hf_class = "Qwen2ForCausalLM",
     .architecture = "qwen2",
     .activation = "silu",
     .defaults = kQwen2Defaults,
     .tensors = kQwen2,
     .windows = Windows::if_used,
     .pre_names = "qwen2"},
    {.hf_class = "Qwen3ForCausalLM",
     .architecture = "qwen3",
     .activation = "silu",
     .defaults = kQwen3Defaults,
     .tensors = kQwen3,
     .windows = Windows::if_used,
     .pre_names = "qwen2"},
    {.hf_class = "GemmaForCausalLM",
     .architecture = "gemma",
     .activation = "gelu_pytorch_tanh",
     .defaults = kGemmaDefaults,
     .tensors = kGemma,
     .tied = true,
     .pre_names = "default"},
    {.hf_class = "Gemma2ForCausalLM",
     .architecture = "gemma2",
     .activation = "gelu_pytorch_tanh",
     .defaults = kGemma2Defaults,
     .tensors = kGemma2,
     .tied = true,
     .windows = Windows::by_layer_type,
     .window_period = 2,
     .pre_names = "default"},
    kGemma3Text,
    multimodal(kGemma3Text, "Gemma3ForConditionalGeneration"),
    {.hf_class = "GraniteForCausalLM",
     .architecture = "granite",
     .activation = "silu",
     .defaults = kGraniteDefaults,
     .tensors = kLlama,
     .pre_names = "starcoder"},
    kOlmo2Text,
    [] {
      CheckpointFamily family = kOlmo2Text;
      family.hf_class = "Olmo3ForCausalLM";
      family.rope_theta = 5e5;
      family.rope_by_layer_type = true;
      family.windows = Windows::by_layer_type;
      family.window_period = 4;
      return family;
    }(),
    {.hf_class = "Phi3ForCausalLM",
     .architecture = "phi3",
     .activation = "silu",
     .defaults = kPhi3Defaults,
     .tensors = kPhi3,
     .partial_rotary = 1,
     .windows = Windows::every_layer,
     .pre_names = "gpt-4o dbrx default"},
    {.hf_class = "SeedOssForCausalLM",
     .architecture = "seed_oss",
     .activation = "silu",
     .defaults = kSeedOssDefaults,
     .tensors = kSeedOss,
     .pre_names = "seed-coder"},
    {.hf_class = "GlmForCausalLM",
     .architecture = "chatglm",
     .activation = "silu",
     .defaults = kGlmDefaults,
     .tensors = kGlm,
     .partial_rotary = 0.5,
     .pre_names = "glm4"},
    {.hf_class = "Glm4ForCausalLM",
     .architecture = "glm4",
     .activation = "silu",
     .defaults = kGlmDefaults,
     .tensors = kGlm4,
     .partial_rotary = 0.5,
     .pre_names = "glm4"},
    {.hf_class = "ArceeForCausalLM",
     .architecture = "arcee",
     .activation = "relu2",
     .defaults = kArceeDefaults,
     .tensors = kArcee,
     .pre_names = "llama-bpe"},
    {.hf_class = "Exaone4ForCausalLM",
     .architecture = "exaone4",
     .activation = "silu",
     .defaults = kExaone4Defaults,
     .tensors = kExaone4,
     .ignored = kExtraBlocks,
     .windows = Windows::by_layer_type,
     .window_period = 4,
     .pre_names = "exaone4"},
    {.hf_class = "Ernie4_5ForCausalLM",
     .architecture = "ernie4_5",
     .activation = "silu",
     .defaults = kErnieDefaults,
     .tensors = kQwen2,
     .tied = true,
     .rope_theta = 5e5,
     .pre_names = "default"},
    {.hf_class = "HunYuanDenseV1ForCausalLM",
     .architecture = "hunyuan-dense",
     .activation = "silu",
     .defaults = kHunyuanDefaults,
     .tensors = kHunyuan,
     .required = kHunyuanRequired,
     .pre_names = "hunyuan-dense"},
});
}  // namespace

std::span<const CheckpointFamily> dense_families() { return kFamilies; }

}  // namespace tokamak::arch

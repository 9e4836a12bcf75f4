// Dense families with LayerNorm. Defaults are those of the classes in transformers 5.24.
#include "arch/checkpoint_parts.h"

namespace tokamak::arch {

namespace {
using namespace checkpoint;
using enum Dim;
using enum WeightOrder;

constexpr auto kGpt2 = std::to_array<CheckpointTensor>({
    {"transformer.wte", "token_embd", vocab, embd},
    {"transformer.wpe", "position_embd", ctx, embd},
    {"transformer.h.{}.ln_1", "blk.{}.attn_norm", embd},
    {.hf = "transformer.h.{}.attn.c_attn", .gguf = "blk.{}.attn_qkv", .rows = embd, .cols = qkv, .order = transposed},
    {.hf = "transformer.h.{}.attn.c_proj", .gguf = "blk.{}.attn_output", .rows = q, .cols = embd, .order = transposed},
    {"transformer.h.{}.ln_2", "blk.{}.ffn_norm", embd},
    {.hf = "transformer.h.{}.mlp.c_fc", .gguf = "blk.{}.ffn_up", .rows = embd, .cols = ff, .order = transposed},
    {.hf = "transformer.h.{}.mlp.c_proj", .gguf = "blk.{}.ffn_down", .rows = ff, .cols = embd, .order = transposed},
    {"transformer.ln_f", "output_norm", embd},
    kHead,
});
constexpr auto kGpt2Names = std::to_array<NameChange>({{"", "transformer."}});
constexpr auto kGpt2Required = std::to_array<ConfigValue>(
    {{"scale_attn_by_inverse_layer_idx", 0}, {"scale_attn_weights", 1}, {"add_cross_attention", 0}});

constexpr auto kStarcoder = std::to_array<CheckpointTensor>({
    {"transformer.wte", "token_embd", vocab, embd},
    {"transformer.wpe", "position_embd", ctx, embd},
    {"transformer.h.{}.ln_1", "blk.{}.attn_norm", embd},
    {"transformer.h.{}.attn.c_attn", "blk.{}.attn_qkv", qkv, embd},
    {"transformer.h.{}.attn.c_proj", "blk.{}.attn_output", embd, q},
    {"transformer.h.{}.ln_2", "blk.{}.ffn_norm", embd},
    {"transformer.h.{}.mlp.c_fc", "blk.{}.ffn_up", ff, embd},
    {"transformer.h.{}.mlp.c_proj", "blk.{}.ffn_down", embd, ff},
    {"transformer.ln_f", "output_norm", embd},
    kHead,
});
constexpr auto kStarcoderRequired = std::to_array<ConfigValue>({{"multi_query", 1}, {"scale_attn_weights", 1}});

constexpr auto kGptNeox = std::to_array<CheckpointTensor>({
    {"gpt_neox.embed_in", "token_embd", vocab, embd},
    {"gpt_neox.layers.{}.input_layernorm", "blk.{}.attn_norm", embd},
    {.hf = "gpt_neox.layers.{}.attention.query_key_value",
     .gguf = "blk.{}.attn_qkv",
     .rows = qkv,
     .cols = embd,
     .order = qkv_by_group},
    {"gpt_neox.layers.{}.attention.dense", "blk.{}.attn_output", embd, q},
    {"gpt_neox.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", embd},
    {"gpt_neox.layers.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up", ff, embd},
    {"gpt_neox.layers.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down", embd, ff},
    {"gpt_neox.final_layer_norm", "output_norm", embd},
    {"embed_out", "output", vocab, embd},
});

constexpr auto kStableLm = join(rows(kEmbedding, kAttnNorm, kQ,
                                     CheckpointTensor{.hf = "model.layers.{}.self_attn.q_layernorm.norms.{}",
                                                      .gguf = "blk.{}.attn_q_norm",
                                                      .rows = head,
                                                      .matrices = n_head,
                                                      .optional = true},
                                     kK,
                                     CheckpointTensor{.hf = "model.layers.{}.self_attn.k_layernorm.norms.{}",
                                                      .gguf = "blk.{}.attn_k_norm",
                                                      .rows = head,
                                                      .matrices = n_group,
                                                      .optional = true},
                                     kV, kOut, optional(kFfnNorm)),
                                kGatedFfn, kEnd);

// Two norms feed the blocks of the larger models, one both blocks of the smaller.
constexpr auto kFalcon = std::to_array<CheckpointTensor>({
    {"transformer.word_embeddings", "token_embd", vocab, embd},
    {"transformer.h.{}.ln_mlp", "blk.{}.attn_norm", embd},
    {"transformer.h.{}.input_layernorm", "blk.{}.attn_norm", embd},
    optional({"transformer.h.{}.ln_attn", "blk.{}.attn_norm_2", embd}),
    {.hf = "transformer.h.{}.self_attention.query_key_value",
     .gguf = "blk.{}.attn_qkv",
     .rows = qkv,
     .cols = embd,
     .order = qkv_by_group},
    {"transformer.h.{}.self_attention.dense", "blk.{}.attn_output", embd, q},
    {"transformer.h.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up", ff, embd},
    {"transformer.h.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down", embd, ff},
    {"transformer.ln_f", "output_norm", embd},
    kHead,
});
constexpr auto kFalconFields =
    std::to_array<FieldName>({{"intermediate_size", "ffn_hidden_size"}, {"num_key_value_heads", "num_kv_heads"}});
constexpr auto kAllHeadsAlike = std::to_array<FieldName>({{"num_key_value_heads", ""}});  // there is no such field
constexpr auto kFalconRequired = std::to_array<ConfigValue>({{"alibi", 0}, {"parallel_attn", 1}});

constexpr auto kStarcoder2 =
    join(rows(kEmbedding), kAttention,
         rows(kFfnNorm, CheckpointTensor{"model.layers.{}.mlp.c_fc", "blk.{}.ffn_up", ff, embd},
              CheckpointTensor{"model.layers.{}.mlp.c_proj", "blk.{}.ffn_down", embd, ff}),
         kEnd);

constexpr auto kCohere = join(rows(kEmbedding, kAttnNorm, kQ,
                                   CheckpointTensor{.hf = "model.layers.{}.self_attn.q_norm",
                                                    .gguf = "blk.{}.attn_q_norm",
                                                    .rows = head,
                                                    .matrices = n_head,
                                                    .optional = true},
                                   kK,
                                   CheckpointTensor{.hf = "model.layers.{}.self_attn.k_norm",
                                                    .gguf = "blk.{}.attn_k_norm",
                                                    .rows = head,
                                                    .matrices = n_group,
                                                    .optional = true},
                                   kV, kOut),
                              kGatedFfn, kEnd);

constexpr auto kPhi = rows(kEmbedding, kAttnNorm, kQ, kK, kV,
                           CheckpointTensor{"model.layers.{}.self_attn.dense", "blk.{}.attn_output", embd, q},
                           CheckpointTensor{"model.layers.{}.mlp.fc1", "blk.{}.ffn_up", ff, embd},
                           CheckpointTensor{"model.layers.{}.mlp.fc2", "blk.{}.ffn_down", embd, ff},
                           CheckpointTensor{"model.final_layernorm", "output_norm", embd}, kHead);
constexpr auto kPhiRequired = std::to_array<ConfigValue>({{"qk_layernorm", 0}});

constexpr auto kNemotron = rows(kEmbedding, plus_one(kAttnNorm), kQ, kK, kV, kOut, plus_one(kFfnNorm), kUp, kDown,
                                plus_one(kFinalNorm), kHead);
constexpr auto kJais2 = join(rows(kEmbedding), kAttention, rows(kFfnNorm, kUp, kDown), kEnd);

constexpr auto kGpt2Defaults =
    std::to_array<ConfigValue>({{"vocab_size", 50257}, {"max_position_embeddings", 1024}, {"norm_eps", 1e-5}});
constexpr auto kStarcoderDefaults = std::to_array<ConfigValue>(
    {{"vocab_size", 50257}, {"max_position_embeddings", 1024}, {"num_key_value_heads", 1}, {"norm_eps", 1e-5}});
constexpr auto kGptNeoxDefaults = std::to_array<ConfigValue>(
    {{"vocab_size", 50432}, {"max_position_embeddings", 2048}, {"norm_eps", 1e-5}, {"use_parallel_residual", 1}});
constexpr auto kStableLmDefaults =
    std::to_array<ConfigValue>({{"vocab_size", 50304}, {"max_position_embeddings", 4096}, {"norm_eps", 1e-5}});
constexpr auto kFalconDefaults =
    std::to_array<ConfigValue>({{"vocab_size", 65024}, {"max_position_embeddings", 2048}, {"norm_eps", 1e-5}});
constexpr auto kStarcoder2Defaults = std::to_array<ConfigValue>(
    {{"vocab_size", 49152}, {"max_position_embeddings", 4096}, {"num_key_value_heads", 2}, {"norm_eps", 1e-5}});
constexpr auto kCohereDefaults = std::to_array<ConfigValue>(
    {{"vocab_size", 256000}, {"max_position_embeddings", 8192}, {"norm_eps", 1e-5}, {"logit_scale", 0.0625}});
constexpr auto kPhiDefaults =
    std::to_array<ConfigValue>({{"vocab_size", 51200}, {"max_position_embeddings", 2048}, {"norm_eps", 1e-5}});
constexpr auto kNemotronDefaults =
    std::to_array<ConfigValue>({{"vocab_size", 256000}, {"max_position_embeddings", 4096}, {"norm_eps", 1e-5}});
constexpr auto kJais2Defaults = std::to_array<ConfigValue>(
    {{"vocab_size", 150272}, {"max_position_embeddings", 8192}, {"head_dim", 128}, {"norm_eps", 1e-5}});

constexpr auto kFamilies = std::to_array<CheckpointFamily>({
    {.hf_class = "GPT2LMHeadModel",
     .architecture = "gpt2",
     .activation = "gelu_new gelu_pytorch_tanh",
     .defaults = kGpt2Defaults,
     .tensors = kGpt2,
     .required = kGpt2Required,
     .fields = kAllHeadsAlike,
     .renames = kGpt2Names,
     .tied = true,
     .parts = kPlainAttention,
     .layer_norm = true,
     .ff_per_embd = 4,
     .pre_names = "gpt-2"},
    {.hf_class = "GPTBigCodeForCausalLM",
     .architecture = "starcoder",
     .activation = "gelu_pytorch_tanh gelu_new",
     .defaults = kStarcoderDefaults,
     .tensors = kStarcoder,
     .required = kStarcoderRequired,
     .renames = kGpt2Names,
     .tied = true,
     .parts = kPlainAttention,
     .layer_norm = true,
     .ff_per_embd = 4,
     .pre_names = "starcoder"},
    {.hf_class = "GPTNeoXForCausalLM",
     .architecture = "gptneox",
     .activation = "gelu",
     .defaults = kGptNeoxDefaults,
     .tensors = kGptNeox,
     .fields = kAllHeadsAlike,
     .layer_norm = true,
     .partial_rotary = 0.25,
     .pre_names = "olmo"},
    {.hf_class = "StableLmForCausalLM",
     .architecture = "stablelm",
     .activation = "silu",
     .defaults = kStableLmDefaults,
     .tensors = kStableLm,
     .layer_norm = true,
     .partial_rotary = 0.25,
     .pre_names = "stablelm2"},
    {.hf_class = "FalconForCausalLM",
     .architecture = "falcon",
     .activation = "gelu",
     .defaults = kFalconDefaults,
     .tensors = kFalcon,
     .required = kFalconRequired,
     .fields = kFalconFields,
     .tied = true,
     .layer_norm = true,
     .ff_per_embd = 4,
     .pre_names = "falcon"},
    {.hf_class = "Starcoder2ForCausalLM",
     .architecture = "starcoder2",
     .activation = "gelu_pytorch_tanh gelu_new",
     .defaults = kStarcoder2Defaults,
     .tensors = kStarcoder2,
     .tied = true,
     .layer_norm = true,
     .windows = Windows::every_layer,
     .pre_names = "starcoder"},
    {.hf_class = "CohereForCausalLM",
     .architecture = "command-r",
     .activation = "silu",
     .defaults = kCohereDefaults,
     .tensors = kCohere,
     .tied = true,
     .layer_norm = true,
     .rope_theta = 5e5,
     .pre_names = "command-r"},
    {.hf_class = "PhiForCausalLM",
     .architecture = "phi2",
     .activation = "gelu_new gelu_pytorch_tanh",
     .defaults = kPhiDefaults,
     .tensors = kPhi,
     .required = kPhiRequired,
     .layer_norm = true,
     .partial_rotary = 0.5,
     .pre_names = "phi-2"},
    {.hf_class = "NemotronForCausalLM",
     .architecture = "nemotron",
     .activation = "relu2",
     .defaults = kNemotronDefaults,
     .tensors = kNemotron,
     .layer_norm = true,
     .partial_rotary = 0.5,
     .pre_names = "default"},
    {.hf_class = "Jais2ForCausalLM",
     .architecture = "jais2",
     .activation = "relu2",
     .defaults = kJais2Defaults,
     .tensors = kJais2,
     .layer_norm = true,
     .pre_names = "jais-2"},
});
}  // namespace

std::span<const CheckpointFamily> classic_families() { return kFamilies; }

}  // namespace tokamak::arch

#include "arch/architectures.h"

#include "arch/adjust.h"

namespace tokamak::arch {

namespace {
constexpr auto kPairs = ir::RopePairing::norm;  // rotates neighbours; the default rotates halves
using enum Act;
using enum NormKind;
using enum Block;
using enum Gating;

constexpr auto kArchitectures = std::to_array<ArchitectureRow>({
    // --- dense ---
    {.name = "llama",
     .models = "Llama 1 to 3, Mistral, Mixtral, SmolLM2",
     .pairing = kPairs,
     .renormalise = true,
     .adjust = adjust_windows},
    {.name = "smollm3", .models = "SmolLM3", .pairing = kPairs, .adjust = adjust_smollm3},
    {.name = "mistral3",
     .models = "Ministral 3, Mistral Small 3",
     .pairing = kPairs,
     .yarn = Yarn::mistral,
     .adjust = adjust_mistral3},
    {.name = "arcee", .models = "AFM", .pairing = kPairs, .act = relu_sqr},
    {.name = "granite", .models = "Granite 3 dense", .pairing = kPairs, .divide_logits = true},
    {.name = "qwen2", .models = "Qwen 2, Qwen 2.5", .adjust = adjust_windows},
    {.name = "qwen3", .models = "Qwen 3 dense", .adjust = adjust_windows},
    {.name = "seed_oss", .models = "Seed-OSS", .ffn_norm = "post_attention_norm"},
    {.name = "olmo2", .models = "OLMo 2, OLMo 3", .block = post, .adjust = adjust_olmo2},
    {.name = "exaone4", .models = "EXAONE 4", .block = post, .adjust = adjust_exaone4},
    {.name = "gemma", .models = "Gemma 1", .act = geglu, .adjust = adjust_gemma},
    {.name = "gemma2", .models = "Gemma 2", .block = sandwich, .act = geglu, .adjust = adjust_gemma2},
    {.name = "gemma3", .models = "Gemma 3 (text)", .block = sandwich, .act = geglu, .adjust = adjust_gemma3},
    {.name = "glm4", .models = "GLM-4-0414", .pairing = kPairs, .block = sandwich},
    {.name = "chatglm", .models = "GLM-4-9B, GLM-Edge", .pairing = kPairs},
    {.name = "ernie4_5", .models = "ERNIE 4.5 dense", .pairing = kPairs},
    {.name = "hunyuan-dense", .models = "Hunyuan dense", .qk_norm_after_rope = true},
    {.name = "phi3", .models = "Phi-3, Phi-4", .adjust = adjust_phi3},
    {.name = "gpt2", .models = "GPT-2", .rope = false, .norm = layer, .act = gelu},
    {.name = "starcoder", .models = "StarCoder, SantaCoder", .rope = false, .norm = layer, .act = gelu},
    {.name = "gptneox", .models = "GPT-NeoX, Pythia", .norm = layer, .act = gelu_erf, .adjust = adjust_gptneox},
    {.name = "stablelm", .models = "StableLM", .norm = layer, .adjust = adjust_stablelm},
    {.name = "falcon", .models = "Falcon", .norm = layer, .act = gelu_erf, .adjust = adjust_parallel},
    {.name = "starcoder2", .models = "StarCoder 2", .norm = layer, .act = gelu},
    {.name = "command-r", .models = "Command R", .pairing = kPairs, .norm = layer, .adjust = adjust_parallel},
    {.name = "phi2", .models = "Phi-1, Phi-2", .norm = layer, .act = gelu, .adjust = adjust_parallel},
    {.name = "nemotron", .models = "Nemotron 4, Minitron", .norm = layer, .act = relu_sqr},
    {.name = "jais2", .models = "Jais 2", .norm = layer, .act = relu_sqr},
    // --- experts ---
    {.name = "qwen2moe", .models = "Qwen 1.5 and 2 MoE"},
    {.name = "qwen3moe", .models = "Qwen 3 MoE", .renormalise = true},
    {.name = "olmoe", .models = "OLMoE"},
    {.name = "gpt-oss",
     .models = "gpt-oss",
     .act = swiglu_oai,
     .ffn_norm = "post_attention_norm",
     .gating = selected_softmax,
     .yarn_round_range = false,
     .adjust = adjust_gpt_oss},
    {.name = "granitemoe",
     .models = "Granite 3 MoE",
     .pairing = kPairs,
     .gating = selected_softmax,
     .divide_logits = true},
    {.name = "ernie4_5-moe", .models = "ERNIE 4.5 MoE", .pairing = kPairs, .renormalise = true},
    {.name = "hunyuan-moe", .models = "Hunyuan A13B", .qk_norm_after_rope = true, .renormalise = true},
    {.name = "dots1", .models = "dots.llm1", .gating = sigmoid, .renormalise = true},
    {.name = "glm4moe", .models = "GLM-4.5", .ffn_norm = "post_attention_norm", .gating = sigmoid, .renormalise = true},
    {.name = "hy_v3", .models = "Hunyuan 3", .gating = sigmoid, .renormalise = true},
    {.name = "minimax-m2", .models = "MiniMax M2", .gating = sigmoid, .renormalise = true},
    {.name = "llama4",
     .models = "Llama 4",
     .pairing = kPairs,
     .gating = sigmoid,
     .weigh_expert_input = true,
     .adjust = adjust_llama4},
    // --- latent attention ---
    {.name = "deepseek2",
     .models = "DeepSeek V2, V3, R1, Kimi K2",
     .pairing = kPairs,
     .mla = true,
     .yarn = Yarn::deepseek,
     .adjust = adjust_deepseek2},
    {.name = "mistral4",
     .models = "Mistral 4",
     .pairing = kPairs,
     .mla = true,
     .yarn = Yarn::deepseek,
     .adjust = adjust_mistral3},
    // --- gated delta nets ---
    {.name = "qwen3next",
     .models = "Qwen3-Next",
     .ffn_norm = "post_attention_norm",
     .gated_attention = true,
     .delta_net = true,
     .grouped_value_heads = true,
     .renormalise = true},
    {.name = "qwen35",
     .models = "Qwen 3.5 dense",
     .ffn_norm = "post_attention_norm",
     .gated_attention = true,
     .delta_net = true},
    {.name = "qwen35moe",
     .models = "Qwen 3.5 MoE",
     .ffn_norm = "post_attention_norm",
     .gated_attention = true,
     .delta_net = true,
     .renormalise = true},
});

constexpr bool names_are_unique() {
  for (size_t i = 0; i < kArchitectures.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (kArchitectures[i].name == kArchitectures[j].name) return false;
  return true;
}
static_assert(names_are_unique());
}  // namespace

std::span<const ArchitectureRow> architectures() { return kArchitectures; }

const ArchitectureRow* find_architecture(std::string_view name) {
  for (const ArchitectureRow& row : kArchitectures)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace tokamak::arch

#include "arch/dummy.h"

#include <algorithm>
#include <charconv>

namespace tokamak::arch {

namespace {
using enum QkNorm;

constexpr std::string_view kOutput = "output.weight", kGate = "ffn_gate.weight",
                           kQkvBias = "attn_q.bias attn_k.bias attn_v.bias",
                           kQkvoBias = "attn_q.bias attn_k.bias attn_v.bias attn_output.bias",
                           kFusedQkv = "attn_qkv.weight", kFfnBias = "ffn_up.bias ffn_down.bias",
                           kNormBias = "attn_norm.bias ffn_norm.bias output_norm.bias",
                           // Of layers with experts:
    kRouter = "ffn_gate_inp.weight", kShared = "ffn_up_shexp.weight ffn_gate_shexp.weight",
                           kGatedShared = "ffn_up_shexp.weight ffn_gate_shexp.weight ffn_gate_inp_shexp.weight",
                           kRankBias = "exp_probs_b.bias";
// Tensors that only layers with experts have.
constexpr std::string_view kExpertMarks[] = {"ffn_gate_inp", "exp_probs_b", "_exps.", "_shexp."};

constexpr DummyKey kHalfRope{"rope.dimension_count", 64};
constexpr DummyKey kWindow{"attention.sliding_window", 16}, kEverySecond{"attention.sliding_window_pattern", 2};
constexpr DummyKey kSharedCount{"expert_shared_count", 1}, kSharedWidth{"expert_shared_feed_forward_length", 192};
constexpr DummyKey kYarn{"rope.scaling.type", "yarn"}, kYarnFactor{"rope.scaling.factor", 4.0},
    kYarnContext{"rope.scaling.original_context_length", 16};
constexpr DummyKey kTemp{"attention.temperature_scale", 0.1};

constexpr DummySizes kMlaSizes{.n_embd = 128, .n_head = 1, .n_ff = 192};
constexpr DummyKey kGraniteKeys[] = {
    {"embedding_scale", 2.0}, {"residual_scale", 0.5}, {"attention.scale", 0.125}, {"logit_scale", 4.0}};

constexpr auto kDummies = std::to_array<DummyRow>({
    // --- dense ---
    {.arch = "llama", .tensors = {kOutput, kGate, "rope_freqs.weight"}},
    {.arch = "smollm3", .tensors = {kGate}},
    {.arch = "mistral3", .tensors = {kOutput, kGate}, .keys = {kYarn, kYarnFactor, kYarnContext, kTemp}},
    {.arch = "arcee", .tensors = {kOutput}, .keys = {kYarn, kYarnFactor, kYarnContext}},
    {.arch = "granite",
     .tensors = {kGate},
     .keys = {kGraniteKeys[0], kGraniteKeys[1], kGraniteKeys[2], kGraniteKeys[3]}},
    {.arch = "qwen2", .tensors = {kOutput, kGate, kQkvBias}},
    {.arch = "qwen3", .tensors = {kOutput, kGate}, .qk_norm = head},
    {.arch = "seed_oss", .tensors = {kOutput, kGate, kQkvBias}},
    {.arch = "olmo2", .tensors = {kOutput, kGate}, .qk_norm = whole, .keys = {kWindow, kEverySecond}},
    {.arch = "exaone4", .tensors = {kOutput, kGate}, .qk_norm = head, .keys = {kWindow, kEverySecond}},
    {.arch = "gemma", .tensors = {kGate}},
    {.arch = "gemma2",
     .tensors = {kGate},
     .keys = {kWindow, {"attn_logit_softcapping", 50.0}, {"final_logit_softcapping", 30.0}}},
    {.arch = "gemma3", .tensors = {kGate}, .qk_norm = head, .keys = {kWindow, kEverySecond}},
    {.arch = "glm4", .tensors = {kOutput, kQkvBias}, .keys = {kHalfRope}},
    {.arch = "chatglm", .tensors = {kOutput, kFusedQkv, "attn_qkv.bias"}, .keys = {kHalfRope}},
    {.arch = "ernie4_5", .tensors = {kGate}},
    {.arch = "hunyuan-dense", .tensors = {kGate}, .qk_norm = head},
    {.arch = "phi3",
     .tensors = {kOutput, kFusedQkv, "rope_factors_long.weight rope_factors_short.weight"},
     .keys = {kHalfRope, {"rope.scaling.type", "longrope"}, {"rope.scaling.original_context_length", 64}}},
    {.arch = "gpt2",
     .tensors = {kFusedQkv, "attn_qkv.bias attn_output.bias position_embd.weight", kFfnBias, kNormBias}},
    {.arch = "starcoder",
     .tensors = {kFusedQkv, "attn_qkv.bias attn_output.bias position_embd.weight", kFfnBias, kNormBias}},
    {.arch = "gptneox",
     .tensors = {kOutput, kFusedQkv, "attn_qkv.bias attn_output.bias", kFfnBias, kNormBias},
     .keys = {kHalfRope, {"use_parallel_residual", false}}},
    {.arch = "stablelm",
     .tensors = {kOutput, kGate, kQkvBias, "ffn_norm.weight", kNormBias},
     .qk_norm = rows,
     .keys = {kHalfRope}},
    {.arch = "falcon", .tensors = {kFusedQkv, "attn_norm.bias attn_norm_2.weight attn_norm_2.bias output_norm.bias"}},
    {.arch = "starcoder2", .tensors = {kQkvoBias, kFfnBias, kNormBias}},
    {.arch = "command-r", .tensors = {kGate}, .keys = {{"logit_scale", 0.0625}}},
    {.arch = "phi2",
     .tensors = {kOutput, "output.bias", kQkvoBias, kFfnBias, "attn_norm.bias output_norm.bias"},
     .keys = {kHalfRope}},
    {.arch = "nemotron", .tensors = {kOutput, kNormBias}, .keys = {kHalfRope}},
    {.arch = "jais2", .tensors = {kOutput, kQkvoBias, kFfnBias, kNormBias}},
    // --- experts ---
    {.arch = "llama", .has_experts = true, .tensors = {kOutput, kRouter}},
    {.arch = "mistral3",
     .has_experts = true,
     .tensors = {kOutput, kRouter},
     .keys = {kYarn, kYarnFactor, kYarnContext, kTemp}},
    {.arch = "granite",
     .has_experts = true,
     .tensors = {kRouter, kShared},
     .keys = {kGraniteKeys[0], kGraniteKeys[1], kGraniteKeys[2], kGraniteKeys[3], kSharedWidth}},
    {.arch = "qwen2moe",
     .has_experts = true,
     .tensors = {kOutput, kRouter, kGatedShared, kQkvBias},
     .keys = {kSharedWidth}},
    {.arch = "qwen3moe", .has_experts = true, .tensors = {kOutput, kRouter}, .qk_norm = head},
    {.arch = "olmoe", .has_experts = true, .tensors = {kOutput, kRouter}, .qk_norm = whole},
    {.arch = "gpt-oss",
     .has_experts = true,
     .tensors = {kOutput, kRouter, kQkvoBias,
                 "attn_sinks.weight ffn_gate_inp.bias ffn_gate_exps.bias ffn_up_exps.bias ffn_down_exps.bias"},
     .keys = {kWindow, kYarn, kYarnFactor, kYarnContext}},
    {.arch = "granitemoe",
     .tensors = {kGate},
     .keys = {kGraniteKeys[0], kGraniteKeys[1], kGraniteKeys[2], kGraniteKeys[3]}},
    {.arch = "granitemoe",
     .has_experts = true,
     .tensors = {kRouter, kShared},
     .keys = {kGraniteKeys[0], kGraniteKeys[1], kGraniteKeys[2], kGraniteKeys[3], kSharedWidth}},
    {.arch = "ernie4_5-moe",
     .has_experts = true,
     .tensors = {kGate, kRouter, kShared, kRankBias},
     .n_dense_layers = 1,
     .keys = {kSharedCount, kSharedWidth}},
    {.arch = "hunyuan-moe",
     .has_experts = true,
     .tensors = {kOutput, kRouter, kShared},
     .qk_norm = head,
     .keys = {kSharedWidth}},
    {.arch = "dots1",
     .has_experts = true,
     .tensors = {kOutput, kGate, kRouter, kShared, kRankBias},
     .qk_norm = head,
     .n_dense_layers = 1,
     .keys = {kSharedCount, {"expert_weights_scale", 2.5}}},
    {.arch = "glm4moe",
     .has_experts = true,
     .tensors = {kOutput, kGate, kRouter, kShared, kRankBias, kQkvBias},
     .qk_norm = head,
     .n_dense_layers = 1,
     .keys = {kSharedCount, kHalfRope}},
    {.arch = "hy_v3",
     .has_experts = true,
     .tensors = {kOutput, kRouter, kShared, kRankBias},
     .qk_norm = head,
     .keys = {kSharedCount, {"expert_weights_scale", 2.5}}},
    {.arch = "minimax-m2",
     .has_experts = true,
     .tensors = {kOutput, kRouter, kRankBias},
     .qk_norm = whole,
     .keys = {kHalfRope}},
    {.arch = "llama4",
     .has_experts = true,
     .sizes = {.n_layer = 4},
     .tensors = {kOutput, kGate, kRouter, kShared},
     .moe_layer_step = 2,
     .keys = {kSharedCount, kWindow, kEverySecond}},
    // --- latent attention ---
    {.arch = "deepseek2",
     .has_experts = true,
     .sizes = kMlaSizes,
     .tensors = {kOutput, kGate, kRouter, kShared, kRankBias},
     .n_dense_layers = 1,
     .keys = {kSharedCount,
              {"expert_gating_func", 2},
              {"expert_weights_norm", true},
              {"expert_weights_scale", 2.5},
              kYarn,
              kYarnFactor,
              kYarnContext,
              {"rope.scaling.yarn_log_multiplier", 0.1}}},
    {.arch = "mistral4",
     .has_experts = true,
     .sizes = kMlaSizes,
     .tensors = {kOutput, kGate, kRouter, kShared},
     .n_dense_layers = 1,
     .keys = {kSharedCount, kYarn, kYarnFactor, kYarnContext, kTemp}},
    // --- gated delta nets ---
    {.arch = "qwen3next",
     .has_experts = true,
     .tensors = {kOutput, kRouter, kGatedShared, "ssm_ba.weight"},
     .qk_norm = head,
     .keys = {kSharedWidth, kHalfRope}},
    {.arch = "qwen35", .tensors = {kOutput, kGate}, .qk_norm = head, .keys = {kHalfRope}},
    {.arch = "qwen35moe",
     .has_experts = true,
     .tensors = {kOutput, kRouter, kGatedShared},
     .qk_norm = head,
     .keys = {kSharedWidth, kHalfRope}},
});

constexpr DummyKey kHeads128[] = {{"attention.key_length", 128}, {"attention.value_length", 128}};
constexpr auto kFullSizes = std::to_array<DummyRow>({
    {.arch = "llama",
     .sizes = {.n_layer = 32,
               .n_embd = 4096,
               .n_head = 32,
               .n_ff = 14336,
               .n_head_kv = 8,
               .n_vocab = 128256,
               .n_ctx = 131072},
     .tensors = {kOutput, kGate},
     .keys = {DummyKey{"rope.freq_base", 500000.0}},
     .full_size = "llama-8b"},
    {.arch = "qwen3moe",
     .has_experts = true,
     .sizes = {.n_layer = 48,
               .n_embd = 2048,
               .n_head = 32,
               .n_ff = 768,
               .n_head_kv = 4,
               .n_vocab = 151936,
               .n_ctx = 40960,
               .n_expert = 128,
               .n_expert_used = 8},
     .tensors = {kOutput, kRouter},
     .qk_norm = head,
     .keys = {kHeads128[0], kHeads128[1], DummyKey{"rope.freq_base", 1000000.0}},
     .full_size = "qwen3moe-30b-a3b"},
});

bool holds_word(std::string_view words, std::string_view word) {
  for (size_t at = words.find(word); at != words.npos; at = words.find(word, at + 1))
    if ((at == 0 || words[at - 1] == ' ') && (at + word.size() == words.size() || words[at + word.size()] == ' '))
      return true;
  return false;
}

// "blk.1.attn_q.bias" -> layer 1, "attn_q.bias"; layer -1 when the tensor is not a layer's.
std::pair<int, std::string_view> split_layer(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  if (!name.starts_with(kBlock)) return {-1, name};
  int layer = -1;
  const auto [end, error] = std::from_chars(name.data() + kBlock.size(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return {-1, name};
  return {layer, name.substr(static_cast<size_t>(end - name.data()) + 1)};
}

bool has_experts_in(const DummyRow& dummy, int layer) {
  return dummy.has_experts && layer >= dummy.n_dense_layers && (layer + 1) % dummy.moe_layer_step == 0;
}

struct Adder {
  GgufWriter& writer;
  std::string prefix;

  void add(std::string_view suffix, bool value) const { writer.add(prefix + std::string(suffix), value); }
  void add(std::string_view suffix, int value) const {
    writer.add(prefix + std::string(suffix), static_cast<uint32_t>(value));
  }
  void add(std::string_view suffix, double value) const {
    writer.add(prefix + std::string(suffix), static_cast<float>(value));
  }
  void add(std::string_view suffix, std::string_view value) const { writer.add(prefix + std::string(suffix), value); }
};

void add_mixer_keys(const Adder& a, const DummyRow& dummy, const ArchitectureRow& family) {
  if (family.mla) {
    constexpr int kLatent = 512, kRotated = 64, kKey = 192, kValue = 128;
    a.add("attention.key_length", kLatent + kRotated);
    a.add("attention.value_length", kLatent);
    a.add("attention.key_length_mla", kKey);
    a.add("attention.value_length_mla", kValue);
    a.add("attention.q_lora_rank", kLatent);
    a.add("attention.kv_lora_rank", kLatent);
    a.add("rope.dimension_count", kRotated);
  }
  if (family.delta_net) {
    a.add("ssm.conv_kernel", 4);
    a.add("ssm.inner_size", 256);
    a.add("ssm.state_size", 128);
    a.add("ssm.time_step_rank", dummy.sizes.n_head);
    a.add("ssm.group_count", 2);
    a.add("full_attention_interval", 2);
  }
}
}  // namespace

std::span<const DummyRow> dummies() { return kDummies; }
std::span<const DummyRow> full_size_dummies() { return kFullSizes; }

const DummyRow* find_dummy(std::string_view arch, bool has_experts) {
  for (const DummyRow& row : kDummies)
    if (row.arch == arch && row.has_experts == has_experts) return &row;
  return nullptr;
}

void add_metadata(GgufWriter& writer, const DummyRow& dummy) {
  const ArchitectureRow* family = find_architecture(dummy.arch);
  CHECK(family != nullptr, dummy.arch);
  writer.add("general.architecture", dummy.arch);
  writer.add("general.name", dummy.name());
  const Adder a{writer, std::string(dummy.arch) + "."};
  a.add("vocab_size", dummy.sizes.n_vocab);
  a.add("context_length", dummy.sizes.n_ctx);
  a.add("block_count", dummy.sizes.n_layer);
  a.add("embedding_length", dummy.sizes.n_embd);
  a.add("feed_forward_length", dummy.sizes.n_ff);
  a.add("attention.head_count", dummy.sizes.n_head);
  a.add("attention.head_count_kv", dummy.sizes.n_head_kv > 0 ? dummy.sizes.n_head_kv : dummy.sizes.n_head);
  const bool is_rms = family->norm == NormKind::rms;
  a.add(is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 1e-5);
  if (dummy.has_experts) {
    a.add("expert_count", dummy.sizes.n_expert);
    a.add("expert_used_count", dummy.sizes.n_expert_used);
    a.add("expert_feed_forward_length", dummy.sizes.n_ff);
    if (dummy.n_dense_layers > 0) a.add("leading_dense_block_count", dummy.n_dense_layers);
    if (dummy.moe_layer_step > 1) a.add("interleave_moe_layer_step", dummy.moe_layer_step);
  }
  add_mixer_keys(a, dummy, *family);
  for (const DummyKey& key : dummy.keys)
    if (!key.suffix.empty()) std::visit([&](auto value) { a.add(key.suffix, value); }, key.value);
  writer.add("tokenizer.ggml.model", "no_vocab");
}

bool has_tensor(const DummyRow& dummy, std::string_view name) {
  const auto [layer, tensor] = split_layer(name);
  if (tensor == "attn_q_norm.weight" || tensor == "attn_k_norm.weight") return dummy.qk_norm != QkNorm::none;
  const bool is_experts =
      std::ranges::any_of(kExpertMarks, [&](std::string_view mark) { return tensor.find(mark) != tensor.npos; });
  if (is_experts && !has_experts_in(dummy, layer)) return false;
  return std::ranges::any_of(dummy.tensors, [&](std::string_view words) { return holds_word(words, tensor); });
}

}  // namespace tokamak::arch

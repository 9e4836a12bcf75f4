// The table of model families. A row, and rarely a block, is all that a new family adds.
#pragma once

#include <array>
#include <string_view>

#include "arch/gating.h"
#include "arch/hparams.h"
#include "ir/builder.h"

namespace tokamak::arch {

enum class NormKind : uint8_t { rms, layer };

// Where a layer's two sub-blocks norm and add. parallel: both read the layer's input (Hparams::parallel, so that a key
// or a missing tensor can decide).
enum class Block : uint8_t {
  pre,       // x += f(norm x)
  post,      // x += norm(f(x))
  sandwich,  // x += norm(f(norm x))
};

// What the feed-forward computes: with a gate matrix or without.
enum class Act : uint8_t { swiglu, geglu, swiglu_oai, gelu, gelu_erf, relu_sqr };

// How cos and sin, and scores, are scaled under YaRN beside rope.scaling.attn_factor; s = factor, k = mscale_all_dim.
enum class Yarn : uint8_t {
  plain,     // cos and sin times 0.1 ln(s) + 1
  mistral,   // divided by 0.1 k ln(s) + 1 besides; k is yarn_log_multiplier
  deepseek,  // cos and sin as they are, scores times (0.1 k ln(s) + 1)^2; yarn_log_multiplier is 0.1 k
};

struct ArchitectureRow {
  std::string_view name;    // GGUF general.architecture; checkpoint_names.h has the Hugging Face classes
  std::string_view models;  // well-known members, for the docs
  ir::RopePairing pairing = ir::RopePairing::neox;
  bool rope = true;
  NormKind norm = NormKind::rms;
  Block block = Block::pre;
  Act act = Act::swiglu;
  std::string_view ffn_norm = "ffn_norm";  // the norm in front of the feed-forward
  bool qk_norm_after_rope = false;
  bool gated_attention = false;      // attn_q holds a query and a gate per head
  bool delta_net = false;            // layers between the attention layers are gated delta nets
  bool grouped_value_heads = false;  // delta net: value head h reads key head h / r instead of h mod n
  bool mla = false;                  // attention over latents (DeepSeek-V2, arXiv:2405.04434), absorbed form
  Gating gating = Gating::softmax;   // without expert_gating_func
  bool renormalise = false;          // without expert_weights_norm
  bool weigh_expert_input = false;   // the router's weight multiplies the expert's input
  Yarn yarn = Yarn::plain;
  bool yarn_round_range = true;
  bool divide_logits = false;                                                // logit_scale is a divisor
  Result<void> (*adjust)(const GgufFile& file, Hparams& hparams) = nullptr;  // what the common keys do not say
};

std::span<const ArchitectureRow> architectures();
const ArchitectureRow* find_architecture(std::string_view name);  // null: unknown

}  // namespace tokamak::arch

// Rows that the tables of checkpoint_dense.cpp and its neighbours share, and their lists.
#pragma once

#include <algorithm>
#include <array>

#include "arch/checkpoint_names.h"

namespace tokamak::arch {

std::span<const CheckpointFamily> dense_families();
std::span<const CheckpointFamily> classic_families();  // dense, with LayerNorm
std::span<const CheckpointFamily> moe_families();
std::span<const CheckpointFamily> latent_families();  // latent attention
std::span<const CheckpointFamily> delta_net_families();

namespace checkpoint {

// One list of several. Layers' rows first, what comes before and behind them where it stands.
template <size_t... N>
constexpr auto join(const std::array<CheckpointTensor, N>&... lists) {
  std::array<CheckpointTensor, (N + ...)> all{};
  auto out = all.begin();
  ((out = std::copy(lists.begin(), lists.end(), out)), ...);
  return all;
}
template <class... Row>
constexpr auto rows(const Row&... row) {
  return std::array<CheckpointTensor, sizeof...(Row)>{row...};
}

// The class's norms compute with 1 + w.
constexpr CheckpointTensor plus_one(CheckpointTensor row) {
  row.change = ValueChange::add_one;
  return row;
}
constexpr CheckpointTensor in_layers(LayerSet layers, CheckpointTensor row) {
  row.layers = layers;
  return row;
}
constexpr CheckpointTensor optional(CheckpointTensor row) {
  row.optional = true;
  return row;
}
constexpr CheckpointTensor pairs(CheckpointTensor row) {
  row.order = WeightOrder::rope_pairs;
  return row;
}
constexpr CheckpointTensor renamed(CheckpointTensor row, std::string_view gguf) {
  row.gguf = gguf;
  return row;
}
template <size_t N>
constexpr auto all_in_layers(LayerSet layers, std::array<CheckpointTensor, N> list) {
  for (CheckpointTensor& row : list) row.layers = layers;
  return list;
}

inline constexpr CheckpointTensor kEmbedding{"model.embed_tokens", "token_embd", Dim::vocab, Dim::embd};
inline constexpr CheckpointTensor kFinalNorm{"model.norm", "output_norm", Dim::embd};
inline constexpr CheckpointTensor kHead{"lm_head", "output", Dim::vocab, Dim::embd};  // absent when tied
inline constexpr CheckpointTensor kAttnNorm{"model.layers.{}.input_layernorm", "blk.{}.attn_norm", Dim::embd};
inline constexpr CheckpointTensor kQ{"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q", Dim::q, Dim::embd};
inline constexpr CheckpointTensor kK{"model.layers.{}.self_attn.k_proj", "blk.{}.attn_k", Dim::kv, Dim::embd};
inline constexpr CheckpointTensor kV{"model.layers.{}.self_attn.v_proj", "blk.{}.attn_v", Dim::kv, Dim::embd};
inline constexpr CheckpointTensor kOut{"model.layers.{}.self_attn.o_proj", "blk.{}.attn_output", Dim::embd, Dim::q};
inline constexpr CheckpointTensor kQNorm{"model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", Dim::head};
inline constexpr CheckpointTensor kKNorm{"model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", Dim::head};
inline constexpr CheckpointTensor kFullQNorm{"model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", Dim::q};
inline constexpr CheckpointTensor kFullKNorm{"model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", Dim::kv};
inline constexpr CheckpointTensor kFfnNorm{"model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", Dim::embd};
// Of files that call the norm before the feed-forward block so.
inline constexpr CheckpointTensor kFfnNormAsPost = renamed(kFfnNorm, "blk.{}.post_attention_norm");
inline constexpr CheckpointTensor kGate{"model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate", Dim::ff, Dim::embd};
inline constexpr CheckpointTensor kUp{"model.layers.{}.mlp.up_proj", "blk.{}.ffn_up", Dim::ff, Dim::embd};
inline constexpr CheckpointTensor kGateUp{"model.layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up", Dim::ff_twice,
                                          Dim::embd};
inline constexpr CheckpointTensor kDown{"model.layers.{}.mlp.down_proj", "blk.{}.ffn_down", Dim::embd, Dim::ff};

inline constexpr auto kPairedAttention = rows(kAttnNorm, pairs(kQ), pairs(kK), kV, kOut);
inline constexpr auto kAttention = rows(kAttnNorm, kQ, kK, kV, kOut);
inline constexpr auto kHeadNormAttention = rows(kAttnNorm, kQ, kQNorm, kK, kKNorm, kV, kOut);
inline constexpr auto kGatedFfn = rows(kGate, kUp, kDown);
inline constexpr auto kEnd = rows(kFinalNorm, kHead);

// Parts of multimodal checkpoints that are not the text model.
inline constexpr auto kMultimodalNames = std::to_array<NameChange>({{"model.language_model.", "model."},
                                                                    {"language_model.model.", "model."},
                                                                    {"language_model.lm_head.", "lm_head."}});
inline constexpr auto kMultimodalParts = std::to_array<std::string_view>(
    {"vision_tower.", "model.vision_tower.", "vision_model.", "model.vision_model.", "visual.", "model.visual.",
     "multi_modal_projector.", "model.multi_modal_projector.", "mtp."});

// The text model's row as the class that adds eyes to it spells it.
constexpr CheckpointFamily multimodal(CheckpointFamily family, std::string_view hf_class) {
  family.hf_class = hf_class;
  family.section = "text_config";
  family.renames = kMultimodalNames;
  family.ignored = kMultimodalParts;
  return family;
}

// Next-token blocks beside the layers.
inline constexpr auto kExtraBlocks = std::to_array<std::string_view>({"mtp.", "model.mtp"});

}  // namespace checkpoint
}  // namespace tokamak::arch

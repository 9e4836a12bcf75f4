// Rows of expert blocks that several tables share.
#pragma once

#include "arch/checkpoint_parts.h"

namespace tokamak::arch::checkpoint {

constexpr CheckpointTensor gate_experts(std::string_view hf) {
  return {
      .hf = hf, .gguf = "blk.{}.ffn_gate_exps", .rows = Dim::expert_ff, .cols = Dim::embd, .matrices = Dim::n_expert};
}
constexpr CheckpointTensor up_experts(std::string_view hf) { return renamed(gate_experts(hf), "blk.{}.ffn_up_exps"); }
constexpr CheckpointTensor down_experts(std::string_view hf) {
  return {
      .hf = hf, .gguf = "blk.{}.ffn_down_exps", .rows = Dim::embd, .cols = Dim::expert_ff, .matrices = Dim::n_expert};
}
// Gate and up in one tensor, gate first.
constexpr CheckpointTensor gate_of_fused(CheckpointTensor experts) {
  experts.rows = Dim::expert_ff_twice;
  experts.order = WeightOrder::first_half;
  return experts;
}
constexpr CheckpointTensor up_of_fused(CheckpointTensor experts) {
  experts.rows = Dim::expert_ff_twice;
  experts.order = WeightOrder::second_half;
  return experts;
}
constexpr CheckpointTensor bare(CheckpointTensor row) {
  row.bare = true;
  return row;
}
constexpr CheckpointTensor router(std::string_view hf) {
  return {.hf = hf, .gguf = "blk.{}.ffn_gate_inp", .rows = Dim::n_expert, .cols = Dim::embd, .is_small = true};
}
// Added to the scores before the experts are chosen.
constexpr CheckpointTensor selection_bias(std::string_view hf) {
  return {.hf = hf, .gguf = "blk.{}.exp_probs_b", .rows = Dim::n_expert, .bare = true, .ending = ".bias"};
}

// Files of some families call it so.
constexpr CheckpointTensor unsuffixed(CheckpointTensor row) {
  row.ending = "";
  return row;
}

// One tensor per expert, or what transformers 5 keeps in memory.
inline constexpr auto kExpertTensors =
    rows(gate_experts("model.layers.{}.mlp.experts.{}.gate_proj"),
         bare(gate_of_fused(gate_experts("model.layers.{}.mlp.experts.gate_up_proj"))),
         up_experts("model.layers.{}.mlp.experts.{}.up_proj"),
         bare(up_of_fused(up_experts("model.layers.{}.mlp.experts.gate_up_proj"))),
         down_experts("model.layers.{}.mlp.experts.{}.down_proj"),
         bare(down_experts("model.layers.{}.mlp.experts.down_proj")));
inline constexpr auto kMixtralExperts = rows(router("model.layers.{}.block_sparse_moe.gate"),
                                             gate_experts("model.layers.{}.block_sparse_moe.experts.{}.w1"),
                                             up_experts("model.layers.{}.block_sparse_moe.experts.{}.w3"),
                                             down_experts("model.layers.{}.block_sparse_moe.experts.{}.w2"));
inline constexpr auto kRouter = rows(router("model.layers.{}.mlp.gate"));

constexpr auto shared_expert(std::string_view gate, std::string_view up, std::string_view down) {
  return rows(CheckpointTensor{gate, "blk.{}.ffn_gate_shexp", Dim::shared_ff, Dim::embd},
              CheckpointTensor{up, "blk.{}.ffn_up_shexp", Dim::shared_ff, Dim::embd},
              CheckpointTensor{down, "blk.{}.ffn_down_shexp", Dim::embd, Dim::shared_ff});
}
inline constexpr auto kSharedExperts =
    shared_expert("model.layers.{}.mlp.shared_experts.gate_proj", "model.layers.{}.mlp.shared_experts.up_proj",
                  "model.layers.{}.mlp.shared_experts.down_proj");
inline constexpr auto kSharedMlp =
    shared_expert("model.layers.{}.mlp.shared_mlp.gate_proj", "model.layers.{}.mlp.shared_mlp.up_proj",
                  "model.layers.{}.mlp.shared_mlp.down_proj");
inline constexpr auto kGatedSharedExpert =
    join(shared_expert("model.layers.{}.mlp.shared_expert.gate_proj", "model.layers.{}.mlp.shared_expert.up_proj",
                       "model.layers.{}.mlp.shared_expert.down_proj"),
         rows(CheckpointTensor{"model.layers.{}.mlp.shared_expert_gate", "blk.{}.ffn_gate_inp_shexp", Dim::embd}));

// The feed-forward blocks of families whose layers are dense or have experts.
inline constexpr auto kDenseLayers = all_in_layers(LayerSet::dense, kGatedFfn);
template <size_t... N>
constexpr auto expert_layers(const std::array<CheckpointTensor, N>&... lists) {
  return all_in_layers(LayerSet::moe, join(lists...));
}

// The width of the experts stands in the field of dense models.
inline constexpr auto kExpertsInDenseField = std::to_array<FieldName>({{"moe_intermediate_size", "intermediate_size"}});

}  // namespace tokamak::arch::checkpoint

// The block library. Blocks take and give f32 [n_tokens, n_embd] values; weights are named as in the file. What a file
// has decides about biases, norms of queries and keys, shared experts and the like.
#pragma once

#include "arch/recipe.h"

namespace tokamak::arch {

// Rows of token_embd, times hp.embedding_scale, plus position_embd where the file has it.
ir::ValueId embed(Recipe& r);

// The family's norm (RMS or layer) times NAME.weight, plus NAME.bias where the file has it, over the last dimension of
// x. The weight is one vector, or one per head: [n_head, head_dim].
ir::ValueId norm(Recipe& r, ir::ValueId x, const std::string& name);

// Rows [begin, end) of a projection whose file tensor holds several; end = -1: all of n_out.
struct LinearRows {
  int64_t n_out = 0, begin = 0, end = -1;
};
// NAME.weight times x [n, n_in], times NAME.scale (one number) and plus NAME.bias where the file has them.
// `what` names the result when NAME is shared.
ir::ValueId linear(Recipe& r, ir::ValueId x, const std::string& name, const LinearRows& rows,
                   const std::string& what = {});
inline ir::ValueId linear(Recipe& r, ir::ValueId x, const std::string& name, int64_t n_out) {
  return linear(r, x, name, LinearRows{.n_out = n_out});
}

// Rotates x [n, n_head, head_dim] by the layer's rope, if it has one.
ir::ValueId rotate(Recipe& r, int64_t layer_idx, ir::ValueId x, const std::string& name);
// Times the factor that grows with the position, in layers that have one.
ir::ValueId grow_with_position(Recipe& r, int64_t layer_idx, ir::ValueId x, const std::string& name);
// A state of the layer's cache.
ir::ValueId kv_state(Recipe& r, int64_t layer_idx, ir::StateRole role, int64_t head_dim);

// The mixer of a layer on normed input, without its output projection: what it gives is [n_tokens, width].
// With no outputs wanted, the last layer only updates its cache or state: nullopt.
std::optional<ir::ValueId> attention(Recipe& r, int64_t layer_idx, ir::ValueId x);
std::optional<ir::ValueId> latent_attention(Recipe& r, int64_t layer_idx, ir::ValueId x);
std::optional<ir::ValueId> delta_net(Recipe& r, int64_t layer_idx, ir::ValueId x);

// The family's activation between PREFIX_gate / PREFIX_up and PREFIX_down; `suffix` is "" or "_shexp".
ir::ValueId feed_forward(Recipe& r, int64_t layer_idx, ir::ValueId x, int64_t n_ff, const std::string& suffix);
// Router, chosen experts, and the shared expert where the file has one.
ir::ValueId experts(Recipe& r, int64_t layer_idx, ir::ValueId x);
// One of the two, by the presence of a router.
ir::ValueId feed_forward_or_experts(Recipe& r, int64_t layer_idx, ir::ValueId x);
// The gated activation of `gate` and `up`.
ir::ValueId gated(Recipe& r, ir::ValueId gate, ir::ValueId up, const std::string& name);
ir::GluParams glu_params(const Hparams& hp);

// In the last layer, keeps the rows whose logits are wanted: the work of all others would be thrown away.
ir::ValueId keep_output_rows(Recipe& r, int64_t layer_idx, ir::ValueId x, std::string_view name);
bool only_updates_state(const Recipe& r, int64_t layer_idx);

// Final norm, output projection (token_embd when tied), scale, softcap; marks the graph's output. With
// ShapeClass::hidden the norm alone.
void head(Recipe& r, ir::ValueId x);

// The whole decoder.
void build_decoder(Recipe& r);

}  // namespace tokamak::arch

// The block library. Blocks take and give f32 [n_tokens, n_embd] values; weights are named as in the file.
#pragma once

#include "arch/recipe.h"

namespace tokamak::arch {

// Rows of token_embd, times hp.embedding_scale.
ir::ValueId embed(Recipe& r);

// RMSNorm times NAME.weight, over the last dimension of x.
ir::ValueId rms_norm(Recipe& r, ir::ValueId x, const std::string& name);

// NAME.weight [n_out, n_in] times x, times NAME.scale where the file has it, plus NAME.bias where the file has it.
ir::ValueId linear(Recipe& r, ir::ValueId x, const std::string& name, int64_t n_out);

// Causal self-attention of a layer on normed input, without the output projection: projections, q and k norms per head
// where the file has them, rope, cache write, attention. [n_tokens, n_head * head_dim_v].
// With no outputs wanted, the last layer only writes its cache: nullopt.
std::optional<ir::ValueId> attention(Recipe& r, int64_t layer_idx, ir::ValueId x);

// act(gate x) * (up x), then down.
ir::ValueId feed_forward(Recipe& r, int64_t layer_idx, ir::ValueId x);

// In the last layer, keeps the rows whose logits are wanted (facts: the work of all others would be thrown away).
ir::ValueId keep_output_rows(Recipe& r, int64_t layer_idx, ir::ValueId x, std::string_view name);

// Final norm, output projection (token_embd when tied), softcap; marks the graph's output.
void head(Recipe& r, ir::ValueId x);

}  // namespace tokamak::arch

#include "arch/blocks.h"

#include "arch/architectures.h"

namespace tokamak::arch {

namespace {
// Projection to heads, [n_tokens, n_head, head_dim], normed per head where the file has weights for it, then rotated.
ir::ValueId heads(Recipe& r, int64_t layer_idx, ir::ValueId projected, std::string_view which, int64_t n_head,
                  int64_t head_dim) {
  const LayerHparams& layer = r.hp.layers[static_cast<size_t>(layer_idx)];
  const std::string name = block_name(layer_idx, "attn_" + std::string(which));
  ir::ValueId x = r.b.reshape(projected, {r.shape.n_tokens, n_head, head_dim}, name + "_heads");
  if (r.has(name + "_norm.weight")) x = rms_norm(r, x, name + "_norm");
  if (!layer.use_rope || layer.rope.n_rot == 0) return x;
  std::optional<ir::ValueId> factors;
  if (r.has("rope_freqs.weight")) factors = r.weight("rope_freqs.weight", {layer.rope.n_rot / 2});
  return r.b.rope(x, r.positions, layer.rope, factors, name + "_rope");
}

bool is_last(const Recipe& r, int64_t layer_idx) { return layer_idx + 1 == r.hp.n_layer; }
}  // namespace

ir::ValueId embed(Recipe& r) {
  const ir::ValueId table = r.weight("token_embd.weight", {r.hp.n_vocab, r.hp.n_embd});
  const ir::ValueId x = r.b.get_rows(table, r.tokens, "embedding");
  return r.hp.embedding_scale == 1 ? x : r.b.scale(x, r.hp.embedding_scale, 0, "embedding_scaled");
}

ir::ValueId rms_norm(Recipe& r, ir::ValueId x, const std::string& name) {
  const ir::ValueId weight = r.weight(name + ".weight", {r.b.shape_of(x).row_elems()});
  return r.b.mul(r.b.rms_norm(x, r.hp.norm_eps, name), weight, name + "_weighted");
}

ir::ValueId linear(Recipe& r, ir::ValueId x, const std::string& name, int64_t n_out) {
  ir::ValueId y = r.b.mul_mat(r.weight(name + ".weight", {n_out, r.b.shape_of(x).row_elems()}), x, name);
  if (const auto factor = r.scalar(name + ".scale")) y = r.b.scale(y, *factor, 0, name + "_scaled");
  if (r.has(name + ".bias")) y = r.b.add(y, r.weight(name + ".bias", {n_out}), name + "_biased");
  return y;
}

std::optional<ir::ValueId> attention(Recipe& r, int64_t layer_idx, ir::ValueId x) {
  const LayerHparams& layer = r.hp.layers[static_cast<size_t>(layer_idx)];
  const bool only_cache = r.shape.n_outputs == 0 && is_last(r, layer_idx);
  const int64_t dk = r.hp.head_dim_k, dv = r.hp.head_dim_v;
  const auto project = [&](std::string_view which, int64_t n_out) {
    return linear(r, x, block_name(layer_idx, which), n_out);
  };
  const ir::ValueId q_projected = only_cache ? ir::kNone : project("attn_q", layer.n_head * dk);
  const ir::ValueId k_projected = project("attn_k", layer.n_head_kv * dk);
  const ir::ValueId v_projected = project("attn_v", layer.n_head_kv * dv);

  const auto cache = [&](ir::StateRole role, int64_t head_dim) {
    return r.b.state(role, static_cast<int32_t>(layer_idx), r.shape.kv_type,
                     {r.shape.n_slots, layer.n_head_kv, head_dim});
  };
  const ir::ValueId q = only_cache ? ir::kNone : heads(r, layer_idx, q_projected, "q", layer.n_head, dk);
  const ir::ValueId k =
      r.b.set_rows(cache(ir::StateRole::kv_k, dk), heads(r, layer_idx, k_projected, "k", layer.n_head_kv, dk), r.slots,
                   block_name(layer_idx, "k_cache"));
  const ir::ValueId v_rows =
      r.b.reshape(v_projected, {r.shape.n_tokens, layer.n_head_kv, dv}, block_name(layer_idx, "attn_v_heads"));
  const ir::ValueId v = r.b.set_rows(cache(ir::StateRole::kv_v, dv), v_rows, r.slots, block_name(layer_idx, "v_cache"));
  if (only_cache) return std::nullopt;
  const ir::AttentionParams params{
      .scale = r.hp.attention_scale, .softcap = r.hp.attention_softcap, .window = layer.window};
  const ir::ValueId mixed =
      r.b.flash_attn_ext(q, k, v, r.positions, r.seq_ids, params, std::nullopt, block_name(layer_idx, "attn"));
  return r.b.reshape(mixed, {r.shape.n_tokens, layer.n_head * dv}, block_name(layer_idx, "attn_mixed"));
}

ir::ValueId feed_forward(Recipe& r, int64_t layer_idx, ir::ValueId x) {
  const int64_t n_ff = r.hp.layers[static_cast<size_t>(layer_idx)].n_ff;
  const ir::ValueId gate = linear(r, x, block_name(layer_idx, "ffn_gate"), n_ff);
  const ir::ValueId up = linear(r, x, block_name(layer_idx, "ffn_up"), n_ff);
  const ir::ValueId mixed = r.b.glu(gate, up, r.hp.family->glu, block_name(layer_idx, "ffn_glu"));
  return linear(r, mixed, block_name(layer_idx, "ffn_down"), r.hp.n_embd);
}

ir::ValueId keep_output_rows(Recipe& r, int64_t layer_idx, ir::ValueId x, std::string_view name) {
  if (!is_last(r, layer_idx) || r.out_rows == ir::kNone) return x;
  return r.b.get_rows(x, r.out_rows, name);
}

void head(Recipe& r, ir::ValueId x) {
  x = rms_norm(r, x, "output_norm");
  const std::string name = r.has("output.weight") ? "output" : "token_embd";
  ir::ValueId logits = linear(r, x, name, r.hp.n_vocab);
  if (const double cap = r.hp.logit_softcap; cap != 0)
    logits = r.b.scale(r.b.unary(r.b.scale(logits, 1 / cap, 0, "logits_scaled"), ir::Unary::tanh, "logits_tanh"), cap,
                       0, "logits_capped");
  r.b.output(logits);
}

}  // namespace tokamak::arch

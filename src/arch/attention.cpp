// Causal self-attention over the paged cache.
#include "arch/architectures.h"
#include "arch/blocks.h"

namespace tokamak::arch {

using ir::ValueId;

namespace {

// A projection to heads: queries, keys or values of a layer.
struct Projection {
  std::string_view which;  // "q", "k", "v"
  int64_t n_head, head_dim;
  int64_t fused_begin, fused_total;  // rows inside attn_qkv, where the file has that
};

// Weights of the norm cover the whole projection, not one head after the other.
bool norms_whole(const Recipe& r, const std::string& name, int64_t n_head, int64_t head_dim) {
  const auto shape = r.shape_of(name + "_norm.weight");
  return shape && n_head > 1 && shape->rank() == 1 && (*shape)[0] == n_head * head_dim;
}

ValueId cut(Recipe& r, ValueId x, const std::string& name) {
  const double limit = r.hp.qkv_clamp;
  return limit == 0 ? x : r.b.clamp(x, -limit, limit, name + "_clamped");
}

// The projection, normed where the norm covers it whole, then cut to the family's range.
ValueId project(Recipe& r, int64_t layer_idx, ValueId x, const Projection& p) {
  const int64_t n_out = p.n_head * p.head_dim;
  const std::string name = block_name(layer_idx, "attn_" + std::string(p.which));
  const std::string fused = block_name(layer_idx, "attn_qkv");
  const bool is_fused = r.has(fused + ".weight");
  const LinearRows rows{.n_out = p.fused_total, .begin = p.fused_begin, .end = p.fused_begin + n_out};
  ValueId y = is_fused ? linear(r, x, fused, rows, name) : linear(r, x, name, n_out);
  if (norms_whole(r, name, p.n_head, p.head_dim)) y = norm(r, y, name + "_norm");
  return cut(r, y, name);
}

// Normed, rotated heads [n_tokens, n_head, head_dim] of a projection that is in heads already or not yet.
ValueId finish_heads(Recipe& r, int64_t layer_idx, ValueId projected, const Projection& p) {
  const std::string name = block_name(layer_idx, "attn_" + std::string(p.which));
  const bool has_norm = r.has(name + "_norm.weight") && !norms_whole(r, name, p.n_head, p.head_dim);
  const bool late = r.hp.family->qk_norm_after_rope;
  ValueId x = projected;
  if (r.b.shape_of(x).rank() == 2) x = r.b.reshape(x, {r.shape.n_tokens, p.n_head, p.head_dim}, name + "_heads");
  if (has_norm && !late) x = norm(r, x, name + "_norm");
  x = rotate(r, layer_idx, x, name + "_rope");
  if (has_norm && late) x = norm(r, x, name + "_norm");
  if (r.hp.layers[static_cast<size_t>(layer_idx)].norm_rotated) x = r.b.rms_norm(x, r.hp.norm_eps, name + "_normed");
  return x;
}

struct Query {
  ValueId q = ir::kNone, gate = ir::kNone;  // [n_tokens, n_head, head_dim]
};

// From the projection, which with gated attention holds the query, then the gate of each head.
Query query(Recipe& r, int64_t layer_idx, ValueId projected, const Projection& p) {
  Query out;
  const std::string name = block_name(layer_idx, "attn_q");
  ValueId q = projected;
  if (r.hp.family->gated_attention) {
    const Shape half{r.shape.n_tokens, p.n_head, p.head_dim};
    const ValueId both = r.b.reshape(projected, {r.shape.n_tokens, p.n_head, 2 * p.head_dim}, name + "_and_gate");
    out.gate = r.b.view(both, p.head_dim, half, name + "_gate");
    q = r.b.view(both, 0, half, name + "_heads");
  }
  out.q = grow_with_position(r, layer_idx, finish_heads(r, layer_idx, q, p), name + "_temp");
  return out;
}

}  // namespace

std::optional<ValueId> attention(Recipe& r, int64_t layer_idx, ValueId x) {
  const LayerHparams& layer = r.hp.layers[static_cast<size_t>(layer_idx)];
  const int64_t dk = r.hp.head_dim_k, dv = r.hp.head_dim_v;
  const int64_t n_q = layer.n_head * dk, n_k = layer.n_head_kv * dk, n_v = layer.n_head_kv * dv;
  const int64_t total = n_q + n_k + n_v;
  const Projection q_rows{"q", layer.n_head, dk, 0, total}, k_rows{"k", layer.n_head_kv, dk, n_q, total},
      v_rows{"v", layer.n_head_kv, dv, n_q + n_k, total};
  const bool only_cache = only_updates_state(r, layer_idx);
  const auto at = [&](std::string_view what) { return block_name(layer_idx, what); };

  // Projections first: they share the input.
  ValueId q_projected = ir::kNone;
  if (!only_cache)
    q_projected = r.hp.family->gated_attention ? linear(r, x, at("attn_q"), 2 * n_q) : project(r, layer_idx, x, q_rows);
  const ValueId k_projected = project(r, layer_idx, x, k_rows), v_projected = project(r, layer_idx, x, v_rows);
  Query query_heads;
  if (!only_cache) query_heads = query(r, layer_idx, q_projected, q_rows);
  const ValueId k = r.b.set_rows(kv_state(r, layer_idx, ir::StateRole::kv_k, dk),
                                 finish_heads(r, layer_idx, k_projected, k_rows), r.slots, at("k_cache"));
  const ValueId v_heads = r.b.reshape(v_projected, {r.shape.n_tokens, layer.n_head_kv, dv}, at("attn_v_heads"));
  const ValueId v = r.b.set_rows(kv_state(r, layer_idx, ir::StateRole::kv_v, dv), v_heads, r.slots, at("v_cache"));
  if (only_cache) return std::nullopt;

  std::optional<ValueId> sinks;
  if (r.has(at("attn_sinks.weight"))) sinks = r.weight(at("attn_sinks.weight"), {layer.n_head});
  const ir::AttentionParams params{
      .scale = r.hp.attention_scale, .softcap = r.hp.attention_softcap, .window = layer.window, .chunk = layer.chunk};
  ValueId mixed = r.b.flash_attn_ext(query_heads.q, k, v, r.positions, r.seq_ids, params, sinks, at("attn"));
  if (query_heads.gate != ir::kNone)
    mixed = r.b.mul(mixed, r.b.unary(query_heads.gate, ir::Unary::sigmoid, at("attn_gate")), at("attn_gated"));
  return r.b.reshape(mixed, {r.shape.n_tokens, layer.n_head * dv}, at("attn_mixed"));
}

// DeepSeek-V2 (arXiv:2405.04434), section 2.1, with the up-projections absorbed into queries and results: keys are
// [latent | rotated], values the latent.
std::optional<ValueId> latent_attention(Recipe& r, int64_t layer_idx, ValueId x) {
  const LayerHparams& layer = r.hp.layers[static_cast<size_t>(layer_idx)];
  const MlaHparams& mla = r.hp.mla;
  const int64_t n = r.shape.n_tokens, n_head = layer.n_head, n_rot = layer.rope.n_rot;
  const auto at = [&](std::string_view what) { return block_name(layer_idx, what); };

  const ValueId compressed = r.b.reshape(linear(r, x, at("attn_kv_a_mqa"), mla.kv_lora_rank + n_rot),
                                         {n, 1, mla.kv_lora_rank + n_rot}, at("attn_kv_a"));
  const ValueId latent =
      norm(r, r.b.view(compressed, 0, {n, 1, mla.kv_lora_rank}, at("attn_kv_latent")), at("attn_kv_a_norm"));
  const ValueId k_rotated =
      rotate(r, layer_idx, r.b.view(compressed, mla.kv_lora_rank, {n, 1, n_rot}, at("attn_k_pe")), at("attn_k_rope"));
  const ValueId k = r.b.set_rows(kv_state(r, layer_idx, ir::StateRole::kv_k, r.hp.head_dim_k),
                                 r.b.concat(latent, k_rotated, at("attn_k")), r.slots, at("k_cache"));
  const ValueId v =
      r.b.set_rows(kv_state(r, layer_idx, ir::StateRole::kv_v, mla.kv_lora_rank), latent, r.slots, at("v_cache"));
  if (only_updates_state(r, layer_idx)) return std::nullopt;

  const int64_t n_q = n_head * (mla.n_nope + n_rot);
  const bool low_rank = mla.q_lora_rank > 0;
  const ValueId projected =
      low_rank
          ? linear(r, norm(r, linear(r, x, at("attn_q_a"), mla.q_lora_rank), at("attn_q_a_norm")), at("attn_q_b"), n_q)
          : linear(r, x, at("attn_q"), n_q);
  const ValueId q_heads = r.b.reshape(projected, {n, n_head, mla.n_nope + n_rot}, at("attn_q_heads"));
  const ValueId q_rotated =
      rotate(r, layer_idx, r.b.view(q_heads, mla.n_nope, {n, n_head, n_rot}, at("attn_q_pe")), at("attn_q_rope"));
  const ValueId absorbed =
      r.b.mul_mat(r.weight(at("attn_k_b.weight"), {n_head, mla.kv_lora_rank, mla.n_nope}),
                  r.b.view(q_heads, 0, {n, n_head, mla.n_nope}, at("attn_q_nope")), at("attn_q_absorbed"));
  const ValueId q =
      grow_with_position(r, layer_idx, r.b.concat(absorbed, q_rotated, at("attn_q_latent")), at("attn_q_temp"));
  const ir::AttentionParams params{
      .scale = r.hp.attention_scale, .softcap = r.hp.attention_softcap, .window = layer.window};
  const ValueId mixed = r.b.flash_attn_ext(q, k, v, r.positions, r.seq_ids, params, std::nullopt, at("attn"));
  const ValueId values =
      r.b.mul_mat(r.weight(at("attn_v_b.weight"), {n_head, mla.head_dim_v, mla.kv_lora_rank}), mixed, at("attn_v_b"));
  return r.b.reshape(values, {n, n_head * mla.head_dim_v}, at("attn_mixed"));
}

}  // namespace tokamak::arch

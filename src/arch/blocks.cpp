#include "arch/blocks.h"

#include "arch/architectures.h"

namespace tokamak::arch {

using ir::ValueId;

ValueId embed(Recipe& r) {
  const ValueId table = r.weight("token_embd.weight", {r.hp.n_vocab, r.hp.n_embd});
  ValueId x = r.b.get_rows(table, r.tokens, "embedding");
  if (r.hp.embedding_scale != 1) x = r.b.scale(x, r.hp.embedding_scale, 0, "embedding_scaled");
  if (!r.has("position_embd.weight")) return x;
  const ValueId positions = r.weight("position_embd.weight", {r.hp.n_ctx_train, r.hp.n_embd});
  return r.b.add(x, r.b.get_rows(positions, r.positions, "position_embedding"), "embedding_positioned");
}

ValueId norm(Recipe& r, ValueId x, const std::string& name) {
  const Shape shape = r.b.shape_of(x);
  const auto in_file = r.shape_of(name + ".weight");
  const bool per_head = in_file && in_file->rank() == 2 && shape.rank() == 3;
  const ValueId weight = r.weight(name + ".weight", per_head ? Shape{shape[1], shape[2]} : Shape{shape.row_elems()});
  const bool is_rms = r.hp.family->norm == NormKind::rms;
  const ValueId normed = is_rms ? r.b.rms_norm(x, r.hp.norm_eps, name) : r.b.norm(x, r.hp.norm_eps, name);
  const ValueId weighted = r.b.mul(normed, weight, name + "_weighted");
  if (!r.has(name + ".bias")) return weighted;
  return r.b.add(weighted, r.weight(name + ".bias", {shape.row_elems()}), name + "_biased");
}

ValueId linear(Recipe& r, ValueId x, const std::string& name, const LinearRows& rows, const std::string& what) {
  const bool all = rows.end < 0;
  const int64_t end = all ? rows.n_out : rows.end;
  const std::string& label = what.empty() ? name : what;
  const Shape whole{rows.n_out, r.b.shape_of(x).row_elems()};
  const ValueId weight =
      all ? r.weight(name + ".weight", whole) : r.weight_rows(name + ".weight", whole, rows.begin, end);
  ValueId y = r.b.mul_mat(weight, x, label);
  if (r.has(name + ".scale")) y = r.b.mul(y, r.weight(name + ".scale", {1}), label + "_scaled");
  if (!r.has(name + ".bias")) return y;
  const ValueId bias =
      all ? r.weight(name + ".bias", {rows.n_out}) : r.weight_rows(name + ".bias", {rows.n_out}, rows.begin, end);
  return r.b.add(y, bias, label + "_biased");
}

ValueId rotate(Recipe& r, int64_t layer_idx, ValueId x, const std::string& name) {
  const LayerHparams& layer = r.hp.layers[static_cast<size_t>(layer_idx)];
  if (!layer.use_rope || layer.rope.n_rot == 0) return x;
  std::optional<ValueId> factors;
  if (r.hp.n_ctx_long > 0)
    factors = r.weight(r.shape.n_ctx > r.hp.n_ctx_long ? "rope_factors_long.weight" : "rope_factors_short.weight",
                       {layer.rope.n_rot / 2});
  else if (r.has("rope_freqs.weight"))
    factors = r.weight("rope_freqs.weight", {layer.rope.n_rot / 2});
  return r.b.rope(x, r.positions, layer.rope, factors, name);
}

ValueId grow_with_position(Recipe& r, int64_t layer_idx, ValueId x, const std::string& name) {
  if (!r.hp.layers[static_cast<size_t>(layer_idx)].use_temp) return x;
  return r.b.attn_temp(x, r.positions, r.hp.temp, name);
}

ValueId kv_state(Recipe& r, int64_t layer_idx, ir::StateRole role, int64_t head_dim) {
  const int64_t n_head_kv = r.hp.layers[static_cast<size_t>(layer_idx)].n_head_kv;
  return r.b.state(role, static_cast<int32_t>(layer_idx), r.shape.kv_type, {r.shape.n_slots, n_head_kv, head_dim});
}

namespace {
bool is_last(const Recipe& r, int64_t layer_idx) { return layer_idx + 1 == r.hp.n_layer; }
}  // namespace

ValueId keep_output_rows(Recipe& r, int64_t layer_idx, ValueId x, std::string_view name) {
  if (!is_last(r, layer_idx) || r.out_rows == ir::kNone) return x;
  return r.b.get_rows(x, r.out_rows, name);
}

bool only_updates_state(const Recipe& r, int64_t layer_idx) { return r.shape.n_outputs == 0 && is_last(r, layer_idx); }

void head(Recipe& r, ValueId x) {
  x = norm(r, x, "output_norm");
  if (r.shape.hidden) {
    r.b.output(x);
    return;
  }
  const std::string name = r.has("output.weight") ? "output" : "token_embd";
  ValueId logits = linear(r, x, name, r.hp.n_vocab);
  if (r.hp.logit_scale != 1) logits = r.b.scale(logits, r.hp.logit_scale, 0, "logits_rescaled");
  if (const double cap = r.hp.logit_softcap; cap != 0)
    logits = r.b.scale(r.b.unary(r.b.scale(logits, 1 / cap, 0, "logits_scaled"), ir::Unary::tanh, "logits_tanh"), cap,
                       0, "logits_capped");
  r.b.output(logits);
}

}  // namespace tokamak::arch

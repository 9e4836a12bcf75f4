// Dense feed-forward and mixtures of experts.
#include <limits>

#include "arch/architectures.h"
#include "arch/blocks.h"

namespace tokamak::arch {

using ir::ValueId;

namespace {

// gpt-oss: constants of its activation.
constexpr double kOaiAlpha = 1.702, kOaiLimit = 7;

bool has_gate(Act act) { return act == Act::swiglu || act == Act::geglu || act == Act::swiglu_oai; }

ValueId activation(Recipe& r, ValueId x, const std::string& name) {
  switch (r.hp.family->act) {
    case Act::gelu:
      return r.b.unary(x, ir::Unary::gelu, name);
    case Act::gelu_erf:
      return r.b.unary(x, ir::Unary::gelu_erf, name);
    default:
      return r.b.unary(r.b.unary(x, ir::Unary::relu, name + "_relu"), ir::Unary::sqr, name);
  }
}

}  // namespace

ir::GluParams glu_params(const Hparams& hp) {
  switch (hp.family->act) {
    case Act::geglu:
      return {.kind = ir::Glu::geglu};
    case Act::swiglu_oai:
      return {.kind = ir::Glu::swiglu_oai, .alpha = kOaiAlpha, .limit = kOaiLimit};
    default:
      return {.kind = ir::Glu::swiglu};
  }
}

ValueId gated(Recipe& r, ValueId gate, ValueId up, const std::string& name) {
  return r.b.glu(gate, up, glu_params(r.hp), name);
}

ValueId feed_forward(Recipe& r, int64_t layer_idx, ValueId x, int64_t n_ff, const std::string& suffix) {
  const auto at = [&](std::string_view what) { return block_name(layer_idx, std::string(what) + suffix); };
  ValueId inner;
  if (!has_gate(r.hp.family->act)) {
    inner = activation(r, linear(r, x, at("ffn_up"), n_ff), at("ffn_act"));
  } else if (r.has(at("ffn_gate") + ".weight")) {
    const ValueId gate = linear(r, x, at("ffn_gate"), n_ff);
    inner = gated(r, gate, linear(r, x, at("ffn_up"), n_ff), at("ffn_glu"));
  } else {  // ffn_up holds the rows of the gate, then those of up
    const ValueId gate = linear(r, x, at("ffn_up"), {.n_out = 2 * n_ff, .begin = 0, .end = n_ff}, at("ffn_gate"));
    const ValueId up = linear(r, x, at("ffn_up"), {.n_out = 2 * n_ff, .begin = n_ff, .end = 2 * n_ff});
    inner = gated(r, gate, up, at("ffn_glu"));
  }
  return linear(r, inner, at("ffn_down"), r.hp.n_embd);
}

namespace {

struct Routing {
  ValueId ids;      // i32 [n, n_used]
  ValueId weights;  // [n, n_used, 1]
};

struct Experts {
  Recipe& r;
  int64_t layer_idx;
  int64_t n;  // tokens
  const MoeHparams& moe = r.hp.moe;

  std::string at(std::string_view what) const { return block_name(layer_idx, what); }

  ValueId scores(ValueId logits) const {
    switch (moe.gating) {
      case Gating::softmax:
        return r.b.soft_max(logits, at("ffn_moe_probs"));
      case Gating::sigmoid:
        return r.b.unary(logits, ir::Unary::sigmoid, at("ffn_moe_probs"));
      case Gating::sqrt_softplus:
        return r.b.unary(r.b.unary(logits, ir::Unary::softplus, at("ffn_moe_softplus")), ir::Unary::sqrt,
                         at("ffn_moe_probs"));
      case Gating::selected_softmax:
      case Gating::none:
        break;
    }
    return logits;
  }

  // What experts are ranked by: scores plus a bias that does not enter their weights; the best groups only.
  ValueId ranking(ValueId scores) const {
    for (const char* name : {"exp_probs_b.bias", "exp_probs_b"})
      if (r.has(at(name))) {
        scores = r.b.add(scores, r.weight(at(name), {moe.n_expert}), at("ffn_moe_probs_biased"));
        break;
      }
    if (moe.n_group <= 1 || moe.n_group_used >= moe.n_group) return scores;
    return r.b.mask_groups(scores, moe.n_group, moe.n_group_used, moe.n_group_best, at("ffn_moe_groups"));
  }

  Routing route(ValueId x) const {
    constexpr double kSmallestSum = 1e-20;
    const ValueId probs = scores(linear(r, x, at("ffn_gate_inp"), moe.n_expert));
    // Views of the scores come before the sort: inside the group of a rule they would show something from outside.
    const ValueId table = r.b.reshape(probs, {n, moe.n_expert, 1}, at("ffn_moe_table"));
    const ValueId sorted = r.b.argsort(ranking(probs), at("ffn_moe_sorted"));
    const ValueId ids = r.b.view(sorted, 0, {n, moe.n_used}, at("ffn_moe_ids"));
    const ValueId chosen = r.b.get_rows(table, ids, at("ffn_moe_chosen"));
    ValueId weights = r.b.reshape(chosen, {n, moe.n_used});
    if (moe.gating == Gating::selected_softmax) {
      weights = r.b.soft_max(weights, at("ffn_moe_weights"));
    } else if (moe.renormalise) {
      const ValueId sum = r.b.clamp(r.b.sum_rows(weights, at("ffn_moe_weights_sum")), kSmallestSum,
                                    std::numeric_limits<float>::max(), at("ffn_moe_weights_sum_clamped"));
      weights = r.b.div(weights, sum, at("ffn_moe_weights"));
    }
    if (moe.weights_scale != 1) weights = r.b.scale(weights, moe.weights_scale, 0, at("ffn_moe_weights_scaled"));
    return {ids, r.b.reshape(weights, {n, moe.n_used, 1})};
  }

  // NAME.weight [n_expert, n_out, n_in] of the chosen experts, times NAME.scale, plus NAME.bias of each.
  ValueId linear_id(ValueId x, ValueId ids, const std::string& name, int64_t n_out) const {
    const int64_t n_in = r.b.shape_of(x).row_elems();
    ValueId y = r.b.mul_mat_id(r.weight(name + ".weight", {moe.n_expert, n_out, n_in}), x, ids, name);
    if (r.has(name + ".scale")) {
      const ValueId scales = r.weight_as(name + ".scale", {moe.n_expert}, {moe.n_expert, 1});
      y = r.b.mul(y, r.b.get_rows(scales, ids, name + "_scales"), name + "_scaled");
    }
    if (r.has(name + ".bias"))
      y = r.b.add_id(y, r.weight(name + ".bias", {moe.n_expert, n_out}), ids, name + "_biased");
    return y;
  }

  ValueId inner(ValueId x, ValueId ids) const {
    if (!has_gate(r.hp.family->act))
      return activation(r, linear_id(x, ids, at("ffn_up_exps"), moe.n_ff), at("ffn_moe_act"));
    if (r.has(at("ffn_gate_up_exps.weight")))
      return r.b.glu_halves(linear_id(x, ids, at("ffn_gate_up_exps"), 2 * moe.n_ff), glu_params(r.hp),
                            at("ffn_moe_glu"));
    const ValueId gate = linear_id(x, ids, at("ffn_gate_exps"), moe.n_ff);
    return gated(r, gate, linear_id(x, ids, at("ffn_up_exps"), moe.n_ff), at("ffn_moe_glu"));
  }

  // Sum over the chosen experts, [n, n_used, n_embd] -> [n, n_embd].
  ValueId sum(ValueId y) const {
    const int64_t n_embd = r.hp.n_embd;
    const ValueId flat = r.b.reshape(y, {n, moe.n_used * n_embd}, at("ffn_moe_flat"));
    ValueId total = moe.n_used == 1 ? flat : r.b.view(flat, 0, {n, n_embd}, at("ffn_moe_part_0"));
    for (int64_t i = 1; i < moe.n_used; ++i)
      total = r.b.add(total, r.b.view(flat, i * n_embd, {n, n_embd}), at("ffn_moe_sum_" + std::to_string(i)));
    return total;
  }

  ValueId run(ValueId x) const {
    const Routing routing = route(x);
    ValueId input = r.b.reshape(x, {n, 1, r.hp.n_embd}, at("ffn_moe_in"));
    const bool weigh_input = r.hp.family->weigh_expert_input;
    if (weigh_input) input = r.b.mul(input, routing.weights, at("ffn_moe_in_weighted"));
    const ValueId y = linear_id(inner(input, routing.ids), routing.ids, at("ffn_down_exps"), r.hp.n_embd);
    return sum(weigh_input ? y : r.b.mul(y, routing.weights, at("ffn_moe_weighted")));
  }

  // The expert that is always on, with its own gate or without.
  ValueId shared(ValueId x) const {
    const ValueId y = feed_forward(r, layer_idx, x, moe.n_ff_shared, "_shexp");
    if (!r.has(at("ffn_gate_inp_shexp.weight"))) return y;
    const ValueId weight = r.weight_as(at("ffn_gate_inp_shexp.weight"), {r.hp.n_embd}, {1, r.hp.n_embd});
    const ValueId gate =
        r.b.unary(r.b.mul_mat(weight, x, at("ffn_gate_inp_shexp")), ir::Unary::sigmoid, at("ffn_shexp_gate"));
    return r.b.mul(y, gate, at("ffn_shexp_gated"));
  }
};

}  // namespace

ValueId experts(Recipe& r, int64_t layer_idx, ValueId x) {
  const Experts e{r, layer_idx, r.b.shape_of(x)[0]};
  if (!r.has(e.at("ffn_up_shexp.weight"))) return e.run(x);
  const ValueId shared = e.shared(x);  // first: what is added to the experts' sum stands right behind it
  return r.b.add(e.run(x), shared, e.at("ffn_moe_and_shared"));
}

ValueId feed_forward_or_experts(Recipe& r, int64_t layer_idx, ValueId x) {
  if (r.hp.moe.n_expert > 0 && r.has(block_name(layer_idx, "ffn_gate_inp.weight"))) return experts(r, layer_idx, x);
  return feed_forward(r, layer_idx, x, r.hp.layers[static_cast<size_t>(layer_idx)].n_ff, "");
}

}  // namespace tokamak::arch

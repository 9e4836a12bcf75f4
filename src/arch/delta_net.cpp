// Gated delta net: a convolution, then a linear recurrence with decay and delta rule instead of attention.
// Source: Yang, Kautz, Hatamizadeh 2024 (arXiv:2412.06464), as in Qwen3-Next.
#include <cmath>

#include "arch/architectures.h"
#include "arch/blocks.h"

namespace tokamak::arch {

using ir::ValueId;

namespace {

constexpr double kL2Eps = 1e-6;

struct DeltaNet {
  Recipe& r;
  int64_t layer_idx;
  const DeltaNetHparams& net = r.hp.delta_net;
  int64_t n = r.shape.n_tokens;
  int64_t n_qk = net.n_head_k * net.head_dim_k, n_v = net.n_head_v * net.head_dim_v;

  std::string at(std::string_view what) const { return block_name(layer_idx, what); }
  ValueId state(ir::StateRole role, int64_t elems) const {
    return r.b.state(role, static_cast<int32_t>(layer_idx), DType::f32, {r.shape.n_state_rows, elems});
  }

  // silu(convolution of the projected x); keeps the last inputs.
  ValueId convolved(ValueId x) const {
    const ValueId projected = linear(r, x, at("attn_qkv"), net.n_channels());
    const ValueId before = state(ir::StateRole::conv, net.conv_elems());
    const ValueId weight = r.weight(at("ssm_conv1d.weight"), {net.n_channels(), net.n_conv});
    ValueId y = r.b.ssm_conv(projected, weight, before, r.recurrent, at("ssm_conv"));
    if (r.has(at("ssm_conv1d.bias")))
      y = r.b.add(y, r.weight(at("ssm_conv1d.bias"), {net.n_channels()}), at("ssm_conv_biased"));
    y = r.b.unary(y, ir::Unary::silu, at("ssm_conv_silu"));
    const ValueId last = r.b.ssm_conv_state(projected, before, r.recurrent, at("ssm_conv_last"));
    r.b.cpy(before, last, r.recurrent.state_rows, at("conv_state"));
    return y;
  }

  // Columns [begin, begin + n_head * head_dim) as heads.
  ValueId heads(ValueId x, int64_t begin, int64_t n_head, int64_t head_dim, const std::string& name) const {
    const ValueId slice = r.b.cont(r.b.view(x, begin, {n, n_head * head_dim}), name);
    return r.b.reshape(slice, {n, n_head, head_dim}, name + "_heads");
  }

  struct Gates {
    ValueId strength, decay;  // beta in 0..1, g <= 0; [n, n_head_v]
  };
  // One tensor holds, per key head, r values of beta, then r of alpha; or there are two tensors.
  Gates gates(ValueId x) const {
    const int64_t per_head = net.n_head_v / net.n_head_k;
    const bool fused = r.has(at("ssm_ba.weight"));
    const Shape shape = fused ? Shape{net.n_head_k, per_head} : Shape{net.n_head_v};
    ValueId beta, alpha;
    if (fused) {
      const ValueId both = r.b.reshape(linear(r, x, at("ssm_ba"), 2 * net.n_head_v), {n, net.n_head_k, 2 * per_head});
      beta = r.b.view(both, 0, {n, net.n_head_k, per_head}, at("ssm_beta"));
      alpha = r.b.view(both, per_head, {n, net.n_head_k, per_head}, at("ssm_alpha"));
    } else {
      beta = linear(r, x, at("ssm_beta"), net.n_head_v);
      alpha = linear(r, x, at("ssm_alpha"), net.n_head_v);
    }
    const Shape in_file{net.n_head_v};
    ValueId decay = r.b.add(alpha, r.weight_as(at("ssm_dt.bias"), in_file, shape), at("ssm_dt"));
    decay = r.b.mul(r.b.unary(decay, ir::Unary::softplus, at("ssm_dt_softplus")),
                    r.weight_as(at("ssm_a"), in_file, shape), at("ssm_g"));
    return {.strength = r.b.reshape(r.b.unary(beta, ir::Unary::sigmoid, at("ssm_beta_sigmoid")), {n, net.n_head_v}),
            .decay = r.b.reshape(decay, {n, net.n_head_v})};
  }

  // y [n, n_head_v, head_dim_v]; keeps the states.
  ValueId recurrence(ValueId q, ValueId k, ValueId v, const Gates& g) const {
    const ValueId before = state(ir::StateRole::recurrent, net.state_elems());
    const double scale = 1 / std::sqrt(static_cast<double>(net.head_dim_k));
    const ir::HeadMap map = r.hp.family->grouped_value_heads ? ir::HeadMap::grouped : ir::HeadMap::tiled;
    const ValueId both =
        r.b.gated_delta_net(q, k, v, g.decay, g.strength, before, r.recurrent, scale, map, at("delta_net"));
    const int64_t n_states = r.shape.n_seqs * r.shape.n_snapshots;
    const ValueId states = r.b.view(both, n * n_v, {n_states * net.state_elems()}, at("delta_net_states"));
    r.b.cpy(before, r.b.reshape(states, {n_states, net.state_elems()}), r.recurrent.state_rows, at("delta_net_state"));
    return r.b.reshape(r.b.view(both, 0, {n * n_v}), {n, net.n_head_v, net.head_dim_v}, at("delta_net_y"));
  }
};

}  // namespace

std::optional<ValueId> delta_net(Recipe& r, int64_t layer_idx, ValueId x) {
  const DeltaNet d{r, layer_idx};
  const ValueId gate = only_updates_state(r, layer_idx) ? ir::kNone : linear(r, x, d.at("attn_gate"), d.n_v);
  const DeltaNet::Gates gates = d.gates(x);
  const ValueId mixed = d.convolved(x);
  const ValueId q = r.b.l2_norm(d.heads(mixed, 0, d.net.n_head_k, d.net.head_dim_k, d.at("ssm_q")), kL2Eps);
  const ValueId k = r.b.l2_norm(d.heads(mixed, d.n_qk, d.net.n_head_k, d.net.head_dim_k, d.at("ssm_k")), kL2Eps);
  const ValueId v = d.heads(mixed, 2 * d.n_qk, d.net.n_head_v, d.net.head_dim_v, d.at("ssm_v"));
  const ValueId y = d.recurrence(q, k, v, gates);
  if (gate == ir::kNone) return std::nullopt;
  const ValueId gate_heads = r.b.reshape(gate, {d.n, d.net.n_head_v, d.net.head_dim_v}, d.at("ssm_gate_heads"));
  const ValueId normed = norm(r, y, d.at("ssm_norm"));
  const ValueId gated = r.b.mul(normed, r.b.unary(gate_heads, ir::Unary::silu, d.at("ssm_gate")), d.at("ssm_gated"));
  return r.b.reshape(gated, {d.n, d.n_v}, d.at("ssm_mixed"));
}

}  // namespace tokamak::arch

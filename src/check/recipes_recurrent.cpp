// Convolutions and delta nets, alone and with the writes of their states.
#include <fmt/format.h>

#include "check/recipes.h"

namespace tokamak::check {

using fuse::RuleId;
using ir::ValueId;

namespace {

const std::vector<Sequence> kBatches[] = {
    {{1, 0}}, {{1, 9}}, {{2, 4}}, {{7, 3}}, {{33, 0}}, {{70, 5}}, {{1, 3}, {1, 0}, {1, 8}}, {{5, 2}, {12, 0}, {2, 6}}};

std::string batch_text(const std::vector<Sequence>& batch) {
  std::string out;
  for (const Sequence& s : batch)
    out += fmt::format("{}{}{}", out.empty() ? "" : ",", s.n_tokens, s.n_past > 0 ? "+" : "");
  return out;
}

struct ConvCase {
  int64_t n_channels, taps, n_snapshots;
};
constexpr ConvCase kConvs[] = {{8, 4, 1}, {37, 4, 2}, {64, 3, 4}, {100, 2, 1}};

void add_conv(std::vector<Recipe>& out) {
  for (const ConvCase& v : kConvs)
    for (const auto& batch : kBatches)
      for (Layout layout : {Layout::whole, Layout::slice}) {
        const std::string variant = fmt::format("channels={} taps={} batch={} layout={}", v.n_channels, v.taps,
                                                batch_text(batch), layout == Layout::slice ? "slice" : "whole");
        const auto state = [=](CaseBuilder& c) {
          return c.state(ir::StateRole::conv, (v.taps - 1) * v.n_channels, v.n_snapshots);
        };
        out.push_back({.subject = "SSM_CONV",
                       .variant = variant,
                       .build =
                           [=](CaseBuilder& c) {
                             const ValueId taps = c.weight(DType::f32, {v.n_channels, v.taps});
                             const ValueId x = c.tensor({v.n_channels}, {}, layout);
                             c.b.output(c.b.ssm_conv(x, taps, state(c), c.recurrent(v.n_snapshots)));
                           },
                       .sequences = batch});
        out.push_back({.subject = "SSM_CONV_STATE",
                       .variant = fmt::format("{} snapshots={}", variant, v.n_snapshots),
                       .build =
                           [=](CaseBuilder& c) {
                             const ValueId x = c.tensor({v.n_channels}, {}, layout);
                             c.b.output(c.b.ssm_conv_state(x, state(c), c.recurrent(v.n_snapshots)));
                           },
                       .sequences = batch});
      }
}

void add_conv_rules(std::vector<Recipe>& out) {
  for (const ConvCase& v : kConvs)
    for (const auto& batch : kBatches) {
      for (bool bias : {false, true})
        out.push_back({.subject = bias ? "SSM_CONV+ADD+SILU" : "SSM_CONV+SILU",
                       .variant = fmt::format("channels={} taps={} batch={}", v.n_channels, v.taps, batch_text(batch)),
                       .build =
                           [=](CaseBuilder& c) {
                             const ValueId taps = c.weight(DType::f32, {v.n_channels, v.taps});
                             const ValueId state = c.state(ir::StateRole::conv, (v.taps - 1) * v.n_channels, 1);
                             ValueId y = c.b.ssm_conv(c.tensor({v.n_channels}), taps, state, c.recurrent(1));
                             if (bias) y = c.b.add(y, c.weight(DType::f32, {v.n_channels}));
                             c.b.output(c.b.unary(y, ir::Unary::silu));
                           },
                       .sequences = batch,
                       .rule = RuleId::ssm_conv_silu});
      for (bool in_place : {false, true}) {
        if (in_place && v.n_snapshots > 1) continue;
        out.push_back({.subject = "SSM_CONV_STATE+CPY",
                       .variant = fmt::format("channels={} taps={} snapshots={} batch={} in_place={}", v.n_channels,
                                              v.taps, v.n_snapshots, batch_text(batch), in_place ? 1 : 0),
                       .build =
                           [=](CaseBuilder& c) {
                             c.states_in_place = in_place;
                             const ValueId state =
                                 c.state(ir::StateRole::conv, (v.taps - 1) * v.n_channels, v.n_snapshots);
                             const ir::RecurrentInputs in = c.recurrent(v.n_snapshots);
                             c.b.cpy(state, c.b.ssm_conv_state(c.tensor({v.n_channels}), state, in), in.state_rows);
                           },
                       .sequences = batch,
                       .rule = RuleId::ssm_conv_state_cpy});
      }
    }
}

void add_cpy(std::vector<Recipe>& out) {
  for (int64_t n_snapshots : {1, 3})
    for (int64_t width : {5, 64})
      out.push_back({.subject = "CPY",
                     .variant = fmt::format("snapshots={} width={}", n_snapshots, width),
                     .build =
                         [=](CaseBuilder& c) {
                           const ValueId state = c.state(ir::StateRole::recurrent, width, n_snapshots);
                           // n_tokens rows, as many as there are states to write.
                           c.b.cpy(state, c.tensor({width}), c.recurrent(n_snapshots).state_rows);
                         },
                     .sequences = std::vector<Sequence>(2, {.n_tokens = n_snapshots, .n_past = 1})});
}

struct NetCase {
  int64_t hk, hv, dk, dv, n_snapshots;
  bool per_channel = false;
  ir::HeadMap head_map = ir::HeadMap::tiled;
  Range g = {-20, -1e-4}, v = {-0.3, 5};  // published
  bool in_place = false;
};
constexpr NetCase kNets[] = {{2, 2, 16, 16, 1},
                             {2, 4, 32, 32, 2},
                             {2, 4, 32, 24, 3, false, ir::HeadMap::grouped},
                             {2, 2, 33, 17, 1, true},
                             {1, 3, 64, 64, 4, true, ir::HeadMap::tiled, {-1, -1e-3}},
                             {2, 2, 128, 128, 1, false, ir::HeadMap::tiled, {-0.1, -1e-4}},
                             {2, 4, 64, 64, 1, false, ir::HeadMap::grouped, {-2, -1e-3}, {-1, 1}, true}};

// y and, in a state of its own or returned, the states.
void build_net(CaseBuilder& c, const NetCase& n, bool write) {
  c.states_in_place = n.in_place;
  const ValueId q = c.b.l2_norm(c.tensor({n.hk, n.dk}), 1e-6), k = c.b.l2_norm(c.tensor({n.hk, n.dk}), 1e-6);
  const ValueId v = c.tensor({n.hv, n.dv}, n.v);
  const ValueId g = n.per_channel ? c.tensor({n.hv, n.dk}, n.g) : c.tensor({n.hv}, n.g);
  const ValueId beta = c.tensor({n.hv}, {0, 1});
  const int64_t n_state = n.hv * n.dv * n.dk, n_y = c.n_tokens * n.hv * n.dv, n_rows = c.n_seqs * n.n_snapshots;
  const ValueId state = c.state(ir::StateRole::recurrent, n_state, n.n_snapshots);
  const ir::RecurrentInputs in = c.recurrent(n.n_snapshots);
  const ValueId net =
      c.b.gated_delta_net(q, k, v, g, beta, state, in, 1 / std::sqrt(static_cast<double>(n.dk)), n.head_map);
  if (!write) return c.b.output(net);
  const ValueId states = c.b.reshape(c.b.view(net, n_y, {n_rows * n_state}), {n_rows, n_state});
  c.b.cpy(state, states, in.state_rows);
  c.b.output(c.b.scale(c.b.view(net, 0, {n_y}), 2));
}

std::string net_text(const NetCase& n) {
  return fmt::format("heads={}/{} dims={},{} K={} gate={} map={} g={}{}", n.hv, n.hk, n.dk, n.dv, n.n_snapshots,
                     n.per_channel ? "channel" : "head", ir::kHeadMaps[static_cast<size_t>(n.head_map)], n.g.low,
                     n.in_place ? " in_place" : "");
}

void add_nets(std::vector<Recipe>& out) {
  for (const NetCase& n : kNets)
    for (const auto& batch : kBatches)
      for (bool write : {false, true}) {
        Recipe recipe{.subject = write ? "GATED_DELTA_NET+CPY" : "GATED_DELTA_NET",
                      .variant = net_text(n) + " batch=" + batch_text(batch),
                      .build = [=](CaseBuilder& c) { build_net(c, n, write); },
                      .sequences = batch};
        if (write) recipe.rule = RuleId::gated_delta_net_cpy;
        out.push_back(std::move(recipe));
      }
}

// The cases that ggml publishes for this fusion: (heads, size, tokens, sequences, K), from a state of zeros.
void add_published_nets(std::vector<Recipe>& out) {
  struct Published {
    int64_t heads, size, tokens, seqs, K;
  };
  for (const Published& p :
       {Published{4, 32, 2, 1, 2}, {4, 64, 4, 1, 2}, {4, 32, 4, 1, 4}, {8, 32, 4, 2, 4}, {4, 32, 8, 1, 4}})
    out.push_back({.subject = "GATED_DELTA_NET+CPY",
                   .variant = fmt::format("published heads={} size={} tokens={} seqs={} K={}", p.heads, p.size,
                                          p.tokens, p.seqs, p.K),
                   .build =
                       [=](CaseBuilder& c) {
                         build_net(c, {p.heads, p.heads, p.size, p.size, p.K}, true);
                       },
                   .sequences = std::vector<Sequence>(static_cast<size_t>(p.seqs), {.n_tokens = p.tokens, .n_past = 0}),
                   .rule = RuleId::gated_delta_net_cpy});
}

}  // namespace

void add_recurrent_recipes(std::vector<Recipe>& out) {
  add_conv(out);
  add_cpy(out);
  add_nets(out);
  add_conv_rules(out);
  add_published_nets(out);
}

}  // namespace tokamak::check

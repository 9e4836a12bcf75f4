// Ops with recurrent state.
#include <fmt/format.h>

#include "backend/cuda/lower.h"
#include "backend/cuda/ops/recurrent.h"
#include "base/check.h"

namespace tokamak::cuda {

namespace {
using ir::Attr;

// The state that an operand is (before or after a write), and which rows of it the sequences of the step start from.
struct Sequences {
  SequenceArgs args;
  Address state_src, seq_ids, run_begin, run_end;
  Address out_rows;  // of fused writes

  SequenceArgs bind(const RunContext& c) const {
    SequenceArgs a = args;
    a.state_src = c.at<int32_t>(state_src);
    a.seq_ids = c.at<int32_t>(seq_ids);
    a.run_begin = c.at<int32_t>(run_begin);
    a.run_end = c.at<int32_t>(run_end);
    a.out_rows = c.at<int32_t>(out_rows);
    return a;
  }
};
float* states_of(const Lowering& l, ir::ValueId id) {
  const ir::Value& value = l.value(id);
  return l.kv.states(value.state_role, value.layer_idx);
}
// The CPY that writes what nodes[0] makes, or null.
const ir::Node* write_of(const Lowering& l, Nodes nodes) {
  return nodes.size() > 1 ? &l.graph.node(nodes[1]) : nullptr;
}
// Operands from `state_idx` on: state, state_src, seq_ids.
Sequences sequences_of(const Lowering& l, const ir::Node& node, size_t state_idx, const ir::Node* write = nullptr) {
  const ir::Value &state = l.value(node.inputs[state_idx]), &seq_ids = l.value(node.inputs[state_idx + 2]);
  Sequences out{.args = {.states = states_of(l, node.inputs[state_idx]),
                         .state_elems = state.shape[1],
                         .n_seqs = l.value(node.inputs[state_idx + 1]).shape[0],
                         .n_tokens = seq_ids.shape[0]},
                .state_src = l.indices(node.inputs[state_idx + 1]),
                .seq_ids = l.indices(node.inputs[state_idx + 2]),
                .run_begin = InputLayout::at(l.inputs.run_begin),
                .run_end = InputLayout::at(l.inputs.run_end)};
  if (node.attrs.has(Attr::n_snapshots)) out.args.n_snapshots = node.attrs.integer(Attr::n_snapshots);
  if (write) out.out_rows = l.indices(write->inputs[2]);
  return out;
}
// Each sequence writes its own snapshots, to rows of which StepInputs says that no other sequence starts from them.
bool writes_by_sequence(const ir::Graph& graph, ir::ValueId state_src, const ir::Node& write) {
  const ir::Value &src = graph.value(state_src), &rows = graph.value(write.inputs[2]);
  return src.input_role == ir::InputRole::state_src && rows.input_role == ir::InputRole::state_rows &&
         src.shape == rows.shape;
}

// SSM_CONV (+ADD)(+SILU).
void add_conv(Lowering& l, const ir::Node& conv, const ir::Node* bias, bool silu, ir::ValueId result) {
  const Sequences seqs = sequences_of(l, conv, 2);
  const Rows x = l.rows(conv.inputs[0]), weight = l.rows(conv.inputs[1]), y = l.rows(result);
  const Address addend = bias ? l.rows(bias->inputs[1]).address : Address{};
  l.add("ssm_conv_f32", [=](const RunContext& c) {
    return launch_ssm_conv({.seqs = seqs.bind(c),
                            .x = c.at(x.address),
                            .weight = c.at(weight.address),
                            .bias = c.at(addend),
                            .y = c.at(y.address),
                            .silu = silu,
                            .x_stride = x.stride_elems,
                            .weight_stride = weight.stride_elems,
                            .y_stride = y.stride_elems,
                            .n_channels = weight.n_rows,
                            .taps = weight.n},
                           c.stream);
  });
}
Result<void> lower_ssm_conv(Lowering& l, Nodes nodes) {
  const ir::Node& conv = l.graph.node(nodes[0]);
  add_conv(l, conv, nullptr, false, conv.output);
  return {};
}
Result<void> lower_ssm_conv_silu(Lowering& l, Nodes nodes) {
  const ir::Node* bias = nodes[1] == ir::kNone ? nullptr : &l.graph.node(nodes[1]);
  add_conv(l, l.graph.node(nodes[0]), bias, true, l.graph.node(nodes[2]).output);
  return {};
}

// SSM_CONV_STATE, SSM_CONV_STATE+CPY.
Result<void> lower_ssm_conv_state(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const ir::Node* write = write_of(l, nodes);
  const Sequences seqs = sequences_of(l, node, 1, write);
  const int64_t state_elems = seqs.args.state_elems;
  const Rows x = l.rows(node.inputs[0]);
  const Rows y = write ? Rows{.address = Address::of(seqs.args.states), .n = state_elems, .stride_elems = state_elems}
                       : l.rows(node.output);
  l.add("ssm_conv_state", [=](const RunContext& c) {
    return launch_ssm_conv_state({.seqs = seqs.bind(c),
                                  .x = c.at(x.address),
                                  .y = c.at(y.address),
                                  .x_stride = x.stride_elems,
                                  .y_stride = y.stride_elems,
                                  .n_channels = x.n,
                                  .n_before = y.n / x.n},
                                 c.stream);
  });
  return {};
}

bool supports_conv_state_write(const ir::Graph& graph, Nodes nodes) {
  return writes_by_sequence(graph, graph.node(nodes[0]).inputs[2], graph.node(nodes[1]));
}

std::string beyond_gated_delta_net(const ir::Graph& graph, const ir::Node& node) {
  const int64_t n_dims = graph.value(node.inputs[1]).shape[2];
  return n_dims <= kMaxDeltaDims ? "" : fmt::format("keys of {} dimensions", n_dims);
}

// GATED_DELTA_NET, GATED_DELTA_NET+CPY.
Result<void> lower_gated_delta_net(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const ir::Node* write = write_of(l, nodes);
  const ir::Value &k = l.value(node.inputs[1]), &v = l.value(node.inputs[2]), &g = l.value(node.inputs[3]);
  CHECK(k.shape[2] <= kMaxDeltaDims, node.name, k.shape[2]);
  const Sequences seqs = sequences_of(l, node, 5, write);
  std::array<Rows, 5> in;
  for (size_t i = 0; i < in.size(); ++i) in[i] = l.rows(node.inputs[i]);
  const Address y = l.rows_or_region(node.output).address;
  float* const written = write ? states_of(l, write->inputs[0]) : nullptr;
  const DeltaNetArgs args{.q_stride = in[0].stride_elems,
                          .k_stride = in[1].stride_elems,
                          .v_stride = in[2].stride_elems,
                          .g_stride = in[3].stride_elems,
                          .beta_stride = in[4].stride_elems,
                          .n_head_k = k.shape[1],
                          .n_head_v = v.shape[1],
                          .dk = k.shape[2],
                          .dv = v.shape[2],
                          .grouped = node.attrs.keyword<ir::HeadMap>(Attr::head_map) == ir::HeadMap::grouped,
                          .gate_per_channel = g.shape.rank() == 3,
                          .scale = static_cast<float>(node.attrs.number(Attr::scale))};
  const int64_t n_y = v.shape.n_elements();
  StepReport& report = l.add("gated_delta_net_f32", [=](const RunContext& c) {
    DeltaNetArgs a = args;
    a.seqs = seqs.bind(c);
    a.q = c.at(in[0].address);
    a.k = c.at(in[1].address);
    a.v = c.at(in[2].address);
    a.g = c.at(in[3].address);
    a.beta = c.at(in[4].address);
    a.y = c.at(y);
    a.out = written ? written : a.y + n_y;  // kept, or behind y
    return launch_delta_net(a, c.stream);
  });
  // CPY takes no second pass over the states.
  if (write) report.bytes -= 2.0 * sizeof(float) * static_cast<double>(l.value(write->inputs[1]).shape.n_elements());
  return {};
}
bool supports_delta_net_write(const ir::Graph& graph, Nodes nodes) {
  return writes_by_sequence(graph, graph.node(nodes[0]).inputs[6], graph.node(nodes[1]));
}

Result<void> lower_cpy(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const Rows x = l.rows(node.inputs[1]);
  float* const states = states_of(l, node.inputs[0]);
  const Address rows = l.indices(node.inputs[2]);
  const int64_t row_elems = l.value(node.inputs[0]).shape[1];
  const int64_t n_snapshots = x.n_rows / l.value(node.inputs[2]).shape[0];
  CHECK(row_elems == x.n, row_elems, x.n);
  l.add("copy_state", [=](const RunContext& c) {
    return launch_state_copy({.x = c.at(x.address),
                              .states = states,
                              .first_rows = c.at<int32_t>(rows),
                              .x_stride = x.stride_elems,
                              .n_rows = x.n_rows,
                              .row_elems = row_elems,
                              .n_snapshots = n_snapshots},
                             c.stream);
  });
  return {};
}
}  // namespace

std::span<const OpLowering> recurrent_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::ssm_conv, lower_ssm_conv},
      {ir::Op::ssm_conv_state, lower_ssm_conv_state},
      {ir::Op::gated_delta_net, lower_gated_delta_net, beyond_gated_delta_net},
      {ir::Op::cpy, lower_cpy},
  });
  return kRows;
}

std::span<const RuleLowering> recurrent_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::ssm_conv_silu, nullptr, lower_ssm_conv_silu},
      {fuse::RuleId::ssm_conv_state_cpy, supports_conv_state_write, lower_ssm_conv_state},
      {fuse::RuleId::gated_delta_net_cpy, supports_delta_net_write, lower_gated_delta_net},
  });
  return kRows;
}

}  // namespace tokamak::cuda

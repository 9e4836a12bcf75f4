// Ops with recurrent state, and their fusions with the writes of it.
#include <algorithm>

#include "backend/cpu/lower_ops.h"
#include "base/round_up.h"
#include "ir/limits.h"

namespace tokamak::cpu {

namespace {
using ir::Attr;

// The state that an operand is (before or after a write).
struct StateRef {
  float* data = nullptr;
  int64_t elems = 0;  // of one row
};
StateRef state_of(Lowering& l, ir::ValueId id) {
  const ir::Value& value = l.value(id);
  return {.data = l.kv.states(value.state_role, value.layer_idx), .elems = value.shape[1]};
}

// Whether a state row that a sequence starts from is written in the same step: by another sequence, or (own) by any.
bool reads_written_row(const StepInputs& in, int64_t n_snapshots, bool own) {
  for (size_t reader = 0; reader < in.state_src.size(); ++reader)
    for (size_t writer = 0; writer < in.state_rows.size(); ++writer) {
      const int64_t snapshot = int64_t{in.state_src[reader]} - in.state_rows[writer];
      if (in.state_src[reader] >= 0 && snapshot >= 0 && snapshot < n_snapshots && (own || reader != writer))
        return true;
    }
  return false;
}

// A kernel over blocks of a state, each for all sequences of the step.
template <class Args>
struct RecurrentStep : Step {
  Kernel<Args> kernel = nullptr;
  Args args;
  std::vector<Operand> operands;  // [0] is the result, unless the state is
  void (*bind)(Args& args, const Pointers& pointers) = nullptr;
  const CpuKv* kv = nullptr;
  Ref starts;  // where rows that are both read and written are kept
  bool writes_state = false;
  bool own_start_needed = false;  // also where a sequence overwrites its own start

  void run(const RunContext& c, int thread_idx, int n_threads) const override {
    const WorkRange items = split_range(n_split, thread_idx, n_threads);
    if (items.begin == items.end) return;
    Args bound = args;
    bind(bound, Pointers{operands, c});
    RecurrentArgs& seqs = bound.seqs;
    seqs.runs = kv->runs().data();
    seqs.state_src = c.inputs.state_src.data();
    if (writes_state) {
      seqs.out_rows = c.inputs.state_rows.data();
      if (reads_written_row(c.inputs, seqs.n_snapshots, own_start_needed)) seqs.starts = c.f32(starts);
    }
    kernel(bound, items.begin, items.end);
  }
};

// What all recurrent steps need: `state` is read; written when `write` is there.
template <class Args>
void set_up(Lowering& l, RecurrentStep<Args>& step, const ir::Node& node, size_t state_idx, const ir::Node* write) {
  const StateRef state = state_of(l, node.inputs[state_idx]);
  RecurrentArgs& seqs = step.args.seqs;
  seqs.n_seqs = l.value(node.inputs[state_idx + 1]).shape[0];
  seqs.states = state.data;
  seqs.state_elems = state.elems;
  if (node.attrs.has(Attr::n_snapshots)) seqs.n_snapshots = node.attrs.integer(Attr::n_snapshots);
  step.kv = &l.kv;
  step.reads_cache = true;
  if (write == nullptr) return;
  step.writes_state = step.writes_cache = true;
  seqs.out = state.data;
}

// SSM_CONV (+ADD)(+SILU).
struct ConvStep : RecurrentStep<SsmConvArgs> {
  std::vector<float> weight;  // [taps][n_channels]
};
std::vector<float> transposed(const Operand& weight) {
  const Rows& w = weight.rows;
  std::vector<float> out(static_cast<size_t>(w.total()));
  for (int64_t c = 0; c < w.n_rows; ++c)
    for (int64_t j = 0; j < w.n; ++j)
      out[static_cast<size_t>(j * w.n_rows + c)] = weight.constant[c * w.stride_elems + j];
  return out;
}

void add_conv(Lowering& l, const ir::Node& conv, const ir::Node* bias, bool silu, ir::ValueId result) {
  auto& step = l.add<ConvStep>("ssm_conv_f32");
  step.kernel = op_set(l.isa).ssm_conv;
  set_up(l, step, conv, 2, nullptr);
  const Operand weight = operand(l, conv.inputs[1]);
  CHECK(weight.constant != nullptr);
  step.weight = transposed(weight);
  step.operands = {operand(l, result), operand(l, conv.inputs[0])};
  step.args.n_channels = weight.rows.n_rows;
  step.args.taps = weight.rows.n;
  step.args.weight = step.weight.data();
  step.args.silu = silu;
  if (bias != nullptr) step.args.bias = operand(l, bias->inputs[1]).constant;
  step.args.x_stride = step.operands[1].rows.stride_elems;
  step.args.y_stride = step.operands[0].rows.stride_elems;
  step.bind = [](SsmConvArgs& args, const Pointers& p) {
    args.y = p[0];
    args.x = p[1];
  };
  step.n_split = div_round_up(step.args.n_channels, kConvBlock);
  set_accesses(step);
}
void lower_ssm_conv(Lowering& l, Nodes nodes) {
  const ir::Node& conv = l.graph.node(nodes[0]);
  add_conv(l, conv, nullptr, false, conv.output);
}
void lower_ssm_conv_silu(Lowering& l, Nodes nodes) {
  add_conv(l, l.graph.node(nodes[0]), nodes[1] == ir::kNone ? nullptr : &l.graph.node(nodes[1]), true,
           l.graph.node(nodes[2]).output);
}

// SSM_CONV_STATE, SSM_CONV_STATE+CPY.
void lower_ssm_conv_state(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const ir::Node* write = nodes.size() > 1 ? &l.graph.node(nodes[1]) : nullptr;
  auto& step = l.add<RecurrentStep<ConvStateArgs>>("ssm_conv_state");
  step.kernel = op_set(l.isa).ssm_conv_state;
  set_up(l, step, node, 1, write);
  step.own_start_needed = true;
  if (write) step.starts = l.conv_starts(step.args.seqs.n_seqs * step.args.seqs.state_elems);
  step.operands = {write ? Operand{} : operand(l, node.output), operand(l, node.inputs[0])};
  const Rows& x = step.operands[1].rows;
  step.args.n_channels = x.n;
  step.args.n_before = step.args.seqs.state_elems / x.n;
  step.args.x_stride = x.stride_elems;
  step.bind = [](ConvStateArgs& args, const Pointers& p) {
    if (args.seqs.out == nullptr) args.seqs.out = p[0];
    args.x = p[1];
  };
  step.n_split = div_round_up(x.n, kConvBlock);
  step.writes.push_back(step.starts);
  set_accesses(step);
}

// GATED_DELTA_NET, GATED_DELTA_NET+CPY.
void lower_gated_delta_net(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const ir::Node* write = nodes.size() > 1 ? &l.graph.node(nodes[1]) : nullptr;
  const ir::Value &k = l.value(node.inputs[1]), &v = l.value(node.inputs[2]), &g = l.value(node.inputs[3]);
  CHECK(k.shape[2] <= ir::kMaxHeadDim, k.shape[2]);
  auto& step = l.add<RecurrentStep<DeltaNetArgs>>("gated_delta_net_f32");
  step.kernel = op_set(l.isa).gated_delta_net;
  set_up(l, step, node, 5, write);
  step.operands = {{.rows = l.rows_or_region(node.output)}};
  for (size_t i = 0; i < 5; ++i) step.operands.push_back(operand(l, node.inputs[i]));
  // Behind y there is room for the states, which the fused kernel writes elsewhere.
  step.starts = step.operands[0].rows.ref.after(v.shape.n_elements());
  DeltaNetArgs& a = step.args;
  a.n_head_k = k.shape[1], a.n_head_v = v.shape[1], a.dk = k.shape[2], a.dv = v.shape[2];
  a.grouped = node.attrs.keyword<ir::HeadMap>(Attr::head_map) == ir::HeadMap::grouped;
  a.gate_per_channel = g.shape.rank() == 3;
  a.scale = static_cast<float>(node.attrs.number(Attr::scale));
  int64_t* const strides[] = {&a.q_stride, &a.k_stride, &a.v_stride, &a.g_stride, &a.beta_stride};
  for (size_t i = 0; i < 5; ++i) *strides[i] = step.operands[i + 1].rows.stride_elems;
  step.bind = [](DeltaNetArgs& args, const Pointers& p) {
    args.y = p[0];
    if (args.seqs.out == nullptr) args.seqs.out = p[0] + p.operands[3].rows.n_rows * args.dv;  // behind y
    args.q = p[1];
    args.k = p[2];
    args.v = p[3];
    args.g = p[4];
    args.beta = p[5];
  };
  step.n_split = a.n_head_v * div_round_up(a.dv, kDeltaBlock);
  // CPY takes no second pass over the states.
  if (write)
    step.report.bytes -= 2.0 * sizeof(float) * static_cast<double>(l.value(write->inputs[1]).shape.n_elements());
  set_accesses(step);
}

// CPY of states that a step has left in memory.
struct StateCopyStep : Step {
  StateRef state;
  Operand x;
  int64_t n_snapshots = 1;
  ir::InputRole rows = ir::InputRole::state_rows;

  void run(const RunContext& c, int thread_idx, int n_threads) const override {
    const WorkRange blocks = split_range(n_split, thread_idx, n_threads);
    const int64_t begin = blocks.begin * kBlock, end = std::min(blocks.end * kBlock, state.elems);
    if (begin >= end) return;
    const float* from = x.constant ? x.constant : c.f32(x.rows.ref);
    const std::span<const int32_t> first_rows = input_of(c.inputs, rows);
    for (int64_t r = 0; r < x.rows.n_rows; ++r) {
      const int64_t row = first_rows[static_cast<size_t>(r / n_snapshots)] + r % n_snapshots;
      std::copy(from + r * x.rows.stride_elems + begin, from + r * x.rows.stride_elems + end,
                state.data + row * state.elems + begin);
    }
  }
  static constexpr int64_t kBlock = 1024;
};

void lower_cpy(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  auto& step = l.add<StateCopyStep>("copy_state");
  step.state = state_of(l, node.inputs[0]);
  step.x = operand(l, node.inputs[1]);
  step.rows = l.value(node.inputs[2]).input_role;
  step.n_snapshots = step.x.rows.n_rows / l.value(node.inputs[2]).shape[0];
  step.n_split = div_round_up(step.state.elems, StateCopyStep::kBlock);
  step.reads = {step.x.rows.ref};
  step.writes_cache = true;
}
}  // namespace

std::span<const OpLowering> recurrent_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::ssm_conv, lower_ssm_conv},
      {ir::Op::ssm_conv_state, lower_ssm_conv_state},
      {ir::Op::gated_delta_net, lower_gated_delta_net},
      {ir::Op::cpy, lower_cpy},
  });
  return kRows;
}

std::span<const RuleLowering> recurrent_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::ssm_conv_silu, nullptr, lower_ssm_conv_silu},
      {fuse::RuleId::ssm_conv_state_cpy, nullptr, lower_ssm_conv_state},
      {fuse::RuleId::gated_delta_net_cpy, nullptr, lower_gated_delta_net},
  });
  return kRows;
}

}  // namespace tokamak::cpu

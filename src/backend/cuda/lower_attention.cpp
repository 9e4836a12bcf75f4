// ROPE, cache writes and attention, and the fusions around them.
#include "backend/cuda/lower.h"
#include "backend/cuda/ops/attention.h"
#include "backend/rope_frequencies.h"
#include "base/check.h"
#include "base/round_up.h"

namespace tokamak::cuda {

namespace {
using ir::Attr;

bool is_neox(const ir::Node& rope) {
  return rope.attrs.keyword<ir::RopePairing>(Attr::pairing) == ir::RopePairing::neox;
}

RopeFrequencyParams frequency_params(const ir::Attrs& attrs) {
  return {.n_rot = attrs.integer(Attr::n_rot),
          .theta = attrs.number(Attr::theta),
          .freq_scale = attrs.number(Attr::freq_scale),
          .ext_factor = attrs.number(Attr::ext_factor),
          .beta_fast = attrs.number(Attr::beta_fast),
          .beta_slow = attrs.number(Attr::beta_slow),
          .n_ctx_orig = attrs.integer(Attr::n_ctx_orig),
          .round_range = attrs.integer(Attr::round_range) != 0};
}

// The table of cosines and sines that `rope` needs; the step that fills it is added at its first use.
Result<Address> rope_table(Lowering& l, const ir::Node& rope) {
  const ir::ValueId factors = rope.inputs.size() > 2 ? rope.inputs[2] : ir::kNone;
  for (const Lowering::RopeUse& use : l.rope_tables)
    if (use.factors == factors && use.attrs == rope.attrs) return use.table;
  std::span<const float> factor_values;
  if (factors != ir::kNone) factor_values = l.weights.at(l.value(factors).name).host_values;
  const std::vector<double> frequencies = rope_frequencies(frequency_params(rope.attrs), factor_values);
  const Address constants = TRY(l.constant(std::as_bytes(std::span(frequencies)))),
                positions = l.indices(rope.inputs[1]);
  const RopeTableArgs args{.attn_factor = rope.attrs.number(Attr::attn_factor),
                           .neox = is_neox(rope),
                           .n_rot = rope.attrs.integer(Attr::n_rot),
                           .n_tokens = l.value(rope.inputs[1]).shape[0]};
  const Address table = l.floats(args.n_tokens * 2 * args.n_rot);
  StepReport& report = l.add("rope_table", [=](const RunContext& c) {
    RopeTableArgs a = args;
    a.frequencies = c.at<double>(constants);
    a.positions = c.at<int32_t>(positions);
    a.rows = c.at(table);
    return launch_rope_table(a, c.stream);
  });
  report.what = "angles of all layers alike";
  report.label = "rope table";
  report.operations = 0;
  report.bytes = static_cast<double>(args.n_tokens * 2 * args.n_rot) * sizeof(float);
  l.rope_tables.push_back({.factors = factors, .attrs = rope.attrs, .table = table});
  return table;
}

// Arguments and addresses of a kernel over heads, from the input on.
struct Heads {
  HeadArgs args;
  Address x, norm_weight, table, y, slots;

  cudaError_t launch(const RunContext& c) const {
    HeadArgs a = args;
    a.x = c.at(x);
    a.norm_weight = c.at(norm_weight);
    a.table = c.at(table);
    a.y = c.at(y);
    a.slots = c.at<int32_t>(slots);
    return launch_heads(a, c.stream);
  }
};

// RMS_NORM+MUL in front and the rotation, where `nodes` have them; `input` is [n_tokens, n_head, head_dim].
Result<Heads> heads_of(Lowering& l, Nodes nodes, ir::ValueId input) {
  const ir::Value& value = l.value(input);
  const Rows x = l.rows(input);
  Heads heads{.args = {.x_stride = value.shape[1] * x.stride_elems,
                       .x_head_stride = x.stride_elems,
                       .n_tokens = value.shape[0],
                       .n_head = value.shape[1],
                       .head_dim = value.shape[2]},
              .x = x.address};
  if (const ir::Node& norm = l.graph.node(nodes[0]); norm.op == ir::Op::rms_norm) {
    const ir::Node& mul = l.graph.node(nodes[1]);
    const auto other = static_cast<size_t>(fuse::other_operand(l.graph, mul, norm.output));
    heads.norm_weight = l.rows(mul.inputs[other]).address;
    heads.args.eps = static_cast<float>(norm.attrs.number(Attr::eps));
  }
  for (ir::NodeId id : nodes) {
    const ir::Node& rope = l.graph.node(id);
    if (rope.op != ir::Op::rope) continue;
    heads.table = TRY(rope_table(l, rope));
    heads.args.neox = is_neox(rope);
    heads.args.n_rot = rope.attrs.integer(Attr::n_rot);
  }
  return heads;
}

// ROPE, RMS_NORM+MUL+ROPE.
Result<void> lower_rope(Lowering& l, Nodes nodes) {
  Heads heads = TRY(heads_of(l, nodes, l.graph.node(nodes[0]).inputs[0]));
  heads.y = l.rows(l.graph.node(nodes.back()).output).address;
  l.add("rope_f32", [heads](const RunContext& c) { return heads.launch(c); });
  return {};
}

// SET_ROWS, ROPE+SET_ROWS, RMS_NORM+MUL+ROPE+SET_ROWS.
Result<void> lower_set_rows(Lowering& l, Nodes nodes) {
  const ir::Node& write = l.graph.node(nodes.back());
  const ir::Value& cache = l.value(write.inputs[0]);
  Heads heads = TRY(heads_of(l, nodes, nodes.size() == 1 ? write.inputs[1] : l.graph.node(nodes[0]).inputs[0]));
  heads.args.cache =
      cache.state_role == ir::StateRole::kv_k ? l.kv.keys(cache.layer_idx) : l.kv.values(cache.layer_idx);
  heads.args.cache_type = l.kv.type();
  heads.slots = l.indices(write.inputs[2]);
  l.add("kv_write", [heads](const RunContext& c) { return heads.launch(c); });
  return {};
}

bool supports_head_norm(const ir::Graph& graph, Nodes nodes) {
  const ir::Node& norm = graph.node(nodes[0]);
  const int other = fuse::other_operand(graph, graph.node(nodes[1]), norm.output);
  if (other < 0) return false;
  const ir::Value& weight = graph.value(graph.node(nodes[1]).inputs[static_cast<size_t>(other)]);
  const ir::Value &x = graph.value(norm.inputs[0]), &y = graph.value(graph.node(nodes[2]).output);
  return weight.kind == ir::ValueKind::weight && weight.shape.n_elements() == x.shape.row_elems() && x.shape == y.shape;
}

// With few tokens, every chunk of keys gets a block of its own; more chunks than this are walked by one.
constexpr int64_t kMaxSplitTokens = 8, kMaxSplitChunks = 1024;

struct Attention {
  AttentionArgs args;
  Address q, y, positions, seq_ids, page_begin, n_keys, pages, sinks, partials;
  int64_t max_chunks = 0;  // that partials have room for

  bool is_split(const RunContext& c) const { return c.n_key_chunks > 1 && c.n_key_chunks <= max_chunks; }
  AttentionArgs bind(const RunContext& c) const {
    AttentionArgs a = args;
    a.q = c.at(q);
    a.y = c.at(y);
    a.positions = c.at<int32_t>(positions);
    a.seq_ids = c.at<int32_t>(seq_ids);
    a.page_begin = c.at<int32_t>(page_begin);
    a.n_keys = c.at<int32_t>(n_keys);
    a.pages = c.at<int32_t>(pages);
    a.sinks = c.at(sinks);
    if (is_split(c)) {
      a.partials = c.at(partials);
      a.n_chunks = c.n_key_chunks;
    }
    return a;
  }
};

Attention attention_of(Lowering& l, const ir::Node& node) {
  const ir::Value &q = l.value(node.inputs[0]), &k = l.value(node.inputs[1]), &v = l.value(node.inputs[2]);
  const Rows q_rows = l.rows(node.inputs[0]);
  Attention out{.args = {.q_stride = q.shape[1] * q_rows.stride_elems,
                         .q_head_stride = q_rows.stride_elems,
                         .keys = l.kv.keys(k.layer_idx),
                         .values = l.kv.values(v.layer_idx),
                         .type = l.kv.type(),
                         .n_tokens = q.shape[0],
                         .n_head = q.shape[1],
                         .n_head_kv = k.shape[1],
                         .dk = k.shape[2],
                         .dv = v.shape[2],
                         .page_size = l.kv.config().page_size,
                         .scale = static_cast<float>(node.attrs.number(Attr::scale)),
                         .softcap = static_cast<float>(node.attrs.number(Attr::softcap)),
                         .window = node.attrs.integer(Attr::window),
                         .chunk = node.attrs.integer(Attr::chunk),
                         .causal = node.attrs.integer(Attr::causal) != 0},
                .q = q_rows.address,
                .y = l.rows(node.output).address,
                .positions = l.indices(node.inputs[3]),
                .seq_ids = l.indices(node.inputs[4]),
                .page_begin = InputLayout::at(l.inputs.page_begin),
                .n_keys = InputLayout::at(l.inputs.n_keys),
                .pages = InputLayout::at(l.inputs.pages)};
  if (node.inputs.size() > 5) out.sinks = l.rows(node.inputs[5]).address;
  return out;
}

Result<void> lower_flash_attn_ext(Lowering& l, Nodes nodes) {
  Attention attention = attention_of(l, l.graph.node(nodes[0]));
  const AttentionArgs& args = attention.args;
  if (args.n_tokens <= kMaxSplitTokens) {
    const int64_t n_slots = l.kv.config().n_pages * l.kv.config().page_size;
    int64_t chunks = 1;
    while (chunks < kMaxSplitChunks && chunks * kKeyChunk < n_slots) chunks *= 2;
    attention.max_chunks = chunks;
    attention.partials = l.attention_partials(attention_partial_floats(args.n_tokens, args.n_head, args.dv, chunks));
  }
  l.add("attention", [attention](const RunContext& c) { return launch_attention(attention.bind(c), c.stream); });
  if (!attention.partials) return {};
  StepReport& merge = l.add("attention_merge", [attention](const RunContext& c) {
    return attention.is_split(c) ? launch_attention_merge(attention.bind(c), c.stream) : cudaSuccess;
  });
  merge.label = "attention merge";
  merge.operations = merge.bytes = 0;
  return {};
}
}  // namespace

std::span<const OpLowering> attention_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::rope, lower_rope},
      {ir::Op::set_rows, lower_set_rows},
      {ir::Op::flash_attn_ext, lower_flash_attn_ext},
  });
  return kRows;
}

std::span<const RuleLowering> attention_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::rms_norm_mul_rope, supports_head_norm, lower_rope},
      {fuse::RuleId::rms_norm_mul_rope_set_rows, supports_head_norm, lower_set_rows},
      {fuse::RuleId::rope_set_rows, nullptr, lower_set_rows},
  });
  return kRows;
}

}  // namespace tokamak::cuda

// ROPE, cache writes and attention, and the fusions around them.
#include <optional>

#include "backend/cpu/lower_ops.h"
#include "backend/lowering/heads.h"
#include "base/check.h"

namespace tokamak::cpu {

namespace {
using ir::Attr;

struct RopeTableStep : Step {
  std::optional<RopeTable> table;
  Ref rows;

  void run(const RunContext& c, int thread_idx, int n_threads) const override {
    const WorkRange tokens = split_range(n_split, thread_idx, n_threads);
    table->fill(c.inputs.positions, c.f32(rows), tokens.begin, tokens.end);
  }
};

// The table of cosines and sines that `rope` needs; the step that fills it is added at its first use.
Ref rope_table(Lowering& l, const ir::Node& rope) {
  const ir::ValueId factors = lowering::rope_factors(rope);
  for (const Lowering::RopeUse& use : l.rope_tables)
    if (use.factors == factors && use.attrs == rope.attrs) return use.rows;
  const int64_t n_tokens = l.value(rope.inputs[1]).shape[0];
  const std::span<const float> factor_values =
      factors == ir::kNone ? std::span<const float>{} : l.weights.at(l.value(factors).name).values;
  auto& step = l.add<RopeTableStep>("rope_table");
  step.table.emplace(RopeParams{.frequency = lowering::frequency_params(rope.attrs),
                                .pairing = static_cast<RopePairing>(rope.attrs.integer(Attr::pairing)),
                                .attn_factor = rope.attrs.number(Attr::attn_factor)},
                     factor_values);
  const auto n_bytes = static_cast<uint64_t>(n_tokens * step.table->row_floats()) * sizeof(float);
  step.rows = l.region(n_bytes);
  step.split = Split::tokens;
  step.n_split = n_tokens;
  step.writes = {step.rows};
  step.report.what = "angles of all layers alike";
  step.report.label = "rope table";
  step.report.operations = 0;
  step.report.bytes = static_cast<double>(n_bytes);
  l.rope_tables.push_back({.factors = factors, .attrs = rope.attrs, .rows = step.rows});
  return step.rows;
}

// Null when the group has no norm.
const float* norm_weight(const Lowering& l, const lowering::HeadNorm& norm) {
  return norm.weight == ir::kNone ? nullptr : l.weights.at(l.value(norm.weight).name).values.data();
}

// ROPE, RMS_NORM+MUL+ROPE.
void lower_rope(Lowering& l, Nodes nodes) {
  const ir::Node& rope = l.graph.node(nodes.back());
  const ir::ValueId input = l.graph.node(nodes[0]).inputs[0];
  const ir::Value& value = l.value(input);
  const lowering::HeadNorm norm = lowering::head_norm(l.graph, nodes);
  const Ref table = rope_table(l, rope);
  const Rows x = l.rows(input), y = l.rows(rope.output);
  const int64_t n_head = value.shape[1], head_dim = value.shape[2];
  auto& step = l.add<RowStep<RopeArgs>>("rope_f32");
  step.kernel = op_set(l.isa).rope;
  step.args = {.n_head = n_head,
               .head_dim = head_dim,
               .pairing = static_cast<RopePairing>(rope.attrs.integer(Attr::pairing)),
               .n_rot = rope.attrs.integer(Attr::n_rot),
               .norm_weight = norm_weight(l, norm),
               .eps = norm.eps,
               .x_stride = n_head * x.stride_elems,
               .x_head_stride = x.stride_elems,
               .y_stride = n_head * head_dim};
  step.operands = {{.rows = y}, {.rows = x}, {.rows = {.ref = table}}};
  step.bind = [](RopeArgs& args, const Pointers& p) {
    args.y = p[0];
    args.x = p[1];
    args.table = p[2];
  };
  divide_by_tokens(step, value, x.n_rows);
}

// SET_ROWS, ROPE+SET_ROWS, RMS_NORM+MUL+ROPE+SET_ROWS.
void lower_set_rows(Lowering& l, Nodes nodes) {
  const ir::Node& write = l.graph.node(nodes.back());
  const ir::Value& cache = l.value(write.inputs[0]);
  const ir::ValueId input = nodes.size() == 1 ? write.inputs[1] : l.graph.node(nodes[0]).inputs[0];
  const ir::Value& value = l.value(input);
  const auto layer = static_cast<size_t>(cache.layer_idx);
  const Operand x = operand(l, input);
  KvWriteArgs args{
      .plane = cache.state_role == ir::StateRole::kv_k ? l.kv.storage().keys(layer) : l.kv.storage().values(layer),
      .x_stride = value.shape[1] * x.rows.stride_elems,
      .x_head_stride = x.rows.stride_elems};
  std::vector<Operand> operands = {{}, x};
  if (nodes.size() > 1) {
    const ir::Node& rope = l.graph.node(nodes[nodes.size() - 2]);
    const lowering::HeadNorm norm = lowering::head_norm(l.graph, nodes);
    operands.push_back({.rows = {.ref = rope_table(l, rope)}});
    args.pairing = static_cast<RopePairing>(rope.attrs.integer(Attr::pairing));
    args.n_rot = rope.attrs.integer(Attr::n_rot);
    args.norm_weight = norm_weight(l, norm);
    args.eps = norm.eps;
  }
  auto& step = l.add<RowStep<KvWriteArgs>>("kv_write");
  step.kernel = op_set(l.isa).kv_write;
  step.args = args;
  step.operands = std::move(operands);
  step.bind = [](KvWriteArgs& a, const Pointers& p) {
    a.slots = p.context.inputs.slots.data();
    a.x = p[1];
    if (p.size() > 2) a.rope_table = p[2];
  };
  divide_by_tokens(step, value, x.rows.n_rows);
  step.writes_cache = true;
}

// Long contexts are split only for few tokens: with many, the tokens themselves keep all threads busy.
constexpr int64_t kMaxSplitTokens = 8;

struct AttentionShape {
  AttentionArgs args;  // without addresses and step data
  Ref q, y, partials;
  int64_t n_tokens = 0, partial_floats = 0;
  size_t tiling = 0;
  const CpuKv* kv = nullptr;

  AttentionCall bind(const RunContext& c, int n_threads) const {
    AttentionCall call{.args = args};
    call.args.q = c.f32(q);
    call.args.y = c.f32(y);
    call.args.positions = c.inputs.positions.data();
    call.args.seq_ids = c.inputs.seq_ids.data();
    call.args.sequences = kv->sequences();
    call.args.tiles = kv->tiles(tiling);
    call.plan = plan_attention(call.args, n_tokens, n_threads, partial_floats);
    call.partials = call.plan.split_keys ? c.f32(partials) : nullptr;
    return call;
  }
};

struct AttentionStep : Step {
  AttentionShape shape;
  AttentionKernel kernel = nullptr;
  Ref scratch;  // per thread
  uint64_t scratch_stride = 0;

  void run(const RunContext& c, int thread_idx, int n_threads) const override {
    const AttentionCall call = shape.bind(c, n_threads);
    const WorkRange items = split_range(call.plan.n_items, thread_idx, n_threads);
    auto* own = reinterpret_cast<float*>(c.bytes(scratch) + static_cast<uint64_t>(thread_idx) * scratch_stride);
    if (items.begin < items.end) kernel(call, own, items.begin, items.end);
  }
};

struct AttentionMergeStep : Step {
  AttentionShape shape;
  Kernel<AttentionCall> kernel = nullptr;

  void run(const RunContext& c, int thread_idx, int n_threads) const override {
    const AttentionCall call = shape.bind(c, n_threads);
    const WorkRange items = split_range(call.plan.n_merge_items, thread_idx, n_threads);
    if (items.begin < items.end) kernel(call, items.begin, items.end);
  }
};

AttentionShape attention_shape(Lowering& l, const ir::Node& node) {
  const ir::Value &q = l.value(node.inputs[0]), &k = l.value(node.inputs[1]);
  const auto layer = static_cast<size_t>(k.layer_idx);
  const int64_t n_head = q.shape[1], n_head_kv = k.shape[1], dv = l.value(node.output).shape[2];
  const Rows queries = l.rows(node.inputs[0]);
  AttentionShape shape{.q = queries.ref,
                       .y = l.rows(node.output).ref,
                       .n_tokens = q.shape[0],
                       .tiling = l.kv.tiling(n_head / n_head_kv),
                       .kv = &l.kv};
  shape.args = {.q_stride = n_head * queries.stride_elems,
                .q_head_stride = queries.stride_elems,
                .y_stride = n_head * dv,
                .n_head = n_head,
                .keys = l.kv.storage().keys(layer),
                .values = l.kv.storage().values(layer)};
  lowering::set_attention(shape.args, node.attrs);
  if (node.inputs.size() > 5) shape.args.sinks = l.weights.at(l.value(node.inputs[5]).name).values.data();
  return shape;
}

void lower_flash_attn_ext(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  AttentionShape shape = attention_shape(l, node);
  if (shape.n_tokens <= kMaxSplitTokens) {
    const int64_t n_slots = l.kv.config().n_pages * l.kv.config().page_size;
    const int64_t dv = l.value(node.output).shape[2];
    const Ref region = l.attention_partials(attention_partial_floats(shape.n_tokens, shape.args.n_head, dv, n_slots));
    shape.partials = region;
    shape.partial_floats = static_cast<int64_t>(region.n_bytes / sizeof(float));
  }
  auto& step = l.add<AttentionStep>("attention");
  step.shape = shape;
  step.kernel = op_set(l.isa).attention;
  step.scratch = l.attention_scratch();
  step.scratch_stride = l.attention_scratch_stride();
  step.reads = {shape.q};
  step.writes = {shape.y, shape.partials};
  step.reads_cache = true;
  if (shape.partials.where == Ref::Where::none) return;
  auto& merge = l.add<AttentionMergeStep>("attention_merge");
  merge.report.label = "attention merge";
  merge.report.operations = merge.report.bytes = 0;
  merge.shape = shape;
  merge.kernel = op_set(l.isa).attention_merge;
  merge.reads = {shape.partials};
  merge.writes = {shape.y};
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
      {fuse::RuleId::rms_norm_mul_rope, lowering::supports_head_norm, lower_rope},
      {fuse::RuleId::rms_norm_mul_rope_set_rows, lowering::supports_head_norm, lower_set_rows},
      {fuse::RuleId::rope_set_rows, nullptr, lower_set_rows},
  });
  return kRows;
}

}  // namespace tokamak::cpu

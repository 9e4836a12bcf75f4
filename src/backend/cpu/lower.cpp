#include "backend/cpu/lower.h"

#include <algorithm>

#include "backend/cpu/lower_matmul.h"
#include "backend/lowering/values.h"
#include "base/check.h"
#include "base/round_up.h"

namespace tokamak::cpu {

namespace {
constexpr size_t kPackSlots = 4;
constexpr uint64_t kRegionAlignment = 64;
uint64_t aligned(uint64_t n_bytes) { return round_up(n_bytes, kRegionAlignment); }

struct PackStep : Step {
  ActivationKind kind = ActivationKind::f32;
  Isa isa = Isa::scalar;
  Rows x;
  Ref out;

  void run(const RunContext& context, int thread_idx, int n_threads) const override {
    const WorkRange columns = split_range(x.n_rows, thread_idx, n_threads);
    if (columns.begin == columns.end) return;
    pack_activations(kind, isa,
                     {.x = context.f32(x.ref),
                      .x_stride_elems = x.stride_elems,
                      .n_cols = x.n_rows,
                      .k = x.n,
                      .col_begin = columns.begin,
                      .col_end = columns.end,
                      .out = context.bytes(out)});
  }
};

// A graph output that shows part of a value, or a value that is an output already.
struct CopyOutputStep : Step {
  Rows x;
  size_t output = 0;

  void run(const RunContext& context, int thread_idx, int n_threads) const override {
    const WorkRange rows = split_range(n_split, thread_idx, n_threads);
    for (int64_t r = rows.begin; r < rows.end; ++r)
      std::copy_n(context.f32(x.ref) + r * x.stride_elems, x.n, context.outputs[output].data() + r * x.n);
  }
};
}  // namespace

Lowering::Lowering(const ir::Graph& g, const ir::Plan& plan, const CpuWeights& w, CpuKv& cache, Target target,
                   int n_threads, const MatmulObserver& matmul_observer)
    : graph(g),
      weights(w),
      kv(cache),
      isa(target.isa),
      activations(target.activations),
      observer(matmul_observer),
      plan_(plan),
      n_threads_(n_threads) {
  arena_bytes_ = plan.n_bytes;
  reserve_matmul_regions();
  reserve_attention_regions();
}

Ref Lowering::region(uint64_t n_bytes) {
  arena_bytes_ = aligned(arena_bytes_);
  const Ref out{.where = Ref::Where::arena, .offset = arena_bytes_, .n_bytes = n_bytes};
  arena_bytes_ += n_bytes;
  return out;
}

void Lowering::reserve_matmul_regions() {
  int64_t packed = 0, packed_stack = 0;
  uint64_t routed = 0;
  for (const ir::Node& node : graph.nodes) {
    const bool with_ids = node.op == ir::Op::mul_mat_id;
    if (node.op != ir::Op::mul_mat && !with_ids) continue;
    const ir::Value &weight = value(node.inputs[0]), &x = value(node.inputs[1]);
    const int64_t k = weight.shape.row_elems();
    const int64_t n_cols = with_ids ? value(node.inputs[2]).shape.n_elements() : x.shape.n_rows();
    int64_t& size = weight.shape.rank() == 3 ? packed_stack : packed;
    size = std::max(size, activation_bytes(activation_kind(weight.dtype, activations), n_cols, k));
    if (with_ids) packed = std::max(packed, activation_bytes(activation_kind(weight.dtype, activations), 1, k));
    if (with_ids) routed = std::max(routed, route_bytes(n_cols, weight.shape[0]));
    scratch_stride_ = std::max<uint64_t>(scratch_stride_, gemm_scratch_bytes(weight.dtype, k, true));
  }
  stacked.ref = region(static_cast<uint64_t>(packed_stack));
  route.ref = region(routed);
  scratch_stride_ = aligned(scratch_stride_);
  scratch_ = region(scratch_stride_ * static_cast<uint64_t>(n_threads_));
  for (size_t i = 0; i < kPackSlots; ++i) slots_.push_back({.ref = region(static_cast<uint64_t>(packed))});
}

void Lowering::reserve_attention_regions() {
  int64_t floats = 0;
  for (const ir::Node& node : graph.nodes)
    if (node.op == ir::Op::flash_attn_ext)
      floats = std::max(floats, attention_scratch_floats(value(node.inputs[1]).shape[2], value(node.output).shape[2]));
  attention_scratch_stride_ = aligned(static_cast<uint64_t>(floats) * sizeof(float));
  attention_scratch_ = region(attention_scratch_stride_ * static_cast<uint64_t>(n_threads_));
}

// A region that is replaced by a larger one when a layer needs more.
Ref Lowering::grown(Ref& shared, int64_t n_floats) {
  const uint64_t n_bytes = static_cast<uint64_t>(n_floats) * sizeof(float);
  if (shared.n_bytes < n_bytes) shared = region(n_bytes);
  return shared;
}

size_t Lowering::output_at(ir::ValueId storage) const {
  if (value(storage).kind == ir::ValueKind::input) return graph.outputs.size();  // of a boundary: copied
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    if (graph.storage_of(graph.outputs[i]) == storage && fuse::is_whole(graph, graph.outputs[i], storage)) return i;
  return graph.outputs.size();
}

void Lowering::copy_outputs() {
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ir::ValueId id = graph.outputs[i];
    if (output_at(graph.storage_of(id)) == i) continue;
    const Rows x = rows(id);
    auto step = std::make_unique<CopyOutputStep>();
    step->report = {.what = "output " + std::to_string(i), .label = "copy output", .kernel = "copy_rows"};
    step->report.bytes = 2.0 * static_cast<double>(x.total()) * sizeof(float);
    step->x = x;
    step->output = i;
    step->n_split = x.n_rows;
    step->reads = {x.ref};
    steps_.push_back(std::move(step));
  }
}

Rows Lowering::rows(ir::ValueId id) const {
  const ir::Value& v = value(id);
  const ir::ValueId storage = graph.storage_of(id);
  Rows out{.n_rows = v.shape.n_rows(), .n = v.shape.row_elems(), .stride_elems = v.row_stride_elems};
  if (const size_t i = output_at(storage); i < graph.outputs.size())
    out.ref = {.where = Ref::Where::output, .offset = i, .skip_elems = v.offset_elems};
  if (const ir::Value& owner = value(storage); owner.input_role == ir::InputRole::boundary)
    out.ref = {.where = Ref::Where::boundary,
               .offset = static_cast<uint64_t>(owner.boundary_idx),
               .skip_elems = v.offset_elems};
  if (out.ref.where == Ref::Where::none) {
    CHECK(plan_.is_placed(id), id);
    const int64_t span = (out.n_rows - 1) * out.stride_elems + out.n;
    out.ref = {.where = Ref::Where::arena,
               .offset = plan_.offsets[id],
               .n_bytes = static_cast<uint64_t>(span) * sizeof(float)};
  }
  return out;
}

Rows Lowering::rows_or_region(ir::ValueId id) {
  if (plan_.is_placed(id) || output_at(graph.storage_of(id)) < graph.outputs.size()) return rows(id);
  const ir::Value& v = value(id);
  return {.ref = region(static_cast<uint64_t>(v.shape.n_elements()) * sizeof(float)),
          .n_rows = v.shape.n_rows(),
          .n = v.shape.row_elems(),
          .stride_elems = v.shape.row_elems()};
}

Ref Lowering::pack(ir::ValueId x, ActivationKind kind) {
  x = lowering::same_rows(graph, x);
  for (const Slot& slot : slots_)
    if (slot.value == x && slot.kind == kind) return slot.ref;
  Slot& slot = slots_[next_slot_];
  next_slot_ = (next_slot_ + 1) % slots_.size();
  slot.value = x;
  slot.kind = kind;
  const Rows source = rows(x);
  slot.ref.n_bytes = static_cast<uint64_t>(activation_bytes(kind, source.n_rows, source.n));
  PackStep& step = add<PackStep>(activation_format(kind).name);
  step.report.what += " (input packed)";
  step.report.label = "pack";
  step.report.operations = 0;
  step.report.bytes = static_cast<double>(source.total()) * sizeof(float) + static_cast<double>(slot.ref.n_bytes);
  step.kind = kind;
  step.isa = isa;
  step.x = source;
  step.out = slot.ref;
  step.split = Split::tokens;
  step.n_split = source.n_rows;
  step.reads = {source.ref};
  step.writes = {slot.ref};
  return slot.ref;
}

void Lowering::describe(Step& step, std::string_view kernel, std::string_view note) const {
  StepReport& report = step.report;
  report.label = fuse::group_label(graph, *group_);
  report.groups = {static_cast<size_t>(group_ - graph.groups.data())};
  report.kernel = kernel;
  report.note = note;
  const std::vector<ir::NodeId> nodes = fuse::member_nodes(graph, *group_);
  lowering::add_costs(graph, plan_, *group_, report);
  report.what = graph.node(nodes.front()).name;
  if (nodes.size() > 1) report.what += ".." + graph.node(nodes.back()).name;
}

namespace {
const RuleLowering* rule_lowering(fuse::RuleId rule) {
  return lowering::find_row(
      {matmul_rule_lowerings(), expert_rule_lowerings(), row_rule_lowerings(), elementwise_rule_lowerings(),
       routing_rule_lowerings(), recurrent_rule_lowerings(), attention_rule_lowerings()},
      &RuleLowering::rule, rule);
}
const OpLowering* op_lowering(ir::Op op) {
  return lowering::find_row({matmul_lowerings(), expert_lowerings(), row_lowerings(), elementwise_lowerings(),
                             routing_lowerings(), recurrent_lowerings(), attention_lowerings()},
                            &OpLowering::op, op);
}
}  // namespace

Result<void> check_lowerings(const ir::Graph& graph) {
  const auto missing = [](const ir::Graph& g, const ir::Node& node) {
    return lowering::missing_kernel(op_lowering(node.op) != nullptr, nullptr, g, node);
  };
  return lowering::check_nodes(graph, missing, "cpu", "use --backend reference");
}

bool supports_rule(const ir::Graph& graph, const fuse::Rule& rule, Nodes nodes) {
  return lowering::supports(rule_lowering(rule.id), graph, nodes);
}

void Lowering::lower(const ir::Group& group) {
  const std::vector<ir::NodeId> nodes = fuse::pattern_nodes(graph, group);
  if (nodes.empty()) return;  // views only
  group_ = &group;
  if (group.rule != UINT16_MAX) {
    rule_lowering(static_cast<fuse::RuleId>(group.rule))->lower(*this, nodes);
  } else {
    const OpLowering* row = op_lowering(graph.node(nodes[0]).op);
    CHECK(row != nullptr, ir::op_row(graph.node(nodes[0]).op).name);
    row->lower(*this, nodes);
  }
}

}  // namespace tokamak::cpu

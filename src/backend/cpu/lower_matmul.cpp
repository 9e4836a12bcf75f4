// MUL_MAT and its epilogues: bias or residual, gate and up with GLU.
#include <optional>

#include "backend/cpu/lower.h"
#include "base/check.h"

namespace tokamak::cpu {

namespace {
using ir::Attr;

struct MatmulStep : Step {
  const GemmKernel* kernel = nullptr;
  DType dtype = DType::f32;
  GemmTask task;  // without the pointers that are known only while running
  Ref packed, y, residual, scratch;
  uint64_t scratch_stride = 0;

  void run(const RunContext& context, int thread_idx, int n_threads) const override {
    GemmTask part = task;
    const WorkRange panels = split_range(n_panels(task.n_rows), thread_idx, n_threads);
    part.panel_begin = panels.begin;
    part.panel_end = panels.end;
    part.activations = context.bytes(packed);
    part.y = context.f32(y);
    if (residual.where != Ref::Where::none) part.epilogue.residual = context.f32(residual);
    part.scratch = context.bytes(scratch) + static_cast<uint64_t>(thread_idx) * scratch_stride;
    gemm(*kernel, dtype, part);
  }
};

struct ObserveStep : Step {
  MatmulObserver observer;
  std::string_view weight;  // lives in the graph
  Rows x;

  void run(const RunContext& context, int thread_idx, int) const override {
    if (thread_idx != 0) return;
    observer(
        {.weight = weight, .x = context.f32(x.ref), .n_rows = x.n_rows, .k = x.n, .row_stride_elems = x.stride_elems});
  }
};

// To be called before anything of the group is computed: its result may lie where its input was.
void add_observer(Lowering& l, const ir::Node& node) {
  if (!l.observer) return;
  const Rows x = l.rows(node.inputs[1]);
  ObserveStep& step = l.add<ObserveStep>("observer");
  step.report.what = node.name + " (input observed)";
  step.report.label = "observe";
  step.report.operations = 0;
  step.report.bytes = static_cast<double>(x.total()) * sizeof(float);
  step.observer = l.observer;
  step.weight = l.value(node.inputs[0]).name;
  step.x = x;
  step.reads = {x.ref};
}

std::optional<GemmGlu> glu_kind(const ir::Node& node) {
  switch (node.attrs.keyword<ir::Glu>(Attr::glu)) {
    case ir::Glu::reglu:
      return GemmGlu::reglu;
    case ir::Glu::geglu:
      return GemmGlu::geglu;
    case ir::Glu::swiglu:
      return GemmGlu::swiglu;
    case ir::Glu::geglu_quick:
      return GemmGlu::geglu_quick;
    case ir::Glu::geglu_erf:
    case ir::Glu::swiglu_oai:
      return std::nullopt;  // no kernel: the GLU runs by itself
  }
  return std::nullopt;
}

const std::byte* kernel_form(const CpuWeight& weight) { return weight.packed ? weight.packed : weight.rows; }

// The matmul `node` writing `result`, without epilogue.
MatmulStep& add_matmul(Lowering& l, const ir::Node& node, ir::ValueId result) {
  const CpuWeight& weight = l.weights.at(l.value(node.inputs[0]).name);
  const GemmKernel& kernel = select_gemm_kernel(weight.dtype, l.activations, l.isa);
  const Ref packed = l.pack(node.inputs[1], kernel.activation);
  const std::string_view note = !has_kernels(weight.dtype)
                                    ? "no kernel for this type: rows are decoded to f32 while running"
                                : kernel.isa != best_isa() ? "a slower instruction set than this machine's best"
                                                           : "";
  MatmulStep& step = l.add<MatmulStep>(kernel.name, note);
  const Rows y = l.rows(result);
  step.kernel = &kernel;
  step.dtype = weight.dtype;
  step.packed = packed;
  step.y = y.ref;
  step.scratch = l.scratch();
  step.scratch_stride = l.scratch_stride();
  step.task = {.weights = kernel_form(weight),
               .n_rows = weight.shape.n_rows(),
               .n_cols = y.n_rows,
               .k = weight.shape.row_elems(),
               .y_stride_elems = y.stride_elems};
  step.reads = {packed};
  step.writes = {y.ref};
  return step;
}

ir::ValueId addend_of(const ir::Graph& graph, std::span<const ir::NodeId> nodes) {
  const ir::Node& add = graph.node(nodes[2]);
  const int other = fuse::other_operand(graph, add, graph.node(nodes[0]).output);
  CHECK(other >= 0);
  return add.inputs[static_cast<size_t>(other)];
}
void lower_mul_mat(Lowering& l, std::span<const ir::NodeId> nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  add_observer(l, node);
  add_matmul(l, node, node.output);
}

bool supports_mul_mat_add(const ir::Graph& graph, std::span<const ir::NodeId> nodes) {
  if (nodes[1] != ir::kNone || nodes[2] == ir::kNone) return false;
  const ir::Value& addend = graph.value(addend_of(graph, nodes));
  return addend.kind == ir::ValueKind::weight || addend.dtype == DType::f32;
}

void lower_mul_mat_add(Lowering& l, std::span<const ir::NodeId> nodes) {
  const ir::ValueId addend = addend_of(l.graph, nodes);
  add_observer(l, l.graph.node(nodes[0]));
  MatmulStep& step = add_matmul(l, l.graph.node(nodes[0]), l.graph.node(nodes[2]).output);
  if (l.value(addend).kind == ir::ValueKind::weight) {
    step.task.epilogue.bias = l.weights.at(l.value(addend).name).values.data();
    return;
  }
  const Rows residual = l.rows(addend);
  step.residual = residual.ref;
  step.task.epilogue.residual_stride_elems = residual.stride_elems;
  step.reads.push_back(residual.ref);
}

bool supports_mul_mat_glu(const ir::Graph& graph, std::span<const ir::NodeId> nodes) {
  for (size_t i : {1, 2, 4, 5})
    if (nodes[i] != ir::kNone) return false;
  return glu_kind(graph.node(nodes[6])).has_value();
}

void lower_mul_mat_glu(Lowering& l, std::span<const ir::NodeId> nodes) {
  const ir::Node &gate = l.graph.node(nodes[0]), &up = l.graph.node(nodes[3]), &glu = l.graph.node(nodes[6]);
  add_observer(l, gate);
  add_observer(l, up);
  MatmulStep& step = add_matmul(l, gate, glu.output);
  step.task.up = kernel_form(l.weights.at(l.value(up.inputs[0]).name));
  step.task.epilogue.glu = *glu_kind(glu);
}

}  // namespace

std::span<const OpLowering> matmul_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({{ir::Op::mul_mat, lower_mul_mat}});
  return kRows;
}

std::span<const RuleLowering> matmul_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::mul_mat_epilogue, supports_mul_mat_add, lower_mul_mat_add},
      {fuse::RuleId::mul_mat_glu, supports_mul_mat_glu, lower_mul_mat_glu},
  });
  return kRows;
}

}  // namespace tokamak::cpu

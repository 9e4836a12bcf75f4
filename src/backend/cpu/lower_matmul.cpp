// MUL_MAT and its epilogues: post-scale, bias or residual, gate and up with GLU.
#include "backend/cpu/lower_matmul.h"

#include "base/check.h"

namespace tokamak::cpu {

namespace {
// Attributes are cast.
static_assert(static_cast<int64_t>(GemmGlu::swiglu_oai) == static_cast<int64_t>(ir::Glu::swiglu_oai));

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
  MatmulInput input;  // without pointers; the name lives in the graph
  Ref x;
  Indices ids;  // of MUL_MAT_ID

  void run(const RunContext& context, int thread_idx, int) const override {
    if (thread_idx != 0) return;
    MatmulInput seen = input;
    seen.x = context.f32(x);
    if (ids.n_used > 0) seen.ids = ids.data(context);
    observer(seen);
  }
};
}  // namespace

void add_observer(Lowering& l, const ir::Node& product) {
  if (!l.observer) return;
  const Rows x = l.rows(product.inputs[1]);
  const ir::Value& weight = l.value(product.inputs[0]);
  ObserveStep& step = l.add<ObserveStep>("observer");
  step.report.what = product.name + " (input observed)";
  step.report.label = "observe";
  step.report.operations = 0;
  step.report.bytes = static_cast<double>(x.total()) * sizeof(float);
  step.observer = l.observer;
  step.input = {.weight = weight.name,
                .n_rows = x.n_rows,
                .k = x.n,
                .row_stride_elems = x.stride_elems,
                .n_matrices = weight.shape.rank() == 3 ? weight.shape[0] : 1};
  step.x = x.ref;
  step.reads = {x.ref};
  if (product.op != ir::Op::mul_mat_id) return;
  step.ids = indices_of(l, product.inputs[2]);
  step.input.n_tokens = step.ids.n;
  step.input.n_used = step.ids.n_used;
  step.input.ids_stride_elems = step.ids.stride_elems;
  step.reads.push_back(step.ids.rows.ref);
}

std::string_view kernel_note(const GemmKernel& kernel, DType dtype) {
  if (!has_kernels(dtype)) return "no kernel for this type: rows are decoded to f32 while running";
  return kernel.isa != best_isa() ? "a slower instruction set than this machine's best" : "";
}

namespace {

// The matmul `node` writing `result`, without epilogue.
MatmulStep& add_matmul(Lowering& l, const ir::Node& node, ir::ValueId result) {
  const CpuWeight& weight = l.weights.at(l.value(node.inputs[0]).name);
  const GemmKernel& kernel = select_gemm_kernel(weight.dtype, l.activations, l.isa);
  const Ref packed = l.pack(node.inputs[1], kernel.activation);
  MatmulStep& step = l.add<MatmulStep>(kernel.name, kernel_note(kernel, weight.dtype));
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

void lower_mul_mat(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  add_observer(l, node);
  if (l.value(node.inputs[0]).shape.rank() == 3) return lower_mul_mat_heads(l, node);
  add_matmul(l, node, node.output);
}

const std::vector<float>& values_of(const Lowering& l, ir::ValueId id) { return l.weights.at(l.value(id).name).values; }

float scale_of(const Lowering& l, const Lane& lane) {
  const ir::ValueId scale = lowering::scale_weight(l.graph, lane);
  return scale == ir::kNone ? 1.0f : values_of(l, scale).at(0);
}
// Null when there is none, or when it is a residual.
const float* bias_of(const Lowering& l, const Lane& lane) {
  const ir::ValueId bias = lowering::bias_weight(l.graph, lane);
  return bias == ir::kNone ? nullptr : values_of(l, bias).data();
}

void lower_mul_mat_epilogue(Lowering& l, Nodes nodes) {
  const Lane lane = lowering::epilogue_lane(nodes);
  const ir::Node& product = l.graph.node(lane.product);
  add_observer(l, product);
  MatmulStep& step = add_matmul(l, product, lowering::result_of(l.graph, lane));
  step.task.epilogue.scale = scale_of(l, lane);
  step.task.epilogue.bias = bias_of(l, lane);
  const ir::ValueId addend = lowering::residual_of(l.graph, lane);
  if (addend == ir::kNone) return;
  const Rows residual = l.rows(addend);
  step.residual = residual.ref;
  step.task.epilogue.residual_stride_elems = residual.stride_elems;
  step.reads.push_back(residual.ref);
}

void lower_mul_mat_glu(Lowering& l, Nodes nodes) {
  const Lane gate = lowering::epilogue_lane(nodes), up = lowering::up_lane(nodes);
  const ir::Node &gate_product = l.graph.node(gate.product), &up_product = l.graph.node(up.product);
  const ir::Node& glu = l.graph.node(nodes[6]);
  add_observer(l, gate_product);
  add_observer(l, up_product);
  MatmulStep& step = add_matmul(l, gate_product, glu.output);
  step.task.up = kernel_form(l.weights.at(l.value(up_product.inputs[0]).name));
  Epilogue& epilogue = step.task.epilogue;
  lowering::set_glu(epilogue, glu.attrs);
  epilogue.scale = scale_of(l, gate);
  epilogue.up_scale = scale_of(l, up);
  epilogue.bias = bias_of(l, gate);
  epilogue.up_bias = bias_of(l, up);
}

}  // namespace

std::span<const OpLowering> matmul_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({{ir::Op::mul_mat, lower_mul_mat}});
  return kRows;
}

std::span<const RuleLowering> matmul_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::mul_mat_epilogue, lowering::supports_mul_mat_epilogue, lower_mul_mat_epilogue},
      {fuse::RuleId::mul_mat_glu, lowering::supports_mul_mat_glu, lower_mul_mat_glu},
  });
  return kRows;
}

}  // namespace tokamak::cpu

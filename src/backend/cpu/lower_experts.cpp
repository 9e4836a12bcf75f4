// Products with a stack of matrices: MUL_MAT_ID and its epilogues (one matrix per expert), MUL_MAT of rank 3 (one per
// head). Every matrix is multiplied with all its columns at once by the kernels of MUL_MAT.
#include <algorithm>

#include "backend/cpu/lower_matmul.h"
#include "base/check.h"

namespace tokamak::cpu {

const int32_t* Indices::data(const RunContext& context) const {
  if (role != ir::InputRole::none) return input_of(context.inputs, role).data() + offset_elems;
  return reinterpret_cast<const int32_t*>(context.f32(rows.ref));
}

Indices indices_of(const Lowering& l, ir::ValueId id) {
  const ir::Value &value = l.value(id), &storage = l.value(l.graph.storage_of(id));
  Indices out{.n = value.shape[0],
              .n_used = value.shape.row_elems(),
              .stride_elems = value.row_stride_elems,
              .offset_elems = value.offset_elems};
  if (storage.kind == ir::ValueKind::input && storage.input_role != ir::InputRole::boundary)
    out.role = storage.input_role;
  else
    out.rows = l.rows(id);
  return out;
}

namespace {
// Pairs (token, i-th chosen expert), numbered token * n_used + i, sorted by expert: group g is what goes through matrix
// experts[g], columns first[g] to first[g + 1].
struct Route {
  int32_t* n_groups;
  int32_t* experts;  // [n_groups], ascending
  int32_t* first;    // [n_groups + 1]
  int32_t* pairs;    // [n_pairs] by column
  int32_t* tokens;   // [n_pairs] by column
  int32_t* next;     // [n_expert] while sorting

  Route(std::byte* region, int64_t n_pairs, int64_t n_expert) {
    const int64_t max_groups = std::min(n_pairs, n_expert);
    n_groups = reinterpret_cast<int32_t*>(region);
    experts = n_groups + 1;
    first = experts + max_groups;
    pairs = first + max_groups + 1;
    tokens = pairs + n_pairs;
    next = tokens + n_pairs;
  }
  int64_t n_cols(int32_t group) const { return first[group + 1] - first[group]; }
};

// A counting sort; equal experts keep their order.
struct RouteStep : Step {
  Indices ids;
  int64_t n_expert = 0;
  Ref out;

  void run(const RunContext& context, int thread_idx, int n_threads) const override {
    const WorkRange range = split_range(1, thread_idx, n_threads);
    if (range.begin == range.end) return;
    const int64_t n_pairs = ids.n * ids.n_used;
    const int32_t* chosen = ids.data(context);
    const Route r(context.bytes(out), n_pairs, n_expert);
    std::fill_n(r.next, n_expert, 0);
    for (int64_t t = 0; t < ids.n; ++t) {
      for (int64_t i = 0; i < ids.n_used; ++i) {
        const int32_t expert = chosen[t * ids.stride_elems + i];
        CHECK(expert >= 0 && expert < n_expert, expert, n_expert);
        ++r.next[expert];
      }
    }
    int32_t n_groups = 0, n_cols = 0;
    for (int32_t expert = 0; expert < n_expert; ++expert) {
      const int32_t n = r.next[expert];
      if (n == 0) continue;
      r.experts[n_groups] = expert;
      r.first[n_groups++] = n_cols;
      r.next[expert] = n_cols;
      n_cols += n;
    }
    r.first[n_groups] = n_cols;
    *r.n_groups = n_groups;
    for (int64_t t = 0; t < ids.n; ++t) {
      for (int64_t i = 0; i < ids.n_used; ++i) {
        const int32_t col = r.next[chosen[t * ids.stride_elems + i]]++;
        r.pairs[col] = static_cast<int32_t>(t * ids.n_used + i);
        r.tokens[col] = static_cast<int32_t>(t);
      }
    }
  }
};

// Packs the columns of every group of a route as a matrix of their own.
struct PackGroupsStep : Step {
  ActivationKind kind = ActivationKind::f32;
  Isa isa = Isa::scalar;
  Rows x;
  bool one_row_per_token = false;
  Ref route, out;
  int64_t n_pairs = 0, n_expert = 0;

  void run(const RunContext& context, int thread_idx, int n_threads) const override {
    const Route r(context.bytes(route), n_pairs, n_expert);
    const WorkRange columns = split_range(n_pairs, thread_idx, n_threads);
    const int32_t* rows = one_row_per_token ? r.tokens : r.pairs;
    for (int32_t g = 0; g < *r.n_groups; ++g) {
      const int64_t first = r.first[g], end = r.first[g + 1];
      const int64_t from = std::max(first, columns.begin), to = std::min(end, columns.end);
      if (from >= to) continue;
      pack_activations(kind, isa,
                       {.x = context.f32(x.ref),
                        .x_stride_elems = x.stride_elems,
                        .n_cols = end - first,
                        .k = x.n,
                        .col_begin = from - first,
                        .col_end = to - first,
                        .out = context.bytes(out) + first * activation_bytes(kind, 1, x.n),
                        .x_rows = rows + first});
    }
  }
};

// Calls run(i, panel range) for this thread's share of n products of n_panels panels and columns(i) columns each.
template <class Columns, class Run>
void share_products(int64_t n, int64_t n_panels, Columns columns, Run run, int thread_idx, int n_threads) {
  constexpr int64_t kReadCost = 4;  // reading a panel costs as much as multiplying it with so many columns
  int64_t total = 0, done = 0;
  for (int64_t i = 0; i < n; ++i) total += n_panels * (kReadCost + columns(i));
  const WorkRange share = split_range(total, thread_idx, n_threads);
  for (int64_t i = 0; i < n && done < share.end; ++i) {
    const int64_t cost = kReadCost + columns(i);
    const auto panel_at = [&](int64_t at) { return std::clamp<int64_t>((at - done + cost - 1) / cost, 0, n_panels); };
    const WorkRange panels{share.begin <= done ? 0 : panel_at(share.begin), panel_at(share.end)};
    if (panels.begin < panels.end) run(i, panels);
    done += n_panels * cost;
  }
}

struct StackStep : Step {
  const GemmKernel* kernel = nullptr;
  DType dtype = DType::f32;
  GemmTask task;              // of one matrix, without the pointers that are known only while running
  uint64_t matrix_bytes = 0;  // from one matrix of the stack to the next
  Ref packed, y, scratch;
  uint64_t scratch_stride = 0;

  GemmTask part_of(const RunContext& context, int64_t matrix, WorkRange panels, int thread_idx) const {
    GemmTask part = task;
    part.weights += static_cast<uint64_t>(matrix) * matrix_bytes;
    if (part.up != nullptr) part.up += static_cast<uint64_t>(matrix) * matrix_bytes;
    part.panel_begin = panels.begin;
    part.panel_end = panels.end;
    part.y = context.f32(y);
    part.scratch = context.bytes(scratch) + static_cast<uint64_t>(thread_idx) * scratch_stride;
    return part;
  }
  uint64_t column_bytes() const { return static_cast<uint64_t>(activation_bytes(kernel->activation, 1, task.k)); }
};

struct ExpertStep : StackStep {
  // By expert, or null: post-scale [n_expert] and bias [n_expert, n_rows] of each lane.
  const float *scales = nullptr, *up_scales = nullptr, *biases = nullptr, *up_biases = nullptr;
  Ref route;
  int64_t n_pairs = 0, n_expert = 0;
  bool shared_column = false;  // all groups multiply the one column there is

  void run(const RunContext& context, int thread_idx, int n_threads) const override {
    const Route r(context.bytes(route), n_pairs, n_expert);
    const auto columns = [&](int64_t g) { return r.n_cols(static_cast<int32_t>(g)); };
    const auto multiply = [&](int64_t g, WorkRange panels) {
      const int64_t expert = r.experts[g];
      GemmTask part = part_of(context, expert, panels, thread_idx);
      part.activations = context.bytes(packed);
      part.n_cols = 1;
      part.y_cols = r.pairs + r.first[g];
      Epilogue& e = part.epilogue;
      if (scales != nullptr) e.scale = scales[expert];
      if (up_scales != nullptr) e.up_scale = up_scales[expert];
      if (biases != nullptr) e.bias = biases + expert * task.n_rows;
      if (up_biases != nullptr) e.up_bias = up_biases + expert * task.n_rows;
      if (shared_column) {
        for (int64_t i = 0; i < columns(g); ++i, ++part.y_cols) gemm(*kernel, dtype, part);
        return;
      }
      part.n_cols = columns(g);
      part.activations += static_cast<uint64_t>(r.first[g]) * column_bytes();
      gemm(*kernel, dtype, part);
    };
    share_products(*r.n_groups, n_panels(task.n_rows), columns, multiply, thread_idx, n_threads);
  }
};

struct PackHeadsStep : Step {
  ActivationKind kind = ActivationKind::f32;
  Isa isa = Isa::scalar;
  Rows x;  // [n_tokens * n_head]
  int64_t n_head = 0;
  Ref out;

  void run(const RunContext& context, int thread_idx, int n_threads) const override {
    const int64_t n_tokens = x.n_rows / n_head;
    const WorkRange share = split_range(x.n_rows, thread_idx, n_threads);  // head by head
    for (int64_t head = 0; head < n_head; ++head) {
      const int64_t from = std::max(share.begin - head * n_tokens, int64_t{0});
      const int64_t to = std::min(share.end - head * n_tokens, n_tokens);
      if (from >= to) continue;
      pack_activations(kind, isa,
                       {.x = context.f32(x.ref) + head * x.stride_elems,
                        .x_stride_elems = n_head * x.stride_elems,
                        .n_cols = n_tokens,
                        .k = x.n,
                        .col_begin = from,
                        .col_end = to,
                        .out = context.bytes(out) + head * activation_bytes(kind, n_tokens, x.n)});
    }
  }
};

struct HeadsStep : StackStep {
  int64_t n_head = 0, y_row_elems = 0;  // distance of two rows of y

  void run(const RunContext& context, int thread_idx, int n_threads) const override {
    const auto multiply = [&](int64_t head, WorkRange panels) {
      GemmTask part = part_of(context, head, panels, thread_idx);
      part.activations = context.bytes(packed) + static_cast<uint64_t>(head * task.n_cols) * column_bytes();
      part.y += head * y_row_elems;
      gemm(*kernel, dtype, part);
    };
    const auto columns = [&](int64_t) { return task.n_cols; };
    share_products(n_head, n_panels(task.n_rows), columns, multiply, thread_idx, n_threads);
  }
};

// ---- Lowering ----

void describe_pack(Step& step, std::string_view what, const Rows& x, const Ref& out) {
  step.report.what += what;
  step.report.label = "pack";
  step.report.operations = 0;
  step.report.bytes = static_cast<double>(x.total()) * sizeof(float) + static_cast<double>(out.n_bytes);
}

Ref add_route(Lowering& l, ir::ValueId id, int64_t n_expert) {
  if (l.route.ids == id && l.route.n_expert == n_expert) return l.route.ref;
  const Indices ids = indices_of(l, id);
  l.route.ids = id;
  l.route.n_expert = n_expert;
  l.route.ref.n_bytes = route_bytes(ids.n * ids.n_used, n_expert);
  RouteStep& step = l.add<RouteStep>("route");
  step.report.what += " (sorted by expert)";
  step.report.label = "route";
  step.report.operations = 0;
  step.report.bytes = static_cast<double>(l.route.ref.n_bytes);
  step.ids = ids;
  step.n_expert = n_expert;
  step.out = l.route.ref;
  // One token: the thread that chose its experts goes on without a barrier.
  step.split = ids.n == 1 ? Split::tokens : Split::other;
  step.n_split = 1;
  step.reads = {ids.rows.ref};
  step.writes = {step.out};
  return step.out;
}

// x packed group by group; adds the step unless that is still at hand.
Ref add_pack_groups(Lowering& l, const ir::Node& node, ActivationKind kind, const Ref& route) {
  const ir::ValueId x = node.inputs[1], ids = node.inputs[2];
  if (l.stacked.x == x && l.stacked.ids == ids && l.stacked.kind == kind) return l.stacked.ref;
  const Rows source = l.rows(x);
  const int64_t n_pairs = l.value(ids).shape.n_elements();
  l.stacked.x = x;
  l.stacked.ids = ids;
  l.stacked.kind = kind;
  l.stacked.ref.n_bytes = static_cast<uint64_t>(activation_bytes(kind, n_pairs, source.n));
  PackGroupsStep& step = l.add<PackGroupsStep>(activation_format(kind).name);
  describe_pack(step, " (input packed by expert)", source, l.stacked.ref);
  step.kind = kind;
  step.isa = l.isa;
  step.x = source;
  step.one_row_per_token = source.n_rows != n_pairs;
  step.route = route;
  step.out = l.stacked.ref;
  step.n_pairs = n_pairs;
  step.n_expert = l.value(node.inputs[0]).shape[0];
  step.n_split = n_pairs;
  step.reads = {source.ref, route};
  step.writes = {step.out};
  return step.out;
}

Ref add_pack_heads(Lowering& l, const ir::Node& node, ActivationKind kind) {
  const Rows source = l.rows(node.inputs[1]);
  l.stacked.x = ir::kNone;  // overwritten
  l.stacked.ref.n_bytes = static_cast<uint64_t>(activation_bytes(kind, source.n_rows, source.n));
  PackHeadsStep& step = l.add<PackHeadsStep>(activation_format(kind).name);
  describe_pack(step, " (input packed by head)", source, l.stacked.ref);
  step.kind = kind;
  step.isa = l.isa;
  step.x = source;
  step.n_head = l.value(node.inputs[0]).shape[0];
  step.out = l.stacked.ref;
  step.n_split = source.n_rows;
  step.reads = {source.ref};
  step.writes = {step.out};
  return step.out;
}

// What both kinds of stacks share.
template <class S>
S& add_stack(Lowering& l, const CpuWeight& weight, const GemmKernel& kernel, const Ref& packed, const Rows& y) {
  S& step = l.add<S>(kernel.name, kernel_note(kernel, weight.dtype));
  step.kernel = &kernel;
  step.dtype = weight.dtype;
  step.matrix_bytes = weight.matrix_bytes;
  step.packed = packed;
  step.y = y.ref;
  step.scratch = l.scratch();
  step.scratch_stride = l.scratch_stride();
  step.task = {.weights = kernel_form(weight), .n_rows = weight.shape[1], .k = weight.shape[2]};
  step.reads = {packed};
  step.writes = {y.ref};
  return step;
}

// The product `node` writing `result`, without epilogue.
ExpertStep& add_experts(Lowering& l, const ir::Node& node, ir::ValueId result) {
  const CpuWeight& weight = l.weights.at(l.value(node.inputs[0]).name);
  const GemmKernel& kernel = select_gemm_kernel(weight.dtype, l.activations, l.isa);
  const int64_t n_pairs = l.value(node.inputs[2]).shape.n_elements(), n_expert = weight.shape[0];
  const bool shared_column = l.value(node.inputs[1]).shape.n_rows() == 1;
  const Ref route = add_route(l, node.inputs[2], n_expert);
  const Ref packed =
      shared_column ? l.pack(node.inputs[1], kernel.activation) : add_pack_groups(l, node, kernel.activation, route);
  const Rows y = l.rows(result);
  auto& step = add_stack<ExpertStep>(l, weight, kernel, packed, y);
  step.task.y_stride_elems = y.stride_elems;
  step.route = route;
  step.n_pairs = n_pairs;
  step.n_expert = n_expert;
  step.shared_column = shared_column;
  step.reads.push_back(route);
  return step;
}

// Post-scales and biases of all experts.
const float* scales_of(const Lowering& l, const Lane& lane) {
  if (lane.scale == ir::kNone) return nullptr;
  const ir::ValueId table = l.graph.node(lane.look_up).inputs[0];
  return reinterpret_cast<const float*>(l.weights.at(l.value(table).name).rows);
}
const float* biases_of(const Lowering& l, const Lane& lane) {
  if (lane.bias == ir::kNone) return nullptr;
  return l.weights.at(l.value(l.graph.node(lane.bias).inputs[1]).name).values.data();
}

void lower_mul_mat_id(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  add_observer(l, node);
  add_experts(l, node, node.output);
}

void lower_mul_mat_id_epilogue(Lowering& l, Nodes nodes) {
  const Lane lane = lowering::expert_lane(nodes);
  const ir::Node& product = l.graph.node(lane.product);
  add_observer(l, product);
  ExpertStep& step = add_experts(l, product, lowering::result_of(l.graph, lane));
  step.scales = scales_of(l, lane);
  step.biases = biases_of(l, lane);
}

void lower_mul_mat_id_glu(Lowering& l, Nodes nodes) {
  const Lane gate = lowering::expert_lane(nodes), up = lowering::expert_up_lane(nodes);
  const ir::Node &gate_product = l.graph.node(gate.product), &up_product = l.graph.node(up.product);
  const ir::Node& glu = l.graph.node(nodes[8]);
  add_observer(l, gate_product);
  add_observer(l, up_product);
  ExpertStep& step = add_experts(l, gate_product, glu.output);
  step.task.up = kernel_form(l.weights.at(l.value(up_product.inputs[0]).name));
  lowering::set_glu(step.task.epilogue, glu.attrs);
  step.scales = scales_of(l, gate);
  step.up_scales = scales_of(l, up);
  step.biases = biases_of(l, gate);
  step.up_biases = biases_of(l, up);
}

}  // namespace

uint64_t route_bytes(int64_t n_pairs, int64_t n_expert) {
  const int64_t max_groups = std::min(n_pairs, n_expert);
  return static_cast<uint64_t>(2 + 2 * max_groups + 2 * n_pairs + n_expert) * sizeof(int32_t);
}

void lower_mul_mat_heads(Lowering& l, const ir::Node& node) {
  const CpuWeight& weight = l.weights.at(l.value(node.inputs[0]).name);
  const GemmKernel& kernel = select_gemm_kernel(weight.dtype, l.activations, l.isa);
  const Ref packed = add_pack_heads(l, node, kernel.activation);
  const Rows y = l.rows(node.output);
  auto& step = add_stack<HeadsStep>(l, weight, kernel, packed, y);
  step.n_head = weight.shape[0];
  step.y_row_elems = y.stride_elems;
  step.task.n_cols = y.n_rows / step.n_head;
  step.task.y_stride_elems = step.n_head * y.stride_elems;
}

std::span<const OpLowering> expert_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({{ir::Op::mul_mat_id, lower_mul_mat_id}});
  return kRows;
}

std::span<const RuleLowering> expert_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::mul_mat_id_epilogue, nullptr, lower_mul_mat_id_epilogue},
      {fuse::RuleId::mul_mat_id_glu, nullptr, lower_mul_mat_id_glu},
  });
  return kRows;
}

}  // namespace tokamak::cpu

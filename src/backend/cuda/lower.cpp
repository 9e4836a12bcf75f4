#include "backend/cuda/lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/columns/columns.h"
#include "backend/cuda/lower_gemm.h"
#include "backend/cuda/matvec/matvec.h"
#include "backend/cuda/ops/rows.h"
#include "base/check.h"
#include "base/round_up.h"

namespace tokamak::cuda {

namespace {
constexpr uint64_t kRegionAlignment = 256;
constexpr size_t kSlots = 4;

RowArgs copy_args(const Rows& x, const Rows& y, const RunContext& c) {
  return {.x = c.at(x.address),
          .y = c.at(y.address),
          .x_stride = x.stride_elems,
          .y_stride = y.stride_elems,
          .n_rows = x.n_rows,
          .row_elems = x.n};
}
}  // namespace

Lowering::Lowering(const ir::Graph& g, const ir::Plan& plan, const CudaWeights& w, CudaKv& cache,
                   const InputLayout& layout, bool invariant)
    : graph(g),
      weights(w),
      kv(cache),
      inputs(layout),
      batch_invariant(invariant),
      plan_(plan),
      arena_bytes_(plan.n_bytes) {
  reserve_slots();
}

Address Lowering::region(uint64_t n_bytes) {
  arena_bytes_ = round_up(arena_bytes_, kRegionAlignment);
  const Address out{.where = Address::Where::arena, .offset = arena_bytes_};
  arena_bytes_ += n_bytes;
  return out;
}

// Replaced by a larger one when a step needs more.
Address Lowering::scratch(uint64_t n_bytes) {
  if (scratch_bytes_ < n_bytes) {
    scratch_ = region(n_bytes);
    scratch_bytes_ = n_bytes;
  }
  return scratch_;
}

std::span<const ir::Group> Lowering::later_groups() const {
  return std::span(graph.groups).subspan(static_cast<size_t>(&group() - graph.groups.data()) + 1);
}

Result<Address> Lowering::constant(std::span<const std::byte> values) {
  std::string key(reinterpret_cast<const char*>(values.data()), values.size());
  if (const auto known = known_constants_.find(key); known != known_constants_.end()) return known->second;
  Device& device = kv.device();
  DeviceBuffer buffer = TRY(device.allocate("constants", values.size_bytes()));
  if (!device.only_plans())
    TRY(check_cuda(
        cudaMemcpyAsync(buffer.data(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice, device.stream()),
        "uploading constants"));
  TRY(device.finish("uploading constants"));
  constants_.push_back(std::move(buffer));
  return known_constants_[std::move(key)] = Address::of(constants_.back().data());
}

Rows Lowering::rows(ir::ValueId id) const {
  const ir::Value& v = value(id);
  const ir::Value& storage = value(graph.storage_of(id));
  Rows out{.n_rows = v.shape.n_rows(), .n = v.shape.row_elems(), .stride_elems = v.row_stride_elems};
  if (storage.kind == ir::ValueKind::weight) {
    const float* values = weights.at(storage.name).values;
    CHECK(values != nullptr, storage.name);
    out.address = Address::of(values + v.offset_elems);
    return out;
  }
  if (storage.kind == ir::ValueKind::input) {
    out.address = inputs.address(storage);
    out.address.offset += static_cast<uint64_t>(v.offset_elems) * sizeof(float);
    return out;
  }
  CHECK(plan_.is_placed(id), id);
  out.address = {.where = Address::Where::arena, .offset = plan_.offsets[id]};
  if (const auto found = redirected_.find(graph.storage_of(id)); found != redirected_.end())
    out.address.offset += found->second.offset - plan_.offsets[found->first];
  return out;
}

Rows Lowering::rows_or_region(ir::ValueId id) {
  if (plan_.is_placed(id)) return rows(id);
  const ir::Value& v = value(id);
  return {.address = floats(v.shape.n_elements()),
          .n_rows = v.shape.n_rows(),
          .n = v.shape.row_elems(),
          .stride_elems = v.shape.row_elems()};
}

Address Lowering::indices(ir::ValueId id) const {
  const ir::Value& v = value(id);
  const ir::Value& storage = value(graph.storage_of(id));
  if (storage.kind != ir::ValueKind::input) return rows(id).address;
  Address out = inputs.address(storage);
  out.offset += static_cast<uint64_t>(v.offset_elems) * sizeof(int32_t);
  return out;
}

std::vector<OutputCopy> Lowering::make_outputs() {
  std::vector<OutputCopy> out;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Rows x = rows(graph.outputs[i]);
    OutputCopy copy{.from = x.address, .n_bytes = static_cast<uint64_t>(x.total()) * sizeof(float)};
    if (x.stride_elems != x.n && x.n_rows > 1) {
      copy.from = floats(x.total());
      Step step{.report = {.what = "output " + std::to_string(i), .label = "copy output", .kernel = "copy_rows"}};
      step.report.bytes = 2.0 * static_cast<double>(copy.n_bytes);
      step.launch = [x, y = Rows{.address = copy.from, .stride_elems = x.n}](const RunContext& c) {
        return launch_copy_rows(copy_args(x, y, c), c.stream);
      };
      steps_.push_back(std::move(step));
    }
    out.push_back(copy);
  }
  return out;
}

void Lowering::reserve_slots() {
  wanted_.assign(graph.values.size(), ActivationForm::f32);
  int64_t largest = 0;
  for (const ir::Node& node : graph.nodes) {
    if (node.op != ir::Op::mul_mat && node.op != ir::Op::mul_mat_id) continue;
    if (uses_gemm(*this, node)) continue;
    const DType dtype = value(node.inputs[0]).dtype;
    const Shape& x = value(node.inputs[1]).shape;
    if (on_tensor_columns(node)) {
      largest = std::max(largest, halves_bytes(x.row_elems(), x.n_rows()));
      continue;
    }
    if (!has_matvec(dtype) || activation_of(dtype) == ActivationForm::f32) continue;
    ActivationForm& wanted = wanted_[same_rows(node.inputs[1])];
    wanted = std::max(wanted, activation_of(dtype));
    largest = std::max(largest, x.n_rows() * q8_column_bytes(x.row_elems()));
  }
  if (largest == 0) return;
  for (size_t i = 0; i < kSlots; ++i) slots_.push_back({.address = region(static_cast<uint64_t>(largest))});
}

const Lowering::Slot* Lowering::slot_of(ir::ValueId x, InputForm form) const {
  for (const Slot& slot : slots_)
    if (slot.value == x && slot.form == form) return &slot;
  return nullptr;
}

Address Lowering::new_slot(ir::ValueId x, InputForm form) {
  Slot& slot = slots_[next_slot_];
  next_slot_ = (next_slot_ + 1) % slots_.size();
  slot.value = x;
  slot.form = form;
  return slot.address;
}

Address Lowering::quantized_by_producer(ir::ValueId x, const Address& read) {
  if (wanted_[x] == ActivationForm::f32) return {};
  if (read.where == Address::Where::arena && slots_[next_slot_].address.offset == read.offset)
    next_slot_ = (next_slot_ + 1) % slots_.size();
  return new_slot(x, InputForm::q8);
}

bool Lowering::on_tensor_columns(const ir::Node& product) const {
  if (batch_invariant || product.op != ir::Op::mul_mat) return false;
  const ir::Value& weight = value(product.inputs[0]);
  const int64_t n_cols = value(product.inputs[1]).shape.n_rows();
  return weight.shape.rank() == 2 && n_cols >= kMinTensorColumns && n_cols <= most_tensor_columns() &&
         has_columns(weight.dtype);
}

Address Lowering::halves(ir::ValueId id) {
  const ir::ValueId x = same_rows(id);
  if (const Slot* slot = slot_of(x, InputForm::halves)) return slot->address;
  const Address out = new_slot(x, InputForm::halves);
  const Rows from = rows(x);
  const double bytes = 6.0 * static_cast<double>(from.total());
  add_helper({"halve", "convert", "input to f16", bytes}, [from, out](const RunContext& c) {
    return launch_halve({.x = c.at(from.address),
                         .n_cols = from.n_rows,
                         .k = from.n,
                         .x_stride = from.stride_elems,
                         .halves = c.at<std::byte>(out),
                         .overlap = true},
                        c.stream);
  });
  return out;
}

Address Lowering::quantized(ir::ValueId id) {
  const ir::ValueId x = same_rows(id);
  if (const Slot* slot = slot_of(x, InputForm::q8)) return slot->address;
  const Address out = new_slot(x, InputForm::q8);
  Rows from = rows(x);
  const auto n = static_cast<double>(from.total());
  const bool low = wants_low(x);
  if (from.stride_elems % 4 != 0 || from.address.offset % 16 != 0) {  // slices: moved to where 16-byte loads work
    const Rows slice = from;
    from.address = floats(from.total());
    from.stride_elems = from.n;
    add_helper({"copy_rows", "quantize", "input quantized", 8.0 * n},
               [slice, to = from](const RunContext& c) { return launch_copy_rows(copy_args(slice, to, c), c.stream); });
  }
  add_helper({"quantize_q8", "quantize", "input quantized", (low ? 6.375 : 5.25) * n},
             [from, out, low](const RunContext& c) {
               return launch_quantize_q8({.x = c.at(from.address),
                                          .n_cols = from.n_rows,
                                          .k = from.n,
                                          .x_stride = from.stride_elems,
                                          .q8 = c.at<std::byte>(out),
                                          .overlap = overlaps(from.n_rows),
                                          .low = low},
                                         c.stream);
             });
  return out;
}

namespace {
// Runs of equal labels counted: "MUL_MAT x2, MUL_MAT+ADD".
std::string labels_of(const ir::Graph& graph, std::span<const ir::Group* const> groups) {
  std::string out;
  for (size_t i = 0, n = 0; i < groups.size(); i += n) {
    const std::string label = fuse::group_label(graph, *groups[i]);
    for (n = 1; i + n < groups.size() && fuse::group_label(graph, *groups[i + n]) == label;) ++n;
    out += (out.empty() ? "" : ", ") + label + (n > 1 ? fmt::format(" x{}", n) : "");
  }
  return out;
}
}  // namespace

StepReport Lowering::describe(std::string_view kernel, std::string_view note) const {
  StepReport report{.label = labels_of(graph, groups_), .kernel = std::string(kernel), .note = std::string(note)};
  for (const ir::Group* group : groups_) {
    report.groups.push_back(static_cast<size_t>(group - graph.groups.data()));
    lowering::add_costs(graph, plan_, *group, report);
  }
  const ir::NodeId first = fuse::member_nodes(graph, *groups_.front()).front(),
                   last = fuse::member_nodes(graph, *groups_.back()).back();
  report.what = graph.node(first).name;
  if (first != last) report.what += ".." + graph.node(last).name;
  return report;
}

void Lowering::take_along(const ir::Group& later) {
  CHECK(lowered_.insert(&later).second);
  groups_.push_back(&later);
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

std::string missing_kernel(const ir::Graph& graph, const ir::Node& node) {
  const OpLowering* row = op_lowering(node.op);
  return lowering::missing_kernel(row != nullptr, row ? row->beyond : nullptr, graph, node);
}

Result<void> check_lowerings(const ir::Graph& graph) {
  return lowering::check_nodes(graph, missing_kernel, "cuda", "--allow-fallback runs it on the CPU");
}

bool supports_rule(const ir::Graph& graph, const fuse::Rule& rule, Nodes nodes) {
  return lowering::supports(rule_lowering(rule.id), graph, nodes);
}

Result<void> Lowering::lower(const ir::Group& group) {
  const std::vector<ir::NodeId> nodes = fuse::pattern_nodes(graph, group);
  if (nodes.empty() || is_lowered(group)) return {};  // views only; done with another group
  groups_ = {&group};
  if (group.rule != UINT16_MAX) return rule_lowering(static_cast<fuse::RuleId>(group.rule))->lower(*this, nodes);
  const OpLowering* row = op_lowering(graph.node(nodes[0]).op);
  CHECK(row != nullptr, ir::op_row(graph.node(nodes[0]).op).name);
  return row->lower(*this, nodes);
}

}  // namespace tokamak::cuda

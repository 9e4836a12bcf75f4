// Routing ops and the biases of experts.
#include "backend/cuda/lower.h"
#include "backend/cuda/ops/routing.h"

namespace tokamak::cuda {

namespace {
using ir::Attr;

Result<void> lower_argsort(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const Rows x = l.rows(node.inputs[0]), y = l.rows(node.output);
  l.add("argsort", [=](const RunContext& c) {
    return launch_argsort({.x = c.at(x.address),
                           .y = c.at<int32_t>(y.address),
                           .x_stride = x.stride_elems,
                           .y_stride = y.stride_elems,
                           .n_rows = x.n_rows,
                           .row_elems = x.n},
                          c.stream);
  });
  return {};
}

Result<void> lower_mask_groups(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const Rows x = l.rows(node.inputs[0]), y = l.rows(node.output);
  const int64_t n_group = node.attrs.integer(Attr::n_group), n_used = node.attrs.integer(Attr::n_group_used);
  const int64_t n_best = node.attrs.integer(Attr::n_best);
  if (n_group > kMaxGroups || n_best > kMaxBest)
    return Error{.code = ErrorCode::unsupported,
                 .what = "the cuda backend has no MASK_GROUPS kernel for so many groups",
                 .where = node.name,
                 .hint = "use --backend cpu"};
  l.add("mask_groups", [=](const RunContext& c) {
    return launch_mask_groups({.x = c.at(x.address),
                               .y = c.at(y.address),
                               .n_group = n_group,
                               .n_group_used = n_used,
                               .n_best = n_best,
                               .x_stride = x.stride_elems,
                               .y_stride = y.stride_elems,
                               .n_rows = x.n_rows,
                               .row_elems = x.n},
                              c.stream);
  });
  return {};
}

Result<void> lower_add_id(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  const Rows a = l.rows(node.inputs[0]), b = l.rows(node.inputs[1]), y = l.rows(node.output);
  const ir::Value& ids = l.value(node.inputs[2]);
  const int64_t n_used = ids.shape[1], ids_stride = ids.row_stride_elems;
  const Address chosen = l.indices(node.inputs[2]);
  l.add("add_id_f32", [=](const RunContext& c) {
    return launch_add_id({.a = c.at(a.address),
                          .b = c.at(b.address),
                          .ids = c.at<int32_t>(chosen),
                          .y = c.at(y.address),
                          .a_stride = a.stride_elems,
                          .b_stride = b.stride_elems,
                          .ids_stride = ids_stride,
                          .y_stride = y.stride_elems,
                          .n_used = n_used,
                          .n_rows = a.n_rows,
                          .row_elems = a.n},
                         c.stream);
  });
  return {};
}
}  // namespace

std::span<const OpLowering> routing_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::argsort, lower_argsort},
      {ir::Op::mask_groups, lower_mask_groups},
      {ir::Op::add_id, lower_add_id},
  });
  return kRows;
}

}  // namespace tokamak::cuda

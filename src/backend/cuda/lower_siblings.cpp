#include "backend/cuda/lower_siblings.h"

#include <algorithm>
#include <optional>

#include "backend/cuda/columns/columns.h"
#include "backend/cuda/matvec/layout.h"
#include "backend/cuda/matvec/matvec.h"

namespace tokamak::cuda {

namespace {

// Groups of one input follow each other closely.
constexpr size_t kReach = 32;

bool can_lead(const Product& p) {
  return p.is_packed && (p.args.n_cols == 1 || p.on_tensor_columns) && !p.up && !p.residual && !p.ids;
}

// The nodes of a product without gate and residual, as mul_mat_epilogue lists them; none for other groups.
std::optional<std::vector<ir::NodeId>> plain_product(const ir::Graph& graph, const ir::Group& group) {
  std::vector<ir::NodeId> nodes = fuse::pattern_nodes(graph, group);
  if (nodes.empty() || graph.node(nodes[0]).op != ir::Op::mul_mat) return {};
  if (group.rule == UINT16_MAX) return std::vector<ir::NodeId>{nodes[0], ir::kNone, ir::kNone};
  const bool epilogue = static_cast<fuse::RuleId>(group.rule) == fuse::RuleId::mul_mat_epilogue;
  if (!epilogue || lowering::residual_of(graph, lowering::epilogue_lane(nodes)) != ir::kNone) return {};
  return nodes;
}

bool are_siblings(const Lowering& l, const ir::Node& a, const ir::Node& b) {
  const CudaWeight &wa = weight_of(l, a), &wb = weight_of(l, b);
  return l.same_rows(a.inputs[1]) == l.same_rows(b.inputs[1]) && wb.packed && wa.dtype == wb.dtype &&
         wb.shape.rank() == 2 && wa.shape.row_elems() == wb.shape.row_elems();
}

// The product of a later group, writing to a region of its own.
Product take_along(Lowering& l, const ir::Group& group, Nodes nodes) {
  const ir::ValueId result = lowering::result_of(l.graph, lowering::epilogue_lane(nodes));
  l.redirect(result, l.floats(l.value(result).shape.n_elements()));
  Product product = nodes[1] == ir::kNone && nodes[2] == ir::kNone ? product_of(l, l.graph.node(nodes[0]), result)
                                                                   : epilogue_product(l, nodes);
  l.take_along(group);
  return product;
}

cudaError_t launch_together(const RunContext& c, const std::vector<Product>& products) {
  std::vector<MatvecPartArgs> parts;
  for (const Product& p : products)
    parts.push_back({.weights = c.at<std::byte>(p.weights),
                     .n_rows = p.args.n_rows,
                     .y = c.at(p.y),
                     .y_stride = p.args.y_stride,
                     .scale = c.at(p.scale),
                     .bias = c.at(p.bias)});
  const Product& first = products.front();
  const MatvecGroupArgs group{.dtype = first.dtype,
                              .parts = parts,
                              .k = first.args.k,
                              .n_cols = static_cast<int>(first.args.n_cols),
                              .x = c.at<std::byte>(first.x),
                              .x_stride = first.args.x_stride,
                              .overlap = true};
  return first.on_tensor_columns ? launch_columns_group(group, c.stream) : launch_matvec_group(group, c.stream);
}

}  // namespace

void add_with_siblings(Lowering& l, const ir::Node& node, const Product& product) {
  std::vector<Product> products = {product};
  const std::span<const ir::Group> later = l.later_groups();
  for (const ir::Group& group : later.first(std::min(later.size(), kReach))) {
    if (!can_lead(product) || products.size() == kMaxMatvecParts) break;
    const auto nodes = plain_product(l.graph, group);
    if (nodes && !l.is_lowered(group) && are_siblings(l, node, l.graph.node((*nodes)[0])))
      products.push_back(take_along(l, group, *nodes));
  }
  if (products.size() == 1) return add_product(l, node, product);
  const bool columns = product.on_tensor_columns;
  l.add(
      columns ? columns_kernel(product.dtype) : find_matvec_layout(product.dtype)->kernel,
      [products = std::move(products)](const RunContext& c) { return launch_together(c, products); },
      columns ? kDependsOnColumns : "");
}

}  // namespace tokamak::cuda

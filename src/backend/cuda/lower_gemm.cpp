#include "backend/cuda/lower_gemm.h"

#include <algorithm>
#include <cctype>

namespace tokamak::cuda {

namespace {

constexpr size_t kSlots = 3;

// Binary16 columns at hand. The oldest make room for new ones; a slot that is too small gets a larger region.
Address* find_slot(Lowering& l, ir::ValueId x, ir::ValueId ids, bool low = false) {
  for (Lowering::HalfUse& use : l.half_uses)
    if (use.value == x && use.ids == ids && use.low == low) return &use.address;
  return nullptr;
}
Address new_slot(Lowering& l, ir::ValueId x, ir::ValueId ids, int64_t n_bytes, bool low = false) {
  if (l.half_uses.size() < kSlots) l.half_uses.push_back({});
  std::rotate(l.half_uses.begin(), l.half_uses.end() - 1, l.half_uses.end());  // the last is the oldest
  Lowering::HalfUse& use = l.half_uses.front();
  if (use.n_bytes < n_bytes) {
    use.address = l.region(static_cast<uint64_t>(n_bytes));
    use.n_bytes = n_bytes;
  }
  use.value = x;
  use.ids = ids;
  use.low = low;
  return use.address;
}

// The step that makes n_columns of x.
Lowering::Helper conversion(const Rows& x, int64_t n_columns) {
  return {.kernel = "half_columns",
          .label = "convert",
          .purpose = "input to binary16",
          .bytes = 4.0 * static_cast<double>(x.total()) + 2.0 * static_cast<double>(n_columns * x.n)};
}

std::string gemm_kernel(DType dtype) {  // for reports: "gemm_nvfp4"
  std::string name = "gemm_" + std::string(dtype_name(dtype));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace

bool uses_gemm(const Lowering& l, const ir::Node& node) {
  if (l.batch_invariant || !has_gemm_device()) return false;
  const CudaWeight& weight = weight_of(l, node);
  if (!weight.packed || !has_gemm(weight.dtype)) return false;
  const bool is_f32 = weight.dtype == DType::f32;
  if (node.op == ir::Op::mul_mat_id)
    return !is_f32 && weight.shape[0] <= kMostExperts && l.value(node.inputs[2]).shape.n_rows() >= kMinGemmColumns;
  return l.value(node.inputs[0]).shape.rank() == 2 &&
         l.value(node.output).shape.n_rows() >= (is_f32 ? kMinGemmColumnsF32 : kMinGemmColumns);
}

Address half_columns(Lowering& l, ir::ValueId id, bool low) {
  const ir::ValueId x = l.same_rows(id);
  if (const Address* at_hand = find_slot(l, x, ir::kNone, low)) return *at_hand;
  const Rows from = l.rows(x);
  const Address out = new_slot(l, x, ir::kNone, half_columns_bytes(from.n_rows, from.n), low);
  l.add_helper(conversion(from, from.n_rows), [from, out, low](const RunContext& c) {
    return launch_half_columns({.x = c.at(from.address),
                                .n_cols = from.n_rows,
                                .k = from.n,
                                .x_stride = from.stride_elems,
                                .halves = c.at<std::byte>(out),
                                .low = low,
                                .overlap = true},
                               c.stream);
  });
  return out;
}

namespace {

// The route of the ids: made once for all products that use them.
Address route_of(Lowering& l, ir::ValueId id, const RouteShape& shape) {
  for (const Lowering::RouteUse& use : l.expert_routes)
    if (use.ids == id && use.n_expert == shape.n_expert) return use.route;
  const Address route = l.region(static_cast<uint64_t>(Route::bytes(shape)));
  l.expert_routes.push_back({id, shape.n_expert, route});
  const int64_t stride = l.value(id).row_stride_elems;
  l.add_helper({"route_experts", "route", "tokens by expert", 12.0 * shape.n_pairs()},
               [shape, route, stride, from = l.indices(id)](const RunContext& c) {
                 return launch_route(c.at<int32_t>(from), stride, shape, c.at<std::byte>(route), true, c.stream);
               });
  return route;
}

}  // namespace

ExpertColumns expert_columns(Lowering& l, const ir::Node& product) {
  const ir::ValueId ids = product.inputs[2], x = l.same_rows(product.inputs[1]);
  const Shape &ids_shape = l.value(ids).shape, &stack = l.value(product.inputs[0]).shape;
  RouteShape shape{.n_tokens = static_cast<int>(ids_shape.n_rows()),
                   .n_used = static_cast<int>(ids_shape.row_elems()),
                   .n_expert = static_cast<int>(stack.rank() == 3 ? stack[0] : 1)};
  shape.tile_cols = expert_tile_columns(shape.n_pairs(), shape.n_expert);
  ExpertColumns out{.shape = shape, .route = route_of(l, ids, shape)};
  if (const Address* at_hand = find_slot(l, x, ids)) {
    out.columns = *at_hand;
    return out;
  }
  const Rows from = l.rows(x);
  out.columns = new_slot(l, x, ids, half_columns_bytes(shape.n_columns(), from.n));
  const int n_copies = l.value(product.inputs[1]).shape[1] == 1 ? shape.n_used : 1;
  l.add_helper(conversion(from, shape.n_pairs()), [from, n_copies, to = out](const RunContext& c) {
    return launch_half_columns({.x = c.at(from.address),
                                .n_cols = from.n_rows,
                                .k = from.n,
                                .x_stride = from.stride_elems,
                                .halves = c.at<std::byte>(to.columns),
                                .shape = &to.shape,
                                .route = c.at<std::byte>(to.route),
                                .n_copies = n_copies,
                                .overlap = true},
                               c.stream);
  });
  return out;
}

void add_gemm(Lowering& l, Product product) {
  if (const uint64_t n_bytes = gemm_workspace_bytes(product.gemm_args({})); n_bytes > 0)
    product.workspace = l.scratch(n_bytes);
  l.add(
      gemm_kernel(product.dtype), [product](const RunContext& c) { return product.launch(c); }, kDependsOnColumns);
}

}  // namespace tokamak::cuda

#include "backend/cuda/gemm/gemm.h"

#include "backend/cuda/device_attribute.h"
#include "backend/cuda/gemm/kernels.h"
#include "backend/cuda/gemm/plan.h"
#include "backend/cuda/matvec/product_params.h"

namespace tokamak::cuda {

namespace {

struct GemmKernel {
  DType dtype;
  LaunchGemm* launch;
};
#define TOKAMAK_ROW(dtype, code) {DType::dtype, gemm_##code},
constexpr GemmKernel kKernels[] = {{DType::f32, gemm_f32_high}, TOKAMAK_PACKED_TYPES(TOKAMAK_ROW)};
#undef TOKAMAK_ROW
const GemmKernel* find_kernel(DType dtype) {
  for (const GemmKernel& kernel : kKernels)
    if (kernel.dtype == dtype) return &kernel;
  return nullptr;
}

GemmPlan plan_of_args(const GemmArgs& args) {
  const MatvecArgs& a = args.product;
  if (args.shape) return expert_plan(args.shape->tile_cols, a.k, !is_quantized(a.dtype));
  return plan_of(a.up ? 2 * a.n_rows : a.n_rows, a.k, a.n_cols, a.dtype);
}

GemmParams params_of(const GemmArgs& args) {
  const MatvecArgs& a = args.product;
  GemmParams p{};
  set_product(p, a);
  p.n_groups = static_cast<int>(div_round_up(a.k, int64_t{kGroup}));
  p.x = static_cast<const uint8_t*>(a.x);
  p.n_padded = args.shape ? args.shape->n_columns() : static_cast<int>(half_padded(a.n_cols));
  p.x_factor = reinterpret_cast<const float*>(p.x + half_tiles_bytes(p.n_padded, a.k));
  p.partial = static_cast<float*>(args.workspace);
  if (!args.shape) return p;
  const Route route = Route::at(args.route, *args.shape);
  p.tiles = route.tiles;
  p.n_tiles = route.n_tiles;
  p.destination = route.destination;
  p.n_col_tiles = args.shape->most_tiles();
  return p;
}

}  // namespace

bool has_gemm_device() {
  return device_attribute(cudaDevAttrComputeCapabilityMajor, 9) == 9 &&
         device_attribute(cudaDevAttrComputeCapabilityMinor, 0) == 0;
}
bool has_gemm(DType dtype) { return find_kernel(dtype) != nullptr; }

cudaError_t launch_half_columns(const HalfColumnsArgs& a, cudaStream_t stream) {
  auto* tiles = static_cast<uint8_t*>(a.halves);
  const int64_t n_padded = a.shape ? a.shape->n_columns() : half_padded(a.n_cols);
  return run_half_columns({.x = a.x,
                           .n_cols = a.n_cols,
                           .k = a.k,
                           .x_stride = a.x_stride,
                           .n_groups = div_round_up(a.k, int64_t{kGroup}),
                           .n_padded = n_padded,
                           .tiles = tiles,
                           .factor = reinterpret_cast<float*>(tiles + half_tiles_bytes(n_padded, a.k)),
                           .low = a.low,
                           .positions = a.shape ? Route::at(a.route, *a.shape).positions : nullptr,
                           .n_copies = a.n_copies,
                           .overlap = a.overlap},
                          stream);
}

cudaError_t launch_route(const int32_t* ids, int64_t ids_stride, const RouteShape& shape, void* route, bool overlap,
                         cudaStream_t stream) {
  return run_route({ids, ids_stride, shape, Route::at(route, shape), overlap}, stream);
}
int expert_tile_columns(int64_t n_pairs, int64_t n_expert) {
  constexpr int64_t kFewColumns = 56;  // of a tile of 64, most of which shall be used
  return n_pairs / n_expert <= kFewColumns ? 64 : 256;
}

uint64_t gemm_workspace_bytes(const GemmArgs& args) {
  const MatvecArgs& a = args.product;
  const GemmPlan plan = plan_of_args(args);
  if (plan.n_splits == 1) return 0;
  return static_cast<uint64_t>(plan.n_splits) * (a.up ? 2 : 1) * static_cast<uint64_t>(a.n_cols * a.n_rows) *
         sizeof(float);
}

namespace {

cudaError_t launch_kernel(LaunchGemm* kernel, const GemmArgs& args, cudaStream_t stream) {
  const GemmPlan plan = plan_of_args(args);
  GemmParams params = params_of(args);
  const cudaError_t error = kernel(params, plan, stream);
  if (error != cudaSuccess || plan.n_splits == 1) return error;
  params.n_splits = 1;
  params.n_parts = plan.n_splits;
  return run_reduce(params, stream);
}

// high x high, + high x low, + low x high; what low x low would add is below the rounding of f32.
cudaError_t launch_f32(const GemmArgs& args, cudaStream_t stream) {
  if (args.product.up || args.shape || !args.x_low) return cudaErrorInvalidValue;
  cudaError_t error = launch_kernel(gemm_f32_high, args, stream);
  GemmArgs rest = args;
  rest.product.bias = nullptr;
  rest.product.residual = args.product.y;
  rest.product.residual_stride = args.product.y_stride;
  if (error == cudaSuccess) error = launch_kernel(gemm_f32_low, rest, stream);
  rest.product.x = args.x_low;
  if (error == cudaSuccess) error = launch_kernel(gemm_f32_high, rest, stream);
  return error;
}

}  // namespace

cudaError_t launch_gemm(const GemmArgs& args, cudaStream_t stream) {
  const GemmKernel* kernel = find_kernel(args.product.dtype);
  if (!kernel || !has_gemm_device()) return cudaErrorInvalidValue;
  return args.product.dtype == DType::f32 ? launch_f32(args, stream) : launch_kernel(kernel->launch, args, stream);
}

}  // namespace tokamak::cuda

#include "backend/cuda/columns/columns.h"

#include <algorithm>
#include <array>

#include "backend/cuda/columns/launchers.h"
#include "backend/cuda/device_attribute.h"
#include "backend/cuda/matvec/launchers.h"

namespace tokamak::cuda {

namespace {

struct ColumnsKernel {
  DType dtype;
  std::string_view name;
  LaunchColumns* launch;
};
#define TOKAMAK_ROW(dtype, code) {DType::dtype, "columns_" #dtype, columns_##code},
constexpr ColumnsKernel kKernels[] = {TOKAMAK_PACKED_TYPES(TOKAMAK_ROW)};
#undef TOKAMAK_ROW

const ColumnsKernel* find(DType dtype) {
  for (const ColumnsKernel& kernel : kKernels)
    if (kernel.dtype == dtype) return &kernel;
  return nullptr;
}

cudaError_t launch(DType dtype, MatvecParams params, const MatvecParts& parts, cudaStream_t stream) {
  const ColumnsKernel* kernel = find(dtype);
  if (!kernel || params.ids || params.n_cols < 1 || params.n_cols > kMaxTensorColumns) return cudaErrorInvalidValue;
  params.x_stride_bytes = halves_of_eight_bytes(params.k);
  return kernel->launch(params, parts, stream);
}

}  // namespace

int most_tensor_columns() {
  constexpr int kNeeded = 163 * 1024;  // of shared memory; most is taken by Q2_0, 166,528 bytes
  return device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, kNeeded) >= kNeeded ? kMaxTensorColumns : 8;
}
bool has_columns(DType dtype) { return find(dtype) != nullptr; }
std::string_view columns_kernel(DType dtype) { return find(dtype)->name; }

cudaError_t launch_columns(const MatvecArgs& args, cudaStream_t stream) {
  const MatvecParams params = params_of(args);
  return launch(args.dtype, params, parts_of(params), stream);
}

cudaError_t launch_columns_group(const MatvecGroupArgs& group, cudaStream_t stream) {
  if (group.parts.empty() || group.parts.size() > kMaxMatvecParts) return cudaErrorInvalidValue;
  MatvecParts parts;
  const MatvecParams params = params_of(group, parts);
  return launch(group.dtype, params, parts, stream);
}

cudaError_t launch_halve(const HalveArgs& a, cudaStream_t stream) {
  return run_halve(a.x, a.n_cols, a.k, a.x_stride, static_cast<uint8_t*>(a.halves), a.overlap, stream);
}

}  // namespace tokamak::cuda

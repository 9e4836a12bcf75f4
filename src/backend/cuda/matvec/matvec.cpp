#include "backend/cuda/matvec/matvec.h"

#include <algorithm>

#include "backend/cuda/matvec/launchers.h"
#include "backend/cuda/matvec/product_params.h"
#include "backend/cuda/matvec/quantize.h"

namespace tokamak::cuda {

namespace {

struct MatvecKernel {
  DType dtype;
  LaunchMatvec* launch;
};
#define TOKAMAK_ROW(dtype, code) {DType::dtype, launch_##code},
constexpr MatvecKernel kKernels[] = {{DType::f32, launch_f32}, TOKAMAK_PACKED_TYPES(TOKAMAK_ROW)};
#undef TOKAMAK_ROW

}  // namespace

MatvecParams params_of(const MatvecArgs& a) {
  MatvecParams p{};
  set_product(p, a);
  p.x = a.x;
  p.x_stride_bytes = is_quantized(a.dtype) ? q8_column_bytes(a.k) : a.x_stride * 4;
  p.ids = a.ids;
  p.n_used = a.n_used;
  p.ids_stride = a.ids_stride;
  p.x_per_token = a.x_per_token;
  p.ids_are_settled = a.ids_are_settled;
  p.y_q8 = static_cast<uint8_t*>(a.y_q8);
  p.y_low = a.y_low;
  return p;
}

MatvecParts parts_of(const MatvecParams& p) {
  MatvecParts parts{};
  parts.part[parts.n_parts++] = {p.lanes[0], p.n_rows, p.y, p.y_stride};
  return parts;
}

namespace {

static_assert(kMaxParts == kMaxMatvecParts);

cudaError_t launch(DType dtype, const MatvecParams& params, const MatvecParts* parts, cudaStream_t stream) {
  for (const MatvecKernel& kernel : kKernels)
    if (kernel.dtype == dtype) return kernel.launch(params, parts, stream);
  return cudaErrorInvalidValue;
}
MatvecArgs args_of(const MatvecGroupArgs& g, const MatvecPartArgs& part) {
  return {.dtype = g.dtype,
          .weights = part.weights,
          .n_rows = part.n_rows,
          .k = g.k,
          .n_cols = g.n_cols,
          .x = g.x,
          .x_stride = g.x_stride,
          .y = part.y,
          .y_stride = part.y_stride,
          .scale = part.scale,
          .bias = part.bias,
          .overlap = g.overlap};
}

}  // namespace

MatvecParams params_of(const MatvecGroupArgs& group, MatvecParts& parts) {
  parts = {};
  MatvecParams params = params_of(args_of(group, group.parts[0]));
  for (const MatvecPartArgs& part : group.parts) {
    const MatvecParams own = params_of(args_of(group, part));
    parts.part[parts.n_parts++] = {own.lanes[0], own.n_rows, own.y, own.y_stride};
    params.n_rows = std::max(params.n_rows, own.n_rows);
  }
  return params;
}

cudaError_t launch_matvec(const MatvecArgs& args, cudaStream_t stream) {
  return launch(args.dtype, params_of(args), nullptr, stream);
}

cudaError_t quantize_result(const MatvecParams& p, cudaStream_t stream) {
  return run_quantize({p.y, p.n_cols, p.n_rows, p.y_stride, p.y_q8, p.y_low}, p.overlap, stream);
}

cudaError_t launch_matvec_group(const MatvecGroupArgs& group, cudaStream_t stream) {
  if (group.parts.empty() || group.parts.size() > kMaxMatvecParts) return cudaErrorInvalidValue;
  if (group.n_cols != 1 || group.parts.size() == 1) {
    for (const MatvecPartArgs& part : group.parts)
      if (const cudaError_t error = launch_matvec(args_of(group, part), stream); error != cudaSuccess) return error;
    return cudaSuccess;
  }
  MatvecParts parts;
  const MatvecParams params = params_of(group, parts);
  return launch(group.dtype, params, &parts, stream);
}

cudaError_t launch_quantize_q8(const QuantizeQ8Args& a, cudaStream_t stream) {
  return run_quantize({a.x, a.n_cols, a.k, a.x_stride, static_cast<uint8_t*>(a.q8), a.low}, a.overlap, stream);
}

cudaError_t launch_rms_norm_q8(const RmsNormQ8Args& a, cudaStream_t stream) {
  return run_rms_norm(
      {a.x, a.add, a.weight, a.n_cols, a.k, a.x_stride, a.eps, a.sum, a.norm, static_cast<uint8_t*>(a.q8), a.low},
      a.overlap, stream);
}

}  // namespace tokamak::cuda

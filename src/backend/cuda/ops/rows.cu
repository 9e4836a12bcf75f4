#include "backend/cuda/ops/rows.h"

#include "backend/cuda/ops/launch.h"
#include "backend/cuda/ops/to_float.cuh"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 256;

template <class T>
__global__ void get_rows_kernel(GetRowsArgs a) {
  start_after_previous_kernel();
  const int64_t n = a.n_rows * a.row_elems;
  for (int64_t i = first_item(); i < n; i += item_step()) {
    const int64_t r = i / a.row_elems, col = i % a.row_elems, token = r / a.n_per_token;
    const int64_t row = token * a.token_rows + a.ids[token * a.ids_stride + r % a.n_per_token];
    a.y[r * a.y_stride + col] = to_float(static_cast<const T*>(a.table)[row * a.table_stride + col]);
  }
}

// One block per row.
__global__ void norm_kernel(NormArgs a) {
  start_after_previous_kernel();
  for (int64_t r = blockIdx.x; r < a.n_rows; r += gridDim.x) {
    const float* x = a.x + r * a.x_stride;
    const auto n = static_cast<float>(a.row_elems);
    float mean = 0;
    if (a.kind == NormKind::centred) {
      float sum = 0;
      for (int64_t i = threadIdx.x; i < a.row_elems; i += blockDim.x) sum += x[i];
      mean = block_reduce<false>(sum) / n;
    }
    float squares = 0;
    for (int64_t i = threadIdx.x; i < a.row_elems; i += blockDim.x) squares = fmaf(x[i] - mean, x[i] - mean, squares);
    squares = block_reduce<false>(squares);
    const float factor = 1.0f / sqrtf((a.kind == NormKind::l2 ? squares : squares / n) + a.eps);
    const float* weight = a.weight ? a.weight + r % a.n_weight_rows * a.weight_stride : nullptr;
    const float* addend = a.addend ? a.addend + r % a.n_addend_rows * a.addend_stride : nullptr;
    for (int64_t i = threadIdx.x; i < a.row_elems; i += blockDim.x) {
      float y = (x[i] - mean) * factor;
      if (weight) y *= weight[i];
      if (addend) y += addend[i];
      a.y[r * a.y_stride + i] = y;
    }
  }
}

__global__ void soft_max_kernel(RowArgs a) {
  start_after_previous_kernel();
  for (int64_t r = blockIdx.x; r < a.n_rows; r += gridDim.x) {
    const float* x = a.x + r * a.x_stride;
    float* y = a.y + r * a.y_stride;
    float largest = -INFINITY;
    for (int64_t i = threadIdx.x; i < a.row_elems; i += blockDim.x) largest = fmaxf(largest, x[i]);
    largest = block_reduce<true>(largest);
    float sum = 0;
    for (int64_t i = threadIdx.x; i < a.row_elems; i += blockDim.x) sum += expf(x[i] - largest);
    sum = block_reduce<false>(sum);
    for (int64_t i = threadIdx.x; i < a.row_elems; i += blockDim.x) y[i] = expf(x[i] - largest) / sum;
  }
}

__global__ void sum_rows_kernel(RowArgs a) {
  start_after_previous_kernel();
  for (int64_t r = blockIdx.x; r < a.n_rows; r += gridDim.x) {
    float sum = 0;
    for (int64_t i = threadIdx.x; i < a.row_elems; i += blockDim.x) sum += a.x[r * a.x_stride + i];
    sum = block_reduce<false>(sum);
    if (threadIdx.x == 0) a.y[r * a.y_stride] = sum;
  }
}

__global__ void copy_rows_kernel(RowArgs a) {
  start_after_previous_kernel();
  const int64_t n = a.n_rows * a.row_elems;
  for (int64_t i = first_item(); i < n; i += item_step()) {
    const int64_t r = i / a.row_elems, col = i % a.row_elems;
    a.y[r * a.y_stride + col] = a.x[r * a.x_stride + col];
  }
}

// Short rows need few threads.
unsigned threads_for(int64_t row_elems) {
  const int64_t wanted = ceil_div(row_elems, 4 * kWarp) * kWarp;
  return static_cast<unsigned>(wanted < 1024 ? wanted : 1024);
}
}  // namespace

cudaError_t launch_get_rows(const GetRowsArgs& args, cudaStream_t stream) {
  const unsigned grid = grid_for(args.n_rows * args.row_elems, kThreads);
  const auto kernel = args.type == DType::f32   ? get_rows_kernel<float>
                      : args.type == DType::f16 ? get_rows_kernel<__half>
                                                : get_rows_kernel<__nv_bfloat16>;
  return launch_overlapped(kernel, grid, kThreads, 0, stream, args);
}

cudaError_t launch_norm(const NormArgs& args, cudaStream_t stream) {
  return launch_overlapped(norm_kernel, grid_for(args.n_rows, 1), threads_for(args.row_elems), 0, stream, args);
}

cudaError_t launch_soft_max(const RowArgs& args, cudaStream_t stream) {
  return launch_overlapped(soft_max_kernel, grid_for(args.n_rows, 1), threads_for(args.row_elems), 0, stream, args);
}

cudaError_t launch_sum_rows(const RowArgs& args, cudaStream_t stream) {
  return launch_overlapped(sum_rows_kernel, grid_for(args.n_rows, 1), threads_for(args.row_elems), 0, stream, args);
}

cudaError_t launch_copy_rows(const RowArgs& args, cudaStream_t stream) {
  return launch_overlapped(copy_rows_kernel, grid_for(args.n_rows * args.row_elems, kThreads), kThreads, 0, stream,
                           args);
}

cudaError_t check_kernel_image() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, copy_rows_kernel);
}

}  // namespace tokamak::cuda

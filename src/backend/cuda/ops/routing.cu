#include "backend/cuda/ops/routing.h"

#include "backend/cuda/ops/launch.h"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 256;

// Falling order, NaN last.
__device__ bool ranks_before(float a, float b) { return a > b || (isnan(b) && !isnan(a)); }

// One block per row; an element's place is the number of those that rank before it.
__global__ void argsort_kernel(ArgsortArgs a) {
  for (int64_t r = blockIdx.x; r < a.n_rows; r += gridDim.x) {
    const float* x = a.x + r * a.x_stride;
    for (int64_t i = threadIdx.x; i < a.row_elems; i += blockDim.x) {
      int64_t place = 0;
      for (int64_t j = 0; j < a.row_elems; ++j)
        if (ranks_before(x[j], x[i]) || (j < i && !ranks_before(x[i], x[j]))) ++place;
      a.y[r * a.y_stride + place] = static_cast<int32_t>(i);
    }
  }
}

// The sum of the n_best largest of n scores, largest first.
__device__ float best_sum(const float* x, int64_t n, int64_t n_best) {
  float best[kMaxBest];
  int64_t n_found = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = n_found;
    while (at > 0 && ranks_before(x[i], best[at - 1])) --at;
    if (at >= n_best) continue;
    if (n_found < n_best) ++n_found;
    for (int64_t j = n_found - 1; j > at; --j) best[j] = best[j - 1];
    best[at] = x[i];
  }
  float sum = 0;
  for (int64_t i = 0; i < n_found; ++i) sum += best[i];
  return sum;
}

// One block per row; a thread per group, then per score.
__global__ void mask_groups_kernel(MaskGroupsArgs a) {
  __shared__ float sums[kMaxGroups];
  __shared__ bool used[kMaxGroups];
  const int64_t size = a.row_elems / a.n_group;
  for (int64_t r = blockIdx.x; r < a.n_rows; r += gridDim.x) {
    const float* x = a.x + r * a.x_stride;
    __syncthreads();
    for (int64_t g = threadIdx.x; g < a.n_group; g += blockDim.x) sums[g] = best_sum(x + g * size, size, a.n_best);
    __syncthreads();
    for (int64_t g = threadIdx.x; g < a.n_group; g += blockDim.x) {
      int64_t place = 0;
      for (int64_t h = 0; h < a.n_group; ++h)
        if (ranks_before(sums[h], sums[g]) || (h < g && !ranks_before(sums[g], sums[h]))) ++place;
      used[g] = place < a.n_group_used;
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < a.row_elems; i += blockDim.x)
      a.y[r * a.y_stride + i] = used[i / size] ? x[i] : -INFINITY;
  }
}

__global__ void add_id_kernel(AddIdArgs a) {
  for (int64_t i = first_item(); i < a.n_rows * a.row_elems; i += item_step()) {
    const int64_t r = i / a.row_elems, col = i % a.row_elems;
    const int64_t expert = a.ids[r / a.n_used * a.ids_stride + r % a.n_used];
    a.y[r * a.y_stride + col] = a.a[r * a.a_stride + col] + a.b[expert * a.b_stride + col];
  }
}
}  // namespace

cudaError_t launch_argsort(const ArgsortArgs& args, cudaStream_t stream) {
  argsort_kernel<<<grid_for(args.n_rows, 1), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t launch_mask_groups(const MaskGroupsArgs& args, cudaStream_t stream) {
  if (args.n_group > kMaxGroups || args.n_best > kMaxBest) return cudaErrorInvalidValue;
  mask_groups_kernel<<<grid_for(args.n_rows, 1), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t launch_add_id(const AddIdArgs& args, cudaStream_t stream) {
  add_id_kernel<<<grid_for(args.n_rows * args.row_elems, kThreads), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace tokamak::cuda

#include "backend/cuda/ops/routing.h"

#include "backend/cuda/ops/functions.h"
#include "backend/cuda/ops/launch.h"
#include "backend/cuda/ops/order.cuh"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 256;

// Falling order, NaN last.
__device__ bool ranks_before(float a, float b) { return a > b || (isnan(b) && !isnan(a)); }

// One block per row; an element's place is the number of those that rank before it.
__global__ void argsort_kernel(ArgsortArgs a) {
  start_after_previous_kernel();
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

struct GroupMemory {
  float sums[kMaxGroups];
  bool used[kMaxGroups];
};
// memory.used: which groups are among the best. All threads must call; they agree afterwards.
__device__ void choose_groups(const float* x, int64_t n, int64_t n_group, int64_t n_used, int64_t n_best,
                              GroupMemory& memory) {
  const int64_t size = n / n_group;
  __syncthreads();
  for (int64_t g = threadIdx.x; g < n_group; g += blockDim.x) memory.sums[g] = best_sum(x + g * size, size, n_best);
  __syncthreads();
  for (int64_t g = threadIdx.x; g < n_group; g += blockDim.x) {
    int64_t place = 0;
    for (int64_t h = 0; h < n_group; ++h) {
      const float other = memory.sums[h], own = memory.sums[g];
      if (ranks_before(other, own) || (h < g && !ranks_before(own, other))) ++place;
    }
    memory.used[g] = place < n_used;
  }
  __syncthreads();
}

// One block per row.
__global__ void mask_groups_kernel(MaskGroupsArgs a) {
  start_after_previous_kernel();
  __shared__ GroupMemory memory;
  for (int64_t r = blockIdx.x; r < a.n_rows; r += gridDim.x) {
    const float* x = a.x + r * a.x_stride;
    choose_groups(x, a.row_elems, a.n_group, a.n_group_used, a.n_best, memory);
    const int64_t size = a.row_elems / a.n_group;
    for (int64_t i = threadIdx.x; i < a.row_elems; i += blockDim.x)
      a.y[r * a.y_stride + i] = memory.used[i / size] ? x[i] : -INFINITY;
  }
}

// p of a logit alone; the logit itself where p takes all of them or comes late.
__device__ float probability_of(RouterKind kind, float x) {
  if (kind == RouterKind::sigmoid) return sigmoid_of(x);
  if (kind == RouterKind::softplus_sqrt) return sqrtf(softplus_of(x));
  return x;
}

// p[i] of the early kinds. All threads must call.
__device__ void probabilities(const RouterArgs& a, const float* x, float* p) {
  float largest = -INFINITY, sum = 0;
  if (a.kind == RouterKind::soft_max) {
    for (int64_t i = threadIdx.x; i < a.n_expert; i += blockDim.x) largest = fmaxf(largest, x[i]);
    largest = block_reduce<true>(largest);
    for (int64_t i = threadIdx.x; i < a.n_expert; i += blockDim.x) sum += expf(x[i] - largest);
    sum = block_reduce<false>(sum);
  }
  for (int64_t i = threadIdx.x; i < a.n_expert; i += blockDim.x) {
    p[i] = a.kind == RouterKind::soft_max ? expf(x[i] - largest) / sum : probability_of(a.kind, x[i]);
  }
}

// From the chosen ones' scores to their weights; one thread.
__device__ void weigh(const RouterArgs& a, float* w) {
  float largest = -INFINITY, sum = 0, divisor = 1;
  if (a.kind == RouterKind::late_soft_max) {
    for (int64_t i = 0; i < a.n_used; ++i) largest = fmaxf(largest, w[i]);
    float total = 0;
    for (int64_t i = 0; i < a.n_used; ++i) total += w[i] = expf(w[i] - largest);
    for (int64_t i = 0; i < a.n_used; ++i) w[i] /= total;
  } else if (a.kind == RouterKind::late_sigmoid) {
    for (int64_t i = 0; i < a.n_used; ++i) w[i] = sigmoid_of(w[i]);
  }
  if (a.renormalise) {
    for (int64_t i = 0; i < a.n_used; ++i) sum += w[i];
    divisor = fminf(fmaxf(sum, a.low), a.high);
  }
  for (int64_t i = 0; i < a.n_used; ++i) w[i] = w[i] / divisor * a.scale;
}

// One block per token.
__global__ void router_kernel(RouterArgs a) {
  start_after_previous_kernel();
  __shared__ float p[kMaxRoutedExperts], score[kMaxRoutedExperts], chosen[kMaxRoutedExperts];
  __shared__ GroupMemory memory;
  const int64_t t = blockIdx.x;
  probabilities(a, a.x + t * a.x_stride, p);
  for (int64_t i = threadIdx.x; i < a.n_expert; i += blockDim.x) score[i] = a.bias ? p[i] + a.bias[i] : p[i];
  __syncthreads();
  if (a.n_best > 0) {
    choose_groups(score, a.n_expert, a.n_group, a.n_group_used, a.n_best, memory);
    for (int64_t i = threadIdx.x; i < a.n_expert; i += blockDim.x)
      if (!memory.used[i / (a.n_expert / a.n_group)]) score[i] = -INFINITY;
    __syncthreads();
  }
  for (int64_t i = threadIdx.x; i < a.n_expert; i += blockDim.x) {
    int64_t place = 0;
    for (int64_t j = 0; j < a.n_expert; ++j)
      if (ranks_before(score[j], score[i]) || (j < i && !ranks_before(score[i], score[j]))) ++place;
    if (place >= a.n_used) continue;
    a.ids[t * a.ids_stride + place] = static_cast<int32_t>(i);
    chosen[place] = p[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) weigh(a, chosen);
  __syncthreads();
  for (int64_t i = threadIdx.x; i < a.n_used; i += blockDim.x) a.weights[t * a.n_used + i] = chosen[i];
}

// --- a warp per token, its experts in registers: expert e in lane e % 32. For routers without groups that use at most
// 32 experts.

// Orders as ranks_before does: greater is better, NaN is 1, 0 is below every score. Both zeros are one.
__device__ uint32_t order_of(float x) { return isnan(x) ? 1 : order_of_bits(x); }

template <int kEach>
struct LaneScores {
  float x[kEach];         // logits, then p; -inf behind the last expert
  uint32_t order[kEach];  // of the score that chooses; 0: taken, or no expert
};

// p from logits, as probabilities() has it for a block.
template <int kEach>
__device__ void lane_probabilities(const RouterArgs& a, LaneScores<kEach>& s) {
  float largest = -INFINITY, sum = 0;
  if (a.kind == RouterKind::soft_max) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) largest = fmaxf(largest, s.x[i]);
    largest = warp_max(largest);
#pragma unroll
    for (int i = 0; i < kEach; ++i) sum += s.x[i] = expf(s.x[i] - largest);
    sum = warp_sum(sum);
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    s.x[i] = a.kind == RouterKind::soft_max ? s.x[i] / sum : probability_of(a.kind, s.x[i]);
  }
}

// Takes the best score that is left, the lowest expert among equals; its p for every lane.
template <int kEach>
__device__ float take_best(LaneScores<kEach>& s, int lane, int& expert) {
  uint32_t best = 0;
  int at = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (s.order[i] > best) best = s.order[i], at = i;
  const uint32_t most = __reduce_max_sync(~0u, best);
  const uint32_t mine = best == most ? static_cast<uint32_t>(at * kWarp + lane) : ~0u;
  const uint32_t chosen = __reduce_min_sync(~0u, mine);
  float p = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (mine == chosen && i == at) p = s.x[i], s.order[i] = 0;
  expert = static_cast<int>(chosen);
  return __shfl_sync(~0u, p, static_cast<int>(chosen % kWarp));
}

// weigh() of the chosen ones, lane r having the r-th.
__device__ float lane_weight(const RouterArgs& a, float w, int lane) {
  const bool is_used = lane < a.n_used;
  if (a.kind == RouterKind::late_soft_max) {
    const float largest = warp_max(is_used ? w : -INFINITY);
    w = is_used ? expf(w - largest) : 0.0f;
    w /= warp_sum(w);
  } else if (a.kind == RouterKind::late_sigmoid) {
    w = sigmoid_of(w);
  }
  const float sum = warp_sum(is_used ? w : 0.0f);
  return w / (a.renormalise ? fminf(fmaxf(sum, a.low), a.high) : 1.0f) * a.scale;
}

template <int kEach>
__global__ void warp_router_kernel(RouterArgs a) {
  allow_next_kernel();
  const int lane = static_cast<int>(threadIdx.x % kWarp), n = static_cast<int>(a.n_expert);
  const int64_t t = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) / kWarp;
  float bias[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) bias[i] = a.bias && i * kWarp + lane < n ? a.bias[i * kWarp + lane] : 0.0f;
  wait_for_previous_kernel();
  if (t >= a.n_tokens) return;
  LaneScores<kEach> s;
#pragma unroll
  for (int i = 0; i < kEach; ++i) s.x[i] = i * kWarp + lane < n ? a.x[t * a.x_stride + i * kWarp + lane] : -INFINITY;
  lane_probabilities(a, s);
#pragma unroll
  for (int i = 0; i < kEach; ++i) s.order[i] = i * kWarp + lane < n ? order_of(s.x[i] + bias[i]) : 0;
  float chosen = 0;
  int32_t id = 0;
  for (int r = 0; r < a.n_used; ++r) {
    int expert;
    const float p = take_best(s, lane, expert);
    if (lane == r) chosen = p, id = expert;
  }
  const float w = lane_weight(a, chosen, lane);
  if (lane >= a.n_used) return;
  a.ids[t * a.ids_stride + lane] = id;
  a.weights[t * a.n_used + lane] = w;
}

template <int kEach>
cudaError_t launch_warp_router(const RouterArgs& args, cudaStream_t stream) {
  // Few tokens: a multiprocessor each.
  const unsigned n_threads = args.n_tokens <= 128 ? kWarp : 4 * kWarp;
  const auto n_blocks = static_cast<unsigned>(ceil_div(args.n_tokens * kWarp, n_threads));
  return launch_overlapped(warp_router_kernel<kEach>, n_blocks, n_threads, 0, stream, args);
}

__global__ void add_id_kernel(AddIdArgs a) {
  start_after_previous_kernel();
  for (int64_t i = first_item(); i < a.n_rows * a.row_elems; i += item_step()) {
    const int64_t r = i / a.row_elems, col = i % a.row_elems;
    const int64_t expert = a.ids[r / a.n_used * a.ids_stride + r % a.n_used];
    a.y[r * a.y_stride + col] = a.a[r * a.a_stride + col] + a.b[expert * a.b_stride + col];
  }
}
}  // namespace

cudaError_t launch_argsort(const ArgsortArgs& args, cudaStream_t stream) {
  return launch_overlapped(argsort_kernel, grid_for(args.n_rows, 1), kThreads, 0, stream, args);
}

cudaError_t launch_mask_groups(const MaskGroupsArgs& args, cudaStream_t stream) {
  if (args.n_group > kMaxGroups || args.n_best > kMaxBest) return cudaErrorInvalidValue;
  return launch_overlapped(mask_groups_kernel, grid_for(args.n_rows, 1), kThreads, 0, stream, args);
}

cudaError_t launch_router(const RouterArgs& args, cudaStream_t stream) {
  if (args.n_expert > kMaxRoutedExperts || args.n_group > kMaxGroups || args.n_best > kMaxBest)
    return cudaErrorInvalidValue;
  if (args.n_best == 0 && args.n_used <= kWarp) {
    if (args.n_expert <= 4 * kWarp) return launch_warp_router<4>(args, stream);
    if (args.n_expert <= 8 * kWarp) return launch_warp_router<8>(args, stream);
    if (args.n_expert <= 16 * kWarp) return launch_warp_router<16>(args, stream);
  }
  return launch_overlapped(router_kernel, static_cast<unsigned>(args.n_tokens), kThreads, 0, stream, args);
}

cudaError_t launch_add_id(const AddIdArgs& args, cudaStream_t stream) {
  return launch_overlapped(add_id_kernel, grid_for(args.n_rows * args.row_elems, kThreads), kThreads, 0, stream, args);
}

}  // namespace tokamak::cuda

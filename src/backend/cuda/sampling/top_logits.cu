// A row is cut into at most 512 groups. Whatever is among the best n of the row is not below the n-th best of the
// groups' maxima, and few values are not: those are collected and sorted.
#include "backend/cuda/sampling/top_logits.h"

#include "backend/cuda/ops/launch.h"

namespace tokamak::cuda {

namespace {
constexpr int kGroups = 512, kThreads = 512, kTop = static_cast<int>(kTopLogits);
constexpr int kRoom = 2 * kThreads;  // values that can be sorted together
constexpr int kGroupThreads = 256;
constexpr int kTeam = 2 * kWarp;                                   // values that a warp sorts by itself
constexpr int kLoads = 8;                                          // of a lane in flight
static_assert(kMaxTopVocab <= int64_t{kGroups} * (kRoom - kTop));  // a group finds room beside the best so far

// Orders as the value does; -infinity, which forbids its token, is 0: no key. NaN and +infinity: the largest.
constexpr uint32_t kBad = ~0u;
__device__ uint32_t order_of(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0f);  // -0 is 0
  if (!(x <= 3.402823466e38f)) return kBad;
  if (bits == 0xFF800000u) return 0;
  return bits ^ (bits >> 31 ? ~0u : 1u << 31);
}
__device__ float value_of(uint32_t order) { return __uint_as_float(order ^ (order >> 31 ? 1u << 31 : ~0u)); }

// The same with the id below, so that all differ and equal values come by rising id.
using Key = uint64_t;
__device__ Key key_of(uint32_t order, int64_t id) { return Key{order} << 32 | ~static_cast<uint32_t>(id); }

template <class T>
__device__ T larger(T a, T b) {
  return a > b ? a : b;
}
template <class T>
__device__ T smaller(T a, T b) {
  return a > b ? b : a;
}

// The orders of values first + lane, + 32, ...; 0 from `last` on.
__device__ void load_orders(const float* values, int64_t first, int64_t last, uint32_t (&orders)[kLoads]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  float x[kLoads];
#pragma unroll
  for (int j = 0; j < kLoads; ++j) {
    const int64_t i = first + j * kWarp + lane;
    x[j] = i < last ? values[i] : -INFINITY;
  }
#pragma unroll
  for (int j = 0; j < kLoads; ++j) orders[j] = order_of(x[j]);
}

struct Group {
  int64_t first, last;
};
__device__ Group group_at(int64_t index, int elems, int64_t n_vocab) {
  const int64_t first = index * elems, last = first + elems;
  return {first, last < n_vocab ? last : n_vocab};
}

// One warp per group: maxima[row, group].
__global__ void group_maxima_kernel(TopLogitsArgs a, int group_elems) {
  start_after_previous_kernel();
  const int64_t index = (blockIdx.x * int64_t{kGroupThreads} + threadIdx.x) / kWarp, row = blockIdx.y;
  const Group group = group_at(index, group_elems, a.n_vocab);
  uint32_t best = 0;
  for (int64_t i = group.first; i < group.last; i += kLoads * kWarp) {
    uint32_t orders[kLoads];
    load_orders(a.logits + row * a.n_vocab, i, group.last, orders);
    for (uint32_t order : orders) best = larger(best, order);
  }
  for (int d = kWarp / 2; d > 0; d /= 2) best = larger(best, __shfl_xor_sync(~0u, best, d));
  if (threadIdx.x % kWarp == 0 && index < kGroups) static_cast<uint32_t*>(a.scratch)[row * kGroups + index] = best;
}

// The exchange of a bitonic sort, largest first: value i of a pair (i, i ^ stride) in a run of `run` values.
template <class T>
__device__ T exchange(T mine, T other, int i, int run, int stride) {
  const bool first = (i & stride) == 0, descending = (i & run) == 0;
  return first == descending ? larger(mine, other) : smaller(mine, other);
}

// Sorts values[0, n), n a power of two from 64 to 1024, largest first. All threads call.
template <class T>
__device__ void sort_descending(T* values, int n) {
  const int i = static_cast<int>(threadIdx.x / kWarp) * kTeam + static_cast<int>(threadIdx.x % kWarp);
  const bool busy = i < n;  // whole warps
  __syncthreads();
  T a = busy ? values[i] : 0, b = busy ? values[i + kWarp] : 0;
  for (int run = 2; run <= n; run *= 2) {
    for (int stride = run / 2; stride >= kTeam; stride /= 2) {  // between warps
      if (busy) values[i] = a, values[i + kWarp] = b;
      __syncthreads();
      if (busy) {
        a = exchange(a, values[i ^ stride], i, run, stride);
        b = exchange(b, values[(i + kWarp) ^ stride], i + kWarp, run, stride);
      }
      __syncthreads();
    }
    if (!busy) continue;
    if (run >= kTeam) {  // within a thread
      const T was = a;
      a = exchange(a, b, i, run, kWarp);
      b = exchange(b, was, i + kWarp, run, kWarp);
    }
    for (int stride = run / 2 < kWarp / 2 ? run / 2 : kWarp / 2; stride > 0; stride /= 2) {
      a = exchange(a, __shfl_xor_sync(~0u, a, stride), i, run, stride);
      b = exchange(b, __shfl_xor_sync(~0u, b, stride), i + kWarp, run, stride);
    }
  }
  if (busy) values[i] = a, values[i + kWarp] = b;
  __syncthreads();
}

struct Selection {
  Key found[kRoom];
  uint32_t maxima[kGroups];
  uint16_t groups[kGroups];  // those that hold something to collect, in any order
  int n_groups, n_found;
};

// Adds what of groups [begin, end) of the list is at least `least`; counts also what has no room.
__device__ void collect(const TopLogitsArgs& a, Selection& s, int group_elems, int begin, int end, uint32_t least) {
  const float* logits = a.logits + blockIdx.x * a.n_vocab;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for (int g = begin + static_cast<int>(threadIdx.x) / kWarp; g < end; g += kThreads / kWarp) {
    const Group group = group_at(s.groups[g], group_elems, a.n_vocab);
    for (int64_t i = group.first; i < group.last; i += kLoads * kWarp) {
      uint32_t orders[kLoads];
      load_orders(logits, i, group.last, orders);
      for (int j = 0; j < kLoads; ++j) {
        if (orders[j] < least) continue;
        const int at = atomicAdd(&s.n_found, 1);
        if (at < kRoom) s.found[at] = key_of(orders[j], i + j * kWarp + lane);
      }
    }
  }
}

// Sorts what was found; all behind it, up to the best kTop, is 0 then.
__device__ void sort_found(Selection& s) {
  __syncthreads();
  int n = kTop;
  while (n < s.n_found) n *= 2;
  for (int i = s.n_found + static_cast<int>(threadIdx.x); i < n; i += kThreads) s.found[i] = 0;
  sort_descending(s.found, n);
}

// One block per row.
__global__ void __launch_bounds__(kThreads) select_kernel(TopLogitsArgs a, int group_elems, int n_groups) {
  __shared__ Selection s;
  start_after_previous_kernel();
  const int thread = static_cast<int>(threadIdx.x);
  const uint32_t mine =
      thread < n_groups ? static_cast<const uint32_t*>(a.scratch)[int64_t{blockIdx.x} * kGroups + thread] : 0;
  s.maxima[thread] = mine;
  if (thread == 0) s.n_groups = s.n_found = 0;
  sort_descending(s.maxima, kGroups);
  const uint32_t least = larger(s.maxima[kTop - 1], 1u);
  if (mine >= least) s.groups[atomicAdd(&s.n_groups, 1)] = static_cast<uint16_t>(thread);
  __syncthreads();
  collect(a, s, group_elems, 0, s.n_groups, least);
  __syncthreads();
  if (s.n_found <= kRoom) {
    sort_found(s);
  } else {  // many are close to each other: in parts that have room beside the best so far
    const int step = (kRoom - kTop) / group_elems;
    for (int begin = 0; begin < s.n_groups; begin += step) {
      __syncthreads();
      if (thread == 0) s.n_found = begin == 0 ? 0 : kTop;
      __syncthreads();
      collect(a, s, group_elems, begin, begin + step < s.n_groups ? begin + step : s.n_groups, least);
      sort_found(s);
    }
  }
  if (thread >= kTop) return;
  const Key key = s.found[thread];
  const auto order = static_cast<uint32_t>(key >> 32), id = ~static_cast<uint32_t>(key);
  TopLogit out;
  out.id = key == 0 ? -1 : static_cast<int32_t>(id);
  out.logit = key == 0 ? 0.0f : order == kBad ? a.logits[blockIdx.x * a.n_vocab + id] : value_of(order);
  a.top[int64_t{blockIdx.x} * kTop + thread] = out;
}
}  // namespace

uint64_t top_logits_scratch(int64_t n_rows) { return static_cast<uint64_t>(n_rows) * kGroups * sizeof(uint32_t); }

cudaError_t launch_top_logits(const TopLogitsArgs& args, cudaStream_t stream) {
  const int group_elems = static_cast<int>(ceil_div(ceil_div(args.n_vocab, kGroups), kWarp) * kWarp);
  const int n_groups = static_cast<int>(ceil_div(args.n_vocab, group_elems));
  const auto n_rows = static_cast<unsigned>(args.n_rows);
  const dim3 grid(static_cast<unsigned>(ceil_div(int64_t{n_groups} * kWarp, kGroupThreads)), n_rows);
  const cudaError_t status = launch_overlapped(group_maxima_kernel, grid, kGroupThreads, 0, stream, args, group_elems);
  if (status != cudaSuccess) return status;
  return launch_overlapped(select_kernel, n_rows, kThreads, 0, stream, args, group_elems, n_groups);
}

}  // namespace tokamak::cuda

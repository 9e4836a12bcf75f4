// A row is cut into at most 2048 groups. Whatever is among the best n of the row lies in one of the n groups with the
// best maxima and is not below the n-th of those maxima: sorting the maxima leaves little to look at.
#include "backend/cuda/sampling/top_logits.h"

#include "backend/cuda/ops/launch.h"

namespace tokamak::cuda {

namespace {
constexpr int kGroups = 2048, kThreads = kGroups / 2, kTop = static_cast<int>(kTopLogits);
constexpr int kGroupThreads = 256;
constexpr int kTeam = 2 * kWarp;  // values that a warp sorts by itself

// Orders as the value does, equal values by falling id; all differ. 0 is below every key.
using Key = uint64_t;
__device__ Key key_of(float x, int64_t id) {
  uint32_t bits = __float_as_uint(x + 0.0f);  // -0 is 0
  bits ^= bits >> 31 ? ~0u : 1u << 31;
  if (!(x <= 3.402823466e38f)) bits = ~0u;
  return Key{bits} << 32 | static_cast<uint32_t>(~static_cast<uint32_t>(id));
}
__device__ uint32_t id_of(Key key) { return ~static_cast<uint32_t>(key); }

__device__ Key max_of(Key a, Key b) { return a > b ? a : b; }
__device__ Key min_of(Key a, Key b) { return a > b ? b : a; }

// One warp per group: maxima[row, group].
__global__ void group_maxima_kernel(TopLogitsArgs a, int group_elems) {
  start_after_previous_kernel();
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t group = (blockIdx.x * int64_t{kGroupThreads} + threadIdx.x) / kWarp, row = blockIdx.y;
  const int64_t first = group * group_elems;
  const int64_t last = first + group_elems < a.n_vocab ? first + group_elems : a.n_vocab;
  const float* logits = a.logits + row * a.n_vocab;
  Key best = 0;
  for (int64_t i = first + lane; i < last; i += kWarp) best = max_of(best, key_of(logits[i], i));
  for (int d = kWarp / 2; d > 0; d /= 2) best = max_of(best, __shfl_xor_sync(~0u, best, d));
  if (lane == 0 && group < kGroups) static_cast<Key*>(a.scratch)[row * kGroups + group] = best;
}

// The exchange of a bitonic sort, largest first: value i of a pair (i, i ^ stride) in a run of `run` values.
__device__ Key exchange(Key mine, Key other, int i, int run, int stride) {
  const bool first = (i & stride) == 0, descending = (i & run) == 0;
  return first == descending ? max_of(mine, other) : min_of(mine, other);
}

// Sorts keys[0, n), n a power of two from 64 to 2048, largest first. All threads call.
__device__ void sort_descending(Key* keys, int n) {
  const int i = static_cast<int>(threadIdx.x / kWarp) * kTeam + static_cast<int>(threadIdx.x % kWarp);
  const bool busy = i < n;  // whole warps
  __syncthreads();
  Key a = busy ? keys[i] : 0, b = busy ? keys[i + kWarp] : 0;
  for (int run = 2; run <= n; run *= 2) {
    for (int stride = run / 2; stride >= kTeam; stride /= 2) {  // between warps
      if (busy) keys[i] = a, keys[i + kWarp] = b;
      __syncthreads();
      if (busy) {
        a = exchange(a, keys[i ^ stride], i, run, stride);
        b = exchange(b, keys[(i + kWarp) ^ stride], i + kWarp, run, stride);
      }
      __syncthreads();
    }
    if (run >= kTeam) {  // within a thread
      const Key was = a;
      a = exchange(a, b, i, run, kWarp);
      b = exchange(b, was, i + kWarp, run, kWarp);
    }
    for (int stride = run / 2 < kWarp / 2 ? run / 2 : kWarp / 2; stride > 0; stride /= 2) {
      a = exchange(a, __shfl_xor_sync(~0u, a, stride), i, run, stride);
      b = exchange(b, __shfl_xor_sync(~0u, b, stride), i + kWarp, run, stride);
    }
  }
  if (busy) keys[i] = a, keys[i + kWarp] = b;
  __syncthreads();
}

// Adds to `found` what of groups [begin, end) of the sorted `maxima` is at least `least`; counts also what has no room.
__device__ void collect(const float* logits, int64_t n_vocab, int group_elems, const uint32_t* groups, int begin,
                        int end, Key least, Key* found, int* n_found) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), n_warps = kThreads / kWarp;
  for (int g = begin + static_cast<int>(threadIdx.x) / kWarp; g < end; g += n_warps) {
    const int64_t first = int64_t{groups[g]} * group_elems;
    for (int j = lane; j < group_elems; j += kWarp) {
      const Key key = first + j < n_vocab ? key_of(logits[first + j], first + j) : 0;
      if (key < least || key == 0) continue;
      const int at = atomicAdd(n_found, 1);
      if (at < kGroups) found[at] = key;
    }
  }
}

struct Selection {
  Key keys[kGroups];
  uint32_t groups[kTop];
  int n_found;
};

// Sorts what was found; all behind it is 0 then.
__device__ void sort_found(Selection& s) {
  __syncthreads();
  int n = kTop;
  while (n < s.n_found && n < kGroups) n *= 2;
  for (int i = s.n_found + static_cast<int>(threadIdx.x); i < n; i += kThreads) s.keys[i] = 0;
  sort_descending(s.keys, n);
}

// One block per row.
__global__ void __launch_bounds__(kThreads) select_kernel(TopLogitsArgs a, int group_elems, int n_groups) {
  __shared__ Selection s;
  start_after_previous_kernel();
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = blockIdx.x;
  const float* logits = a.logits + row * a.n_vocab;
  const Key* maxima = static_cast<const Key*>(a.scratch) + row * kGroups;
  for (int i = thread; i < kGroups; i += kThreads) s.keys[i] = i < n_groups ? maxima[i] : 0;
  sort_descending(s.keys, kGroups);
  const Key least = s.keys[kTop - 1];
  const int n_chosen = n_groups < kTop ? n_groups : kTop;
  if (thread < n_chosen) s.groups[thread] = id_of(s.keys[thread]) / static_cast<uint32_t>(group_elems);
  if (thread == 0) s.n_found = 0;
  __syncthreads();
  collect(logits, a.n_vocab, group_elems, s.groups, 0, n_chosen, least, s.keys, &s.n_found);
  __syncthreads();
  if (s.n_found <= kGroups) {
    sort_found(s);
  } else {  // many close to each other: in parts that have room beside the best so far
    const int step = (kGroups - kTop) / group_elems > 0 ? (kGroups - kTop) / group_elems : 1;
    for (int begin = 0; begin < n_chosen; begin += step) {
      __syncthreads();
      if (thread == 0) s.n_found = begin == 0 ? 0 : kTop;
      __syncthreads();
      const int end = begin + step < n_chosen ? begin + step : n_chosen;
      collect(logits, a.n_vocab, group_elems, s.groups, begin, end, least, s.keys, &s.n_found);
      sort_found(s);
    }
  }
  if (thread >= kTop) return;
  const Key key = s.keys[thread];
  TopLogit out;
  out.id = key == 0 ? -1 : static_cast<int32_t>(id_of(key));
  out.logit = key == 0 ? 0.0f : logits[out.id];
  a.top[row * kTop + thread] = out;
}
}  // namespace

uint64_t top_logits_scratch(int64_t n_rows) { return static_cast<uint64_t>(n_rows) * kGroups * sizeof(Key); }

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

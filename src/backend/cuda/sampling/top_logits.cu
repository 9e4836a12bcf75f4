// A row is cut into at most 1024 groups. A key that at least n maxima of groups reach is reached by at least n logits
// of the row, and whatever reaches it lies in one of those groups: finding such a key leaves little to look at.
#include "backend/cuda/sampling/top_logits.h"

#include <climits>

#include "backend/cuda/ops/launch.h"
#include "backend/cuda/ops/order.cuh"

namespace tokamak::cuda {

namespace {
constexpr int kGroups = 1024, kThreads = kGroups, kTop = static_cast<int>(kTopLogits);
constexpr int kMostChosen = kTop + kWarp;  // groups to look through; few more than kTop leave few logits
constexpr int kRankers = 4;                // threads that find the place of one logit
constexpr int kRoom = kThreads / kRankers;
constexpr int kGroupThreads = 256;
constexpr int kQuad = 4;  // logits that are loaded at once

// Orders as the value does, equal values by falling id; all differ. 0 is below every key.
using Key = uint64_t;
__device__ uint32_t order_of(float x) {
  if (!(x <= 3.402823466e38f)) return ~0u;
  return order_of_bits(x);
}
__device__ Key key_of(uint32_t order, int id) { return Key{order} << 32 | ~static_cast<uint32_t>(id); }
__device__ int id_of(Key key) { return static_cast<int>(~static_cast<uint32_t>(key)); }
// What no logit is below whose key reaches `least`.
__device__ float bound_of(Key least) {
  const auto order = static_cast<uint32_t>(least >> 32);
  if (order == ~0u) return INFINITY;
  return __uint_as_float(order ^ (order >> 31 ? 1u << 31 : ~0u));
}

// A row of logits and how it is cut. kAligned: quads are, and none is cut by the end.
template <bool kAligned>
struct Row {
  const float* logits;
  int n_vocab, group_elems;  // a multiple of kQuad
  uint32_t inverse;          // high word of quad * inverse: its group, exact for what is divided here; 0: it itself

  __device__ Row(const TopLogitsArgs& a, int64_t row, int group_size)
      : logits(a.logits + row * a.n_vocab),
        n_vocab(static_cast<int>(a.n_vocab)),
        group_elems(group_size),
        inverse(~0u / static_cast<uint32_t>(group_size / kQuad) + 1) {}

  // The first id of a quad, counted through the groups of a list.
  __device__ int id_of_quad(int quad, const int* groups) const {
    const int at = inverse == 0 ? quad : static_cast<int>(__umulhi(static_cast<uint32_t>(quad), inverse));
    return (groups[at] - at) * group_elems + quad * kQuad;
  }
  // Logits id to id + 3, -infinity beyond the end.
  __device__ void load(int id, float (&x)[kQuad]) const {
    if constexpr (kAligned) {
      const float4 quad = id < n_vocab ? *reinterpret_cast<const float4*>(logits + id)
                                       : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
      x[0] = quad.x, x[1] = quad.y, x[2] = quad.z, x[3] = quad.w;
    } else {
#pragma unroll
      for (int i = 0; i < kQuad; ++i) x[i] = id + i < n_vocab ? logits[id + i] : -INFINITY;
    }
  }
};

// One warp per group: maxima[row, group], 0 behind the last group.
template <bool kAligned>
__global__ void __launch_bounds__(kGroupThreads) group_maxima_kernel(TopLogitsArgs a, int group_elems) {
  start_after_previous_kernel();
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int group = static_cast<int>(blockIdx.x * kGroupThreads + threadIdx.x) / kWarp;
  const Row<kAligned> row(a, blockIdx.y, group_elems);
  const int first = group * group_elems;
  const int end = first + group_elems < row.n_vocab ? first + group_elems : row.n_vocab;
  uint32_t best = 0;
  int best_id = 0;
  constexpr int kAtOnce = 2, kStep = kWarp * kQuad;  // quads under way
  for (int at = first + lane * kQuad; at < end; at += kAtOnce * kStep) {
    float x[kAtOnce][kQuad];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) row.load(at + i * kStep < end ? at + i * kStep : row.n_vocab, x[i]);
#pragma unroll
    for (int i = 0; i < kAtOnce * kQuad; ++i) {
      const int id = at + i / kQuad * kStep + i % kQuad;
      const uint32_t order = id < end ? order_of(x[i / kQuad][i % kQuad]) : 0;
      if (order > best) best = order, best_id = id;  // the first of equal ones
    }
  }
  const uint32_t most = __reduce_max_sync(~0u, best);
  best_id = __reduce_min_sync(~0u, best == most ? best_id : INT_MAX);
  if (lane == 0)
    static_cast<Key*>(a.scratch)[int64_t{blockIdx.y} * kGroups + group] = most > 0 ? key_of(most, best_id) : 0;
}

// A key that at least kTop keys reach, of which all lie in [low, high], found bit by bit from above; no more than
// `most` do, where keys allow it. At least kTop reach `low`. count(key): how many reach it, for all threads the same.
template <class Count>
__device__ Key reached_by_best(Key low, Key high, int most, Count count) {
  if (low == high) return low;
  Key bit = Key{1} << (63 - __clzll(static_cast<int64_t>(low ^ high)));
  Key least = low & ~(2 * bit - 1);  // what both begin with
  for (; bit != 0; bit >>= 1) {
    const int n = count(least | bit);
    if (n < kTop) continue;
    least |= bit;
    if (n <= most) break;
  }
  return least;
}

struct Selection {
  Key keys[kRoom];
  int ids[kTop];  // of the best, in order
  float logits[kTop];
  int groups[kThreads];
  uint32_t least[kWarp], most[kWarp];  // of the orders of a warp's maxima
  int n_groups, n_keys;
};

// The least and the largest order of all maxima but those of no group, as bounds of keys.
__device__ void bounds_of(Key maximum, Selection& s, Key& low, Key& high) {
  const auto order = static_cast<uint32_t>(maximum >> 32);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint32_t least = __reduce_min_sync(~0u, maximum == 0 ? ~0u : order), most = __reduce_max_sync(~0u, order);
  if (lane == 0) s.least[threadIdx.x / kWarp] = least, s.most[threadIdx.x / kWarp] = most;
  __syncthreads();
  low = Key{__reduce_min_sync(~0u, s.least[lane])} << 32;
  high = Key{__reduce_max_sync(~0u, s.most[lane])} << 32 | ~0u;
}

// Logits of the chosen groups that reach `least`: their keys in any order, counted also where there is no room.
template <bool kAligned>
__device__ void collect(const Row<kAligned>& row, Selection& s, Key least) {
  constexpr int kAtOnce = 5;  // quads under way
  __syncthreads();
  if (threadIdx.x == 0) s.n_keys = 0;
  __syncthreads();
  const float bound = bound_of(least);
  const int n_quads = s.n_groups * (row.group_elems / kQuad);
  for (int first = static_cast<int>(threadIdx.x); first < n_quads; first += kAtOnce * kThreads) {
    float x[kAtOnce][kQuad];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int quad = first + i * kThreads;
      row.load(quad < n_quads ? row.id_of_quad(quad, s.groups) : row.n_vocab, x[i]);
    }
    uint32_t left = 0;  // a bit for each that may reach it
#pragma unroll
    for (int i = 0; i < kAtOnce * kQuad; ++i)
      if (!(x[i / kQuad][i % kQuad] < bound)) left |= 1u << i;
    for (; left != 0; left &= left - 1) {
      const int i = __ffs(static_cast<int>(left)) - 1, quad = first + i / kQuad * kThreads;
      const int id = quad < n_quads ? row.id_of_quad(quad, s.groups) + i % kQuad : row.n_vocab;
      if (id >= row.n_vocab) continue;
      const Key key = key_of(order_of(row.logits[id]), id);
      if (key < least) continue;
      const int place = atomicAdd(&s.n_keys, 1);
      if (place < kRoom) s.keys[place] = key;
    }
  }
  __syncthreads();
}

// Every key's place is the number of those above it.
__device__ void rank(const float* logits, Selection& s) {
  const int thread = static_cast<int>(threadIdx.x), mine = thread / kRankers;
  const Key key = mine < s.n_keys ? s.keys[mine] : 0;
  const float logit = key != 0 ? logits[id_of(key)] : 0;
  int place = 0;
#pragma unroll 4
  for (int i = thread % kRankers; i < s.n_keys; i += kRankers) place += s.keys[i] > key ? 1 : 0;
  for (int d = kRankers / 2; d > 0; d /= 2) place += __shfl_xor_sync(~0u, place, d);
  if (thread % kRankers == 0 && key != 0 && place < kTop) s.ids[place] = id_of(key), s.logits[place] = logit;
  if (thread >= s.n_keys && thread < kTop) s.ids[thread] = -1, s.logits[thread] = 0;
}

// One block per row, a thread per group.
template <bool kAligned>
__global__ void __launch_bounds__(kThreads) select_kernel(TopLogitsArgs a, int group_elems, int n_groups) {
  __shared__ Selection s;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) s.n_groups = 0;
  const Row<kAligned> row(a, blockIdx.x, group_elems);
  start_after_previous_kernel();
  const Key maximum = static_cast<const Key*>(a.scratch)[int64_t{blockIdx.x} * kGroups + thread];
  Key low, high, least = 1;
  bounds_of(maximum, s, low, high);
  if (n_groups >= kTop)
    least =
        reached_by_best(low, high, kMostChosen, [&](Key key) { return __syncthreads_count(maximum >= key ? 1 : 0); });
  if (maximum >= least) s.groups[atomicAdd(&s.n_groups, 1)] = thread;
  collect(row, s, least);
  if (s.n_keys > kRoom) {  // many close to each other
    least = reached_by_best(least, high, kRoom, [&](Key key) { return collect(row, s, key), s.n_keys; });
    collect(row, s, least);
  }
  rank(row.logits, s);
  __syncthreads();
  if (thread < kTop) a.top[int64_t{blockIdx.x} * kTop + thread] = {s.ids[thread], s.logits[thread]};
}
template <bool kAligned>
cudaError_t launch(const TopLogitsArgs& args, cudaStream_t stream) {
  const int group_elems = static_cast<int>(ceil_div(ceil_div(args.n_vocab, kGroups), kQuad) * kQuad);
  const int n_groups = static_cast<int>(ceil_div(args.n_vocab, group_elems));
  const auto n_rows = static_cast<unsigned>(args.n_rows);
  const dim3 grid(kGroups * kWarp / kGroupThreads, n_rows);
  const cudaError_t status =
      launch_overlapped(group_maxima_kernel<kAligned>, grid, kGroupThreads, 0, stream, args, group_elems);
  if (status != cudaSuccess) return status;
  return launch_overlapped(select_kernel<kAligned>, n_rows, kThreads, 0, stream, args, group_elems, n_groups);
}
}  // namespace

uint64_t top_logits_scratch(int64_t n_rows) { return static_cast<uint64_t>(n_rows) * kGroups * sizeof(Key); }

cudaError_t launch_top_logits(const TopLogitsArgs& args, cudaStream_t stream) {
  const bool aligned = args.n_vocab % kQuad == 0 && reinterpret_cast<uintptr_t>(args.logits) % sizeof(float4) == 0;
  return aligned ? launch<true>(args, stream) : launch<false>(args, stream);
}

}  // namespace tokamak::cuda

// Sorts pairs (token, used expert) by expert: one CTA per expert. Every CTA counts all pairs to know where its own
// columns begin, then gives them out in the order of tokens.
#include "backend/cuda/gemm/kernels.h"
#include "backend/cuda/overlap.h"

namespace tokamak::cuda {

namespace {

constexpr int kThreads = 256, kRun = 8;

// Sums of `value` over the threads before this one; total: over all.
__device__ int sum_before(int value, int& total) {
  __shared__ int warps[kThreads / 32];
  const int lane = threadIdx.x % 32;
  int sum = value;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const int other = __shfl_up_sync(0xFFFFFFFF, sum, d);
    if (lane >= d) sum += other;
  }
  __syncthreads();
  if (lane == 31) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  int before = 0;
  total = 0;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < static_cast<int>(threadIdx.x) / 32) before += warps[w];
    total += warps[w];
  }
  return before + sum - value;
}

// Experts of consecutive pairs; -1 past the end and for what is no expert.
struct Run {
  int first, ids[kRun];

  __device__ Run(const RouteParams& p, int first_pair) : first(first_pair) {
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      const int pair = first + i;
      const int id =
          pair < p.shape.n_pairs() ? p.ids[pair / p.shape.n_used * p.ids_stride + pair % p.shape.n_used] : -1;
      ids[i] = id < p.shape.n_expert ? id : -1;
    }
  }
};

__global__ void __launch_bounds__(kThreads) route_kernel(const __grid_constant__ RouteParams p) {
  allow_next_kernel();
  __shared__ int counts[kMostExperts];
  const int expert = blockIdx.x, n_expert = p.shape.n_expert, n_pairs = p.shape.n_pairs();
  for (int e = threadIdx.x; e < n_expert; e += kThreads) counts[e] = 0;
  __syncthreads();
  wait_for_previous_kernel();
  // A thread takes kRun consecutive pairs at a time.
  for (int round = 0; round < n_pairs; round += kThreads * kRun) {
    const Run run(p, round + static_cast<int>(threadIdx.x) * kRun);
#pragma unroll
    for (int i = 0; i < kRun; ++i)
      if (run.ids[i] >= 0) atomicAdd(&counts[run.ids[i]], 1);
  }
  __syncthreads();
  int columns = 0, tiles = 0, all_tiles = 0;  // of the experts before this one; tiles of all
  for (int e = threadIdx.x; e < n_expert; e += kThreads) {
    const int n_tiles = (counts[e] + p.shape.tile_cols - 1) / p.shape.tile_cols;
    if (e < expert) columns += round_up(counts[e], kColumnUnit), tiles += n_tiles;
    all_tiles += n_tiles;
  }
  int first_col, first_tile, n_tiles;
  sum_before(columns, first_col);
  sum_before(tiles, first_tile);
  sum_before(all_tiles, n_tiles);
  int n_mine = 0;
  for (int round = 0; round < n_pairs; round += kThreads * kRun) {
    const Run run(p, round + static_cast<int>(threadIdx.x) * kRun);
    int n_in_run = 0, n_in_round;
#pragma unroll
    for (int i = 0; i < kRun; ++i) n_in_run += run.ids[i] == expert;
    int column = first_col + n_mine + sum_before(n_in_run, n_in_round);
    n_mine += n_in_round;
#pragma unroll
    for (int i = 0; i < kRun; ++i)
      if (run.ids[i] == expert) {
        p.route.positions[run.first + i] = column;
        p.route.destination[column] = run.first + i;
        ++column;
      } else if (expert == 0 && run.ids[i] < 0 && run.first + i < n_pairs) {
        p.route.positions[run.first + i] = -1;
      }
  }
  for (int i = threadIdx.x; i * p.shape.tile_cols < n_mine; i += kThreads)
    p.route.tiles[first_tile + i] = {expert, first_col + i * p.shape.tile_cols,
                                     min(p.shape.tile_cols, n_mine - i * p.shape.tile_cols)};
  if (expert == 0 && threadIdx.x == 0) *p.route.n_tiles = n_tiles;
}

}  // namespace

cudaError_t run_route(const RouteParams& p, cudaStream_t stream) {
  if (p.shape.n_expert > kMostExperts) return cudaErrorInvalidValue;
  const auto grid = static_cast<unsigned>(p.shape.n_expert);
  return enqueue(route_kernel, {grid, kThreads, 0, p.overlap}, stream, p);
}

}  // namespace tokamak::cuda

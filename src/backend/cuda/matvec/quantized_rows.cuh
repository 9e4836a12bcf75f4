// The end of a product of one column (or one per expert) whose result is quantized too, for the next product: groups of
// 32 rows belong to one block, or to the blocks of a cluster.
#pragma once

#include <bit>

#include "backend/cuda/device_attribute.h"
#include "backend/cuda/matvec/epilogue.cuh"
#include "backend/cuda/matvec/geometry.h"
#include "backend/cuda/matvec/quantize_group.cuh"
#include "backend/cuda/ptx/barrier.cuh"
#include "backend/cuda/ptx/cluster.cuh"
#include "backend/cuda/ptx/memory.cuh"

namespace tokamak::cuda {

// Blocks whose rows are a part of a group of 32 are a cluster with those that have the rest.
constexpr int kMostClusterRows = 16, kLeastClusterRows = 4;

// Shared memory of such a block, behind the partial sums: what the first of the cluster gets from all.
struct ClusterGroup {
  uint64_t barrier;
  float values[32];
};
template <class P>
__device__ inline ClusterGroup& cluster_group(const MatvecParams& p, const Split& s, uint4* shared) {
  const int n_sums = s.g.n_slices * s.cta_blocks * p.n_lanes * P::kRows;
  return *reinterpret_cast<ClusterGroup*>(reinterpret_cast<float*>(shared) + P::kTableBytes / 4 + n_sums);
}
template <class P>
__device__ inline bool is_clustered(const Split& s) {
  return s.cta_blocks * P::kRows <= kMostClusterRows;
}

// As finish_rows of one column, and the result quantized, 32 rows by a warp.
template <class P>
__device__ inline void finish_quantized(const MatvecParams& p, const Split& s, const float* part, ClusterGroup& group,
                                        int cta_first_block, int expert, int64_t col) {
  const int lane = threadIdx.x % 32, thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int cta_rows = s.cta_blocks * P::kRows, slice_stride = s.cta_blocks * p.n_lanes * P::kRows;
  const int64_t first_row = static_cast<int64_t>(cta_first_block) * P::kRows;
  const auto inputs_of = [&](int r) {
    return r < cta_rows && first_row + r < p.n_rows ? load_row_inputs(p, first_row + r, expert, col) : RowInputs{};
  };
  RowInputs inputs = inputs_of(thread);
  const auto value_of = [&](int r) {
    float sum[2];
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      if (l >= p.n_lanes) break;
      const float* sums = part + (r / P::kRows * p.n_lanes + l) * P::kRows + r % P::kRows;
      sum[l] = sums[0];
#pragma unroll 8
      for (int slice = 1; slice < s.g.n_slices; ++slice) sum[l] += sums[slice * slice_stride];
    }
    return finish_row(p, sum, inputs, first_row + r, col);
  };
  uint8_t* column = p.y_q8 + col * q8_column_bytes(p.n_rows);
  __syncthreads();
  if (!is_clustered<P>(s)) {
    const int step = blockDim.x * blockDim.y;
    for (int r = thread; r < cta_rows && first_row + r < p.n_rows; r += step, inputs = inputs_of(r))
      quantize_group(column, p.n_rows, first_row + r - lane, value_of(r), lane, p.y_low);
    return;
  }
#if __CUDA_ARCH__ >= 900
  const int rank = static_cast<int>(ptx::rank_in_cluster());
  ptx::wait_for_cluster();  // all have begun
  const uint32_t barrier = ptx::shared_address(&group.barrier);
  if (thread < cta_rows)
    ptx::store_in_cluster(ptx::shared_address(&group.values[rank * cta_rows + thread]), barrier, 0, value_of(thread));
  if (rank != 0 || thread >= 32) return;
  ptx::barrier_wait(barrier, 0);
  quantize_group(column, p.n_rows, first_row, group.values[lane], lane, p.y_low);
#endif
}

// More row blocks per CTA, so that its rows are groups of 32, or a part of one that a cluster can put together. Whether
// no more than a quarter of the CTAs is lost by that.
template <class P>
bool fit_to_groups(const MatvecParams& p, Split& s) {
  static_assert(P::kRows % 2 == 0);                                          // the barrier is aligned
  const int step = P::kRows * s.n_groups, rows = step * s.blocks_per_group;  // step: a power of two
  int fitted =
      rows > kMostClusterRows ? (rows + 31) / 32 * 32 : static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows)));
  if (fitted < kLeastClusterRows) fitted = kLeastClusterRows;
  const bool has_clusters = device_attribute(cudaDevAttrClusterLaunch, 0) != 0;
  if (p.n_rows % 32 != 0 || 3 * fitted > 4 * rows || (fitted <= kMostClusterRows && !has_clusters)) return false;
  s.blocks_per_group = fitted / step;
  s.cta_blocks = s.blocks_per_group * s.n_groups;
  return P::kTableBytes + s.g.n_slices * s.cta_blocks * p.n_lanes * P::kRows * 4 + int{sizeof(ClusterGroup)} <=
         48 * 1024;
}

}  // namespace tokamak::cuda

// The mat-vec kernel, one for every type. y[c][row] = sum over k of W[row][k] * x[c][k], then the epilogue.
//
// A warp owns a slice (32 units) of a row block and walks down row blocks; lane u holds the activations of unit u. One
// row block's codes are in flight while the one before is used, the first while the kernel before still runs. Rows of a
// block are summed over the lanes together, partial sums go to shared memory, and after one barrier a thread per row
// adds the slices in ascending order and runs the epilogue. The order of additions depends on the type and k only: not
// on the number of columns, the grid or the device. A GLU walks over blocks of gate and up alternately. No atomics.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>

#include "backend/cuda/matvec/activations.h"
#include "backend/cuda/matvec/epilogue.cuh"
#include "backend/cuda/matvec/geometry.h"
#include "backend/cuda/matvec/launchers.h"
#include "backend/cuda/matvec/params.h"
#include "backend/cuda/matvec/quantized_rows.cuh"
#include "backend/cuda/matvec/types_plain.h"
#include "backend/cuda/overlap.h"
#include "backend/cuda/ptx/barrier.cuh"
#include "backend/cuda/ptx/cluster.cuh"
#include "backend/cuda/ptx/memory.cuh"

namespace tokamak::cuda {

template <class P>
__device__ inline typename P::Acts load_acts(const MatvecParams& p, int64_t col, int unit) {
  const auto* column = static_cast<const uint8_t*>(p.x) + col * p.x_stride_bytes;
  if constexpr (P::kQuantized) {
    const auto* codes = reinterpret_cast<const uint4*>(column + 32 * unit);
    const uint4 a = codes[0], b = codes[1];
    const uint2 group = *reinterpret_cast<const uint2*>(column + p.k + 8 * unit);
    const Words<8> high{{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    const float d = __uint_as_float(group.x);
    const int s0 = static_cast<int16_t>(group.y & 0xFFFF), s1 = static_cast<int16_t>(group.y >> 16);
    if constexpr (kReadsLow<P>) {
      const uint8_t* rest = column + q8_low_offset(p.k);
      const auto* low = reinterpret_cast<const uint4*>(rest + 32 * unit);
      const uint4 e = low[0], f = low[1];
      const uint32_t sums = *reinterpret_cast<const uint32_t*>(rest + p.k + 4 * unit);
      return make_acts<P>(high, d, s0, s1, {{e.x, e.y, e.z, e.w, f.x, f.y, f.z, f.w}},
                          static_cast<int16_t>(sums & 0xFFFF), static_cast<int16_t>(sums >> 16));
    } else {
      return make_acts<P>(high, d, s0, s1);
    }
  } else {
    ActsF32 acts;
    const auto* x = reinterpret_cast<const float*>(column) + 16 * unit;
    const bool whole = (p.k | p.x_stride_bytes / 4) % 16 == 0 && reinterpret_cast<uintptr_t>(p.x) % 16 == 0;
    if (whole) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4 v = reinterpret_cast<const float4*>(x)[i];
        acts.x[4 * i] = v.x, acts.x[4 * i + 1] = v.y, acts.x[4 * i + 2] = v.z, acts.x[4 * i + 3] = v.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < 16; ++i) acts.x[i] = 16 * unit + i < p.k ? x[i] : 0.0f;
    }
    return acts;
  }
}
template <class P>
__device__ inline typename P::Acts zero_acts() {
  typename P::Acts acts;
  if constexpr (kReadsLow<P>)
    acts = make_acts<P>({}, 0.0f, 0, 0, {}, 0, 0);
  else if constexpr (P::kQuantized)
    acts = make_acts<P>({}, 0.0f, 0, 0);
  else
    for (float& x : acts.x) x = 0.0f;
  return acts;
}

// v[n] of every lane -> the sum over lanes of v[row] in v[0], row = row_of_lane. Lanes are added in one order
// (distances 16, 8, 4, 2, 1) for every row and n.
template <int n>
__device__ inline void reduce_rows(float (&v)[n], int lane) {
  int distance = 16;
#pragma unroll
  for (int m = n; m > 1; m /= 2, distance /= 2) {
    const bool upper = lane & distance;
#pragma unroll
    for (int i = 0; i < m / 2; ++i) {
      const float sent = upper ? v[i] : v[i + m / 2], kept = upper ? v[i + m / 2] : v[i];
      v[i] = kept + __shfl_xor_sync(0xFFFFFFFF, sent, distance);
    }
  }
#pragma unroll
  for (int d = 16 / n; d > 0; d /= 2) v[0] += __shfl_xor_sync(0xFFFFFFFF, v[0], d);
}
template <int n>
__device__ inline int row_of_lane(int lane) {
  return lane / (32 / n);
}

// The number of units of a slice: known to the compiler for whole slices.
template <int n>
struct UnitCount {
  static constexpr bool kWhole = true;
  __device__ constexpr operator int() const { return n; }
};
struct PartialUnits {
  static constexpr bool kWhole = false;
  int n;
  __device__ operator int() const { return n; }
};

// A warp's part of one slice. Tile t + 1 lies `step` behind tile t, where step alternates between first_step (to the up
// matrix, or to the next row block) and two_steps - first_step.
struct SliceWalk {
  const uint8_t* first_tile;
  int64_t first_step, two_steps;
  int n_tiles, n_cols, first_unit;
  int64_t x_col;
  float* part;  // sums of the rows of each tile and column
};

template <class P, bool kColumns, class Units>
__device__ inline void walk_slice(const MatvecParams& p, const SliceWalk& w, Units n_units, Lookup lookup, int lane,
                                  bool& waited) {
  Unit unit = make_unit<P>(w.first_tile, Units::kWhole || lane < n_units ? lane : n_units - 1, n_units);
  typename P::Codes codes[P::kRows];
  typename P::Scales scales;
  if (w.n_tiles > 0) {
#pragma unroll
    for (int r = 0; r < P::kRows; ++r) codes[r] = P::load_codes(unit, r);
    scales = P::load_scales(unit);
  }
  if (!waited) wait_for_previous_kernel(), waited = true;
  typename P::Acts acts = zero_acts<P>();
  if (!kColumns && lane < n_units) acts = load_acts<P>(p, w.x_col, w.first_unit + lane);

  int64_t step = w.first_step;
  float* out = w.part;
  for (int left = w.n_tiles - 1; left >= 0; --left, out += P::kRows * w.n_cols) {
    const bool more = left > 0;
    unit.place += step;
    step = w.two_steps - step;
    const auto now = P::prepare(scales);
    if (more) scales = P::load_scales(unit);
    if constexpr (!kColumns) {
      float v[P::kRows];
#pragma unroll
      for (int r = 0; r < P::kRows; ++r) {
        v[r] = dot_once<P>(codes[r], now, r, lookup, acts);
        if (more) codes[r] = P::load_codes(unit, r);
      }
      reduce_rows(v, lane);
      if (lane % (32 / P::kRows) == 0) out[row_of_lane<P::kRows>(lane)] = v[0];
    } else {
      constexpr int kChunk = P::kRows < 4 ? P::kRows : 4;
#pragma unroll
      for (int first = 0; first < P::kRows; first += kChunk) {
        typename P::Decoded rows[kChunk];
#pragma unroll
        for (int r = 0; r < kChunk; ++r) {
          rows[r] = decode_unit<P>(codes[first + r], now, first + r, lookup);
          if (more) codes[first + r] = P::load_codes(unit, first + r);
        }
#pragma unroll 1
        for (int c = 0; c < w.n_cols; ++c) {
          typename P::Acts column = zero_acts<P>();
          if (lane < n_units) column = load_acts<P>(p, c, w.first_unit + lane);
          float v[kChunk];
#pragma unroll
          for (int r = 0; r < kChunk; ++r) v[r] = dot_of<P>(rows[r], column);
          reduce_rows(v, lane);
          if (lane % (32 / kChunk) == 0) out[c * P::kRows + first + row_of_lane<kChunk>(lane)] = v[0];
        }
      }
    }
  }
}

// Slices of each row added in ascending order, then the epilogue. part: sums of all warps of the CTA.
template <class P, bool kColumns>
__device__ inline void finish_rows(const MatvecParams& p, const Split& s, const float* part, int cta_first_block,
                                   int expert, int first_col) {
  const int lane = threadIdx.x % 32, n_cols = kColumns ? p.n_cols : 1;
  const int slice_stride = s.cta_blocks * p.n_lanes * P::kRows * n_cols;
  // A lane per row, a warp per column. What the first row needs is loaded before the barrier.
  const int n_threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int first = kColumns ? lane : thread, step = kColumns ? 32 : n_threads;
  const int cta_rows = s.cta_blocks * P::kRows;
  const int64_t cta_first_row = static_cast<int64_t>(cta_first_block) * P::kRows;
  const auto inputs_of = [&](int r, int c) {
    return cta_first_row + r < p.n_rows && r < cta_rows && c < n_cols
               ? load_row_inputs(p, cta_first_row + r, expert, first_col + c)
               : RowInputs{};
  };
  RowInputs inputs = inputs_of(first, kColumns ? thread / 32 : 0);
  __syncthreads();
  for (int c = kColumns ? thread / 32 : 0; c < n_cols; c += n_threads / 32) {
    if (c >= n_threads / 32) inputs = inputs_of(first, c);
    for (int r = first; r < cta_rows; r += step) {
      const int64_t row = cta_first_row + r;
      if (row >= p.n_rows) break;
      float sum[2];
#pragma unroll
      for (int l = 0; l < 2; ++l) {
        if (l >= p.n_lanes) break;
        const float* sums = part + ((r / P::kRows * p.n_lanes + l) * n_cols + c) * P::kRows + r % P::kRows;
        sum[l] = sums[0];
#pragma unroll 8
        for (int slice = 1; slice < s.g.n_slices; ++slice) sum[l] += sums[slice * slice_stride];
      }
      finish_row(p, sum, inputs, row, first_col + c);
      inputs = inputs_of(r + step, c);
    }
  }
}

// The work of CTA `cta` of a matrix. kColumns: activations of one column stay in registers; of several they are read
// again for every row block, which is decoded once.
template <class P, bool kColumns, bool kQuantizes = false>
__device__ __forceinline__ void run_cta(const MatvecParams& p, const Split& s, int cta) {
  TOKAMAK_DYNAMIC_SHARED(16, uint4, shared);
  // The first loads of weights are what everything waits for: only what they need comes before them.
  const int lane = threadIdx.x % 32;
  const int cta_first_block = cta * s.cta_blocks;
  const int first_block = cta_first_block + threadIdx.y * s.blocks_per_group;
  const int last_block = s.g.n_row_blocks - 1;
  const uint8_t* first_tile =
      p.lanes[0].weights + P::kTableBytes +
      static_cast<uint64_t>(static_cast<uint32_t>(min(first_block, last_block))) * s.g.row_block_bytes;
  allow_next_kernel();
#if __CUDA_ARCH__ >= 900
  if (kQuantizes && is_clustered<P>(s)) {
    if (threadIdx.x == 0 && threadIdx.y == 0 && ptx::rank_in_cluster() == 0) {
      const uint32_t barrier = ptx::shared_address(&cluster_group<P>(p, s, shared).barrier);
      ptx::barrier_init(barrier, 1);
      ptx::fence_barrier_init();
      ptx::barrier_expect(barrier, sizeof(ClusterGroup::values));
    }
    ptx::begin_in_cluster();
  }
#endif
  if constexpr (P::kTableBytes > 0) {
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < P::kTableBytes / 16; i += blockDim.x * blockDim.y)
      shared[i] = reinterpret_cast<const uint4*>(p.lanes[0].weights)[i];
    __syncthreads();
  }
  bool waited = false;
  // Experts: column z * n_used + y of the launch; else column 0.
  int expert = 0, first_col = 0, x_col = 0;
  if (!kColumns && p.ids) {
    if (!p.ids_are_settled) wait_for_previous_kernel(), waited = true;
    expert = p.ids[blockIdx.z * p.ids_stride + blockIdx.y];
    first_tile += static_cast<uint64_t>(static_cast<uint32_t>(expert)) * s.g.matrix_bytes;
    first_col = blockIdx.z * gridDim.y + blockIdx.y;
    x_col = p.x_per_token ? blockIdx.z : first_col;
  }

  auto* part = reinterpret_cast<float*>(shared) + P::kTableBytes / 4;
  const int n_cols = kColumns ? p.n_cols : 1;
  const int n_tiles = max(0, min(s.blocks_per_group, last_block + 1 - first_block)) * p.n_lanes;
  const int slice_stride = s.cta_blocks * p.n_lanes * P::kRows * n_cols;
  const Lookup lookup{reinterpret_cast<const uint32_t*>(shared), threadIdx.x * p.zero};
  const int64_t to_up = p.n_lanes == 2 ? p.lanes[1].weights - p.lanes[0].weights : s.g.row_block_bytes;
  const int64_t two_steps = p.n_lanes == 2 ? s.g.row_block_bytes : 2 * int64_t{s.g.row_block_bytes};
  float* group_part = part + threadIdx.y * s.blocks_per_group * p.n_lanes * P::kRows * n_cols;
  for (int slice = threadIdx.x / 32; slice < s.g.n_slices; slice += blockDim.x / 32) {
    const SliceWalk w{first_tile + static_cast<uint32_t>(slice * s.g.tile_bytes),
                      to_up,
                      two_steps,
                      n_tiles,
                      n_cols,
                      slice * kSliceUnits,
                      x_col,
                      group_part + slice * slice_stride};
    if (slice + 1 < s.g.n_slices || s.g.last_units == kSliceUnits)
      walk_slice<P, kColumns>(p, w, UnitCount<kSliceUnits>{}, lookup, lane, waited);
    else
      walk_slice<P, kColumns>(p, w, PartialUnits{s.g.last_units}, lookup, lane, waited);
  }
  if (!waited) wait_for_previous_kernel();

  if constexpr (kQuantizes)
    finish_quantized<P>(p, s, part, cluster_group<P>(p, s, shared), cta_first_block, expert, first_col);
  else
    finish_rows<P, kColumns>(p, s, part, cta_first_block, expert, first_col);
}

template <class P, bool kColumns>
__global__ void __launch_bounds__(512) __maxnreg__(kColumns ? 128 : P::kRegisters)
    matvec_kernel(const __grid_constant__ MatvecParams p, const __grid_constant__ Split s) {
  run_cta<P, kColumns>(p, s, blockIdx.x);
}

// One column (or one per expert) that is quantized too.
template <class P>
__global__ void __launch_bounds__(512) __maxnreg__(P::kRegisters)
    matvec_quantizing_kernel(const __grid_constant__ MatvecParams p, const __grid_constant__ Split s) {
  run_cta<P, false, true>(p, s, blockIdx.x);
}

// One column, several matrices: a CTA belongs to one of them.
template <class P>
__global__ void __launch_bounds__(512) __maxnreg__(P::kRegisters)
    matvec_parts_kernel(const __grid_constant__ MatvecParams common, const __grid_constant__ MatvecParts parts,
                        const __grid_constant__ Split split) {
  int i = 0, cta = blockIdx.x;
  while (i + 1 < parts.n_parts && cta >= parts.n_ctas[i]) cta -= parts.n_ctas[i++];
  MatvecParams p = common;
  p.lanes[0] = parts.part[i].lane;
  p.n_rows = parts.part[i].n_rows;
  p.y = parts.part[i].y;
  p.n_lanes = 1;
  p.residual = nullptr;
  p.ids = nullptr;
  Split s = split;
  s.g.n_row_blocks = static_cast<int>((p.n_rows + P::kRows - 1) / P::kRows);
  run_cta<P, false>(p, s, cta);
}

inline int resident_warps(int warps_per_sm, int cta_warps) { return warps_per_sm / cta_warps * cta_warps; }

template <class P>
int64_t ctas_of(int64_t n_rows, int n_groups, int64_t blocks_per_group) {
  const int64_t rows = P::kRows * n_groups * blocks_per_group;
  return (n_rows + rows - 1) / rows;
}

// Warps of a CTA: one slice each if that fills the multiprocessor, else as many passes over slices as do; about four at
// least. As few row blocks per CTA as let all CTAs run at once. parts: null for a single matrix.
template <class P>
Split split_of(const MatvecParams& p, bool columns, const MatvecParts* parts) {
  Split s;
  s.g = geometry_of<P>(p.n_rows, p.k);
  const int warps_per_sm = columns ? 16 : 65536 / (32 * P::kRegisters);
  s.n_slice_warps = 0;
  for (int passes = (s.g.n_slices + 15) / 16; passes <= s.g.n_slices; ++passes) {
    const int warps = (s.g.n_slices + passes - 1) / passes;
    // Another pass must let a quarter more warps run.
    if (s.n_slice_warps == 0 ||
        4 * resident_warps(warps_per_sm, warps) > 5 * resident_warps(warps_per_sm, s.n_slice_warps))
      s.n_slice_warps = warps;
  }
  s.n_groups = s.n_slice_warps >= 4 ? 1 : 4 / s.n_slice_warps;
  const int cta_warps = s.n_slice_warps * s.n_groups;
  const int ctas_per_sm = warps_per_sm / cta_warps > 0 ? warps_per_sm / cta_warps : 1;
  const int64_t slots = static_cast<int64_t>(p.n_sms) * ctas_per_sm;
  // Of all parts; with ids of all pairs.
  const auto n_ctas = [&](int64_t blocks) {
    if (!parts) return ctas_of<P>(p.n_rows, s.n_groups, blocks) * (columns ? 1 : p.n_cols);
    int64_t n = 0;
    for (int i = 0; i < parts->n_parts; ++i) n += ctas_of<P>(parts->part[i].n_rows, s.n_groups, blocks);
    return n;
  };
  // Shared memory for partial sums bounds the blocks of a CTA.
  const int64_t bytes_per_block =
      static_cast<int64_t>(s.g.n_slices) * s.n_groups * p.n_lanes * P::kRows * 4 * (columns ? p.n_cols : 1);
  const int64_t most = (48 * 1024 - P::kTableBytes) / bytes_per_block;
  const int64_t largest = ctas_of<P>(p.n_rows, s.n_groups, 1);
  int64_t blocks = (n_ctas(1) + slots - 1) / slots;
  while (blocks < largest && n_ctas(blocks) > slots) ++blocks;
  if (blocks > most) blocks = most;
  s.blocks_per_group = static_cast<int>(blocks > 0 ? blocks : 1);
  s.cta_blocks = s.blocks_per_group * s.n_groups;
  return s;
}

// A launch but for its grid.
template <class P>
LaunchShape launch_shape(const MatvecParams& p, const Split& s, int n_cols) {
  return {.grid = {},
          .block = dim3(static_cast<unsigned>(32 * s.n_slice_warps), static_cast<unsigned>(s.n_groups)),
          .shared_bytes =
              static_cast<size_t>(P::kTableBytes + s.g.n_slices * s.cta_blocks * p.n_lanes * P::kRows * 4 * n_cols),
          .overlap = p.overlap};
}

template <class P, bool kColumns>
cudaError_t launch_kernel(const MatvecParams& p, cudaStream_t stream) {
  const Split s = split_of<P>(p, kColumns, nullptr);
  LaunchShape shape = launch_shape<P>(p, s, kColumns ? p.n_cols : 1);
  const unsigned n_used = kColumns || !p.ids ? 1 : static_cast<unsigned>(p.n_used);
  shape.grid = dim3(static_cast<unsigned>(ctas_of<P>(p.n_rows, s.n_groups, s.blocks_per_group)), n_used,
                    kColumns ? 1 : static_cast<unsigned>(p.n_cols) / n_used);
  return enqueue(matvec_kernel<P, kColumns>, shape, stream, p, s);
}

template <class P>
cudaError_t launch_quantizing(const MatvecParams& p, const Split& s, cudaStream_t stream) {
  const unsigned n_used = p.ids ? static_cast<unsigned>(p.n_used) : 1;
  LaunchShape shape = launch_shape<P>(p, s, 1);
  shape.shared_bytes += sizeof(ClusterGroup);
  shape.grid = dim3(static_cast<unsigned>(ctas_of<P>(p.n_rows, s.n_groups, s.blocks_per_group)), n_used,
                    static_cast<unsigned>(p.n_cols) / n_used);
  if (const int rows = s.cta_blocks * P::kRows; rows <= kMostClusterRows)
    shape.cluster_blocks = static_cast<unsigned>(32 / rows);
  return enqueue(matvec_quantizing_kernel<P>, shape, stream, p, s);
}

template <class P>
cudaError_t launch_parts(const MatvecParams& p, MatvecParts parts, cudaStream_t stream) {
  const Split s = split_of<P>(p, false, &parts);
  LaunchShape shape = launch_shape<P>(p, s, 1);
  shape.grid.x = 0;
  for (int i = 0; i < parts.n_parts; ++i) {
    parts.n_ctas[i] = static_cast<int>(ctas_of<P>(parts.part[i].n_rows, s.n_groups, s.blocks_per_group));
    shape.grid.x += static_cast<unsigned>(parts.n_ctas[i]);
  }
  return enqueue(matvec_parts_kernel<P>, shape, stream, p, parts, s);
}

inline constexpr int kMaxColumns = 8;

// Any number of columns: alone, in runs of up to kMaxColumns, or one per expert. parts, if given: of one column.
template <class P>
cudaError_t launch(const MatvecParams& params, const MatvecParts* parts, cudaStream_t stream) {
  if (parts) return launch_parts<P>(params, *parts, stream);
  if (params.y_q8) {
    if constexpr (P::kQuantized) {
      Split s = split_of<P>(params, false, nullptr);
      if ((params.n_cols == 1 || params.ids) && fit_to_groups<P>(params, s))
        return launch_quantizing<P>(params, s, stream);
    }
    MatvecParams alone = params;
    alone.y_q8 = nullptr;
    const cudaError_t error = launch<P>(alone, nullptr, stream);
    return error == cudaSuccess ? quantize_result(params, stream) : error;
  }
  if (params.n_cols == 1 || params.ids) return launch_kernel<P, false>(params, stream);
  for (int first = 0; first < params.n_cols; first += kMaxColumns) {
    MatvecParams p = params;
    p.n_cols = params.n_cols - first < kMaxColumns ? params.n_cols - first : kMaxColumns;
    p.x = static_cast<const uint8_t*>(params.x) + first * params.x_stride_bytes;
    p.y += first * params.y_stride;
    if (p.residual) p.residual += first * params.residual_stride;
    const cudaError_t error = p.n_cols == 1 ? launch_kernel<P, false>(p, stream) : launch_kernel<P, true>(p, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace tokamak::cuda

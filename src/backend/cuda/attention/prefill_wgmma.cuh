// Prefill attention with products of warpgroups (sm_90a), keys and values in f16. One warpgroup fetches blocks of keys
// and values; two work on 64 rows each of a tile. While the values of a block are multiplied, the scores of the next
// one become probabilities.
#pragma once

#include <cuda.h>

#include <algorithm>

#include "backend/cuda/attention/prefill_kernels.h"
#include "backend/cuda/attention/prefill_rows.cuh"
#include "backend/cuda/attention/prefill_wgmma_ops.cuh"

namespace tokamak::cuda::prefill {

inline constexpr int kGroupThreads = 128, kWorkers = 2 * kGroupThreads;
inline constexpr int kGroupRows = 64;
// Of 65536: the launch gives every thread 168, a warpgroup can take what another one has given.
inline constexpr int kFetcherRegisters = 40, kWorkerRegisters = 232;
static_assert(kGroupThreads * (kFetcherRegisters + 2 * kWorkerRegisters) <= kGroupThreads * 3 * 168);
inline constexpr int kWorkersMeet = 1;  // id of a barrier

template <int kDk, int kDv>
struct WideShape {
  static constexpr int kKeys = kDk <= 128 ? 128 : 64;  // of a block
  static constexpr bool kSharedQueries = kDk > 192;    // else in registers
  static constexpr int kKeyBytes = kKeys * kDk * 2, kValueBytes = kKeys * kDv * 2;
  static constexpr int kQueryBytes = kSharedQueries ? 2 * kGroupRows * kDk * 2 : 0;
  static constexpr int kStages = 2;
  static constexpr int kKeysAt = kQueryBytes, kValuesAt = kKeysAt + kStages * kKeyBytes;
  static constexpr int kBarriersAt = kValuesAt + kStages * kValueBytes;
  static constexpr int kBytes = kBarriersAt + 4 * kStages * 8;
  static constexpr int kPanelBytes = kKeys * kPanelRowBytes;
  static_assert(kBytes <= 227 * 1024);
};

struct WideParams {
  PrefillAttentionArgs a;
  CUtensorMap keys, values;  // [panels][rows of the plane][64 dimensions]
  int box_rows;              // a divisor of the page size
};

// Which blocks an item's tokens see.
template <int kKeys>
struct BlockWalk {
  Range seen;
  int first, count;
  __device__ explicit BlockWalk(const Range& r)
      : seen(r), first(r.begin / kKeys), count(r.begin < r.end ? (r.end + kKeys - 1) / kKeys - first : 0) {}
  __device__ int key(int block) const { return (first + block) * kKeys; }
  __device__ bool is_whole(int block) const { return key(block) >= seen.begin && key(block) + kKeys <= seen.end; }
};

// Barriers in shared memory: filled and emptied, by stage, of keys and of values.
template <int kStages>
struct Ring {
  uint32_t at;
  __device__ uint32_t full(uint32_t n) const { return at + 8 * (n % kStages); }
  __device__ uint32_t empty(uint32_t n) const { return at + 8 * (kStages + n % kStages); }
  __device__ static uint32_t parity(uint32_t n) { return n / kStages & 1; }
};

// The items of a block: to and fro, so that who had the longest item of a round has the shortest of the next.
template <class Work>
__device__ void for_each_item(const PrefillAttentionArgs& a, Work work) {
  const int n_items = a.tiles[0] * static_cast<int>(a.n_head_kv), grid = static_cast<int>(gridDim.x);
  for (int first = 0, round = 0; first < n_items; first += grid, ++round) {
    const int index = first + static_cast<int>(round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    if (index < n_items) work(item_of(a, index));
  }
}

// One warp: fetches what the workers will ask for.
template <int kDk, int kDv>
__device__ void fetch_all(const WideParams& p, uint32_t shared) {
  using S = WideShape<kDk, kDv>;
  const Ring<S::kStages> keys{shared + S::kBarriersAt}, values{keys.at + 16 * S::kStages};
  uint32_t n = 0;  // blocks so far
  for_each_item(p.a, [&](const Item& item) {
    const BlockWalk<S::kKeys> walk(hull(p.a, item));
    const int32_t* pages = p.a.pages + p.a.page_begin[p.a.seq_ids[item.token]];
    const auto page_size = static_cast<uint32_t>(p.a.page_size);
    const auto fetch = [&](const Ring<S::kStages>& ring, const CUtensorMap* map, uint32_t to, int n_panels, int block) {
      if (n >= S::kStages) barrier_wait(ring.empty(n), ring.parity(n - S::kStages));
      const int key = walk.key(block), box = p.box_rows;
      const int begin = max(key, walk.seen.begin / box * box);
      const int end = min(key + S::kKeys, (walk.seen.end + box - 1) / box * box);
      barrier_expect(ring.full(n), (end - begin) * n_panels * kPanelRowBytes);
      for (int at = begin; at < end; at += box) {
        const uint32_t page = static_cast<uint32_t>(at) / page_size, slot = static_cast<uint32_t>(at) % page_size;
        const int row = static_cast<int>((pages[page] * p.a.n_head_kv + item.head_kv) * page_size + slot);
        for (int panel = 0; panel < n_panels; ++panel)
          copy_box(to + panel * S::kPanelBytes + (at - key) * kPanelRowBytes, map, row, panel, ring.full(n));
      }
    };
    for (int block = 0; block < walk.count; ++block, ++n) {
      if (threadIdx.x % 32 != 0) continue;
      const uint32_t stage = n % S::kStages;
      fetch(keys, &p.keys, shared + S::kKeysAt + stage * S::kKeyBytes, kDk / kPanelDims, block);
      fetch(values, &p.values, shared + S::kValuesAt + stage * S::kValueBytes, kDv / kPanelDims, block);
    }
    __syncwarp();
  });
}

// The 64 rows of a warpgroup: a worker's thread.
template <int kDk, int kDv>
struct Worker : Rows<kDv, 1, WideShape<kDk, kDv>::kKeys> {
  using S = WideShape<kDk, kDv>;
  using Base = Rows<kDv, 1, S::kKeys>;
  using Base::scores, Base::sums;
  static constexpr int kSteps = kDk / 16, kValueSteps = S::kKeys / 16;

  uint32_t q[S::kSharedQueries ? 1 : kSteps][4];  // queries as a product takes them
  uint32_t q_at;                                  // or where they are, in panels of 64 rows
  uint32_t p[kValueSteps][4];                     // probabilities

  // Rows [first, first + 64) of the item.
  __device__ void load_queries(const PrefillAttentionArgs& a, const Item& item, int first, float factor) {
    const int thread = threadIdx.x % kGroupThreads, group = static_cast<int>(a.n_head / a.n_head_kv);
    const auto row_of = [&](int row) -> const float* {
      const int at = row / group;
      if (at >= item.n_tokens) return nullptr;
      return a.q + (item.token + at) * a.q_stride + (item.head_kv * group + row % group) * a.q_head_stride;
    };
    if constexpr (S::kSharedQueries) {
      constexpr int kChunks = kDk / 8;
      for (int i = thread; i < kGroupRows * kChunks; i += kGroupThreads) {
        const int row = i / kChunks, chunk = i % kChunks;
        const float* from = row_of(first + row);
        uint4 v = {0, 0, 0, 0};
        if (from) {
          const float4 low = *reinterpret_cast<const float4*>(from + 8 * chunk);
          const float4 high = *reinterpret_cast<const float4*>(from + 8 * chunk + 4);
          v = {pack_clamped(low.x * factor, low.y * factor), pack_clamped(low.z * factor, low.w * factor),
               pack_clamped(high.x * factor, high.y * factor), pack_clamped(high.z * factor, high.w * factor)};
        }
        store_vector(q_at + chunk / 8 * kGroupRows * kPanelRowBytes + row * kPanelRowBytes + ((chunk ^ row) % 8) * 16,
                     v);
      }
      fence_bulk();
      meet(kWorkersMeet + 1 + static_cast<int>(threadIdx.x) / kGroupThreads, kGroupThreads);
    } else {
      const int row = first + thread / 32 * 16 + thread % 32 / 4;
      const float* rows[2] = {row_of(row), row_of(row + 8)};
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float2 x = {0, 0};
          if (rows[i % 2]) x = *reinterpret_cast<const float2*>(rows[i % 2] + 16 * step + i / 2 * 8 + thread % 4 * 2);
          q[step][i] = pack_clamped(x.x * factor, x.y * factor);
        }
    }
  }

  // Starts scores = queries * keys.
  __device__ void start_scores(uint32_t keys) {
    const uint64_t k = rows_operand(keys);
    products_begin();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint64_t b = advanced(k, step / 4 * S::kPanelBytes + step % 4 * 32);
      if constexpr (S::kSharedQueries) {
        const uint64_t a = advanced(rows_operand(q_at), step / 4 * kGroupRows * kPanelRowBytes + step % 4 * 32);
        multiply_shared_64<0, false>(scores[0], a, b, step > 0);
      } else if constexpr (S::kKeys == 128) {
        multiply_registers_128<0, false>(scores[0], q[step], b, step > 0);
      } else {
        multiply_registers_64<0, false>(scores[0], q[step], b, step > 0);
      }
    }
    products_end();
  }
  // Starts sums += probabilities * values.
  __device__ void start_values(uint32_t values) {
    const uint64_t v = columns_operand(values, S::kPanelBytes);
    products_begin();
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step) {
      const uint64_t b = advanced(v, step * 16 * kPanelRowBytes);
      if constexpr (kDv == 64) multiply_registers_64<0, true>(sums[0], p[step], b, 1);
      if constexpr (kDv >= 128) multiply_registers_128<0, true>(sums[0], p[step], b, 1);
      if constexpr (kDv == 256) multiply_registers_128<16, true>(sums[0], p[step], advanced(b, 2 * S::kPanelBytes), 1);
    }
    products_end();
  }
  __device__ void pack_probabilities() {
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* s = &scores[0][2 * step + i / 2][i % 2 * 2];
        p[step][i] = pack(s[0], s[1]);
      }
  }
};

// Waits for blocks and gives them back. n: blocks of earlier items.
template <int kDk, int kDv>
struct WorkerBlocks {
  using S = WideShape<kDk, kDv>;
  uint32_t shared, n;
  BlockWalk<S::kKeys> walk;

  __device__ Ring<S::kStages> keys() const { return {shared + S::kBarriersAt}; }
  __device__ Ring<S::kStages> values() const { return {shared + S::kBarriersAt + 16 * S::kStages}; }

  __device__ uint32_t wait_keys(int block) const {
    barrier_wait(keys().full(n + block), keys().parity(n + block));
    return shared + S::kKeysAt + (n + block) % S::kStages * S::kKeyBytes;
  }
  // Rows that no token of the item sees are zero.
  __device__ uint32_t wait_values(int block) const {
    barrier_wait(values().full(n + block), values().parity(n + block));
    const uint32_t at = shared + S::kValuesAt + (n + block) % S::kStages * S::kValueBytes;
    if (!walk.is_whole(block)) clear_hidden(block, at);
    return at;
  }
  __device__ void release(uint32_t empty) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(empty);
  }
  __device__ void release_keys(int block) const { release(keys().empty(n + block)); }
  __device__ void release_values(int block) const { release(values().empty(n + block)); }

 private:
  __device__ void clear_hidden(int block, uint32_t at) const {
    constexpr int kChunks = S::kValueBytes / 16;
    for (int i = threadIdx.x % kWorkers; i < kChunks; i += kWorkers) {
      const int key = walk.key(block) + i / 8 % S::kKeys;
      if (key < walk.seen.begin || key >= walk.seen.end) store_vector(at + 16 * i, {0, 0, 0, 0});
    }
    fence_bulk();
    meet(kWorkersMeet, kWorkers);
  }
};

template <int kDk, int kDv>
__device__ void work_through(Worker<kDk, kDv>& w, const Scores& s, const WorkerBlocks<kDk, kDv>& blocks) {
  const int count = blocks.walk.count;
  if (count == 0) return;
  w.start_scores(blocks.wait_keys(0));
  products_wait<0>();
  settle(w.scores[0]);
  blocks.release_keys(0);
  w.finish_scores(s, blocks.walk.key(0));
  w.soften();
  w.pack_probabilities();
  for (int block = 1; block < count; ++block) {
    const uint32_t keys = blocks.wait_keys(block);
    w.start_scores(keys);
    const uint32_t values = blocks.wait_values(block - 1);
    w.start_values(values);
    products_wait<1>();
    settle(w.scores[0]);
    blocks.release_keys(block);
    w.finish_scores(s, blocks.walk.key(block));
    w.soften();
    products_wait<0>();
    settle(w.sums[0]);
    blocks.release_values(block - 1);
    w.rescale();
    w.pack_probabilities();
  }
  w.start_values(blocks.wait_values(count - 1));
  products_wait<0>();
  settle(w.sums[0]);
  blocks.release_values(count - 1);
}

template <int kDk, int kDv>
__global__ void __launch_bounds__(kGroupThreads + kWorkers, 1)
    prefill_wide_kernel(const __grid_constant__ WideParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using S = WideShape<kDk, kDv>;
  extern __shared__ __align__(1024) uint8_t memory[];
  const uint32_t shared = shared_address(memory);
  if (threadIdx.x == 0) {
    for (const uint32_t at : {shared + S::kBarriersAt, shared + S::kBarriersAt + 16 * S::kStages})
      for (int stage = 0; stage < S::kStages; ++stage) {
        barrier_init(Ring<S::kStages>{at}.full(stage), 1);
        barrier_init(Ring<S::kStages>{at}.empty(stage), kWorkers / 32);
      }
    fence_bulk();
  }
  __syncthreads();
  if (threadIdx.x >= kWorkers) {
    give_registers<kFetcherRegisters>();
    if (threadIdx.x < kWorkers + 32) fetch_all<kDk, kDv>(p, shared);
  } else {
    take_registers<kWorkerRegisters>();
    const Scores s(p.a);
    const int group = threadIdx.x / kGroupThreads, first_row = static_cast<int>(threadIdx.x) / 32 * 16;
    uint32_t n = 0;
    for_each_item(p.a, [&](const Item& item) {
      Worker<kDk, kDv> w;
      w.q_at = shared + group * kGroupRows * kDk * 2;
      w.load_queries(p.a, item, group * kGroupRows, s.q_factor);
      w.begin(first_row, [&](int row) { return range_of(p.a, item, row); });
      const WorkerBlocks<kDk, kDv> blocks{shared, n, BlockWalk<S::kKeys>(hull(p.a, item))};
      work_through(w, s, blocks);
      n += blocks.walk.count;
      w.store(p.a, item, first_row);
    });
  }
#endif
}

// --- host

// Rows of 64 dimensions as a tensor map has them. The plane's end is not known here: rows are taken from its pages
// only.
inline cudaError_t map_plane(CUtensorMap* map, const void* plane, int dims, int box_rows) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static void* const encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? found : nullptr;
  }();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t sizes[3] = {kPanelDims, cuuint64_t{1} << 31, static_cast<cuuint64_t>(dims / kPanelDims)};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(dims) * 2, kPanelRowBytes};  // bytes
  const cuuint32_t box[3] = {kPanelDims, static_cast<cuuint32_t>(box_rows), 1}, steps[3] = {1, 1, 1};
  const CUresult result =
      reinterpret_cast<Encode>(encode)(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, const_cast<void*>(plane), sizes,
                                       strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                       CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <int kDk, int kDv>
cudaError_t launch_wide(const PrefillAttentionArgs& a, cudaStream_t stream) {
  using S = WideShape<kDk, kDv>;
  WideParams p{};
  p.a = a;
  p.box_rows = a.page_size % 64 == 0 ? 64 : 16;
  const auto kernel = prefill_wide_kernel<kDk, kDv>;
  int device = 0, n_sms = 0;
  cudaError_t error = map_plane(&p.keys, a.keys, kDk, p.box_rows);
  if (error == cudaSuccess) error = map_plane(&p.values, a.values, kDv, p.box_rows);
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes);
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&n_sms, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) return error;
  const auto grid = static_cast<unsigned>(std::min<int64_t>(a.n_tokens * a.n_head_kv, n_sms));
  kernel<<<grid, kGroupThreads + kWorkers, S::kBytes, stream>>>(p);
  return cudaGetLastError();
}

template <int kDk, int kDv>
constexpr Kernel wide_kernel_row() {
  return {kDk, kDv, 2 * kGroupRows, launch_wide<kDk, kDv>};
}

}  // namespace tokamak::cuda::prefill

// Prefill attention with products of warpgroups (sm_90a). One warpgroup fetches blocks of keys and values, by tensor
// maps or, types other than f16, as bytes that it decodes; two work on 64 rows each of a tile. While the values of a
// block are multiplied, the scores of the next one become probabilities.
#pragma once

#include <cuda.h>

#include "backend/cuda/attention/prefill_merge.cuh"
#include "backend/cuda/attention/prefill_pages.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

namespace tokamak::cuda::prefill {

inline constexpr int kGroupThreads = 128, kWorkers = 2 * kGroupThreads;
inline constexpr int kGroupRows = 64;
// Per thread. The launch gives 168 to each; a warpgroup can take what another one has given.
inline constexpr int kFetcherRegisters = 40, kWorkerRegisters = (3 * 168 - kFetcherRegisters) / 2;
// Ids of barriers: all workers; the fetchers; one more per group of workers.
inline constexpr int kWorkersMeet = 1, kFetchersMeet = 2, kGroupMeets = 3;

inline constexpr int kPanelRowBytes = 128, kPanelDims = 64;  // of operands in shared memory
inline constexpr int kMostShared = 227 * 1024;               // bytes
inline constexpr int kMostRaw = 4;                           // buffers of blocks that are not decoded yet

template <int kDk, int kDv>
struct WideShape {
  static constexpr int kKeys = kDk <= 128 ? 128 : 64;  // of a block
  static constexpr bool kSharedQueries = kDk > 192;    // else in registers
  static constexpr int kKeyBytes = kKeys * kDk * 2, kValueBytes = kKeys * kDv * 2;
  static constexpr int kQueryBytes = kSharedQueries ? 2 * kGroupRows * kDk * 2 : 0;
  static constexpr int kStages = 2;
  static constexpr int kKeysAt = kQueryBytes, kValuesAt = kKeysAt + kStages * kKeyBytes;
  static constexpr int kMergedAt = kValuesAt + kStages * kValueBytes;
  static constexpr int kBarriersAt = kMergedAt + 2 * kGroupRows * static_cast<int>(sizeof(Merged));
  static constexpr int kRawAt = kBarriersAt + 128;  // blocks as in the cache, with kDecodes
  static constexpr int kRawBarriersAt = kBarriersAt + 4 * kStages * 8;
  static constexpr int kPanelBytes = kKeys * kPanelRowBytes;
  static_assert(kRawAt <= kMostShared && 4 * kStages * 8 + kMostRaw * 8 <= 128);
};

struct WideParams {
  PrefillAttentionArgs a;
  CUtensorMap keys, values;  // [panels][rows of the plane][64 dimensions]
  int box_rows;              // a divisor of the page size
  // With kDecodes: blocks of bytes, of keys and values in turn.
  KvHeadLayout key_layout, value_layout;
  int n_raw, raw_bytes;
};

// Barriers in shared memory: filled and emptied, by stage, of keys and of values.
template <int kStages>
struct Ring {
  uint32_t at;
  __device__ uint32_t full(uint32_t n) const { return at + 8 * (n % kStages); }
  __device__ uint32_t empty(uint32_t n) const { return at + 8 * (kStages + n % kStages); }
  __device__ static uint32_t parity(uint32_t n) { return n / kStages & 1; }
};

// The items of a block: to and fro, so that who had the longest item of a round has the shortest of the next. With
// partials every kPrefillSplitKeys keys are an item.
template <class Work>
__device__ void for_each_item(const PrefillAttentionArgs& a, Work work) {
  const int n_parts = a.partials ? static_cast<int>(a.n_parts) : 1;
  const int n_items = a.tiles[0] * static_cast<int>(a.n_head_kv) * n_parts, grid = static_cast<int>(gridDim.x);
  for (int first = 0, round = 0; first < n_items; first += grid, ++round) {
    const int index = first + static_cast<int>(round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    if (index >= n_items) continue;
    Item item = item_of(a, index / n_parts);
    if (a.partials) {
      item.begin = index % n_parts * kPrefillSplitKeys;
      item.end = item.begin + kPrefillSplitKeys;
    }
    work(item);
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
      if (n >= S::kStages) wait_copied(ring.empty(n), ring.parity(n - S::kStages));
      const int key = walk.key(block), box = p.box_rows;
      const int begin = max(key, walk.seen.begin / box * box);
      const int end = min(key + S::kKeys, (walk.seen.end + box - 1) / box * box);
      ptx::barrier_expect(ring.full(n), (end - begin) * n_panels * kPanelRowBytes);
      for (int at = begin; at < end; at += box) {
        const uint32_t page = static_cast<uint32_t>(at) / page_size, slot = static_cast<uint32_t>(at) % page_size;
        const int row = static_cast<int>((pages[page] * p.a.n_head_kv + item.head_kv) * page_size + slot);
        for (int panel = 0; panel < n_panels; ++panel)
          ptx::copy_box(to + panel * S::kPanelBytes + (at - key) * kPanelRowBytes, map, 0, row, panel, ring.full(n));
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

// All fetchers: blocks of bytes become what the workers will ask for.
template <int kDk, int kDv>
struct Decoder {
  using S = WideShape<kDk, kDv>;
  const WideParams& p;
  uint32_t shared;
  uint32_t n = 0;  // blocks so far; twice as many planes, each in the next raw buffer

  __device__ uint32_t raw_at(uint32_t i) const { return shared + S::kRawAt + i % p.n_raw * p.raw_bytes; }
  __device__ uint32_t raw_full(uint32_t i) const { return shared + S::kRawBarriersAt + 8 * (i % p.n_raw); }

  __device__ void run() {
    for_each_item(p.a, [&](const Item& item) {
      const BlockWalk<S::kKeys> walk(hull(p.a, item));
      for (int i = 0; i < min(p.n_raw, 2 * walk.count); ++i) fetch(item, walk, i);
      for (int block = 0; block < walk.count; ++block) {
        pass_on<kDk>(item, walk, 2 * block, p.key_layout, shared + S::kBarriersAt, shared + S::kKeysAt);
        pass_on<kDv>(item, walk, 2 * block + 1, p.value_layout, shared + S::kBarriersAt + 16 * S::kStages,
                     shared + S::kValuesAt);
      }
      n += walk.count;
    });
  }

  // Plane i of the item: keys of block i / 2, or its values.
  __device__ void fetch(const Item& item, const BlockWalk<S::kKeys>& walk, int i) const {
    if (threadIdx.x % kGroupThreads != 0) return;
    const KvHeadLayout& layout = i % 2 == 0 ? p.key_layout : p.value_layout;
    const PagedRows rows = rows_of(p.a, layout, i % 2 == 0 ? p.a.keys : p.a.values, item);
    fetch_rows(rows, layout, walk, i / 2, raw_at(2 * n + i), raw_full(2 * n + i));
  }
  template <int kDims>
  __device__ void pass_on(const Item& item, const BlockWalk<S::kKeys>& walk, int i, const KvHeadLayout& layout,
                          uint32_t barriers, uint32_t planes) const {
    const Ring<S::kStages> ring{barriers};
    const uint32_t block = n + i / 2, raw = 2 * n + i;
    if (block >= S::kStages) wait_copied(ring.empty(block), ring.parity(block - S::kStages));
    wait_copied(raw_full(raw), raw / p.n_raw & 1);
    const uint32_t to = planes + block % S::kStages * (S::kKeys * kDims * 2);
    decode_block<S::kKeys, kDims, kGroupThreads / 32>(
        layout, walk, i / 2, raw_at(raw), threadIdx.x % kGroupThreads / 32, [&](int row, int chunk, const uint4& v) {
          ptx::store_shared(to + chunk / 8 * S::kPanelBytes + row * kPanelRowBytes + (chunk ^ row) % 8 * 16, v);
        });
    ptx::fence_bulk();
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(ring.full(block));
    ptx::sync_threads(kFetchersMeet, kGroupThreads);
    if (i + p.n_raw < 2 * walk.count) fetch(item, walk, i + p.n_raw);
  }
};

// The 64 rows of a warpgroup: a worker's thread.
template <int kDk, int kDv>
struct Worker : Rows<kDv, 1, WideShape<kDk, kDv>::kKeys> {
  using S = WideShape<kDk, kDv>;
  using Base = Rows<kDv, 1, S::kKeys>;
  using Base::scores, Base::sums, Base::largest, Base::total;
  static constexpr int kSteps = kDk / 16, kValueSteps = S::kKeys / 16;

  uint32_t q[S::kSharedQueries ? 1 : kSteps][4];  // queries as a product takes them
  uint32_t q_at;                                  // or where they are, in panels of 64 rows
  uint32_t p[kValueSteps][4];                     // probabilities
  Merged* merged;                                 // of the tile's rows, in shared memory: keys that were put aside

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
      const int meeting = kGroupMeets + static_cast<int>(threadIdx.x) / kGroupThreads;
      ptx::sync_threads(meeting, kGroupThreads);  // the group is through with the queries before
      for (int i = thread; i < kGroupRows * kChunks; i += kGroupThreads) {
        const int row = i / kChunks, chunk = i % kChunks;
        const float* from = row_of(first + row);
        uint4 v = {0, 0, 0, 0};
        if (from) {
          const float4 low = *reinterpret_cast<const float4*>(from + 8 * chunk);
          const float4 high = *reinterpret_cast<const float4*>(from + 8 * chunk + 4);
          v = {ptx::to_halves_clamped(low.x * factor, low.y * factor),
               ptx::to_halves_clamped(low.z * factor, low.w * factor),
               ptx::to_halves_clamped(high.x * factor, high.y * factor),
               ptx::to_halves_clamped(high.z * factor, high.w * factor)};
        }
        ptx::store_shared(
            q_at + chunk / 8 * kGroupRows * kPanelRowBytes + row * kPanelRowBytes + ((chunk ^ row) % 8) * 16, v);
      }
      ptx::fence_bulk();
      ptx::sync_threads(meeting, kGroupThreads);
    } else {
      const int row = first + thread / 32 * 16 + thread % 32 / 4;
      const float* rows[2] = {row_of(row), row_of(row + 8)};
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float2 x = {0, 0};
          if (rows[i % 2]) x = *reinterpret_cast<const float2*>(rows[i % 2] + 16 * step + i / 2 * 8 + thread % 4 * 2);
          q[step][i] = ptx::to_halves_clamped(x.x * factor, x.y * factor);
        }
    }
  }

  // Starts scores = queries * keys.
  __device__ void start_scores(uint32_t keys) {
    const uint64_t k = ptx::rows_operand(keys);
    ptx::products_begin();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint64_t b = ptx::advanced(k, step / 4 * S::kPanelBytes + step % 4 * 32);
      if constexpr (S::kSharedQueries) {
        const uint64_t a =
            ptx::advanced(ptx::rows_operand(q_at), step / 4 * kGroupRows * kPanelRowBytes + step % 4 * 32);
        ptx::multiply_shared_64<0, false>(scores[0], a, b, step > 0);
      } else if constexpr (S::kKeys == 128) {
        ptx::multiply_registers_128<0, false>(scores[0], q[step], b, step > 0);
      } else {
        ptx::multiply_registers_64<0, false>(scores[0], q[step], b, step > 0);
      }
    }
    ptx::products_end();
  }
  // Starts sums += probabilities * values.
  __device__ void start_values(uint32_t values) {
    const uint64_t v = ptx::columns_operand(values, S::kPanelBytes);
    ptx::products_begin();
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step) {
      const uint64_t b = ptx::advanced(v, step * 16 * kPanelRowBytes);
      if constexpr (kDv == 64) ptx::multiply_registers_64<0, true>(sums[0], p[step], b, 1);
      if constexpr (kDv >= 128) ptx::multiply_registers_128<0, true>(sums[0], p[step], b, 1);
      if constexpr (kDv == 256)
        ptx::multiply_registers_128<16, true>(sums[0], p[step], ptx::advanced(b, 2 * S::kPanelBytes), 1);
    }
    ptx::products_end();
  }
  // Adds a row's keys to those put aside. All four threads of the row.
  __device__ Merged::Factors take(Merged& earlier, int half, bool is_first) const {
    const unsigned quad = 15u << (threadIdx.x % 32 / 4 * 4);
    Merged all = is_first ? Merged{} : earlier;
    const Merged::Factors f = all.take(largest[0][half], total[0][half]);
    __syncwarp(quad);
    if (threadIdx.x % 4 == 0) earlier = all;
    __syncwarp(quad);
    return f;
  }
  // What the keys so far have given goes to y, or into what is there already; the next keys start anew.
  __device__ void put_aside(const PrefillAttentionArgs& a, const Item& item, int first, bool is_first) {
    Base::for_each_row(a, item, first, [&](int, int half, int64_t token, int head) {
      const Merged::Factors f = take(merged[first + threadIdx.x % 32 / 4 + 8 * half], half, is_first);
      float* y = a.y + (token * a.n_head + head) * kDv + threadIdx.x % 4 * 2;
#pragma unroll
      for (int n = 0; n < kDv / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) y[8 * n + i] = merged_sum(is_first ? 0 : y[8 * n + i], sums[0][n][2 * half + i], f);
    });
#pragma unroll
    for (int half = 0; half < 2; ++half) largest[0][half] = -INFINITY, total[0][half] = 0;
#pragma unroll
    for (int n = 0; n < kDv / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[0][n][i] = 0;
  }
  // The last keys' sums join those put aside.
  __device__ void take_back(const PrefillAttentionArgs& a, const Item& item, int first) {
    Base::for_each_row(a, item, first, [&](int, int half, int64_t token, int head) {
      const Merged::Factors f = take(merged[first + threadIdx.x % 32 / 4 + 8 * half], half, false);
      const float* y = a.y + (token * a.n_head + head) * kDv + threadIdx.x % 4 * 2;
#pragma unroll
      for (int n = 0; n < kDv / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) sums[0][n][2 * half + i] = merged_sum(y[8 * n + i], sums[0][n][2 * half + i], f);
      const Merged& all = merged[first + threadIdx.x % 32 / 4 + 8 * half];
      largest[0][half] = all.largest;
      total[0][half] = all.total;
    });
  }
  __device__ void store_partial(const PrefillAttentionArgs& a, const Item& item, int first) const {
    Base::for_each_row(a, item, first, [&](int, int half, int64_t token, int head) {
      float* to = partial_of(a, token, head, item.begin / kPrefillSplitKeys);
      if (threadIdx.x % 4 == 0) *reinterpret_cast<float2*>(to + kDv) = {largest[0][half], total[0][half]};
      if (total[0][half] == 0) return;
      to += threadIdx.x % 4 * 2;
#pragma unroll
      for (int n = 0; n < kDv / 8; ++n)
        *reinterpret_cast<float2*>(to + 8 * n) = {sums[0][n][2 * half], sums[0][n][2 * half + 1]};
    });
  }
  __device__ void pack_probabilities() {
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* s = &scores[0][2 * step + i / 2][i % 2 * 2];
        p[step][i] = ptx::to_halves(s[0], s[1]);
      }
  }
};

// Waits for blocks and gives them back. n: blocks of earlier items.
template <int kDk, int kDv, bool kDecodes>
struct WorkerBlocks {
  using S = WideShape<kDk, kDv>;
  uint32_t shared, n;
  BlockWalk<S::kKeys> walk;

  __device__ Ring<S::kStages> keys() const { return {shared + S::kBarriersAt}; }
  __device__ Ring<S::kStages> values() const { return {shared + S::kBarriersAt + 16 * S::kStages}; }

  __device__ uint32_t wait_keys(int block) const {
    wait_copied(keys().full(n + block), keys().parity(n + block));
    return shared + S::kKeysAt + (n + block) % S::kStages * S::kKeyBytes;
  }
  // Rows that no token of the item sees are zero.
  __device__ uint32_t wait_values(int block) const {
    wait_copied(values().full(n + block), values().parity(n + block));
    const uint32_t at = shared + S::kValuesAt + (n + block) % S::kStages * S::kValueBytes;
    if (!kDecodes && !walk.is_whole(block)) clear_hidden(block, at);
    return at;
  }
  __device__ void release(uint32_t empty) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(empty);
  }
  __device__ void release_keys(int block) const { release(keys().empty(n + block)); }
  __device__ void release_values(int block) const { release(values().empty(n + block)); }

 private:
  __device__ void clear_hidden(int block, uint32_t at) const {
    constexpr int kChunks = S::kValueBytes / 16;
    for (int i = threadIdx.x % kWorkers; i < kChunks; i += kWorkers) {
      if (walk.is_hidden(walk.key(block) + i / 8 % S::kKeys)) ptx::store_shared(at + 16 * i, {0, 0, 0, 0});
    }
    ptx::fence_bulk();
    ptx::sync_threads(kWorkersMeet, kWorkers);
  }
};

// Blocks [block, end) of the walk, at least one.
template <int kDk, int kDv, bool kDecodes>
__device__ void work_through(Worker<kDk, kDv>& w, const Scores& s, const WorkerBlocks<kDk, kDv, kDecodes>& blocks,
                             int block, int end) {
  w.start_scores(blocks.wait_keys(block));
  ptx::products_wait<0>();
  ptx::settle(w.scores[0]);
  blocks.release_keys(block);
  w.finish_scores(s, blocks.walk.key(block));
  w.soften();
  w.pack_probabilities();
  for (++block; block < end; ++block) {
    w.start_scores(blocks.wait_keys(block));
    w.start_values(blocks.wait_values(block - 1));
    ptx::products_wait<1>();
    ptx::settle(w.scores[0]);
    blocks.release_keys(block);
    w.finish_scores(s, blocks.walk.key(block));
    w.soften();
    ptx::products_wait<0>();
    ptx::settle(w.sums[0]);
    blocks.release_values(block - 1);
    w.rescale();
    w.pack_probabilities();
  }
  w.start_values(blocks.wait_values(end - 1));
  ptx::products_wait<0>();
  ptx::settle(w.sums[0]);
  blocks.release_values(end - 1);
  w.add_totals();
}

// A worker's part of an item.
template <int kDk, int kDv, bool kDecodes>
__device__ void work_on(const PrefillAttentionArgs& a, const Item& item, const Scores& s,
                        const WorkerBlocks<kDk, kDv, kDecodes>& blocks, Merged* merged) {
  constexpr int kKeys = WideShape<kDk, kDv>::kKeys, kPart = kPrefillSplitKeys / kKeys;
  const int group = threadIdx.x / kGroupThreads, first_row = static_cast<int>(threadIdx.x) / 32 * 16;
  Worker<kDk, kDv> w;
  w.merged = merged;
  w.q_at = blocks.shared + group * kGroupRows * kDk * 2;
  w.load_queries(a, item, group * kGroupRows, s.q_factor);
  w.begin(first_row, [&](int row) { return range_of(a, item, row); });
  bool is_first = true;
  for (int block = 0; block < blocks.walk.count;) {
    const int end = min(blocks.walk.count, block + kPart - (blocks.walk.first + block) % kPart);
    work_through(w, s, blocks, block, end);
    block = end;
    if (block == blocks.walk.count) break;
    w.put_aside(a, item, first_row, is_first);
    is_first = false;
  }
  if (a.partials) return w.store_partial(a, item, first_row);
  if (!is_first) w.take_back(a, item, first_row);
  w.store(a, item, first_row);
}

template <int kDk, int kDv, bool kDecodes>
__device__ void init_barriers(const WideParams& p, uint32_t shared) {
  using S = WideShape<kDk, kDv>;
  for (const uint32_t at : {shared + S::kBarriersAt, shared + S::kBarriersAt + 16 * S::kStages})
    for (int stage = 0; stage < S::kStages; ++stage) {
      ptx::barrier_init(Ring<S::kStages>{at}.full(stage), kDecodes ? kGroupThreads / 32 : 1);
      ptx::barrier_init(Ring<S::kStages>{at}.empty(stage), kWorkers / 32);
    }
  for (int i = 0; kDecodes && i < p.n_raw; ++i) ptx::barrier_init(shared + S::kRawBarriersAt + 8 * i, 1);
  ptx::fence_bulk();
}

template <int kDk, int kDv, bool kDecodes>
__global__ void __launch_bounds__(kGroupThreads + kWorkers, 1)
    prefill_wide_kernel(const __grid_constant__ WideParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  TOKAMAK_DYNAMIC_SHARED(1024, uint8_t, memory);
  const uint32_t shared = ptx::shared_address(memory);
  if (threadIdx.x == 0) init_barriers<kDk, kDv, kDecodes>(p, shared);
  __syncthreads();
  if (threadIdx.x >= kWorkers) {
    ptx::give_registers<kFetcherRegisters>();
    if constexpr (kDecodes)
      Decoder<kDk, kDv>{p, shared}.run();
    else if (threadIdx.x < kWorkers + 32)
      fetch_all<kDk, kDv>(p, shared);
  } else {
    ptx::take_registers<kWorkerRegisters>();
    const Scores s(p.a);
    Merged* merged = reinterpret_cast<Merged*>(memory + WideShape<kDk, kDv>::kMergedAt);
    uint32_t n = 0;
    for_each_item(p.a, [&](const Item& item) {
      const BlockWalk<WideShape<kDk, kDv>::kKeys> walk(hull(p.a, item));
      work_on(p.a, item, s, WorkerBlocks<kDk, kDv, kDecodes>{shared, n, walk}, merged);
      n += walk.count;
    });
  }
#endif
}

}  // namespace tokamak::cuda::prefill

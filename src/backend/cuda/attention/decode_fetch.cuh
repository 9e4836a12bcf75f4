// How decode attention gets its keys and values: what a block works on, and the warp that fetches tiles into a ring of
// stages in shared memory, ahead of the kernel before where keys are older than this step.
#pragma once

#include <climits>
#include <type_traits>

#include "backend/cuda/attention/decode.h"
#include "backend/cuda/attention/decode_ops.cuh"
#include "backend/cuda/attention/tokens.cuh"

namespace tokamak::cuda::decode {

inline constexpr int kWarps = 4, kThreads = (kWarps + 1) * kWarp;
inline constexpr int kTile = 64, kWarpKeys = kTile / kWarps;
inline constexpr int kMaxStages = 6;
inline constexpr int kBarrierBytes = 128;  // of full and empty stages, and two more

template <int kKeyDims, int kValueDims, KvType kCacheType, bool kFewHeads>
struct Config {
  static constexpr int kDk = kKeyDims, kDv = kValueDims;
  static constexpr KvType kType = kCacheType;
  static constexpr bool kFew = kFewHeads;        // at most 4 heads: both parts in one operand
  static constexpr int kParts = kFew ? 1 : 2;    // operands of queries and probabilities
  static constexpr int kColumns = kFew ? 4 : 8;  // heads
  static constexpr bool kCodes = kv_elem_bytes(kType) == 1;
  // A stage is a page of kTile slots: keys, then values.
  TOKAMAK_KV_HD static constexpr KvHeadLayout keys() { return kv_head_layout(kType, kDk, kTile); }
  TOKAMAK_KV_HD static constexpr KvHeadLayout values() { return kv_head_layout(kType, kDv, kTile); }
  static constexpr int kKeyBytes = static_cast<int>(kv_head_layout(kType, kDk, kTile).head_page_bytes);
  static constexpr int kStageBytes = kKeyBytes + static_cast<int>(kv_head_layout(kType, kDv, kTile).head_page_bytes);
  // Blocks that share a multiprocessor have registers for; 0: as it comes. Told so, the compiler loads operands ahead
  // of products.
  static constexpr int kBlocks = kDk <= 128 && kDv <= 128 && !kCodes ? 3 : 0;
  static constexpr int kResultStride = kDv + 4;  // floats
  using Operand = std::conditional_t<kType == KvType::bf16, Bf16, F16>;
  static_assert(kDk % (kCodes ? 32 : 16) == 0 && kDv % (kCodes ? 32 : 16) == 0);
};

// What a block works on.
struct Work {
  int64_t token, head_kv, first_head;
  int n_heads, chunk;
  const int32_t* pages;
  int first, begin, end;  // tiles begin at `first`; visible keys of this block
  int n_tiles;
  int written_before;  // keys below this can be fetched before the kernel before this one has ended
  int own_key;         // of the token, where it is among the block's keys and made here; -1
  int own_slot;        // its slot in the cache
  bool writes_cache;   // with own_key
};

__device__ inline Work this_work(const DecodeParams& p) {
  const AttentionArgs& a = p.a;
  const int group = static_cast<int>(a.n_head / a.n_head_kv), pieces = (group + 7) / 8,
            each = (group + pieces - 1) / pieces;
  Work w;
  const int piece = static_cast<int>(blockIdx.x) % pieces;
  w.head_kv = static_cast<int>(blockIdx.x) / pieces;
  w.token = blockIdx.y;
  w.chunk = static_cast<int>(blockIdx.z);
  w.first_head = w.head_kv * group + piece * each;
  w.n_heads = min(each, group - piece * each);
  const TokenKeys keys = token_keys(a, w.token);
  const KeyChunks chunks = chunks_of(a, keys);
  w.pages = keys.pages;
  w.first = static_cast<int>(chunks.first_key + (a.partials ? w.chunk * chunks.size : 0));
  w.begin = max(w.first, keys.begin);
  w.end = a.partials ? min(w.first + static_cast<int>(chunks.size), keys.end) : keys.end;
  w.n_tiles = w.end > w.first ? (w.end - w.first + kTile - 1) / kTile : 0;
  const int position = a.positions[w.token];
  w.written_before = a.causal ? position + 1 - static_cast<int>(max(a.n_tokens, a.n_step_tokens)) : 0;
  w.own_key = -1;
  w.writes_cache = piece == 0;
  if (p.makes_heads) {
    w.written_before = INT_MAX;  // the token's own slot is not used as it is fetched
    if (position >= w.begin && position < w.end) w.own_key = position, w.own_slot = p.heads.k.slots[0];
  }
  return w;
}

struct Ring {
  uint32_t barriers, stages;  // full and empty of each stage in turn
  const uint8_t* memory;      // of the stages
  int n_stages;
  __device__ uint32_t full(int stage) const { return barriers + 16 * stage; }
  __device__ uint32_t empty(int stage) const { return barriers + 16 * stage + 8; }
  __device__ uint32_t own() const { return barriers + 16 * kMaxStages; }  // the token's key and value are made
  // The block's queries are made. Behind a named barrier of four warps racecheck (2025.3) would lose __syncthreads.
  __device__ uint32_t queries() const { return own() + 8; }
};

// The fetching warp. Lane i of 64 / piece copies piece i of a tile. make_own() is called when all stages are under way.
template <class C, class MakeOwn>
__device__ void fetch(const DecodeParams& p, const Work& w, const Ring& ring, int lane, MakeOwn make_own) {
  constexpr int kKeyScales = C::keys().n_scales * C::keys().scale_bytes,
                kValueScales = C::values().n_scales * C::values().scale_bytes;
  const AttentionArgs& a = p.a;
  const int page_size = static_cast<int>(a.page_size), pieces = kTile / p.piece;
  const int64_t key_page = int64_t{page_size} * (C::keys().row_bytes + kKeyScales),
                value_page = int64_t{page_size} * (C::values().row_bytes + kValueScales);
  bool waited = false;
  int page_ids = 0;  // of 32 pieces in a row
  for (int tile = 0; tile <= w.n_tiles; ++tile) {
    if (w.own_key >= 0 && tile == min(w.n_tiles, ring.n_stages)) make_own();
    if (tile == w.n_tiles) break;
    const int stage = tile % ring.n_stages, round = tile / ring.n_stages;
    const int tile_key = w.first + tile * kTile, n_keys = min(kTile, (w.end - tile_key + 7) / 8 * 8);
    const int at = tile * pieces % kWarp;
    if (at == 0) {
      const int key = tile_key + lane * p.piece;
      page_ids = key < w.end ? w.pages[key / page_size] : 0;
    }
    if (round > 0) ptx::barrier_wait(ring.empty(stage), (round - 1) & 1);
    if (!waited && tile_key + kTile > w.written_before) wait_for_previous_kernel(), waited = true;
    announce_copies(ring.full(stage), n_keys * (C::kStageBytes / kTile), lane);
    for (int i = 0; i < pieces; ++i) {
      const int64_t page = __shfl_sync(~0u, page_ids, at + i);
      if (kBulkCopies && lane != i) continue;
      const int key = tile_key + i * p.piece, slot = key % page_size, n = min(p.piece, n_keys - i * p.piece);
      if (n <= 0) continue;
      const uint32_t to = ring.stages + stage * C::kStageBytes, bar = ring.full(stage);
      const uint8_t* keys = static_cast<const uint8_t*>(a.keys) + (page * a.n_head_kv + w.head_kv) * key_page;
      const uint8_t* values = static_cast<const uint8_t*>(a.values) + (page * a.n_head_kv + w.head_kv) * value_page;
      copy(to + C::keys().row_bytes * i * p.piece, keys + slot * C::keys().row_bytes, n * C::keys().row_bytes, bar,
           lane);
      copy(to + C::kKeyBytes + C::values().row_bytes * i * p.piece, values + slot * C::values().row_bytes,
           n * C::values().row_bytes, bar, lane);
      if constexpr (kKeyScales > 0) {
        copy(to + C::keys().scale_offset(i * p.piece, 0), keys + page_size * C::keys().row_bytes + slot * kKeyScales,
             n * kKeyScales, bar, lane);
        copy(to + C::kKeyBytes + C::values().scale_offset(i * p.piece, 0),
             values + page_size * C::values().row_bytes + slot * kValueScales, n * kValueScales, bar, lane);
      }
    }
    finish_copies(ring.full(stage));
  }
  if (!waited) wait_for_previous_kernel();
}

}  // namespace tokamak::cuda::decode

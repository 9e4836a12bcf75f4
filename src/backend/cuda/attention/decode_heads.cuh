// Decode attention of a step of one token makes the token's heads itself, as launch_heads would: every block its
// queries; a block whose keys end with the token also the key and value, of which the block of the first query heads
// writes the cache. No block reads them from there: each puts its own copy into the tile that holds the token's slot,
// which may be fetched, like all others, before the kernel before this one has ended.
#pragma once

#include "backend/cuda/attention/decode_fetch.cuh"
#include "backend/cuda/attention/head_rows.cuh"

namespace tokamak::cuda::decode {

// Operands of K Q^T. Lane 4g + t has head g; where codes are decoded, dimensions 4t .. 4t + 3 of 16 take the places of
// 2t, 2t + 1, 2t + 8, 2t + 9.
template <class C>
struct Queries {
  uint32_t part[C::kParts][C::kDk / 16][2];
  float factor[2];  // of the lane's columns 2t, 2t + 1 of scores
};

// 2^n that brings numbers up to `largest` to about 2^10, and its inverse: both parts of an f16 stay normal.
struct PowerOfTwo {
  float up, down;
};
__device__ inline PowerOfTwo power_for(float largest) {
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23);
  if (exponent == 255) return {1.0f, 1.0f};
  const int biased = min(264 - exponent, 253);
  return {__uint_as_float(biased << 23), __uint_as_float((254 - biased) << 23)};
}

// That makes sums of products with a query scores; power: of its operands.
__device__ inline float score_factor(const AttentionArgs& a, const PowerOfTwo& power) {
  return a.scale * power.down * (a.softcap != 0 ? 1.0f / a.softcap : kLog2e);
}

// A row of a cache with its scales, in shared memory, its chunks ordered as in the token's slot.
template <int kRowBytes, int kScaleBytes>
struct alignas(16) OwnRow {
  static constexpr int kElemBytes = kRowBytes, kAllScales = kScaleBytes;
  uint8_t elems[kRowBytes];
  uint8_t scales[kScaleBytes == 0 ? 16 : (kScaleBytes + 15) / 16 * 16];
  __device__ StoredRow at(int slot) { return {elems, scales, slot % 8}; }
};

// What a block has made, in shared memory.
template <class C>
struct alignas(16) OwnHeads {
  static constexpr int kDims = C::kDk > C::kDv ? C::kDk : C::kDv;
  static constexpr int kOperandBytes = (C::kDk + 31) / 32 * 64 + 16;  // of a query; load_matrices without conflicts
  using Key = OwnRow<C::keys().row_bytes, C::keys().n_scales * C::keys().scale_bytes>;
  using Value = OwnRow<C::values().row_bytes, C::values().n_scales * C::values().scale_bytes>;
  float rows[C::kColumns + 2][kDims];  // queries, then the key and the value
  Key key;
  Value value;
  // Rows of B in the order of Queries: of few heads first parts of 4, then second parts; else parts of 8 each.
  alignas(16) uint8_t operands[C::kParts][8][kOperandBytes];
  float factors[C::kColumns];  // as Queries::factor

  __device__ void put(int head, int d, uint32_t high, uint32_t low) {
    const int at = 2 * (C::kCodes ? (d & ~15) | (d & 2) << 2 | (d >> 1 & 6) | (d & 1) : d);
    *reinterpret_cast<uint16_t*>(operands[0][head] + at) = static_cast<uint16_t>(high);
    uint8_t* second = C::kFew ? operands[0][head + 4] : operands[C::kParts - 1][head];
    *reinterpret_cast<uint16_t*>(second + at) = static_cast<uint16_t>(low);
  }
};

// Queries that are not there may be anything.
template <class C>
__device__ __forceinline__ void load_operands(Queries<C>& q, const OwnHeads<C>& own, int lane) {
  constexpr int kSteps = C::kDk / 16;
#pragma unroll
  for (int part = 0; part < C::kParts; ++part) {
    const uint32_t at = ptx::shared_address(own.operands[part][lane % 8]) + lane / 8 * 16;
#pragma unroll
    for (int s = 0; s < kSteps; s += 2) {
      uint32_t loaded[4];
      ptx::load_matrices(loaded, at + 32 * s);
      for (int i = 0; i < 4; ++i)
        if (s + i / 2 < kSteps) q.part[part][s + i / 2][i % 2] = loaded[i];
    }
  }
  for (int i = 0; i < 2; ++i) q.factor[i] = own.factors[(2 * (lane % 4) + i) % C::kColumns];
}

// Copies a row to a slot: of the cache or of a tile. All lanes of a warp must call.
template <class Row>
__device__ __forceinline__ void copy_row(const Row& row, uint8_t* elems, uint8_t* scales, int lane) {
  for (int i = lane; i < Row::kElemBytes / 16; i += kWarp)
    reinterpret_cast<uint4*>(elems)[i] = reinterpret_cast<const uint4*>(row.elems)[i];
  if (lane < Row::kAllScales / 2)
    reinterpret_cast<uint16_t*>(scales)[lane] = reinterpret_cast<const uint16_t*>(row.scales)[lane];
}

// The token's key and value take their slot of a stage.
template <class C>
__device__ __forceinline__ void put_own(const OwnHeads<C>& own, uint8_t* stage, int slot, int lane) {
  constexpr KvHeadLayout kKeys = C::keys(), kValues = C::values();
  uint8_t* values = stage + C::kKeyBytes;
  copy_row(own.key, stage + slot * kKeys.row_bytes, stage + kKeys.scale_offset(slot, 0), lane);
  copy_row(own.value, values + slot * kValues.row_bytes, values + kValues.scale_offset(slot, 0), lane);
}

// Heads of one warp, from the products' results on: every kWarps-th query of the block, or the token's key and value.
// Lane l has dimensions l + 32 j.
template <class C, bool kIsOwn>
struct HeadMaker {
  static constexpr int kPerLane = (OwnHeads<C>::kDims + kWarp - 1) / kWarp;
  static constexpr int kHeads = kIsOwn ? 2 : (C::kColumns + kWarps - 1) / kWarps;
  const DecodeParams& p;
  const Work& w;
  OwnHeads<C>& own;
  int warp, lane;
  float x[kHeads][kPerLane], weights[kHeads][kPerLane];
  float factors[kPerLane], partner_factors[kPerLane];

  __device__ const HeadJob& job(int k) const { return !kIsOwn ? p.heads.q : k == 0 ? p.heads.k : p.heads.v; }
  __device__ int row(int k) const { return kIsOwn ? C::kColumns + k : warp + k * kWarps; }
  __device__ bool has(int k) const { return kIsOwn || row(k) < w.n_heads; }
  __device__ static int n_dims(int k) { return kIsOwn && k == 1 ? C::kDv : C::kDk; }
  __device__ bool has(int k, int j) const {
    return n_dims(k) % kWarp == 0 ? j < n_dims(k) / kWarp : lane + j * kWarp < n_dims(k);
  }

  __device__ __forceinline__ void load(int k, const float* from, float (&to)[kPerLane]) {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) to[j] = has(k, j) ? from[lane + j * kWarp] : 0.0f;
  }
  // Loads all, weights before the kernel before this one has ended: no kernel of the step writes them.
  __device__ __forceinline__ void load() {
    const float* from[kHeads];
#pragma unroll
    for (int k = 0; k < kHeads; ++k) {
      if (!has(k)) continue;
      from[k] = job(k).x + (kIsOwn ? w.head_kv : w.first_head + row(k)) * job(k).x_head_stride;
      if (job(k).norm_weight) load(k, job(k).norm_weight, weights[k]);
    }
    wait_for_previous_kernel();
#pragma unroll
    for (int k = 0; k < kHeads; ++k)
      if (has(k)) load(k, from[k], x[k]);
    if (!p.table) return;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const int i = lane + j * kWarp;
      if (i >= p.n_rot) continue;
      factors[j] = p.table[i];
      partner_factors[j] = p.table[p.n_rot + i];
    }
  }
  __device__ __forceinline__ void leave(int k) {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j)
      if (has(k, j)) own.rows[row(k)][lane + j * kWarp] = x[k][j];
  }
  __device__ __forceinline__ void norm(int k) {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j)
      if (has(k, j)) squares = fmaf(x[k][j], x[k][j], squares);
    const float factor = norm_factor(squares, n_dims(k), job(k).eps);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) x[k][j] = normed(x[k][j], factor, weights[k][j]);
  }
  __device__ __forceinline__ void turn(int k) {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const int i = lane + j * kWarp;
      if (i >= p.n_rot) continue;
      const float partner = own.rows[row(k)][rotation_partner(i, p.n_rot, p.neox)];
      x[k][j] = rotated(x[k][j], factors[j], partner, partner_factors[j]);
    }
  }

  // The query as operands of products.
  __device__ __forceinline__ void leave_operands(int k) {
    float largest = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j)
      if (has(k, j)) largest = fmaxf(largest, fabsf(x[k][j]));
    const PowerOfTwo power = power_for(warp_max(largest));
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (!has(k, j)) continue;
      const float y = x[k][j] * power.up;
      const uint32_t high = C::Operand::pack(y, 0.0f);
      own.put(row(k), lane + j * kWarp, high, C::Operand::pack(y - C::Operand::unpack(high).x, 0.0f));
    }
    if (lane == 0) own.factors[row(k)] = score_factor(p.a, power);
  }

  // Waits for the kernel before. Keys and values are in own.rows, queries in own.operands, when the whole warp has been
  // here.
  __device__ __forceinline__ void run() {
    load();
#pragma unroll
    for (int k = 0; k < kHeads; ++k) {
      if (has(k) && job(k).norm_weight) norm(k);
      if (has(k) && (kIsOwn || job(k).table)) leave(k);
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < kHeads; ++k)
      if (has(k) && job(k).table) turn(k);
    if constexpr (kIsOwn) __syncwarp();
#pragma unroll
    for (int k = 0; k < kHeads; ++k) {
      if (!has(k)) continue;
      if constexpr (!kIsOwn)
        leave_operands(k);
      else if (job(k).table)
        leave(k);
    }
    if constexpr (kIsOwn) __syncwarp();
  }
};

// The fetching warp makes the token's key and value. The warp that needs them waits at ring.own().
template <class C>
__device__ __forceinline__ void make_own(const DecodeParams& p, const Work& w, const Ring& ring, OwnHeads<C>& own,
                                         int lane) {
  HeadMaker<C, true>{p, w, own, kWarps, lane}.run();
  store_head(C::keys(), own.key.at(w.own_key), own.rows[C::kColumns], lane);
  store_head(C::values(), own.value.at(w.own_key), own.rows[C::kColumns + 1], lane);
  ptx::barrier_arrive(ring.own());
}

// One warp stores the token's key and value in the cache.
template <class C>
__device__ __forceinline__ void write_cache(const TokenHeads& jobs, const Work& w, const OwnHeads<C>& own, int lane) {
  if (w.own_key < 0 || !w.writes_cache) return;
  const StoredRow key = stored_row(jobs.k, w.own_slot, w.head_kv), value = stored_row(jobs.v, w.own_slot, w.head_kv);
  copy_row(own.key, key.elems, key.scales, lane);
  copy_row(own.value, value.elems, value.scales, lane);
}

}  // namespace tokamak::cuda::decode

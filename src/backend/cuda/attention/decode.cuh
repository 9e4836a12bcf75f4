// Attention of few tokens over long contexts. A block takes one token, one key head with up to 8 of its query heads,
// and one chunk of keys. A fifth warp fetches tiles of 64 keys and values into a ring of stages; of each tile, four
// warps take 16 keys each, as products on tensor cores:
//   scores^T [16 keys x 8 heads] = K Q^T, softmax by columns with a running maximum, values^T [dv x 8 heads] = V^T P^T
// and at the end the four results become one in a fixed order.
//
// Queries and probabilities are split into two operands, what rounding leaves of the first being the second, so
// products are as exact as the cache's numbers (f16: 2^-22; bf16: 2^-18). With at most 4 heads both parts are columns
// of one product. Codes of q8_0 and f8 become f16 exactly; scales of keys multiply scores, scales of values
// probabilities.
#pragma once

#include "backend/cuda/attention/decode_heads.cuh"
#include "backend/cuda/attention/decode_result.cuh"
#include "backend/cuda/device_attribute.h"

namespace tokamak::cuda::decode {

template <class C>
__device__ __forceinline__ void load_queries(Queries<C>& q, const AttentionArgs& a, const Work& w, int lane) {
  constexpr int kSteps = C::kDk / 16;
  const int g = lane / 4, t = lane % 4, head = min(C::kFew ? g % 4 : g, w.n_heads - 1);
  const float* row = a.q + w.token * a.q_stride + (w.first_head + head) * a.q_head_stride + (C::kCodes ? 4 * t : 2 * t);
  float2 x[kSteps][2];
  float largest = 0;
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    x[s][0] = *reinterpret_cast<const float2*>(row + 16 * s);
    x[s][1] = *reinterpret_cast<const float2*>(row + 16 * s + (C::kCodes ? 2 : 8));
  }
#pragma unroll
  for (int s = 0; s < kSteps; ++s)
    for (int i = 0; i < 2; ++i) largest = fmaxf(largest, fmaxf(fabsf(x[s][i].x), fabsf(x[s][i].y)));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
  const PowerOfTwo power = power_for(largest);
#pragma unroll
  for (int s = 0; s < kSteps; ++s)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 y = make_float2(x[s][i].x * power.up, x[s][i].y * power.up);
      const uint32_t high = C::Operand::pack(y.x, y.y);
      const float2 rounded = C::Operand::unpack(high);
      const uint32_t low = C::Operand::pack(y.x - rounded.x, y.y - rounded.y);
      q.part[0][s][i] = C::kFew && g >= 4 ? low : high;
      if constexpr (!C::kFew) q.part[1][s][i] = low;
    }
  const float factor = score_factor(a, power);
  for (int i = 0; i < 2; ++i) q.factor[i] = __shfl_sync(~0u, factor, (2 * t + i) % C::kColumns * 4);
}

__device__ __forceinline__ float half_at(const uint8_t* p) { return __half2float(*reinterpret_cast<const __half*>(p)); }
__device__ __forceinline__ float float_at(const uint8_t* p) { return *reinterpret_cast<const float*>(p); }

// Loads and uses n operands, a batch of loads ahead of the products that wait for them.
template <int n, class Address, class Load, class Use>
__device__ __forceinline__ void in_batches(Address address, Load load, Use use) {
  constexpr int kBatch = 4;
  uint32_t loaded[2][kBatch][4];
#pragma unroll
  for (int i = 0; i < n + kBatch; i += kBatch) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      if (i + j < n) load(loaded[i / kBatch % 2][j], address(i + j));
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      if (i > 0 && i - kBatch + j < n) use(i - kBatch + j, loaded[(i / kBatch + 1) % 2][j]);
  }
}

template <class C>
__device__ __forceinline__ void multiply_parts(float (&c)[4], const uint32_t (&a)[4], const Queries<C>& q, int step) {
#pragma unroll
  for (int part = 0; part < C::kParts; ++part) C::Operand::multiply(c, a, q.part[part][step]);
}

// Sums of products of the warp's 16 keys with the queries: x[0..1] key g, columns 2t and 2t + 1; x[2..3] key g + 8.
// first_slot: of the warp, in the stage at `keys`.
template <class C>
__device__ __forceinline__ void key_products(float (&x)[4], const Queries<C>& q, const uint8_t* keys, int first_slot,
                                             int lane) {
  const int slot = first_slot + lane % 16, chunk = lane / 16, g = lane / 4;
  const uint32_t row = ptx::shared_address(keys) + slot * C::keys().row_bytes;
  float c[2][4] = {};
  if constexpr (!C::kCodes) {
    in_batches<C::kDk / 16>([&](int s) { return row + C::keys().swizzled_chunk(2 * s + chunk, slot) * kKvChunkBytes; },
                            ptx::load_matrices,
                            [&](int s, const uint32_t(&k)[4]) { multiply_parts<C>(c[s % 2], k, q, s); });
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = c[0][i] + c[1][i];
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = 0;
    in_batches<C::kDk / 32>(
        [&](int b) { return row + C::keys().swizzled_chunk(2 * b + chunk, slot) * kKvChunkBytes; }, ptx::load_matrices,
        [&](int b, const uint32_t(&codes)[4]) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const uint32_t first = codes[2 * half], second = codes[2 * half + 1];
            const uint32_t k[4] = {decode_two<C::kType, 0, 1>(first), decode_two<C::kType, 0, 1>(second),
                                   decode_two<C::kType, 2, 3>(first), decode_two<C::kType, 2, 3>(second)};
            multiply_parts<C>(c[half], k, q, 2 * b + half);
          }
          if constexpr (C::kType == KvType::q8_0) {
            const float d0 = half_at(keys + C::keys().scale_offset(first_slot + g, b)),
                        d1 = half_at(keys + C::keys().scale_offset(first_slot + g + 8, b));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              x[i] = fmaf(c[0][i] + c[1][i], i < 2 ? d0 : d1, x[i]);
              c[0][i] = c[1][i] = 0;
            }
          }
        });
    if constexpr (C::kType == KvType::f8) {
      const float d0 = float_at(keys + C::keys().scale_offset(first_slot + g, 0)) * kF8Decoded,
                  d1 = float_at(keys + C::keys().scale_offset(first_slot + g + 8, 0)) * kF8Decoded;
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = (c[0][i] + c[1][i]) * (i < 2 ? d0 : d1);
    }
  }
  if constexpr (C::kFew) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] += __shfl_xor_sync(~0u, x[i], 2);
  }
}

// Scores become probabilities; what was added up before is brought to the new maximum.
template <class C>
__device__ __forceinline__ void soft_max(Result<C>& r, float (&x)[4], float acc_factor) {
  float factor[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float largest = fmaxf(x[i], x[i + 2]);
#pragma unroll
    for (int d = 4; d < kWarp; d *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, d));
    largest = fmaxf(largest, r.largest[i]);
    const float base = largest == -INFINITY ? 0.0f : largest;
    factor[i] = ptx::exp2_fast(r.largest[i] - base);
    r.largest[i] = largest;
    x[i] = ptx::exp2_fast(x[i] - base) * kProbabilityUnit;
    x[i + 2] = ptx::exp2_fast(x[i + 2] - base) * kProbabilityUnit;
    r.sum[i] = fmaf(r.sum[i], factor[i], x[i] + x[i + 2]);
    factor[i] *= acc_factor;
  }
  if (__any_sync(~0u, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
    for (int j = 0; j < C::kDv / 16; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) r.acc[j][i] *= factor[i % 2];
  }
}

// P^T as operands.
template <class C>
struct Probabilities {
  uint32_t part[C::kParts][2];
};
template <class C>
__device__ __forceinline__ Probabilities<C> split(float x0, float x1, float x2, float x3, int lane) {
  Probabilities<C> out;
  const float x[4] = {x0, x1, x2, x3};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t high = C::Operand::pack(x[2 * i], x[2 * i + 1]);
    const float2 rounded = C::Operand::unpack(high);
    const uint32_t low = C::Operand::pack(x[2 * i] - rounded.x, x[2 * i + 1] - rounded.y);
    out.part[0][i] = ptx::transpose(C::kFew && lane % 4 >= 2 ? low : high);
    if constexpr (!C::kFew) out.part[1][i] = ptx::transpose(low);
  }
  return out;
}
template <class C>
__device__ __forceinline__ void multiply_parts(float (&c)[4], const uint32_t (&a)[4], const Probabilities<C>& p) {
#pragma unroll
  for (int part = 0; part < C::kParts; ++part) C::Operand::multiply(c, a, p.part[part]);
}

// The exponent of the largest scale of the warp's values.
template <class C>
__device__ __forceinline__ int scale_exponent(const uint8_t* values, int first_slot, int lane) {
  uint32_t bits = 0;
  if constexpr (C::kType == KvType::q8_0) {
    for (int i = lane; i < kWarpKeys * C::values().n_scales; i += kWarp)
      bits =
          max(bits, uint32_t{reinterpret_cast<const uint16_t*>(values + C::values().scale_offset(first_slot, 0))[i]});
    return static_cast<int>(__reduce_max_sync(~0u, bits) >> 10);
  } else {
    bits = __float_as_uint(float_at(values + C::values().scale_offset(first_slot + lane % kWarpKeys, 0)));
    return static_cast<int>(__reduce_max_sync(~0u, bits) >> 23);
  }
}

// acc += V^T P^T over the warp's keys; p as soft_max leaves it.
template <class C>
__device__ __forceinline__ void add_values(Result<C>& r, const float (&p)[4], const uint8_t* values, int first_slot,
                                           int lane) {
  const int slot = first_slot + lane % 8 + lane / 16 * 8, chunk = lane / 8 % 2, g = lane / 4;
  const uint32_t row = ptx::shared_address(values) + slot * C::values().row_bytes;
  if constexpr (!C::kCodes) {
    const Probabilities<C> operands = split<C>(p[0], p[1], p[2], p[3], lane);
    in_batches<C::kDv / 16>(
        [&](int j) { return row + C::values().swizzled_chunk(2 * j + chunk, slot) * kKvChunkBytes; },
        ptx::load_transposed, [&](int j, const uint32_t(&v)[4]) { multiply_parts<C>(r.acc[j], v, operands); });
  } else {
    Probabilities<C> operands;
    const float up = r.up();
    in_batches<C::kDv / 32>(
        [&](int b) { return row + C::values().swizzled_chunk(2 * b + chunk, slot) * kKvChunkBytes; },
        ptx::load_transposed,
        [&](int b, const uint32_t(&codes)[4]) {
          if (b < C::values().n_scales) {
            const int at0 = C::values().scale_offset(first_slot + g, b),
                      at1 = C::values().scale_offset(first_slot + g + 8, b);
            const float d0 = (C::kType == KvType::q8_0 ? half_at(values + at0) : float_at(values + at0)) * up,
                        d1 = (C::kType == KvType::q8_0 ? half_at(values + at1) : float_at(values + at1)) * up;
            operands = split<C>(p[0] * d0, p[1] * d0, p[2] * d1, p[3] * d1, lane);
          }
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const uint32_t first = codes[half], second = codes[2 + half];
            const uint32_t v[4] = {decode_two<C::kType, 0, 2>(first), decode_two<C::kType, 1, 3>(first),
                                   decode_two<C::kType, 0, 2>(second), decode_two<C::kType, 1, 3>(second)};
            multiply_parts<C>(r.acc[2 * b + half], v, operands);
          }
        });
  }
}

// Slots [first, last) of values become zero.
template <class C>
__device__ __forceinline__ void clear_slots(uint8_t* values, int first, int last, int lane) {
  constexpr int kRow = C::values().row_bytes, kScales = C::values().n_scales * C::values().scale_bytes;
  for (int at = first * kRow + 16 * lane; at < last * kRow; at += 16 * kWarp)
    *reinterpret_cast<uint4*>(values + at) = make_uint4(0, 0, 0, 0);
  for (int at = first * kScales + 2 * lane; at < last * kScales; at += 2 * kWarp)
    *reinterpret_cast<uint16_t*>(values + C::values().scale_offset(0, 0) + at) = 0;
}

// Values of keys that the token does not see may be anything, also NaN: they become zero.
template <class C>
__device__ __forceinline__ void clear_hidden(uint8_t* values, int first_slot, int first_key, const Work& w, int lane) {
  clear_slots<C>(values, first_slot, first_slot + max(0, w.begin - first_key), lane);
  clear_slots<C>(values, first_slot + min(kWarpKeys, w.end - first_key), first_slot + kWarpKeys, lane);
}

// One warp's keys of one tile.
template <class C>
__device__ __forceinline__ void work_tile(Result<C>& r, const Queries<C>& q, const AttentionArgs& a, const Work& w,
                                          const OwnHeads<C>& own, uint32_t own_made, uint8_t* stage, int tile_key,
                                          bool is_refilled, int warp, int lane) {
  const int first_slot = warp * kWarpKeys, first_key = tile_key + first_slot, g = lane / 4;
  uint8_t* values = stage + C::kKeyBytes;
  if (first_key + kWarpKeys <= w.begin || first_key >= w.end) return;  // nothing to see
  const bool is_whole = first_key >= w.begin && first_key + kWarpKeys <= w.end,
             has_own = w.own_key >= first_key && w.own_key < first_key + kWarpKeys;
  if (!is_whole) clear_hidden<C>(values, first_slot, first_key, w, lane);
  if (has_own) {
    ptx::barrier_wait(own_made, 0);
    put_own(own, stage, w.own_key - tile_key, lane);
  }
  if (!is_whole || has_own) {
    if (is_refilled) fence_copies();
    __syncwarp();
  }
  float x[4];
  key_products<C>(x, q, stage, first_slot, lane);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[i] *= q.factor[i % 2];
    if (a.softcap != 0) x[i] = a.softcap * kLog2e * tanhf(x[i]);
    const int key = first_key + g + i / 2 * 8;
    if (key < w.begin || key >= w.end) x[i] = -INFINITY;
  }
  float acc_factor = 1;
  if constexpr (C::kCodes) {
    const int exponent = max(r.exponent, scale_exponent<C>(values, first_slot, lane)), step = exponent - r.exponent;
    acc_factor = step < 127 ? __uint_as_float((127 - step) << 23) : 0.0f;
    r.exponent = exponent;
  }
  soft_max<C>(r, x, acc_factor);
  add_values<C>(r, x, values, first_slot, lane);
}

template <class C>
__device__ void work_tiles(Result<C>& r, const DecodeParams& p, const Work& w, const Ring& ring, uint8_t* stages,
                           OwnHeads<C>& own, int warp, int lane) {
  const AttentionArgs& a = p.a;
  Queries<C> q;
  if (p.makes_heads) {
    HeadMaker<C, false>{p, w, own, warp, lane}.run();
    ptx::barrier_arrive(ring.queries());
    ptx::barrier_wait(ring.queries(), 0);
    load_operands<C>(q, own, lane);
  } else {
    wait_for_previous_kernel();
    load_queries<C>(q, a, w, lane);
  }
  int stage = 0, parity = 0;
  for (int tile = 0; tile < w.n_tiles; ++tile) {
    ptx::barrier_wait(ring.full(stage), parity);
    work_tile<C>(r, q, a, w, own, ring.own(), stages + stage * C::kStageBytes, w.first + tile * kTile,
                 tile + ring.n_stages < w.n_tiles, warp, lane);
    ptx::barrier_arrive(ring.empty(stage));
    if (++stage == ring.n_stages) stage = 0, parity ^= 1;
  }
}

template <class C>
__global__ void __launch_bounds__(kThreads, C::kBlocks) decode_kernel(const __grid_constant__ DecodeParams p) {
  TOKAMAK_DYNAMIC_SHARED(128, uint8_t, memory);
  allow_next_kernel();
  const AttentionArgs& a = p.a;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Work w = this_work(p);
  if (a.partials && w.n_tiles == 0) return wait_for_previous_kernel();
  uint8_t* stages = memory + kBarrierBytes;
  auto& own = *reinterpret_cast<OwnHeads<C>*>(stages + p.n_stages * C::kStageBytes);
  const Ring ring{ptx::shared_address(memory), ptx::shared_address(stages), stages, p.n_stages};
  if (threadIdx.x < p.n_stages) {
    ptx::barrier_init(ring.full(threadIdx.x), kCopyArrivals);
    ptx::barrier_init(ring.empty(threadIdx.x), kWarps * kWarp);
    if (threadIdx.x == 0) ptx::barrier_init(ring.own(), kWarp), ptx::barrier_init(ring.queries(), kWarps * kWarp);
    fence_copies();
  }
  __syncthreads();
  Result<C> r;
  if (warp == kWarps)
    fetch<C>(p, w, ring, lane, [&] { make_own(p, w, ring, own, lane); });
  else
    work_tiles<C>(r, p, w, ring, stages, own, warp, lane);
  __syncthreads();
  auto* results = reinterpret_cast<float*>(stages);
  auto* stats = reinterpret_cast<float2*>(results + kWarps * C::kColumns * C::kResultStride);
  if (warp < kWarps)
    leave_result<C>(r, results, stats, warp, lane);
  else
    write_cache<C>(p.heads, w, own, lane);
  __syncthreads();
  for (int head = warp; head < w.n_heads; head += kWarps + 1) write_head<C>(a, w, results, stats, head, lane);
}

// heads: null or of attention_makes_heads().
inline DecodeParams params_of(const AttentionArgs& a, const TokenHeads* heads) {
  DecodeParams p;
  p.a = a;
  p.piece = kTile;
  while (a.page_size % p.piece != 0) p.piece /= 2;
  if (!heads) return p;
  p.makes_heads = true;
  p.heads = *heads;
  for (const HeadJob* job : {&heads->q, &heads->k, &heads->v}) {
    if (!job->table) continue;
    p.table = job->table;
    p.n_rot = static_cast<int>(job->n_rot);
    p.neox = job->neox;
  }
  return p;
}

template <class C>
cudaError_t launch(const AttentionArgs& a, const TokenHeads* heads, cudaStream_t stream) {
  static_assert(2 * C::kStageBytes >= kWarps * C::kColumns * (C::kResultStride * 4 + 8));
  const int most = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  // Two blocks share a multiprocessor where three stages of each fit.
  constexpr int kWanted = 100 * 1024 / C::kStageBytes, kOwnBytes = sizeof(OwnHeads<C>);
  DecodeParams p = params_of(a, heads);
  p.n_stages = min(kWanted < 3            ? 3
                   : kWanted > kMaxStages ? kMaxStages
                                          : kWanted,
                   (most - kBarrierBytes - kOwnBytes) / C::kStageBytes);
  if (p.n_stages < 2) return cudaErrorInvalidValue;
  // The same for every launch: graphs that were captured with more stages run on.
  const auto shared_bytes = [&] { return kBarrierBytes + p.n_stages * C::kStageBytes + (heads ? kOwnBytes : 0); };
  const cudaError_t raised = cudaFuncSetAttribute(decode_kernel<C>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  kBarrierBytes + p.n_stages * C::kStageBytes + kOwnBytes);
  if (raised != cudaSuccess) return raised;
  if (a.partials) p.n_stages = min(p.n_stages, static_cast<int>(attention_chunk(a.most_keys, a.n_head_kv)) / kTile);
  const int64_t pieces = ceil_div(a.n_head / a.n_head_kv, 8);
  const dim3 grid(static_cast<unsigned>(a.n_head_kv * pieces), static_cast<unsigned>(a.n_tokens),
                  a.partials ? static_cast<unsigned>(a.n_chunks) : 1);
  return launch_overlapped(decode_kernel<C>, grid, kThreads, static_cast<size_t>(shared_bytes()), stream, p);
}

template <KvType kType, int kDk, int kDv>
cudaError_t launch_dims(const AttentionArgs& a, const TokenHeads* heads, cudaStream_t stream) {
  const int64_t group = a.n_head / a.n_head_kv, each = ceil_div(group, ceil_div(group, 8));
  return each <= 4 ? launch<Config<kDk, kDv, kType, true>>(a, heads, stream)
                   : launch<Config<kDk, kDv, kType, false>>(a, heads, stream);
}
template <KvType kType, size_t kRow = 0>
cudaError_t launch_type(const AttentionArgs& a, const TokenHeads* heads, cudaStream_t stream) {
  if constexpr (kRow == std::size(kDecodeDims)) {
    return cudaErrorInvalidValue;
  } else {
    constexpr DecodeDims kDims = kDecodeDims[kRow];
    if constexpr (has_kernel(kType, kDims))
      if (a.dk == kDims.dk && a.dv == kDims.dv) return launch_dims<kType, kDims.dk, kDims.dv>(a, heads, stream);
    return launch_type<kType, kRow + 1>(a, heads, stream);
  }
}

}  // namespace tokamak::cuda::decode

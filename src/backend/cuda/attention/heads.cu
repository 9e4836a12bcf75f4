// ROPE, its table, and writes to the cache: one warp per head of a token, for up to three jobs in one launch.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "backend/cuda/attention/tokens.cuh"
#include "backend/cuda/ptx/memory.cuh"

namespace tokamak::cuda {

namespace {
constexpr int kWarps = 4;

__global__ void __launch_bounds__(128) rope_table_kernel(const __grid_constant__ RopeTableArgs a) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const int64_t n_pairs = a.n_rot / 2;
  for (int64_t i = first_item(); i < a.n_tokens * n_pairs; i += item_step()) {
    const int64_t token = i / n_pairs, pair = i % n_pairs;
    double sine, cosine;
    sincos(static_cast<double>(a.positions[token]) * a.frequencies[pair], &sine, &cosine);
    const auto c = static_cast<float>(cosine * a.attn_factor), s = static_cast<float>(sine * a.attn_factor);
    const int64_t first = a.neox ? pair : 2 * pair, second = a.neox ? pair + n_pairs : 2 * pair + 1;
    float* row = a.rows + token * 2 * a.n_rot;
    row[first] = row[second] = c;
    row[a.n_rot + first] = -s;
    row[a.n_rot + second] = s;
  }
}

// A row in shared memory, on its way to the head page at `to`. All lanes of a warp work on it.
template <class T>
__device__ void store_plain(const KvHeadLayout& l, int slot, const float* row, uint8_t* to, int lane) {
  for (int i = lane; i < l.head_dim; i += kWarp) {
    T value;
    if constexpr (sizeof(T) == 4)
      value = row[i];
    else if constexpr (std::is_same_v<T, __half>)
      value = __float2half_rn(row[i]);
    else
      value = __float2bfloat16_rn(row[i]);
    *reinterpret_cast<T*>(to + l.elem_offset(slot, i)) = value;
  }
}

// As quant/ has it: d = largest / 127 as f16, codes rounded with the d before that.
__device__ void store_q8(const KvHeadLayout& l, int slot, const float* row, uint8_t* to, int lane) {
  for (int s = 0; s < l.n_scales; ++s) {
    const int i = s * kKvScaleDims + lane;
    const float x = i < l.head_dim ? row[i] : 0.0f, d = warp_max(fabsf(x)) / 127.0f;
    const float inverse = d == 0 ? 0.0f : 1.0f / d;
    if (i < l.row_bytes) to[l.elem_offset(slot, i)] = static_cast<uint8_t>(__float2int_rn(x * inverse) + kQ8Bias);
    if (lane == 0) *reinterpret_cast<__half*>(to + l.scale_offset(slot, s)) = __float2half_rn(d);
  }
}

// One scale per row makes the largest element 448. A row with an infinity or NaN is NaN as a whole.
__device__ void store_f8(const KvHeadLayout& l, int slot, const float* row, uint8_t* to, int lane) {
  uint32_t bits = 0;
  for (int i = lane; i < l.head_dim; i += kWarp) bits = max(bits, __float_as_uint(row[i]) & 0x7FFFFFFF);
  const float largest = __uint_as_float(__reduce_max_sync(~0u, bits));
  const bool is_finite = largest < INFINITY, is_zero = largest < 0x1p-80f;
  const float inverse = is_finite && !is_zero ? kF8Largest / largest : 0.0f;
  for (int i = lane; i < l.row_bytes; i += kWarp) {
    const float x = i < l.head_dim && is_finite ? row[i] * inverse : 0.0f;
    to[l.elem_offset(slot, i)] = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
  }
  if (lane == 0)
    *reinterpret_cast<float*>(to + l.scale_offset(slot, 0)) = is_zero     ? 0.0f
                                                              : is_finite ? largest / kF8Largest
                                                                          : __uint_as_float(0x7FC00000);
}

__device__ void store_row(const HeadJob& job, int64_t token, int64_t head, const float* row, int lane) {
  if (job.y) {
    float* y = job.y + (token * job.n_head + head) * job.head_dim;
    for (int i = lane; i < job.head_dim; i += kWarp) y[i] = row[i];
    return;
  }
  const KvHeadLayout& l = job.layout;
  const int at = job.slots[token], page = at / l.page_size, slot = at % l.page_size;
  auto* to = static_cast<uint8_t*>(job.cache) + l.head_page_offset(page, head, job.n_head);
  switch (l.type) {
    case KvType::f32:
      return store_plain<float>(l, slot, row, to, lane);
    case KvType::f16:
      return store_plain<__half>(l, slot, row, to, lane);
    case KvType::bf16:
      return store_plain<__nv_bfloat16>(l, slot, row, to, lane);
    case KvType::q8_0:
      return store_q8(l, slot, row, to, lane);
    case KvType::f8:
      return store_f8(l, slot, row, to, lane);
  }
}

__device__ int partner_of(const HeadJob& job, int i) {
  if (!job.neox) return i ^ 1;
  const int half = static_cast<int>(job.n_rot) / 2;
  return i < half ? i + half : i - half;
}

// The head as it will be stored, in shared memory: x, then normed, then turned.
__device__ const float* make_row(const HeadJob& job, int64_t token, int64_t head, float* own, float* turned, int lane) {
  const float* x = job.x + token * job.x_stride + head * job.x_head_stride;
  const int n = static_cast<int>(job.head_dim), n_rot = static_cast<int>(job.n_rot);
  float squares = 0;
  for (int i = lane; i < n; i += kWarp) {
    own[i] = x[i];
    squares = fmaf(x[i], x[i], squares);
  }
  if (job.norm_weight) {
    const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(n) + job.eps);
    for (int i = lane; i < n; i += kWarp) own[i] = own[i] * factor * job.norm_weight[i];
  }
  __syncwarp();
  if (!job.table) return own;
  const float* factors = job.table + token * 2 * n_rot;
  for (int i = lane; i < n; i += kWarp)
    turned[i] = i < n_rot ? fmaf(own[i], factors[i], own[partner_of(job, i)] * factors[n_rot + i]) : own[i];
  __syncwarp();
  return turned;
}

// Shared memory: two rows of row_floats per warp.
struct HeadsParams {
  HeadsArgs a;
  int row_floats, heads_per_token;
};
__global__ void __launch_bounds__(kWarps* kWarp) heads_kernel(const __grid_constant__ HeadsParams p) {
  TOKAMAK_DYNAMIC_SHARED(4, float, rows);
  allow_next_kernel();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t item = blockIdx.x * int64_t{kWarps} + warp, token = item / p.heads_per_token;
  int head = static_cast<int>(item % p.heads_per_token), j = 0;
  while (head >= p.a.jobs[j].n_head) head -= static_cast<int>(p.a.jobs[j++].n_head);
  wait_for_previous_kernel();
  if (token >= p.a.n_tokens) return;
  float* own = rows + warp * 2 * p.row_floats;
  const HeadJob& job = p.a.jobs[j];
  store_row(job, token, head, make_row(job, token, head, own, own + p.row_floats, lane), lane);
}
}  // namespace

cudaError_t launch_rope_table(const RopeTableArgs& args, cudaStream_t stream) {
  const dim3 grid(grid_for(args.n_tokens * args.n_rot / 2, 128));
  return launch_overlapped(rope_table_kernel, grid, 128, 0, stream, args);
}

cudaError_t launch_heads(const HeadsArgs& args, cudaStream_t stream) {
  HeadsParams p{.a = args, .row_floats = 0, .heads_per_token = 0};
  for (int j = 0; j < args.n_jobs; ++j) {
    p.heads_per_token += static_cast<int>(args.jobs[j].n_head);
    p.row_floats = max(p.row_floats, static_cast<int>(args.jobs[j].head_dim));
  }
  const auto grid = static_cast<unsigned>(ceil_div(args.n_tokens * p.heads_per_token, kWarps));
  const size_t shared = static_cast<size_t>(kWarps) * 2 * static_cast<size_t>(p.row_floats) * sizeof(float);
  return launch_overlapped(heads_kernel, dim3(grid), kWarps * kWarp, shared, stream, p);
}

}  // namespace tokamak::cuda

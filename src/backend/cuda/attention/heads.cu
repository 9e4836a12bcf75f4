// ROPE, its table, and writes to the cache: one warp per head of a token, for up to three jobs in one launch.
#include "backend/cuda/attention/head_rows.cuh"
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

__device__ void store_row(const HeadJob& job, int64_t token, int64_t head, const float* row, int lane) {
  if (job.y) {
    float* y = job.y + (token * job.n_head + head) * job.head_dim;
    for (int i = lane; i < job.head_dim; i += kWarp) y[i] = row[i];
    return;
  }
  store_head(job.layout, stored_row(job, job.slots[token], head), row, lane);
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
    const float factor = norm_factor(squares, n, job.eps);
    for (int i = lane; i < n; i += kWarp) own[i] = normed(own[i], factor, job.norm_weight[i]);
  }
  __syncwarp();
  if (!job.table) return own;
  const float* factors = job.table + token * 2 * n_rot;
  for (int i = lane; i < n; i += kWarp)
    turned[i] =
        i < n_rot ? rotated(own[i], factors[i], own[rotation_partner(i, n_rot, job.neox)], factors[n_rot + i]) : own[i];
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

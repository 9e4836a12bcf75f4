#include "backend/cuda/ops/recurrent.h"

#include "backend/cuda/ops/functions.h"
#include "backend/cuda/ops/launch.h"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 256;
constexpr int kInputs = 4;  // of a state that are read at once
constexpr int kRows = 4;    // rows of a state per block of the delta net, a warp each

// Element c of row t of x for a sequence that starts at `begin`; before it, in the sequence's state.
__device__ float conv_input(const SequenceArgs& s, const float* x, int64_t x_stride, int64_t n_channels, int64_t seq,
                            int64_t t, int64_t n_before, int64_t c) {
  const int64_t begin = s.run_begin[seq];
  if (t >= begin) return x[t * x_stride + c];
  const int64_t row = s.state_src[seq];
  return row < 0 ? 0 : s.states[row * s.state_elems + (t - begin + n_before) * n_channels + c];
}

__global__ void ssm_conv_kernel(SsmConvArgs a) {
  start_after_previous_kernel();
  for (int64_t i = first_item(); i < a.seqs.n_tokens * a.n_channels; i += item_step()) {
    const int64_t t = i / a.n_channels, c = i % a.n_channels, seq = a.seqs.seq_ids[t];
    float sum = 0;
    for (int64_t j = 0; j < a.taps; ++j)
      sum = fmaf(conv_input(a.seqs, a.x, a.x_stride, a.n_channels, seq, t - (a.taps - 1) + j, a.taps - 1, c),
                 a.weight[c * a.weight_stride + j], sum);
    if (a.bias) sum += a.bias[c];
    a.y[t * a.y_stride + c] = a.silu ? sum * sigmoid_of(sum) : sum;
  }
}

// The row of a sequence's snapshot 0.
__device__ int64_t first_row(const SequenceArgs& s, int64_t seq) {
  return s.out_rows ? s.out_rows[seq] : seq * s.n_snapshots;
}

// A thread has a channel of a sequence to itself. Inputs are counted from the start of the state: input p is row
// p - n_new + i of snapshot i, which is before row p: in ascending order nothing is written before it is read.
__global__ void conv_state_kernel(ConvStateArgs a) {
  start_after_previous_kernel();
  for (int64_t item = first_item(); item < a.seqs.n_seqs * a.n_channels; item += item_step()) {
    const int64_t seq = item / a.n_channels, c = item % a.n_channels;
    const int64_t begin = a.seqs.run_begin[seq], n_new = a.seqs.run_end[seq] - begin, start = a.seqs.state_src[seq];
    float* const y = a.y + first_row(a.seqs, seq) * a.y_stride + c;
    const auto put = [&](int64_t p, float x) {
      for (int64_t i = 0; i < a.seqs.n_snapshots && i < n_new; ++i) {
        const int64_t j = p - n_new + i;
        if (j >= 0 && j < a.n_before) y[i * a.y_stride + j * a.n_channels] = x;
      }
    };
    for (int64_t first = 0; first < a.n_before; first += kInputs) {
      float kept[kInputs];
#pragma unroll
      for (int e = 0; e < kInputs; ++e)
        kept[e] = start >= 0 && first + e < a.n_before
                      ? a.seqs.states[start * a.seqs.state_elems + (first + e) * a.n_channels + c]
                      : 0;
#pragma unroll
      for (int e = 0; e < kInputs; ++e)
        if (first + e < a.n_before) put(first + e, kept[e]);
    }
    const int64_t needed = n_new - a.seqs.n_snapshots + 1;  // by the oldest snapshot
    for (int64_t p = needed > a.n_before ? needed : a.n_before; p < a.n_before + n_new; ++p)
      put(p, a.x[(begin + p - a.n_before) * a.x_stride + c]);
    for (int64_t i = n_new; i < a.seqs.n_snapshots; ++i)
      for (int64_t j = 0; j < a.n_before; ++j) y[i * a.y_stride + j * a.n_channels] = 0;
  }
}

// A warp keeps one row of S, dk elements, in registers and walks over the sequence's tokens. A lane reads and writes
// the same elements of that row.
template <int kEach>
__global__ void __launch_bounds__(kRows* kWarp) delta_net_kernel(DeltaNetArgs a) {
  start_after_previous_kernel();
  const int64_t blocks = (a.dv + kRows - 1) / kRows, lane = threadIdx.x % kWarp;
  const int64_t j = blockIdx.x % blocks * kRows + threadIdx.x / kWarp;
  const int64_t head = blockIdx.x / blocks % a.n_head_v, seq = blockIdx.x / blocks / a.n_head_v;
  if (j >= a.dv) return;
  const int64_t key_head = a.grouped ? head / (a.n_head_v / a.n_head_k) : head % a.n_head_k;
  const int64_t begin = a.seqs.run_begin[seq], end = a.seqs.run_end[seq], start = a.seqs.state_src[seq];
  const int64_t row = (head * a.dv + j) * a.dk;  // inside a state
  const int64_t state_elems = a.n_head_v * a.dv * a.dk;
  float s[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int64_t i = lane + e * kWarp;
    s[e] = start >= 0 && i < a.dk ? a.seqs.states[start * a.seqs.state_elems + row + i] : 0;
  }
  float* out = a.out + first_row(a.seqs, seq) * state_elems + row;
  for (int64_t t = begin; t < end; ++t) {
    const float* key = a.k + (t * a.n_head_k + key_head) * a.k_stride;
    const float* query = a.q + (t * a.n_head_k + key_head) * a.q_stride;
    const float* gate = a.gate_per_channel ? a.g + (t * a.n_head_v + head) * a.g_stride : a.g + t * a.g_stride + head;
    const float decay = a.gate_per_channel ? 0 : expf(*gate);
    float known = 0;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int64_t i = lane + e * kWarp;
      if (i >= a.dk) continue;
      s[e] *= a.gate_per_channel ? expf(gate[i]) : decay;
      known = fmaf(s[e], key[i], known);
    }
    known = warp_sum(known);
    const float change = a.beta[t * a.beta_stride + head] * (a.v[(t * a.n_head_v + head) * a.v_stride + j] - known);
    float sum = 0;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int64_t i = lane + e * kWarp;
      if (i >= a.dk) continue;
      s[e] = fmaf(change, key[i], s[e]);
      sum = fmaf(s[e], query[i], sum);
      if (end - 1 - t < a.seqs.n_snapshots) out[(end - 1 - t) * state_elems + i] = s[e];
    }
    sum = warp_sum(sum);
    if (lane == 0) a.y[(t * a.n_head_v + head) * a.dv + j] = a.scale * sum;
  }
  for (int64_t snapshot = end - begin; snapshot < a.seqs.n_snapshots; ++snapshot)
    for (int64_t i = lane; i < a.dk; i += kWarp) out[snapshot * state_elems + i] = 0;
}

__global__ void state_copy_kernel(StateCopyArgs a) {
  start_after_previous_kernel();
  for (int64_t i = first_item(); i < a.n_rows * a.row_elems; i += item_step()) {
    const int64_t r = i / a.row_elems, at = i % a.row_elems;
    const int64_t row = a.first_rows[r / a.n_snapshots] + r % a.n_snapshots;
    a.states[row * a.row_elems + at] = a.x[r * a.x_stride + at];
  }
}
}  // namespace

cudaError_t launch_ssm_conv(const SsmConvArgs& args, cudaStream_t stream) {
  return launch_overlapped(ssm_conv_kernel, grid_for(args.seqs.n_tokens * args.n_channels, kThreads), kThreads, 0,
                           stream, args);
}

cudaError_t launch_ssm_conv_state(const ConvStateArgs& args, cudaStream_t stream) {
  return launch_overlapped(conv_state_kernel, grid_for(args.seqs.n_seqs * args.n_channels, kThreads), kThreads, 0,
                           stream, args);
}

cudaError_t launch_delta_net(const DeltaNetArgs& args, cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(args.seqs.n_seqs * args.n_head_v * ceil_div(args.dv, kRows));
  if (args.dk > kMaxDeltaDims) return cudaErrorInvalidValue;
  const auto kernel = args.dk <= 4 * kWarp ? delta_net_kernel<4> : delta_net_kernel<kMaxDeltaDims / kWarp>;
  return launch_overlapped(kernel, grid, kRows * kWarp, 0, stream, args);
}

cudaError_t launch_state_copy(const StateCopyArgs& args, cudaStream_t stream) {
  return launch_overlapped(state_copy_kernel, grid_for(args.n_rows * args.row_elems, kThreads), kThreads, 0, stream,
                           args);
}

}  // namespace tokamak::cuda

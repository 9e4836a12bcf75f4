// Ops with recurrent state. Tokens of a sequence s are run_begin[s] .. run_end[s]; it starts from row state_src[s] of
// the state, or from zeros when that is -1. f32; strides in elements between rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tokamak::cuda {

struct SequenceArgs {
  const int32_t* state_src = nullptr;
  const int32_t* seq_ids = nullptr;    // by token
  const int32_t* run_begin = nullptr;  // by sequence
  const int32_t* run_end = nullptr;
  const float* states = nullptr;      // [rows][state_elems]
  const int32_t* out_rows = nullptr;  // where results are states: see below
  int64_t state_elems = 0, n_seqs = 0, n_tokens = 0, n_snapshots = 1;
};
// Kernels that make states write snapshot i of sequence s to row s * n_snapshots + i of their result, or to row
// out_rows[s] + i of it when there are out_rows: then the result may be the states that are read. A thread reads
// what it needs of a sequence's start before it overwrites that, and no other thread reads the same part, so a sequence
// may start from any row that it writes; from a row that another one writes it must not (StepInputs).

// y[t, c] = sum over j of weight[c, j] * x[t - (taps - 1) + j, c] (+ bias[c]) (then SiLU)
struct SsmConvArgs {
  SequenceArgs seqs;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  bool silu = false;
  int64_t x_stride = 0, weight_stride = 0, y_stride = 0, n_channels = 0, taps = 0;
};
cudaError_t launch_ssm_conv(const SsmConvArgs& args, cudaStream_t stream);

// Snapshot i: the n_before rows of x before the end of the sequence's tokens less i; zeros where it has no more than i
// tokens.
struct ConvStateArgs {
  SequenceArgs seqs;
  const float* x = nullptr;
  float* y = nullptr;
  int64_t x_stride = 0, y_stride = 0, n_channels = 0, n_before = 0;
};
cudaError_t launch_ssm_conv_state(const ConvStateArgs& args, cudaStream_t stream);

inline constexpr int64_t kMaxDeltaDims = 512;  // of keys

// S = exp(g) S; S += k (beta (v - S^T k))^T; y = scale * S^T q, head by head; snapshot i, S after the last token
// but i, goes to `out`, rows of [n_head_v, dv, dk].
struct DeltaNetArgs {
  SequenceArgs seqs;
  const float *q = nullptr, *k = nullptr, *v = nullptr, *g = nullptr, *beta = nullptr;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, g_stride = 0, beta_stride = 0;
  int64_t n_head_k = 0, n_head_v = 0, dk = 0, dv = 0;
  bool grouped = false;           // value head h reads key head h / (n_head_v / n_head_k), else h mod n_head_k
  bool gate_per_channel = false;  // g: a row per head, else a number
  float scale = 1;
  float* y = nullptr;  // [n_tokens, n_head_v, dv]
  float* out = nullptr;
};
cudaError_t launch_delta_net(const DeltaNetArgs& args, cudaStream_t stream);

// Row r of x to row first_rows[r / n_snapshots] + r % n_snapshots of the states.
struct StateCopyArgs {
  const float* x = nullptr;
  float* states = nullptr;
  const int32_t* first_rows = nullptr;
  int64_t x_stride = 0, n_rows = 0, row_elems = 0, n_snapshots = 1;
};
cudaError_t launch_state_copy(const StateCopyArgs& args, cudaStream_t stream);

}  // namespace tokamak::cuda

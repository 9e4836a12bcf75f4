// Arguments of the ops with recurrent state. A state tensor is f32 [n_rows][state_elems]; sequence s starts from row
// state_src[s], or from zeros when that is -1. Its tokens are runs[s]. Strides count elements.
//
// Where results go: snapshot i (the state after the last token but i) of sequence s is row s * n_snapshots + i of
// `out`, or row out_rows[s] + i of it when out_rows is set: then `out` may be the state tensor that is read. Snapshots
// of tokens that are not there are zeros. Each item reads what it needs of every sequence's start before it writes, so
// rows may be read and written by different sequences of one step; `starts` is where it keeps them.
//
// Every state element depends on its own channel (or value dimension) only and is rounded to f32 after every token:
// results are the same bits for any chunking, any batch and any division of the items.
#pragma once

#include <cstdint>

namespace tokamak::cpu {

struct SequenceRun {
  int64_t begin = 0, end = 0;  // tokens of the step
};

struct RecurrentArgs {
  int64_t n_seqs = 0;
  const SequenceRun* runs = nullptr;
  const float* states = nullptr;
  int64_t state_elems = 0;
  const int32_t* state_src = nullptr;
  int64_t n_snapshots = 1;
  float* out = nullptr;
  const int32_t* out_rows = nullptr;
  float* starts = nullptr;  // [n_seqs][state_elems]: needed when rows that are read are also written; else null

  const float* start(int64_t seq) const {
    if (state_src[seq] < 0) return nullptr;
    return starts ? starts + seq * state_elems : states + state_src[seq] * state_elems;
  }
  float* snapshot(int64_t seq, int64_t i) const {
    return out + ((out_rows ? out_rows[seq] : seq * n_snapshots) + i) * state_elems;
  }
};

inline constexpr int64_t kConvBlock = 16;  // channels per item

// SSM_CONV (+ADD)(+SILU): y[t, c] = f(bias[c] + sum_j weight[j][c] * x[t - (taps - 1) + j, c]); item = kConvBlock
// channels of all tokens. Inputs before the sequence's first token come from its state, [taps - 1][n_channels].
struct SsmConvArgs {
  RecurrentArgs seqs;  // out: unused
  int64_t n_channels = 0, taps = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* weight = nullptr;  // [taps][n_channels]: transposed
  const float* bias = nullptr;    // [n_channels] or null
  bool silu = false;
  float* y = nullptr;
  int64_t y_stride = 0;
};

// SSM_CONV_STATE: the last taps - 1 inputs of every sequence, oldest first; item = kConvBlock channels.
struct ConvStateArgs {
  RecurrentArgs seqs;
  int64_t n_channels = 0, n_before = 0;  // n_before = taps - 1
  const float* x = nullptr;
  int64_t x_stride = 0;
};

inline constexpr int64_t kDeltaBlock = 16;  // value dimensions per item

// GATED_DELTA_NET; item = kDeltaBlock value dimensions of one value head, all tokens: n_head_v * ceil(dv / 16) items.
// With S[j, :] the row of value dimension j of a head's state [dv][dk]:
//   S[j, :] *= exp(g);  S[j, :] += beta * (v[j] - S[j, :] . k) * k;  y[j] = scale * S[j, :] . q
// Source: Yang, Kautz, Hatamizadeh 2024 (arXiv:2412.06464), eq. 10.
struct DeltaNetArgs {
  RecurrentArgs seqs;
  int64_t n_head_k = 0, n_head_v = 0, dk = 0, dv = 0;  // dk <= ir::kMaxHeadDim
  bool grouped = false;           // value head h reads key head h / (n_head_v / n_head_k), else h mod n_head_k
  bool gate_per_channel = false;  // g has dk numbers per token and head, else one
  float scale = 1;
  const float *q = nullptr, *k = nullptr, *v = nullptr;  // [n_tokens][n_head] rows
  int64_t q_stride = 0, k_stride = 0, v_stride = 0;      // row to row
  const float* g = nullptr;
  int64_t g_stride = 0;  // per channel: row to row; else token to token
  const float* beta = nullptr;
  int64_t beta_stride = 0;  // token to token
  float* y = nullptr;       // [n_tokens][n_head_v][dv]
};

}  // namespace tokamak::cpu

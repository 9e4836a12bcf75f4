// The CPU kernels of all ops but MUL_MAT: one set of functions per instruction set.
//
// Goals: bit-identical results for every instruction set, any split of the work, any batch. Every kernel works on items
// [begin, end) of its range and starts no threads; distinct items never write the same element.
// Non-goals: graphs, fusion, allocation, choosing threads.
//
// All sums run in 16 lanes, four vectors in turn, joined by a fixed tree: their order depends on the row's length only.
// inf and NaN follow IEEE arithmetic through the formulas given (payloads of NaN are unspecified).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/ops/attention.h"
#include "backend/cpu/ops/kv_cache.h"
#include "backend/cpu/ops/recurrent.h"
#include "backend/cpu/ops/rope.h"
#include "backend/cpu/ops/routing.h"
#include "tensor/dtypes.h"

namespace tokamak::cpu {

// Strides count elements. "In place": y may be exactly that input; any other overlap is not allowed.

inline constexpr int64_t kNoRepeat = INT64_MAX;  // more rows than there are

// RMS_NORM, NORM and their fusions with MUL and ADD; item = row.
//   rms   s = x / sqrt(mean(x^2) + eps)
//   norm  s = (x - mean) / sqrt(mean((x - mean)^2) + eps)
//   l2    s = x / sqrt(sum(x^2) + eps)
//   y = s, s * weight, s + addend or s * weight + addend, rounded after each step as the separate ops would
// In place: x, addend.
enum class NormKind : uint8_t { rms, centred, l2 };
struct NormArgs {
  NormKind kind = NormKind::rms;
  float eps = 0;
  int64_t row_elems = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* weight = nullptr;  // rows, or null; row r takes weight row r mod n_weight_rows
  int64_t weight_stride = 0;
  int64_t n_weight_rows = 1;
  const float* addend = nullptr;  // rows, or null
  int64_t addend_stride = 0;
  int64_t n_addend_rows = kNoRepeat;
  float* y = nullptr;
  int64_t y_stride = 0;
};

// y = a op b; item = row r of a, with row r mod n_b_rows of b. In place: a, and b where nothing repeats.
struct BinaryArgs {
  int64_t row_elems = 0;
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  int64_t n_b_rows = kNoRepeat;
  bool b_is_number = false;  // a row of b is one number, for the whole row of a
  float* y = nullptr;
  int64_t y_stride = 0;
};

// y = ((x0 op x1) op x2) op ...; item = row. In place: any input that does not repeat.
struct ChainArgs {
  static constexpr int kMax = 8;
  int n_inputs = 0;  // 1 to kMax
  int64_t row_elems = 0;
  std::array<const float*, kMax> x{};
  std::array<int64_t, kMax> x_stride{};
  std::array<int64_t, kMax> n_x_rows = all_rows();  // row r takes row r mod this
  float* y = nullptr;
  int64_t y_stride = 0;

  static constexpr std::array<int64_t, kMax> all_rows() {
    std::array<int64_t, kMax> rows;
    rows.fill(kNoRepeat);
    return rows;
  }
};

// Order as in ir::Unary and ir::Glu; the last two are UNARY+MUL.
enum class UnaryKind : uint8_t {
  silu,
  gelu,
  gelu_erf,
  gelu_quick,
  relu,
  sigmoid,
  tanh,
  softplus,
  exp,
  sqr,
  sqrt,
  sin,
  count_
};
enum class GluKind : uint8_t {
  reglu,
  geglu,
  swiglu,
  geglu_erf,
  geglu_quick,
  swiglu_oai,
  sigmoid_mul,
  softplus_mul,
  count_
};

// item = row; in place: x.
//   scale     y = fma(scale, x, bias)
//   clamp     y = min(max(x, low), high); NaN stays NaN
//   softcap   y = cap * tanh(scale * x)
//   unary     y = f(x)
//   relu_sqr  y = max(x, 0)^2
struct MapArgs {
  int64_t row_elems = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  float scale = 1, bias = 0;  // scale; softcap: scale
  float cap = 0;              // softcap
  float low = 0, high = 0;    // clamp
  UnaryKind unary = UnaryKind::silu;
};

// y = act(gate) * up; item = row. In place: gate, up. One tensor [n, 2 n_ff] is gate = x, up = x + n_ff.
struct GluArgs {
  GluKind kind = GluKind::swiglu;
  int64_t row_elems = 0;
  const float* gate = nullptr;
  int64_t gate_stride = 0;
  const float* up = nullptr;
  int64_t up_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  float alpha = 0,
        limit = 0;  // swiglu_oai: (clamp(up, -limit, limit) + 1) * g * sigmoid(alpha g), g = min(gate, limit)
};

// MUL+SIN+SQR+MUL+ADD: y = x + sin(a x)^2 * b with one a and one b per row; item = row. In place: x.
struct SnakeArgs {
  int64_t row_elems = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float *a = nullptr, *b = nullptr;  // one number per row
  float* y = nullptr;
  int64_t y_stride = 0;
};

// ROPE and RMS_NORM+MUL+ROPE; item = token * n_head + head. y = rope(x) or rope(rms_norm(x) * weight) per head;
// dimensions from n_rot on are copied. In place: x.
struct RopeArgs {
  int64_t n_head = 0, head_dim = 0;  // head_dim >= n_rot
  RopePairing pairing = RopePairing::norm;
  int64_t n_rot = 0;
  const float* table = nullptr;        // RopeTable rows of the tokens
  const float* norm_weight = nullptr;  // [head_dim]; null: no norm
  float eps = 0;
  const float* x = nullptr;
  int64_t x_stride = 0, x_head_stride = 0;  // token to token; head to head, 0: heads are contiguous
  float* y = nullptr;                       // heads of a token are contiguous
  int64_t y_stride = 0;
};

// SET_ROWS, ROPE+SET_ROWS, RMS_NORM+MUL+ROPE+SET_ROWS into a KV plane; item = token * n_head_kv + head.
//   f16 rounds to nearest even (above 65519: inf); q8_0: d = max|x| / 127 over 32 dimensions, codes = round(x / d),
//   d stored as f16; f8_e4m3: base/e4m3.h. inf or NaN in a q8_0 block makes codes of that block unspecified.
struct KvWriteArgs {
  KvPlane plane;
  const int32_t* slots = nullptr;  // [n_tokens], distinct
  const float* x = nullptr;
  int64_t x_stride = 0, x_head_stride = 0;  // token to token; head to head, 0: heads are contiguous
  const float* rope_table = nullptr;        // null: no rope
  RopePairing pairing = RopePairing::norm;
  int64_t n_rot = 0;
  const float* norm_weight = nullptr;  // [head_dim]; null: no norm
  float eps = 0;
};

// GET_ROWS: y[i] = a decoded row of the table; item = i. Item i asks for row id = ids[i / n_per_token * ids_stride +
// i mod n_per_token], or with token_rows > 0 for row i / n_per_token * token_rows + id. ids must be valid (checked
// where requests enter).
struct GetRowsArgs {
  DType type = DType::f32;
  const std::byte* table = nullptr;
  int64_t row_elems = 0, row_bytes = 0;  // row_bytes: from row to row
  int64_t token_rows = 0;                // rows of the table that belong to one token; 0: all rows to all
  const int32_t* ids = nullptr;
  int64_t n_per_token = 1, ids_stride = 1;

  const std::byte* row(int64_t i) const {
    const int64_t token = n_per_token == 1 ? i : i / n_per_token;
    return table + (ids[token * ids_stride + (i - token * n_per_token)] + token * token_rows) * row_bytes;
  }
  float* y = nullptr;
  int64_t y_stride = 0;
};

// Copies and converts rows; item = row. f16 and bf16 round to nearest even.
struct CopyArgs {
  int64_t row_elems = 0;
  DType x_type = DType::f32, y_type = DType::f32;  // f32, f16, bf16
  const void* x = nullptr;
  int64_t x_stride = 0;
  void* y = nullptr;
  int64_t y_stride = 0;
};

template <class Args>
using Kernel = void (*)(const Args& args, int64_t begin, int64_t end);

struct OpSet {
  Kernel<NormArgs> norm;
  Kernel<BinaryArgs> add, sub, mul, div;
  Kernel<ChainArgs> add_chain, mul_chain;
  Kernel<MapArgs> scale, clamp, softcap, unary, relu_sqr;
  Kernel<GluArgs> glu;
  Kernel<SnakeArgs> snake;
  Kernel<RopeArgs> rope;
  Kernel<KvWriteArgs> kv_write;
  Kernel<GetRowsArgs> get_rows;
  Kernel<CopyArgs> copy;
  AttentionKernel attention;
  Kernel<AttentionCall> attention_merge;
  Kernel<SoftMaxArgs> soft_max;
  Kernel<SumRowsArgs> sum_rows;
  Kernel<ArgsortArgs> argsort;
  Kernel<MaskGroupsArgs> mask_groups;
  Kernel<AddIdArgs> add_id;
  Kernel<RouterArgs> route;
  Kernel<WeightedSumArgs> weighted_sum;
  Kernel<SsmConvArgs> ssm_conv;
  Kernel<ConvStateArgs> ssm_conv_state;
  Kernel<DeltaNetArgs> gated_delta_net;
};

// Kernels of one instruction set; CHECKs that the machine has it. op_set(best_isa()) is the fastest.
const OpSet& op_set(Isa isa);

// For listings: every kernel of this build, fastest instruction set first, scalar last.
struct KernelName {
  std::string name;                          // "norm_f32_avx512"
  std::span<const std::string_view> labels;  // ops and fusion labels it runs
  Isa isa;
};
std::vector<KernelName> op_kernel_names();

}  // namespace tokamak::cpu

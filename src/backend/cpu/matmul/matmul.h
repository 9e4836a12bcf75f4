// Matrix multiplication y[col, row] = sum_k w[row, k] * x[col, k] for every weight type; a column is a token.
//
// Weights are packed once into panels of 16 rows (formats.h), activations once per input into panels of 8 columns, and
// one kernel family per type multiplies any number of columns. Every function here is pure: no threads, no
// allocation, no global state; callers split the work by panels (weights) or by columns (activations).
//
// Results are bit-identical for every number of columns, every split into panel ranges and every instruction set:
// int32 sums inside a group are exact, f32 steps follow in ascending k.
// NaN payloads excepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "backend/cpu/isa.h"
#include "backend/cpu/matmul/formats.h"

namespace tokamak::cpu {

// ---- Activations ----

// x[col, k] -> packed columns; see formats.h for the layouts.
//   x       f32 rows of k, x_stride_elems apart
//   x_rows  column col is row x_rows[col] of x; null: row col
//   out     activation_bytes(kind, n_cols, k) bytes, 16-byte aligned; must not overlap x
// Only columns [col_begin, col_end) are written: threads take disjoint ranges, any boundaries.
struct PackActivationsTask {
  const float* x = nullptr;
  int64_t x_stride_elems = 0;
  int64_t n_cols = 0, k = 0;
  int64_t col_begin = 0, col_end = 0;
  std::byte* out = nullptr;
  const int32_t* x_rows = nullptr;
};

// Integer kinds: per group of 32 d = max|x| / m, code = round-to-nearest-even(x * (m / max|x|)) with m = max_code of
// the kind. A group whose maximum is below 2^-80 becomes zero; one that holds an infinity or NaN becomes NaN as a
// whole. Same bytes on every instruction set. k must be a multiple of the kind's group_elems.
void pack_activations(ActivationKind kind, Isa isa, const PackActivationsTask& task);

// ---- Multiplication ----

// act(gate) * up. The activation is a polynomial with one fma sequence for all instruction sets (math_template.h).
// swiglu_oai: (clamp(up, -limit, limit) + 1) * g * sigmoid(alpha * g), g = min(gate, limit).
enum class GemmGlu : uint8_t { reglu, geglu, swiglu, geglu_erf, geglu_quick, swiglu_oai };  // order as in ir::Glu

struct Epilogue {
  float scale = 1.0f;               // y = scale * sum (+ bias) (+ residual)
  const float* bias = nullptr;      // f32 [n_rows] or null
  const float* residual = nullptr;  // f32 [n_cols, n_rows] or null; may be y itself (same stride), no other overlap
  int64_t residual_stride_elems = 0;
  GemmGlu glu =
      GemmGlu::swiglu;  // used when GemmTask::up is set: y = act(scale * gate + bias) * (up_scale * up + up_bias)
  float up_scale = 1.0f;
  const float* up_bias = nullptr;
  float alpha = 0, limit = 0;  // of swiglu_oai
};

struct GemmTask {
  const std::byte* weights = nullptr;  // packed [n_rows, k]; with `up` it is the gate
  const std::byte* up = nullptr;       // packed, same type and shape, or null
  const std::byte* activations = nullptr;
  int64_t n_rows = 0, n_cols = 0, k = 0;
  int64_t panel_begin = 0, panel_end = 0;  // 16-row panels to compute; [0, n_panels(n_rows)) is everything
  Epilogue epilogue;
  float* y = nullptr;  // f32 [n_cols, n_rows], columns y_stride_elems apart; only rows of the panels are written
  int64_t y_stride_elems = 0;
  const int32_t* y_cols = nullptr;  // column c is column y_cols[c] of y and of the residual; null: column c
  std::byte* scratch = nullptr;     // gemm_scratch_bytes() bytes per calling thread, 64-byte aligned
};

using GemmFunction = void (*)(const GemmTask&);

// One row of the kernel table. Names: gemm_<weight type>_[i16_]<rows>x<columns>_<instructions>.
struct GemmKernel {
  std::string name;
  DType dtype;
  ActivationKind activation;  // what GemmTask::activations must be
  Isa isa;
  GemmFunction run;
};

// All kernels this build contains (kernels.h), in order of preference; the last row of each type is scalar.
std::span<const GemmKernel> gemm_kernels();
// The first row for the packed format of `dtype` (types without kernels of their own use F32's) and the wanted integer
// activations that `isa` can run: its own row, else scalar. The machine must have `isa`.
const GemmKernel& select_gemm_kernel(DType dtype, ActivationKind integer, Isa isa);

// Room for the expanded or decoded rows of some panels (twice with GLU); 0 for types that are packed.
size_t gemm_scratch_bytes(DType dtype, int64_t k, bool with_up);

// Runs `kernel` on weights of type `dtype`. Cannot fail: the graph has checked the shapes. Threads: any number, on
// disjoint panel ranges of the same y.
void gemm(const GemmKernel& kernel, DType dtype, const GemmTask& task);

}  // namespace tokamak::cpu

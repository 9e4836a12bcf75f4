// The end of a product: scale, bias, gate, GLU, residual. value = dot * scale + bias for each matrix, then
// GLU(gate, up), then + residual.
#pragma once

#include "backend/cuda/matvec/params.h"

namespace tokamak::cuda {

// Order of ir::Glu (checked in ops/functions.h).
enum class MatvecGlu : int { reglu, geglu, swiglu, geglu_erf, geglu_quick, swiglu_oai };

__device__ inline float times_sigmoid(float x, float y) {  // x * sigmoid(y); 0 where exp(-y) overflows
  const float e = expf(-y);
  return x / (1.0f + e);
}

// reglu: max(0, x); swiglu: x sigmoid(x); geglu: 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715
// x^3); geglu_erf: x Phi(x); geglu_quick: x sigmoid(1.702 x). Source: Shazeer 2020 (arXiv:2002.05202), Hendrycks &
// Gimpel 2016 (arXiv:1606.08415).
__device__ inline float glu_of(int kind, float gate, float up, float alpha, float limit) {
  switch (static_cast<MatvecGlu>(kind)) {
    case MatvecGlu::reglu:
      return (gate > 0.0f ? gate : gate * 0.0f) * up;
    case MatvecGlu::geglu:
      return times_sigmoid(gate, 1.5957691216057308f * __fmaf_rn(0.044715f * gate * gate, gate, gate)) * up;
    case MatvecGlu::geglu_erf:
      return gate * normcdff(gate) * up;
    case MatvecGlu::geglu_quick:
      return times_sigmoid(gate, 1.702f * gate) * up;
    case MatvecGlu::swiglu_oai: {
      const float g = gate < limit ? gate : limit, u = up < -limit ? -limit : up > limit ? limit : up;
      return (u + 1.0f) * times_sigmoid(g, alpha * g);
    }
    case MatvecGlu::swiglu:
      break;
  }
  return times_sigmoid(gate, gate) * up;
}

// What the epilogue of one row reads.
struct RowInputs {
  float scale[2] = {1.0f, 1.0f}, bias[2] = {0.0f, 0.0f}, residual = 0.0f;
};
__device__ inline RowInputs load_row_inputs(const MatvecParams& p, int64_t row, int expert, int64_t col) {
  RowInputs in;
#pragma unroll
  for (int l = 0; l < 2; ++l) {
    if (p.lanes[l].scale) in.scale[l] = p.lanes[l].scale[expert];
    if (p.lanes[l].bias) in.bias[l] = p.lanes[l].bias[expert * p.n_rows + row];
  }
  if (p.residual) in.residual = p.residual[col * p.residual_stride + row];
  return in;
}

// Writes the value, and returns it.
__device__ inline float finish_row(const MatvecParams& p, const float (&sum)[2], const RowInputs& in, int64_t row,
                                   int64_t col) {
  float y = sum[0] * in.scale[0] + in.bias[0];
  if (p.n_lanes == 2) y = glu_of(p.glu, y, sum[1] * in.scale[1] + in.bias[1], p.alpha, p.limit);
  y += in.residual;
  p.y[col * p.y_stride + row] = y;
  return y;
}

}  // namespace tokamak::cuda

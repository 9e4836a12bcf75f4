// The end of a product: scale, bias, gate, GLU, residual. value = dot * scale + bias for each matrix, then
// GLU(gate, up), then + residual.
#pragma once

#include "backend/cuda/matvec/params.h"

namespace tokamak::cuda {

// Order of ir::Glu (checked in matvec.cpp).
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

__device__ inline float finish_lane(const MatvecLane& lane, float sum, int64_t row, int64_t expert, int64_t n_rows) {
  if (lane.scale) sum *= lane.scale[expert];
  if (lane.bias) sum += lane.bias[expert * n_rows + row];
  return sum;
}

__device__ inline void finish_row(const MatvecParams& p, const float (&value)[2], int64_t row, int64_t col) {
  float y = p.n_lanes == 2 ? glu_of(p.glu, value[0], value[1], p.alpha, p.limit) : value[0];
  if (p.residual) y += p.residual[col * p.residual_stride + row];
  p.y[col * p.y_stride + row] = y;
}

}  // namespace tokamak::cuda

// Activation functions on the device. Formulas: backend/reference/ops.cpp. For .cu files only.
#pragma once

#include "backend/cuda/matvec/epilogue.cuh"
#include "backend/cuda/ops/elementwise.h"

namespace tokamak::cuda {

__device__ inline float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float gelu_tanh(float x) {
  constexpr float kRoot = 0.79788456080286536f;  // sqrt(2 / pi)
  return 0.5f * x * (1.0f + tanhf(kRoot * x * fmaf(0.044715f * x, x, 1.0f)));
}
__device__ inline float gelu_erf(float x) { return 0.5f * x * erfcf(-0.70710678118654752f * x); }
__device__ inline float softplus_of(float x) { return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x)); }

__device__ inline float apply_map(MapKind kind, float x, float a, float b) {
  switch (kind) {
    case MapKind::silu:
      return x * sigmoid_of(x);
    case MapKind::gelu:
      return gelu_tanh(x);
    case MapKind::gelu_erf:
      return gelu_erf(x);
    case MapKind::gelu_quick:
      return x * sigmoid_of(1.702f * x);
    case MapKind::relu:
      return x > 0 ? x : 0;
    case MapKind::sigmoid:
      return sigmoid_of(x);
    case MapKind::tanh:
      return tanhf(x);
    case MapKind::softplus:
      return softplus_of(x);
    case MapKind::exp:
      return expf(x);
    case MapKind::sqr:
      return x * x;
    case MapKind::sqrt:
      return sqrtf(x);
    case MapKind::sin:
      return sinf(x);
    case MapKind::scale:
      return fmaf(a, x, b);
    case MapKind::clamp:
      return fminf(fmaxf(x, a), b);
    case MapKind::softcap:
      return b * tanhf(a * x);
    case MapKind::relu_sqr:
      return x > 0 ? x * x : 0;
  }
  return x;
}

constexpr bool same(GluKind a, MatvecGlu b) { return static_cast<int>(a) == static_cast<int>(b); }
static_assert(same(GluKind::reglu, MatvecGlu::reglu) && same(GluKind::geglu, MatvecGlu::geglu) &&
              same(GluKind::swiglu, MatvecGlu::swiglu) && same(GluKind::geglu_erf, MatvecGlu::geglu_erf) &&
              same(GluKind::geglu_quick, MatvecGlu::geglu_quick) && same(GluKind::swiglu_oai, MatvecGlu::swiglu_oai));

// The same as the epilogue of products, so that fusing changes nothing.
__device__ inline float apply_glu(GluKind kind, float gate, float up, float alpha, float limit) {
  if (kind == GluKind::sigmoid_mul) return sigmoid_of(gate) * up;
  if (kind == GluKind::softplus_mul) return softplus_of(gate) * up;
  return glu_of(static_cast<int>(kind), gate, up, alpha, limit);
}

}  // namespace tokamak::cuda

// exp, sigmoid and the GLU activations over a vector layer V (vec_*.h): one sequence of f32 operations, so that every
// instruction set and any lane gives the same bits.
#pragma once

#include "backend/cpu/matmul/matmul.h"

namespace tokamak::cpu {
namespace {

// e^x for x in [-87, 88], clamped to that range; relative error below 1.2e-7 (2 ulp).
// x = n ln2 + r, |r| <= ln2 / 2: Taylor polynomial of degree 7 in r, then n is added to the exponent. ln2 is split in
// two (Cody & Waite 1980) so that r is exact to f32.
template <class V>
[[gnu::always_inline]] inline typename V::F exp_clamped(const typename V::F& x_in) {
  const auto x = V::min(V::max(x_in, V::set1(-87.0f)), V::set1(88.0f));
  const auto magic = V::set1(0x1.8p23f);  // adding it rounds to an integer, kept in the low bits
  const auto t = V::fma(x, V::set1(0x1.715476p+0f), magic);
  const auto n = V::sub(t, magic);
  const auto r = V::fnma(n, V::set1(-0x1.05c61p-29f), V::fnma(n, V::set1(0x1.62e43p-1f), x));
  auto p = V::set1(0x1.a01a02p-13f);  // 1/7!
  p = V::fma(p, r, V::set1(0x1.6c16c2p-10f));
  p = V::fma(p, r, V::set1(0x1.111112p-7f));
  p = V::fma(p, r, V::set1(0x1.555556p-5f));
  p = V::fma(p, r, V::set1(0x1.555556p-3f));
  p = V::fma(p, r, V::set1(0.5f));
  p = V::fma(p, r, V::set1(1.0f));
  p = V::fma(p, r, V::set1(1.0f));
  return V::add_exponent(p, t);
}

// x / (1 + e^-z)
template <class V>
[[gnu::always_inline]] inline typename V::F times_sigmoid(const typename V::F& x, const typename V::F& z) {
  return V::div(x, V::add(V::set1(1.0f), exp_clamped<V>(V::sub(V::zero(), z))));
}

// x Phi(x) = max(x, 0) - |x| / 2 erfc(|x| / sqrt 2), within 40 u of the result: erfc(z) = exp(-z^2) t P(t),
// t = 1 / (1 + 0.4 z), with the P of ops/math_generic.h; the rounding error of z^2 is put back.
template <class V>
[[gnu::always_inline]] inline typename V::F gelu_erf(const typename V::F& x) {
  const auto negative = [](const typename V::F& v) { return V::sub(V::zero(), v); };
  const auto a = V::min(V::set1(14.5f), V::max(x, negative(x)));
  const auto t = V::div(V::set1(1.0f), V::fma(a, V::set1(0.28284271f), V::set1(1.0f)));  // 0.4 / sqrt 2
  auto p = V::set1(-0x1.4c1ffap-6f);
  for (float c : {0x1.6c142ep-4f, -0x1.b0b16ap-4f, -0x1.9babe4p-5f, 0x1.0087c2p-3f, -0x1.4cdfaap-6f, 0x1.49f4ccp-3f,
                  0x1.48d54ep-3f, 0x1.ad01d6p-3f, 0x1.cdd2fcp-3f, 0x1.ce32ep-3f})
    p = V::fma(p, t, V::set1(c));
  const auto square = V::mul(a, a), lost = V::fma(a, a, negative(square));
  const auto bell = exp_clamped<V>(V::mul(square, V::set1(-0.5f)));
  const auto fixed = V::fma(V::mul(lost, V::set1(-0.5f)), bell, bell);
  return V::sub(V::max(V::zero(), x), V::mul(V::mul(V::mul(a, V::set1(0.5f)), V::mul(t, p)), fixed));
}

// reglu: max(0, x); swiglu: x sigmoid(x); geglu: 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715
// x^3); geglu_erf: x Phi(x); geglu_quick: x sigmoid(1.702 x). Source: Shazeer 2020 (arXiv:2002.05202), Hendrycks &
// Gimpel 2016 (arXiv:1606.08415).
template <class V>
[[gnu::always_inline]] inline typename V::F glu_activation(GemmGlu kind, const typename V::F& x) {
  switch (kind) {
    case GemmGlu::reglu:
      return V::max(V::zero(), x);
    case GemmGlu::geglu: {
      const auto cubic = V::fma(V::mul(V::set1(0.044715f), V::mul(x, x)), x, x);
      return times_sigmoid<V>(x, V::mul(V::set1(1.5957691216057308f), cubic));
    }
    case GemmGlu::geglu_erf:
      return gelu_erf<V>(x);
    case GemmGlu::geglu_quick:
      return times_sigmoid<V>(x, V::mul(V::set1(1.702f), x));
    case GemmGlu::swiglu:
    case GemmGlu::swiglu_oai:
      break;
  }
  return times_sigmoid<V>(x, x);
}

}  // namespace
}  // namespace tokamak::cpu

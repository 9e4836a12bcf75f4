// exp, tanh and the activations, once for every vector layer V (vec_scalar.h): the same sequence of rounded steps.
// Bounds are in units u = 2^-24 of the result unless said otherwise, and are what the tests assert.
#pragma once

#include <cstdint>

namespace tokamak::cpu {
void sin_lanes(float* lanes);  // of 16 numbers, in place; in ops.cpp

namespace {

template <class V>
struct Math {
  using F = typename V::F;

  // x = n ln 2 + r, |r| <= 0.3466. ln 2 in two parts, the first of 16 bits, so that n * kLn2Hi is exact.
  static F reduce(F x, F& n) {
    n = V::round(V::mul(x, V::set1(0x1.715476p+0f)));
    const F r = V::fnma(n, V::set1(0x1.62e4p-1f), x);
    return V::fnma(n, V::set1(0x1.7f7d1cp-20f), r);
  }
  // (exp(r) - 1 - r) / r^2 by Taylor's series up to r^7; truncation below 6e-9 of exp(r).
  static F exp_tail(F r) {
    F p = V::fma(V::set1(1.0f / 5040), r, V::set1(1.0f / 720));
    p = V::fma(p, r, V::set1(1.0f / 120));
    p = V::fma(p, r, V::set1(1.0f / 24));
    p = V::fma(p, r, V::set1(1.0f / 6));
    return V::fma(p, r, V::set1(0.5f));
  }

  // Within 3 u (half a smallest subnormal more where the result is subnormal); 0 below -104, inf above 88.73; NaN
  // stays NaN.
  static F exp(F x) {
    x = V::min(V::set1(89.0f), V::max(V::set1(-104.0f), x));  // the second operand wins when unordered
    F n;
    const F r = reduce(x, n);
    const F p = V::fma(V::fma(exp_tail(r), r, V::set1(1.0f)), r, V::set1(1.0f));
    return V::scale_by_power(p, n);
  }

  // Within 8 u, also near 0. tanh |x| = e / (e + 2) with e = exp(2 |x|) - 1 = 2^n (exp(r) - 1) + (2^n - 1).
  static F tanh(F x) {
    const F twice = V::min(V::set1(40.0f), V::mul(V::set1(2.0f), V::abs(x)));
    F n;
    const F r = reduce(twice, n);
    const F q = V::fma(exp_tail(r), V::mul(r, r), r);
    const F power = V::scale_by_power(V::set1(1.0f), n);
    const F e = V::fma(power, q, V::sub(power, V::set1(1.0f)));
    return V::copy_sign(V::div(e, V::add(e, V::set1(2.0f))), x);
  }

  // x * sigmoid(k(x)) = x / (1 + exp(-k)): within (8 + 4 |k|) u, plus |x| 2^-126 where exp(-k) overflows.
  // -inf gives NaN.
  static F gated(F x, F minus_k) { return V::div(x, V::add(V::set1(1.0f), exp(minus_k))); }

  static F sigmoid(F x) { return V::div(V::set1(1.0f), V::add(V::set1(1.0f), exp(V::mul(x, V::set1(-1.0f))))); }
  static F silu(F x) { return gated(x, V::mul(x, V::set1(-1.0f))); }
  static F gelu_quick(F x) { return gated(x, V::mul(x, V::set1(-1.702f))); }
  // Hendrycks & Gimpel 2016 (arXiv:1606.08415): 0.5 x (1 + tanh(s)) is x * sigmoid(2 s), so no tanh is needed;
  // 2 s = x (1.5957691 + 0.0713548 x^2).
  static F gelu(F x) {
    const F inner = V::fma(V::mul(x, x), V::set1(-0.0713548163f), V::set1(-1.5957691216f));
    return gated(x, V::mul(x, inner));
  }
  static F relu(F x) { return V::max(x, V::zero()); }  // NaN gives 0

  // 0.5 x (1 + erf(x / sqrt 2)) = max(x, 0) - |x| / 2 erfc(|x| / sqrt 2): within 40 u; both infinities are exact.
  // erfc(z) = exp(-z^2) t P(t), t = 1 / (1 + 0.4 z): P fitted for relative error 3e-8 on 0 <= z <= 11 (own
  // Chebyshev fit, weighted least squares on 400 nodes, rounded to f32).
  static F gelu_erf(F x) {
    const F a = V::min(V::set1(14.5f), V::abs(x));
    const F t = V::div(V::set1(1.0f), V::fma(a, V::set1(0.28284271f), V::set1(1.0f)));  // 0.4 / sqrt 2
    F p = V::set1(-0x1.4c1ffap-6f);
    for (float c : {0x1.6c142ep-4f, -0x1.b0b16ap-4f, -0x1.9babe4p-5f, 0x1.0087c2p-3f, -0x1.4cdfaap-6f, 0x1.49f4ccp-3f,
                    0x1.48d54ep-3f, 0x1.ad01d6p-3f, 0x1.cdd2fcp-3f, 0x1.ce32ep-3f})
      p = V::fma(p, t, V::set1(c));
    // exp(-a^2 / 2) with the rounding error of a^2 put back.
    const F square = V::mul(a, a), lost = V::fma(a, a, V::mul(square, V::set1(-1.0f)));
    const F bell = exp(V::mul(square, V::set1(-0.5f)));
    const F fixed = V::fma(V::mul(lost, V::set1(-0.5f)), bell, bell);
    const F w = V::mul(V::mul(V::mul(a, V::set1(0.5f)), V::mul(t, p)), fixed);
    return V::sub(V::max(V::zero(), x), w);
  }

  static F sqr(F x) { return V::mul(x, x); }

  // max(x, 0) + log(1 + exp(-|x|)): within 8 u. log(1 + t) = 2 artanh(s), s = t / (2 + t) <= 1/3, by its series up to
  // s^17; truncation below 2e-10 of the sum. NaN stays NaN.
  static F softplus(F x) {
    const F t = exp(V::mul(V::abs(x), V::set1(-1.0f)));
    const F s = V::div(t, V::add(t, V::set1(2.0f))), square = V::mul(s, s);
    F p = V::set1(2.0f / 17);
    for (float odd : {15.0f, 13.0f, 11.0f, 9.0f, 7.0f, 5.0f, 3.0f}) p = V::fma(p, square, V::set1(2.0f / odd));
    p = V::fma(V::mul(p, square), s, V::add(s, s));
    return V::add(V::max(V::zero(), x), p);
  }

  // Within 4 u of the result plus 2^-46 absolute for |x| <= kSinLimit, beyond that rounded from f64. x = n pi + r with
  // pi in three parts; sin r by Taylor's series up to r^15, truncation below 1e-11.
  static constexpr float kSinLimit = 65536.0f;
  static F sin(F x) {
    if (V::max_lane(V::max(V::abs(x), V::zero())) > kSinLimit) return sin_of_large(x);
    const F n = V::round(V::mul(x, V::set1(0x1.45f306p-2f)));
    F r = V::fnma(n, V::set1(0x1.921fb6p+1f), x);
    r = V::fnma(n, V::set1(-0x1.777a5cp-24f), r);
    r = V::fnma(n, V::set1(-0x1.ee59dap-49f), r);
    const F square = V::mul(r, r);
    F p = V::set1(-1.0f / 1307674368000.0f);
    for (float c :
         {1.0f / 6227020800.0f, -1.0f / 39916800.0f, 1.0f / 362880.0f, -1.0f / 5040.0f, 1.0f / 120.0f, -1.0f / 6.0f})
      p = V::fma(p, square, V::set1(c));
    const F y = V::fma(V::mul(p, square), r, r);
    // n is odd exactly where n / 2 is rounded: then the sign turns.
    const F odd = V::abs(V::fnma(V::round(V::mul(n, V::set1(0.5f))), V::set1(2.0f), n));
    return V::mul(y, V::fnma(odd, V::set1(2.0f), V::set1(1.0f)));
  }
  static F sin_of_large(F x) {
    float lanes[16];
    V::store(lanes, x);
    sin_lanes(lanes);
    return V::load(lanes);
  }

  // cap * tanh(inverse * x); a softcap where inverse = 1 / cap.
  static F softcap(F x, float cap, float inverse) { return V::mul(V::set1(cap), tanh(V::mul(x, V::set1(inverse)))); }
};

}  // namespace
}  // namespace tokamak::cpu

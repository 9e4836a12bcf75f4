// AVX2 + FMA + F16C form of vec_scalar.h: a vector is two registers. Included only by *_avx2.cpp.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace tokamak::cpu {
namespace {

struct VecAvx2 {
  static constexpr int kQueryRows = 6;  // 12 registers of sums + 2 of the vector + a broadcast
  static constexpr int kTileVecs = 1;

  struct F {
    __m256 lo, hi;
  };
  using M = F;  // all bits of a lane

  static __m256i first8(int n) {  // n may be negative or above 8
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static F set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static void store(float* p, F x) {
    _mm256_storeu_ps(p, x.lo);
    _mm256_storeu_ps(p + 8, x.hi);
  }
  static F load_n(const float* p, int n) {
    return {_mm256_maskload_ps(p, first8(n)), n > 8 ? _mm256_maskload_ps(p + 8, first8(n - 8)) : _mm256_setzero_ps()};
  }
  static void store_n(float* p, F x, int n) {
    _mm256_maskstore_ps(p, first8(n), x.lo);
    if (n > 8) _mm256_maskstore_ps(p + 8, first8(n - 8), x.hi);
  }
  static F load(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  static void store_f16(uint16_t* p, F x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.lo, kNearest));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.hi, kNearest));
  }
  static F load_i8(const int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }

  static F add(F a, F b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
  static F sub(F a, F b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
  static F mul(F a, F b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
  static F div(F a, F b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
  static F sqrt(F a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
  static F fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
  static F fnma(F a, F b, F c) { return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)}; }
  static F max(F a, F b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
  static F min(F a, F b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
  static F abs(F a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
  }
  static F copy_sign(F magnitude, F sign) {
    const __m256 mask = _mm256_set1_ps(-0.0f);
    return {_mm256_or_ps(_mm256_andnot_ps(mask, magnitude.lo), _mm256_and_ps(mask, sign.lo)),
            _mm256_or_ps(_mm256_andnot_ps(mask, magnitude.hi), _mm256_and_ps(mask, sign.hi))};
  }
  static F round(F x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.lo, kNearest), _mm256_round_ps(x.hi, kNearest)};
  }
  static F scale_by_power(F p, F n) { return {scale8(p.lo, n.lo), scale8(p.hi, n.hi)}; }
  static F swap_pairs(F x) { return {_mm256_permute_ps(x.lo, 0xB1), _mm256_permute_ps(x.hi, 0xB1)}; }
  static M lanes(int begin, int end) { return {lanes8(begin, end), lanes8(begin - 8, end - 8)}; }
  static F select(M m, F yes, F no) {
    return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
  }
  static float sum(F x) {
    const __m256 half = _mm256_add_ps(x.lo, x.hi);
    const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
  }
  static float first_lane(F x) { return _mm256_cvtss_f32(x.lo); }
  static float max_lane(F x) {
    const __m256 half = _mm256_max_ps(x.lo, x.hi);
    const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
  }

 private:
  static __m256 lanes8(int begin, int end) {
    return _mm256_castsi256_ps(_mm256_andnot_si256(first8(begin), first8(end)));
  }
  static __m256 scale8(__m256 p, __m256 n) {  // two exact factors: 2^n itself may be no normal number
    const __m256i whole = _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(n, _mm256_set1_ps(12582912.0f))),
                                           _mm256_set1_epi32(0x4B400000));
    const __m256i half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half);
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256 f = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    const __m256 g = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(p, f), g);
  }
};

}  // namespace
}  // namespace tokamak::cpu

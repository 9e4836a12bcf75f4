// The vector layer of AVX-512 with VNNI: 16 rows are one register. Contract in vec_scalar.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tokamak::cpu {
namespace {

struct Avx512 {
  static constexpr int kMaxCols = 8;
  static constexpr bool kDotsAnyByte = true;
  using F = __m512;
  using I = __m512i;
  using B = __m512i;
  template <int kBits>
  struct Acc {
    __m512i v;
  };

  static F zero() { return _mm512_setzero_ps(); }
  static F set1(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static F load_f32(const std::byte* p) { return _mm512_loadu_ps(p); }
  static F load_f16(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load_bf16(const std::byte* p) {
    const __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
  }
  static __m128i load128(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static F load_ue4m3(const std::byte* p) {
    const __m256i bits = _mm256_slli_epi16(_mm256_cvtepu8_epi16(load128(p)), 7);
    return _mm512_cvtph_ps(_mm256_and_si256(bits, _mm256_set1_epi16(0x3F80)));
  }
  static F load_e8m0(const std::byte* p) {
    const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu8_epi32(load128(p)), 23);
    return _mm512_castsi512_ps(_mm512_max_epu32(bits, _mm512_set1_epi32(0x00400000)));
  }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F to_f32(I x) { return _mm512_cvtepi32_ps(x); }
  static F add_exponent(F p, F t) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
  }

  static I zero_i() { return _mm512_setzero_si512(); }
  static I max_abs_bits(I m, F x) {
    return _mm512_max_epi32(m, _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7FFFFFFF)));
  }
  static I add_i(I a, I b) { return _mm512_add_epi32(a, b); }
  static I sub_i(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I set1_i(int32_t x) { return _mm512_set1_epi32(x); }
  static I shift_right7(I x) { return _mm512_srai_epi32(x, 7); }
  static int32_t reduce_max(I x) { return _mm512_reduce_max_epi32(x); }
  static int32_t reduce_add(I x) { return _mm512_reduce_add_epi32(x); }
  static I round_i32(F x) { return _mm512_cvtps_epi32(x); }
  static void store_i8(std::byte* p, I x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x)); }

  static B load_codes(const std::byte* p) { return _mm512_loadu_si512(p); }
  static B load_table(const uint8_t* table) {
    return _mm512_maskz_broadcast_i32x4(0xFFFF, load128(reinterpret_cast<const std::byte*>(table)));
  }
  static B lookup16(B table, B indices) { return _mm512_shuffle_epi8(table, indices); }
  template <uint8_t kMask>
  static B mask(B x) {
    return _mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(kMask)));
  }
  template <int n>
  static B shr(B x) {
    return n == 0 ? x : _mm512_srli_epi16(x, n);
  }
  template <int n>
  static B shl(B x) {
    return n == 0 ? x : _mm512_slli_epi16(x, n);
  }
  static B or_(B a, B b) { return _mm512_or_si512(a, b); }
  template <uint8_t kMask>
  static B or_masked(B acc, B x) {  // acc | (x & mask)
    return _mm512_ternarylogic_epi32(acc, x, _mm512_set1_epi8(static_cast<char>(kMask)), 0xF8);
  }
  static B join_nibbles(B low, B high) {  // (low & 0x0F) | (high & 0xF0)
    return _mm512_ternarylogic_epi32(_mm512_set1_epi8(0x0F), low, high, 0xCA);
  }
  template <int i>
  static I lane_u8(B x) {
    const __m512i y = i == 0 ? x : _mm512_srli_epi32(x, 8 * i);
    return i == 3 ? y : _mm512_and_si512(y, _mm512_set1_epi32(255));
  }
  template <int i>
  static I lane_i8(B x) {
    return _mm512_srai_epi32(i == 3 ? x : _mm512_slli_epi32(x, 24 - 8 * i), 24);
  }
  static I shl7_add(I high, I low) { return _mm512_add_epi32(_mm512_slli_epi32(high, 7), low); }

  template <int kBits>
  static Acc<kBits> start(int32_t offset) {
    return {_mm512_set1_epi32(offset)};
  }
  template <int kBits>
  static I sum(Acc<kBits> s, int32_t) {
    return s.v;
  }
  static __m512i quad(const std::byte* p) {
    int32_t x;
    std::memcpy(&x, p, 4);
    return _mm512_set1_epi32(x);
  }
  template <int kBits, int NC>
  [[gnu::always_inline]] static inline void dot2(Acc<kBits> (&s)[NC], B w0, B w1, const std::byte* a0,
                                                 const std::byte* a1, int col_stride) {
#pragma GCC unroll 8
    for (int c = 0; c < NC; ++c) s[c].v = _mm512_dpbusd_epi32(s[c].v, w0, quad(a0 + c * col_stride));
#pragma GCC unroll 8
    for (int c = 0; c < NC; ++c) s[c].v = _mm512_dpbusd_epi32(s[c].v, w1, quad(a1 + c * col_stride));
  }
};

}  // namespace
}  // namespace tokamak::cpu

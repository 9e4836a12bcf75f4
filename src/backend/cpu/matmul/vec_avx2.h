// The vector layer of AVX2 with FMA: 16 rows are two registers of 8. Contract in vec_scalar.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tokamak::cpu {
namespace {

struct Avx2 {
  static constexpr int kMaxCols = 4;
  static constexpr bool kDotsAnyByte = false;
  struct F {
    __m256 h[2];
  };
  struct I {
    __m256i h[2];
  };
  using B = I;
  // Codes of 4 bits: 16 int16 sums per half; up to 8 quads stay within int16 (8 * 2 * 15 * 127 = 30480).
  // Others: int32 sums.
  template <int kBits>
  struct Acc {
    __m256i h[2];
  };

  static F zero() { return {{_mm256_setzero_ps(), _mm256_setzero_ps()}}; }
  static F set1(float x) { return {{_mm256_set1_ps(x), _mm256_set1_ps(x)}}; }
  static F load(const float* p) { return {{_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}}; }
  static void store(float* p, F x) {
    _mm256_storeu_ps(p, x.h[0]);
    _mm256_storeu_ps(p + 8, x.h[1]);
  }
  static __m128i load128(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static F load_f32(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
  static F load_f16(const std::byte* p) { return {{_mm256_cvtph_ps(load128(p)), _mm256_cvtph_ps(load128(p + 16))}}; }
  static __m256 widen_bf16(__m128i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)); }
  static F load_bf16(const std::byte* p) { return {{widen_bf16(load128(p)), widen_bf16(load128(p + 16))}}; }
  static __m256 widen_ue4m3(__m128i codes) {  // the low 8 bytes
    return _mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(_mm_cvtepu8_epi16(codes), 7), _mm_set1_epi16(0x3F80)));
  }
  static F load_ue4m3(const std::byte* p) {
    const __m128i codes = load128(p);
    return {{widen_ue4m3(codes), widen_ue4m3(_mm_srli_si128(codes, 8))}};
  }
  static __m256 widen_e8m0(__m128i codes) {  // the low 8 bytes
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu8_epi32(codes), 23);
    return _mm256_castsi256_ps(_mm256_max_epu32(bits, _mm256_set1_epi32(0x00400000)));
  }
  static F load_e8m0(const std::byte* p) {
    const __m128i codes = load128(p);
    return {{widen_e8m0(codes), widen_e8m0(_mm_srli_si128(codes, 8))}};
  }
  static F add(F a, F b) { return {{_mm256_add_ps(a.h[0], b.h[0]), _mm256_add_ps(a.h[1], b.h[1])}}; }
  static F sub(F a, F b) { return {{_mm256_sub_ps(a.h[0], b.h[0]), _mm256_sub_ps(a.h[1], b.h[1])}}; }
  static F mul(F a, F b) { return {{_mm256_mul_ps(a.h[0], b.h[0]), _mm256_mul_ps(a.h[1], b.h[1])}}; }
  static F div(F a, F b) { return {{_mm256_div_ps(a.h[0], b.h[0]), _mm256_div_ps(a.h[1], b.h[1])}}; }
  static F fma(F a, F b, F c) {
    return {{_mm256_fmadd_ps(a.h[0], b.h[0], c.h[0]), _mm256_fmadd_ps(a.h[1], b.h[1], c.h[1])}};
  }
  static F fnma(F a, F b, F c) {
    return {{_mm256_fnmadd_ps(a.h[0], b.h[0], c.h[0]), _mm256_fnmadd_ps(a.h[1], b.h[1], c.h[1])}};
  }
  static F max(F a, F b) { return {{_mm256_max_ps(a.h[0], b.h[0]), _mm256_max_ps(a.h[1], b.h[1])}}; }
  static F min(F a, F b) { return {{_mm256_min_ps(a.h[0], b.h[0]), _mm256_min_ps(a.h[1], b.h[1])}}; }
  static F to_f32(I x) { return {{_mm256_cvtepi32_ps(x.h[0]), _mm256_cvtepi32_ps(x.h[1])}}; }
  static __m256 add_exponent_half(__m256 p, __m256 t) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
  }
  static F add_exponent(F p, F t) { return {{add_exponent_half(p.h[0], t.h[0]), add_exponent_half(p.h[1], t.h[1])}}; }

  static I zero_i() { return {{_mm256_setzero_si256(), _mm256_setzero_si256()}}; }
  static __m256i abs_bits(__m256 x) { return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFFFFFF)); }
  static I max_abs_bits(I m, F x) {
    return {{_mm256_max_epi32(m.h[0], abs_bits(x.h[0])), _mm256_max_epi32(m.h[1], abs_bits(x.h[1]))}};
  }
  static I add_i(I a, I b) { return {{_mm256_add_epi32(a.h[0], b.h[0]), _mm256_add_epi32(a.h[1], b.h[1])}}; }
  static I sub_i(I a, I b) { return {{_mm256_sub_epi32(a.h[0], b.h[0]), _mm256_sub_epi32(a.h[1], b.h[1])}}; }
  static I set1_i(int32_t x) { return {{_mm256_set1_epi32(x), _mm256_set1_epi32(x)}}; }
  static I shift_right7(I x) { return {{_mm256_srai_epi32(x.h[0], 7), _mm256_srai_epi32(x.h[1], 7)}}; }
  static int32_t reduce_max(I x) {
    const __m256i y = _mm256_max_epi32(x.h[0], x.h[1]);
    __m128i z = _mm_max_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    z = _mm_max_epi32(z, _mm_shuffle_epi32(z, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(z, _mm_shuffle_epi32(z, 0xB1)));
  }
  static int32_t reduce_add(I x) {
    const __m256i y = _mm256_add_epi32(x.h[0], x.h[1]);
    __m128i z = _mm_add_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    z = _mm_add_epi32(z, _mm_shuffle_epi32(z, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(z, _mm_shuffle_epi32(z, 0xB1)));
  }
  static I round_i32(F x) { return {{_mm256_cvtps_epi32(x.h[0]), _mm256_cvtps_epi32(x.h[1])}}; }
  static void store_i8(std::byte* p, I x) {
    const __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.h[0], x.h[1]), 0xD8);
    const __m128i b = _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), b);
  }

  static __m256i load256(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static B load_codes(const std::byte* p) { return {{load256(p), load256(p + 32)}}; }
  static B load_table(const uint8_t* table) {
    const __m256i t = _mm256_broadcastsi128_si256(load128(reinterpret_cast<const std::byte*>(table)));
    return {{t, t}};
  }
  static B lookup16(B table, B indices) {
    return {{_mm256_shuffle_epi8(table.h[0], indices.h[0]), _mm256_shuffle_epi8(table.h[1], indices.h[1])}};
  }
  static B and_(B a, __m256i m) { return {{_mm256_and_si256(a.h[0], m), _mm256_and_si256(a.h[1], m)}}; }
  template <uint8_t kMask>
  static B mask(B x) {
    return and_(x, _mm256_set1_epi8(static_cast<char>(kMask)));
  }
  template <int n>
  static B shr(B x) {
    return {{_mm256_srli_epi16(x.h[0], n), _mm256_srli_epi16(x.h[1], n)}};
  }
  template <int n>
  static B shl(B x) {
    return {{_mm256_slli_epi16(x.h[0], n), _mm256_slli_epi16(x.h[1], n)}};
  }
  static B or_(B a, B b) { return {{_mm256_or_si256(a.h[0], b.h[0]), _mm256_or_si256(a.h[1], b.h[1])}}; }
  template <uint8_t kMask>
  static B or_masked(B acc, B x) {
    return or_(acc, mask<kMask>(x));
  }
  static B join_nibbles(B low, B high) { return or_(mask<0x0F>(low), mask<0xF0>(high)); }
  template <int i>
  static I lane_u8(B x) {
    return and_({{_mm256_srli_epi32(x.h[0], 8 * i), _mm256_srli_epi32(x.h[1], 8 * i)}}, _mm256_set1_epi32(255));
  }
  template <int i>
  static I lane_i8(B x) {
    return {{_mm256_srai_epi32(_mm256_slli_epi32(x.h[0], 24 - 8 * i), 24),
             _mm256_srai_epi32(_mm256_slli_epi32(x.h[1], 24 - 8 * i), 24)}};
  }
  static I shl7_add(I high, I low) {
    return {{_mm256_add_epi32(_mm256_slli_epi32(high.h[0], 7), low.h[0]),
             _mm256_add_epi32(_mm256_slli_epi32(high.h[1], 7), low.h[1])}};
  }

  template <int kBits>
  static Acc<kBits> start(int32_t offset) {
    const __m256i s = kBits == 5 || kBits == 6 ? _mm256_set1_epi32(offset) : _mm256_setzero_si256();
    return {{s, s}};
  }
  template <int kBits>
  static I sum(Acc<kBits> s, int32_t offset) {
    if constexpr (kBits != 4) return {{s.h[0], s.h[1]}};
    const __m256i ones = _mm256_set1_epi16(1), o = _mm256_set1_epi32(offset);
    return {
        {_mm256_add_epi32(_mm256_madd_epi16(s.h[0], ones), o), _mm256_add_epi32(_mm256_madd_epi16(s.h[1], ones), o)}};
  }
  static __m256i quad(const std::byte* p) {
    int32_t x;
    std::memcpy(&x, p, 4);
    return _mm256_set1_epi32(x);
  }
  // Compilers regroup the integer additions of all quads and spill; the empty asm keeps them in order.
  [[gnu::always_inline]] static inline void accumulate(__m256i& acc, __m256i x) {
    acc = _mm256_add_epi32(acc, x);
    asm("" : "+x"(acc));
  }
  template <int kBits, int NC>
  [[gnu::always_inline]] static inline void dot2(Acc<kBits> (&s)[NC], B w0, B w1, const std::byte* a0,
                                                 const std::byte* a1, int col_stride) {
    if constexpr (kBits == 8) {
      const __m256i flip = _mm256_set1_epi8(-128);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h)
        dot2_signed<NC>(s, h, _mm256_xor_si256(w0.h[h], flip), _mm256_xor_si256(w1.h[h], flip), a0, a1, col_stride);
      return;
    }
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (int c = 0; c < NC; ++c) {
      const __m256i q0 = quad(a0 + c * col_stride), q1 = quad(a1 + c * col_stride);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const __m256i p0 = _mm256_maddubs_epi16(w0.h[h], q0), p1 = _mm256_maddubs_epi16(w1.h[h], q1);
        if constexpr (kBits == 4) {
          s[c].h[h] = _mm256_add_epi16(s[c].h[h], p0);
          asm("" : "+x"(s[c].h[h]));
          s[c].h[h] = _mm256_add_epi16(s[c].h[h], p1);
          asm("" : "+x"(s[c].h[h]));
        } else {  // two quads of codes <= 63 stay within int16: 2 * 2 * 63 * 127 = 32004
          accumulate(s[c].h[h], _mm256_madd_epi16(_mm256_add_epi16(p0, p1), ones));
        }
      }
    }
  }
  // Signed codes: |w| as the unsigned operand, the sign moved to the activation; 2 * 128 * 127 stays within int16.
  template <int NC>
  [[gnu::always_inline]] static inline void dot2_signed(Acc<8> (&s)[NC], int h, __m256i w0, __m256i w1,
                                                        const std::byte* a0, const std::byte* a1, int col_stride) {
    const __m256i ones = _mm256_set1_epi16(1), abs0 = _mm256_abs_epi8(w0), abs1 = _mm256_abs_epi8(w1);
#pragma GCC unroll 4
    for (int c = 0; c < NC; ++c) {
      const __m256i p0 = _mm256_maddubs_epi16(abs0, _mm256_sign_epi8(quad(a0 + c * col_stride), w0));
      accumulate(s[c].h[h], _mm256_madd_epi16(p0, ones));
      const __m256i p1 = _mm256_maddubs_epi16(abs1, _mm256_sign_epi8(quad(a1 + c * col_stride), w1));
      accumulate(s[c].h[h], _mm256_madd_epi16(p1, ones));
    }
  }
};

}  // namespace
}  // namespace tokamak::cpu

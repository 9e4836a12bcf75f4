// The K types: groups of 256 with a second level of scales.
#pragma once

#include "backend/cuda/matvec/types_nibble.h"

namespace tokamak::cuda {

// Pairs of six-bit numbers of four rows. Stored: a byte of low nibbles per row (first number low), and bytes of high
// pairs: bits 0-1 first and 2-3 second number of the odd row, 4-5 and 6-7 those of the even row.
struct SixBits4 {
  Words<1> low;
  uint16_t high;
};
// The same as bytes, one per row.
struct SixBytes4 {
  uint32_t first, second;
};
TOKAMAK_HD SixBytes4 widen(const SixBits4& s) {
  const uint32_t high = pick_bytes(s.high, 0, 0x1100);  // rows 0 and 1, rows 2 and 3
  return {(s.low.w[0] & 0x0F0F0F0F) | (high & 0x00300030) | (high << 4 & 0x30003000),
          (s.low.w[0] >> 4 & 0x0F0F0F0F) | (high >> 2 & 0x00300030) | (high << 2 & 0x30003000)};
}

struct ScaleMin4 {
  Words<4> d_dmin;
  SixBits4 six;
};
template <class Out>
TOKAMAK_HD void put_scale_min(const Words<4>& d_dmin, const SixBytes4& six, int row, Out& out) {
  out.d = half_at(d_dmin.w[row], 0) * float_of_byte(six.first, row);
  out.m = -(half_at(d_dmin.w[row], 1) * float_of_byte(six.second, row));
}

struct Q4_K : QuantizedType {
  static constexpr int kRows = 4;
  static constexpr bool kHigh16 = true;
  static constexpr Plane kPlanes[] = {{64, 1}, {16, 8}, {4, 1}, {2, 1}};
  using Codes = Words<4>;
  using Scales = ScaleMin4;
  struct Prepared {
    Words<4> d_dmin;
    SixBytes4 six;
  };
  TOKAMAK_HD static Prepared prepare(const Scales& s) { return {s.d_dmin, widen(s.six)}; }
  using Decoded = UnitDM;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<Q4_K, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_group<Q4_K, 1, Words<4>>(u), {load_unit<Q4_K, 2, Words<1>>(u), load_unit<Q4_K, 3, uint16_t>(u)}};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Prepared& s, int row, Table) {
    Decoded out;
    split_nibbles(c, out.w);
    put_scale_min(s.d_dmin, s.six, row, out);
    return out;
  }
};

struct Q5_K : QuantizedType {
  static constexpr int kRows = 4;
  static constexpr Plane kPlanes[] = {{64, 1}, {16, 1}, {16, 8}, {4, 1}, {2, 1}};
  using Codes = Words<4>;
  struct Scales {
    Words<4> fifth;
    ScaleMin4 s;
  };
  struct Prepared {
    Words<4> fifth, d_dmin;
    SixBytes4 six;
  };
  TOKAMAK_HD static Prepared prepare(const Scales& s) { return {s.fifth, s.s.d_dmin, widen(s.s.six)}; }
  using Decoded = UnitDM;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<Q5_K, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_unit<Q5_K, 1, Words<4>>(u),
            {load_group<Q5_K, 2, Words<4>>(u), {load_unit<Q5_K, 3, Words<1>>(u), load_unit<Q5_K, 4, uint16_t>(u)}}};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Prepared& s, int row, Table) {
    Decoded out;
    split_five_bits(c, s.fifth.w[row], out.w);
    put_scale_min(s.d_dmin, s.six, row, out);
    return out;
  }
};

// Six words c[0..5] of six-bit codes: the low six bits of their bytes are words 0 to 5 of the unit; word 6 is the top
// pairs of words 0, 1, 2 (low to high), word 7 those of 3, 4, 5. Scale bytes are stored plus 128.
struct Q6_K : QuantizedType {
  using Acts = ActsQ15;
  static constexpr int kRows = 2, kOffset = 32;
  static constexpr Plane kPlanes[] = {{32, 1}, {16, 1}, {4, 1}, {4, 8}};  // words 0-3, 4-5; two scales per row; d
  struct Codes {
    Words<4> low;
    Words<2> high;
  };
  struct Scales {
    Words<1> codes, d;
  };
  using Decoded = UnitD2;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) {
    return {load_row<Q6_K, 0, Words<4>>(u, row), load_row<Q6_K, 1, Words<2>>(u, row)};
  }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_unit<Q6_K, 2, Words<1>>(u), load_group<Q6_K, 3, Words<1>>(u)};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    const uint32_t words[6] = {c.low.w[0], c.low.w[1], c.low.w[2], c.low.w[3], c.high.w[0], c.high.w[1]};
    for (int i = 0; i < 6; ++i) out.w[i] = words[i] & 0x3F3F3F3F;
    for (int i = 0; i < 2; ++i)
      out.w[6 + i] = (words[3 * i] >> 6 & 0x03030303) | (words[3 * i + 1] >> 4 & 0x0C0C0C0C) |
                     (words[3 * i + 2] >> 2 & 0x30303030);
    const float d = half_at(s.d.w[0], row);
    out.d0 = d * (float_of_byte(s.codes.w[0], row * 2) - 128.0f);
    out.d1 = d * (float_of_byte(s.codes.w[0], row * 2 + 1) - 128.0f);
    return out;
  }
};

// Two-bit codes: bits 8b + 2i and above of word h are weight 16h + 4i + b.
TOKAMAK_HD void split_two_bits(const Words<2>& c, uint32_t (&w)[8]) {
  for (int i = 0; i < 8; ++i) w[i] = c.w[i / 4] >> (2 * (i % 4)) & 0x03030303;
}

struct Q2_K : QuantizedType {
  static constexpr int kStride = 8, kRows = 4;
  static constexpr Plane kPlanes[] = {{32, 1}, {16, 8}, {8, 1}};  // codes; d, dmin; {scale, min} nibbles of two groups
  using Codes = Words<2>;
  struct Scales {
    Words<4> d_dmin;
    Words<2> codes;
  };
  struct Prepared {
    Words<4> d_dmin;
    uint32_t scales[2], mins[2];  // bytes, two rows of two groups in a word
  };
  TOKAMAK_HD static Prepared prepare(const Scales& s) {
    return {s.d_dmin,
            {s.codes.w[0] & 0x0F0F0F0F, s.codes.w[1] & 0x0F0F0F0F},
            {s.codes.w[0] >> 4 & 0x0F0F0F0F, s.codes.w[1] >> 4 & 0x0F0F0F0F}};
  }
  using Decoded = UnitDM2;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<Q2_K, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_group<Q2_K, 1, Words<4>>(u), load_unit<Q2_K, 2, Words<2>>(u)};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Prepared& s, int row, Table) {
    Decoded out;
    split_two_bits(c, out.w);
    const float d = half_at(s.d_dmin.w[row], 0), dmin = -half_at(s.d_dmin.w[row], 1);
    const uint32_t scales = s.scales[row / 2], mins = s.mins[row / 2];
    out.d0 = d * float_of_byte(scales, row % 2 * 2);
    out.m0 = dmin * float_of_byte(mins, row % 2 * 2);
    out.d1 = d * float_of_byte(scales, row % 2 * 2 + 1);
    out.m1 = dmin * float_of_byte(mins, row % 2 * 2 + 1);
    return out;
  }
};

// Three words c[0..2] of three-bit codes: bits 0-2 and 3-5 of their bytes are words 2j and 2j + 1 of the unit; of word
// 6 (7) the low pair is the top pair of c[0] (c[1]), bit 2 is bit 7 (6) of c[2].
struct Q3_K : QuantizedType {
  static constexpr int kStride = 8, kRows = 4, kOffset = 4;
  // words 0-1, word 2, d; pairs of scales (SixBits4)
  static constexpr Plane kPlanes[] = {{32, 1}, {16, 1}, {8, 8}, {4, 1}, {2, 1}};
  using Codes = Words<2>;
  struct Scales {
    Words<4> third;
    Words<2> d;
    SixBits4 six;
  };
  struct Prepared {
    Words<4> third;
    Words<2> d;
    SixBytes4 six;
  };
  TOKAMAK_HD static Prepared prepare(const Scales& s) { return {s.third, s.d, widen(s.six)}; }
  using Decoded = UnitD2;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<Q3_K, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_unit<Q3_K, 1, Words<4>>(u),
            load_group<Q3_K, 2, Words<2>>(u),
            {load_unit<Q3_K, 3, Words<1>>(u), load_unit<Q3_K, 4, uint16_t>(u)}};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Prepared& s, int row, Table) {
    Decoded out;
    const uint32_t words[3] = {c.w[0], c.w[1], s.third.w[row]};
    for (int i = 0; i < 6; ++i) out.w[i] = words[i / 2] >> (3 * (i % 2)) & 0x07070707;
    out.w[6] = (words[0] >> 6 & 0x03030303) | (words[2] >> 5 & 0x04040404);
    out.w[7] = (words[1] >> 6 & 0x03030303) | (words[2] >> 4 & 0x04040404);
    const float d = half_at(s.d.w[row / 2], row % 2);
    out.d0 = d * (float_of_byte(s.six.first, row) - 32.0f);
    out.d1 = d * (float_of_byte(s.six.second, row) - 32.0f);
    return out;
  }
};

// --- one and two bits with one scale.
struct Q1_0 : QuantizedType {
  static constexpr int kRows = 8, kOffset = 1;                     // bytes 0 and 2
  static constexpr Plane kPlanes[] = {{16, 1}, {16, 1}, {16, 4}};  // bit 8b + i: weight 4i + b; rows 0-3, 4-7; d
  using Codes = uint8_t;                                           // all rows are loaded together
  struct Scales {
    Words<4> bits[2];
    Words<4> d;
  };
  using Decoded = UnitD;
  TOKAMAK_HD static Codes load_codes(const auto&, int) { return 0; }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {{load_unit<Q1_0, 0, Words<4>>(u), load_unit<Q1_0, 1, Words<4>>(u)}, load_group<Q1_0, 2, Words<4>>(u)};
  }
  TOKAMAK_HD static Decoded decode(const Codes&, const Scales& s, int row, Table) {
    Decoded out;
    const uint32_t c = s.bits[row / 4].w[row % 4];
    for (int i = 0; i < 8; ++i) out.w[i] = (i == 0 ? c << 1 : c >> (i - 1)) & 0x02020202;
    out.d = half_at(s.d.w[row / 2], row % 2);
    return out;
  }
};

template <int kUnitsPerScale>
struct TwoBits : QuantizedType {
  static constexpr int kStride = 8, kRows = 8, kOffset = 1;
  static constexpr Plane kPlanes[] = {{64, 1}, {16, kUnitsPerScale}};
  using Codes = Words<2>;
  using Scales = Words<4>;
  using Decoded = UnitD;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<TwoBits, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) { return load_group<TwoBits, 1, Scales>(u); }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    split_two_bits(c, out.w);
    out.d = half_at(s.w[row / 2], row % 2);
    return out;
  }
};
using Q2_0 = TwoBits<2>;
using TQ2_0 = TwoBits<8>;  // TQ1_0 is unpacked to it

}  // namespace tokamak::cuda

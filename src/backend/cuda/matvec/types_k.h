// The K types: groups of 256 with a second level of scales.
#pragma once

#include "backend/cuda/matvec/types_nibble.h"

namespace tokamak::cuda {

// Scale and min of six bits each, for four rows: a byte {scale, min} of low nibbles and a nibble {scale, min} of high
// pairs per row; d and dmin per row.
struct ScaleMin4 {
  Words<4> d_dmin;
  Words<1> low;
  uint16_t high;

  template <class Out>
  TOKAMAK_HD void scale_of_row(int row, Out& out) const {
    const uint32_t lo = low.w[0] >> (8 * row), hi = static_cast<uint32_t>(high) >> (4 * row);
    const uint32_t scale = (lo & 15) | (hi & 3) << 4, min = (lo >> 4 & 15) | (hi & 12) << 2;
    out.d = half_at(d_dmin.w[row], 0) * float_of_small(scale);
    out.m = -(half_at(d_dmin.w[row], 1) * float_of_small(min));
  }
};

struct Q4_K : QuantizedType {
  static constexpr int kRows = 4;
  static constexpr bool kHigh16 = true;
  static constexpr Plane kPlanes[] = {{64, 1}, {16, 8}, {4, 1}, {2, 1}};
  using Codes = Words<4>;
  using Scales = ScaleMin4;
  using Decoded = UnitDM;
  TOKAMAK_HD static Codes load_codes(const Unit& u, int row) { return load_row<Q4_K, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const Unit& u) {
    return {load_group<Q4_K, 1, Words<4>>(u), load_unit<Q4_K, 2, Words<1>>(u), load_unit<Q4_K, 3, uint16_t>(u)};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    split_nibbles(c, out.w);
    s.scale_of_row(row, out);
    return out;
  }
};

struct Q5_K : QuantizedType {
  static constexpr int kRows = 4;
  static constexpr Plane kPlanes[] = {{64, 1}, {16, 1}, {16, 8}, {4, 1}, {2, 1}};
  using Codes = Words<4>;
  struct Scales {
    Words<4> bits;
    ScaleMin4 s;
  };
  using Decoded = UnitDM;
  TOKAMAK_HD static Codes load_codes(const Unit& u, int row) { return load_row<Q5_K, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const Unit& u) {
    return {load_unit<Q5_K, 1, Words<4>>(u),
            {load_group<Q5_K, 2, Words<4>>(u), load_unit<Q5_K, 3, Words<1>>(u), load_unit<Q5_K, 4, uint16_t>(u)}};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    join_fifth_bit(c, s.bits.w[row], out.w);
    s.s.scale_of_row(row, out);
    return out;
  }
};

// Bits 8b + 2i and above of word h of the second plane are bits 4 and 5 of weight 16h + 4i + b.
struct Q6_K : QuantizedType {
  static constexpr int kRows = 4, kOffset = 32;
  static constexpr Plane kPlanes[] = {{64, 1}, {32, 1}, {8, 1}, {8, 8}};  // low, high bits; two i8 scales per row; d
  struct Codes {
    Words<4> low;
    Words<2> high;
  };
  struct Scales {
    Words<2> codes, d;
  };
  using Decoded = UnitD2;
  TOKAMAK_HD static Codes load_codes(const Unit& u, int row) {
    return {load_row<Q6_K, 0, Words<4>>(u, row), load_row<Q6_K, 1, Words<2>>(u, row)};
  }
  TOKAMAK_HD static Scales load_scales(const Unit& u) {
    return {load_unit<Q6_K, 2, Words<2>>(u), load_group<Q6_K, 3, Words<2>>(u)};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    for (int i = 0; i < 4; ++i) {
      const uint32_t h0 = i <= 2 ? c.high.w[0] << (4 - 2 * i) : c.high.w[0] >> 2;
      const uint32_t h1 = i <= 2 ? c.high.w[1] << (4 - 2 * i) : c.high.w[1] >> 2;
      out.w[i] = (c.low.w[i] & 0x0F0F0F0F) | (h0 & 0x30303030);
      out.w[4 + i] = (c.low.w[i] >> 4 & 0x0F0F0F0F) | (h1 & 0x30303030);
    }
    const float d = half_at(s.d.w[row / 2], row % 2);
    const uint32_t codes = s.codes.w[row / 2] >> (16 * (row % 2));
    out.d0 = d * (float_of_small((codes & 255) ^ 128) - 128.0f);
    out.d1 = d * (float_of_small((codes >> 8 & 255) ^ 128) - 128.0f);
    return out;
  }
};

// Two-bit codes: bits 8b + 2i and above of word h are weight 16h + 4i + b.
TOKAMAK_HD void split_two_bits(const Words<2>& c, uint32_t (&w)[8]) {
  for (int i = 0; i < 8; ++i) w[i] = c.w[i / 4] >> (2 * (i % 4)) & 0x03030303;
}

struct Q2_K : QuantizedType {
  static constexpr int kStride = 8, kRows = 8, kRegisters = 80;
  static constexpr Plane kPlanes[] = {{64, 1}, {16, 1}, {32, 8}};  // codes, {scale, min} nibbles of two groups; d, dmin
  using Codes = Words<2>;
  struct Scales {
    Words<4> codes;
    Words<8> d_dmin;
  };
  using Decoded = UnitDM2;
  TOKAMAK_HD static Codes load_codes(const Unit& u, int row) { return load_row<Q2_K, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const Unit& u) {
    return {load_unit<Q2_K, 1, Words<4>>(u), load_group<Q2_K, 2, Words<8>>(u)};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    split_two_bits(c, out.w);
    const float d = half_at(s.d_dmin.w[row], 0), dmin = -half_at(s.d_dmin.w[row], 1);
    const uint32_t codes = s.codes.w[row / 2] >> (16 * (row % 2));
    out.d0 = d * float_of_small(codes & 15);
    out.m0 = dmin * float_of_small(codes >> 4 & 15);
    out.d1 = d * float_of_small(codes >> 8 & 15);
    out.m1 = dmin * float_of_small(codes >> 12 & 15);
    return out;
  }
};

// Bit 8b + i of the second plane is bit 2 of weight 4i + b.
struct Q3_K : QuantizedType {
  static constexpr int kStride = 8, kRows = 4, kOffset = 4;
  // low bits, third bits, d; of two groups per row: a byte of low nibbles and a nibble of high pairs of the scales
  static constexpr Plane kPlanes[] = {{32, 1}, {16, 1}, {8, 8}, {4, 1}, {2, 1}};
  using Codes = Words<2>;
  struct Scales {
    Words<4> bits;
    Words<2> d;
    Words<1> low;
    uint16_t high;
  };
  using Decoded = UnitD2;
  TOKAMAK_HD static Codes load_codes(const Unit& u, int row) { return load_row<Q3_K, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const Unit& u) {
    return {load_unit<Q3_K, 1, Words<4>>(u), load_group<Q3_K, 2, Words<2>>(u), load_unit<Q3_K, 3, Words<1>>(u),
            load_unit<Q3_K, 4, uint16_t>(u)};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    split_two_bits(c, out.w);
    const uint32_t bits = s.bits.w[row];
    for (int i = 0; i < 8; ++i) out.w[i] |= (i <= 2 ? bits << (2 - i) : bits >> (i - 2)) & 0x04040404;
    const float d = half_at(s.d.w[row / 2], row % 2);
    const uint32_t lo = s.low.w[0] >> (8 * row), hi = static_cast<uint32_t>(s.high) >> (4 * row);
    out.d0 = d * (float_of_small((lo & 15) | (hi & 3) << 4) - 32.0f);
    out.d1 = d * (float_of_small((lo >> 4 & 15) | (hi & 12) << 2) - 32.0f);
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
  TOKAMAK_HD static Codes load_codes(const Unit&, int) { return 0; }
  TOKAMAK_HD static Scales load_scales(const Unit& u) {
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
  TOKAMAK_HD static Codes load_codes(const Unit& u, int row) { return load_row<TwoBits, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const Unit& u) { return load_group<TwoBits, 1, Scales>(u); }
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

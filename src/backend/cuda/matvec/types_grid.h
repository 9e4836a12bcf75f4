// The IQ types whose elements are looked up in a grid, 8 or 4 at a time. The grid lies in front of the matrix and is
// copied to shared memory.
//
// Signs: the sign of weight 4w + b is bit 8b + 7 - w of a word. Where the file stores seven signs per eight weights
// (the eighth makes the number of minus signs even), the places of the eighth, bits 30, 28, 26 and 24, carry four
// other bits.
#pragma once

#include "backend/cuda/matvec/types_nibble.h"

namespace tokamak::cuda {

inline constexpr uint32_t kSpareSigns = 0x55000000;

TOKAMAK_HD uint32_t complete_signs(uint32_t word) {
  word &= ~kSpareSigns;
  uint32_t parity = word ^ word >> 16;
  parity ^= parity >> 8;
  parity ^= parity >> 1;
  return word | (parity & 0x55) << 24;
}
// The spare bits as a number: bit i from bit 24 + 2i.
TOKAMAK_HD uint32_t spare_number(uint32_t word) {
  uint32_t x = word >> 24 & 0x55;
  x = (x | x >> 1) & 0x33;
  return (x | x >> 2) & 15;
}
// Word `word` of the unit: magnitudes (1 to 127) with signs, as a difference: inverted bytes minus -1 where negative.
TOKAMAK_HD void put_signed(uint32_t magnitudes, uint32_t signs, int word, TwoSided& out) {
  out.minus[word] = pick_bytes(signs << word, 0, 0xBA98);
  out.plus[word] = magnitudes ^ out.minus[word];
}

// Grids of eight elements: two words per point.
TOKAMAK_HD void put_eight(const uint32_t* table, uint32_t index, uint32_t signs, int i, TwoSided& out) {
#if defined(__CUDA_ARCH__)
  const uint2 point = reinterpret_cast<const uint2*>(table)[index];
  const uint32_t lo = point.x, hi = point.y;
#else
  const uint32_t lo = table[2 * index], hi = table[2 * index + 1];
#endif
  put_signed(lo, signs, 2 * i, out);
  put_signed(hi, signs, 2 * i + 1, out);
}

struct IQ2_XXS : QuantizedType {
  static constexpr int kStride = 8, kRows = 4, kTableBytes = 8 * 256;
  static constexpr bool kSigned = true, kTwoSided = true;
  static constexpr float kFactor = 0.125f;
  static constexpr Plane kPlanes[] = {{32, 1}, {8, 8}};  // four indices, signs and (spare) scale; d
  using Codes = Words<2>;
  using Scales = Words<2>;
  using Decoded = UnitD;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<IQ2_XXS, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) { return load_group<IQ2_XXS, 1, Scales>(u); }
  TOKAMAK_HD static TwoSided decode_codes(const Codes& c, const Scales&, int, Table lookup) {
    TwoSided out;
    const uint32_t signs = complete_signs(c.w[1]);
    for (int i = 0; i < 4; ++i) put_eight(lookup.grid, c.w[0] >> (8 * i) & 255, signs, i, out);
    return out;
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {  // scales only
    Decoded out;
    out.d = half_at(s.w[row / 2], row % 2) * float_of_small(2 * spare_number(c.w[1]) + 1);
    return out;
  }
};

struct IQ2_XS : QuantizedType {
  static constexpr int kStride = 8, kRows = 4, kTableBytes = 8 * 512;
  static constexpr bool kSigned = true, kTwoSided = true;
  static constexpr float kFactor = 0.125f;
  static constexpr Plane kPlanes[] = {{32, 1}, {8, 8}, {4, 1}};  // indices, signs and (spare) their bits 8; d; scales
  using Codes = Words<2>;
  struct Scales {
    Words<2> d;
    Words<1> codes;  // a byte per row, a nibble per half
  };
  using Decoded = UnitD2;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<IQ2_XS, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_group<IQ2_XS, 1, Words<2>>(u), load_unit<IQ2_XS, 2, Words<1>>(u)};
  }
  TOKAMAK_HD static TwoSided decode_codes(const Codes& c, const Scales&, int, Table lookup) {
    TwoSided out;
    const uint32_t signs = complete_signs(c.w[1]);
    for (int i = 0; i < 4; ++i)
      put_eight(lookup.grid, (c.w[0] >> (8 * i) & 255) | (c.w[1] >> (16 + 2 * i) & 256), signs, i, out);
    return out;
  }
  TOKAMAK_HD static Decoded decode(const Codes&, const Scales& s, int row, Table) {  // scales only
    Decoded out;
    const float d = half_at(s.d.w[row / 2], row % 2);
    const uint32_t codes = s.codes.w[0] >> (8 * row);
    out.d0 = d * float_of_small((codes & 15) * 2 + 1);
    out.d1 = d * float_of_small((codes >> 4 & 15) * 2 + 1);
    return out;
  }
};

struct IQ2_S : QuantizedType {
  static constexpr int kStride = 8, kRows = 4, kTableBytes = 8 * 1024;
  static constexpr bool kSigned = true, kTwoSided = true;
  static constexpr float kFactor = 0.125f;
  static constexpr Plane kPlanes[] = {{32, 1}, {8, 1}, {8, 8}};  // indices and signs; their bits 8-9 and scales; d
  using Codes = Words<2>;
  struct Scales {
    Words<2> codes;  // per row a byte of index bits and a byte of two scales
    Words<2> d;
  };
  using Decoded = UnitD2;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<IQ2_S, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_unit<IQ2_S, 1, Words<2>>(u), load_group<IQ2_S, 2, Words<2>>(u)};
  }
  TOKAMAK_HD static TwoSided decode_codes(const Codes& c, const Scales& s, int row, Table lookup) {
    TwoSided out;
    const uint32_t codes = s.codes.w[row / 2] >> (16 * (row % 2));
    for (int i = 0; i < 4; ++i)
      put_eight(lookup.grid, (c.w[0] >> (8 * i) & 255) | (codes >> (2 * i) & 3) << 8, c.w[1], i, out);
    return out;
  }
  TOKAMAK_HD static Decoded decode(const Codes&, const Scales& s, int row, Table) {  // scales only
    Decoded out;
    const uint32_t codes = s.codes.w[row / 2] >> (16 * (row % 2));
    const float d = half_at(s.d.w[row / 2], row % 2);
    out.d0 = d * float_of_small((codes >> 8 & 15) * 2 + 1);
    out.d1 = d * float_of_small((codes >> 12 & 15) * 2 + 1);
    return out;
  }
};

struct IQ3_XXS : QuantizedType {
  static constexpr int kStride = 8, kRows = 4, kTableBytes = 4 * 256;
  static constexpr bool kSigned = true, kTwoSided = true;
  static constexpr float kFactor = 0.25f;
  static constexpr Plane kPlanes[] = {{32, 1}, {16, 1}, {8, 8}};  // eight indices; signs and (spare) scale; d
  using Codes = Words<2>;
  struct Scales {
    Words<4> signs;
    Words<2> d;
  };
  using Decoded = UnitD;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<IQ3_XXS, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_unit<IQ3_XXS, 1, Words<4>>(u), load_group<IQ3_XXS, 2, Words<2>>(u)};
  }
  TOKAMAK_HD static TwoSided decode_codes(const Codes& c, const Scales& s, int row, Table lookup) {
    TwoSided out;
    const uint32_t signs = complete_signs(s.signs.w[row]);
    for (int i = 0; i < 8; ++i) put_signed(lookup.grid[c.w[i / 4] >> (8 * (i % 4)) & 255], signs, i, out);
    return out;
  }
  TOKAMAK_HD static Decoded decode(const Codes&, const Scales& s, int row, Table) {  // scales only
    Decoded out;
    out.d = half_at(s.d.w[row / 2], row % 2) * float_of_small(2 * spare_number(s.signs.w[row]) + 1);
    return out;
  }
};

struct IQ3_S : QuantizedType {
  static constexpr int kStride = 8, kRows = 4, kTableBytes = 4 * 512;
  static constexpr bool kSigned = true, kTwoSided = true;
  // indices; signs; d; bits 8 of the indices, a byte per row; scales, a nibble per row
  static constexpr Plane kPlanes[] = {{32, 1}, {16, 1}, {8, 8}, {4, 1}, {2, 1}};
  using Codes = Words<2>;
  struct Scales {
    Words<4> signs;
    Words<2> d;
    Words<1> high;
    uint16_t codes;
  };
  using Decoded = UnitD;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<IQ3_S, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_unit<IQ3_S, 1, Words<4>>(u), load_group<IQ3_S, 2, Words<2>>(u), load_unit<IQ3_S, 3, Words<1>>(u),
            load_unit<IQ3_S, 4, uint16_t>(u)};
  }
  TOKAMAK_HD static TwoSided decode_codes(const Codes& c, const Scales& s, int row, Table lookup) {
    TwoSided out;
    const uint32_t high = s.high.w[0] >> (8 * row);
    for (int i = 0; i < 8; ++i) {
      const uint32_t index = (c.w[i / 4] >> (8 * (i % 4)) & 255) | (high >> i & 1) << 8;
      put_signed(lookup.grid[index], s.signs.w[row], i, out);
    }
    return out;
  }
  TOKAMAK_HD static Decoded decode(const Codes&, const Scales& s, int row, Table) {  // scales only
    Decoded out;
    out.d = half_at(s.d.w[row / 2], row % 2) * float_of_small((s.codes >> (4 * row) & 15u) * 2 + 1);
    return out;
  }
};

// IQ1: an element is g - 1 +- 1/8 = (4g + {0, 1} - 4.5) / 4, g = 0, 1, 2. A point is one word of nibbles 4g: weight k
// in nibble 2k, weight 4 + k in nibble 2k + 1.
TOKAMAK_HD void put_eight_iq1(const uint32_t* table, uint32_t index, uint32_t plus, int i, uint32_t (&w)[8]) {
  const uint32_t point = table[index] | plus * 0x11111111;
  w[2 * i] = point & 0x0F0F0F0F;
  w[2 * i + 1] = point >> 4 & 0x0F0F0F0F;
}

struct IQ1_S : QuantizedType {
  static constexpr int kStride = 4, kRows = 4, kTableBytes = 4 * 2048;
  static constexpr float kFactor = 0.25f;
  static constexpr Plane kPlanes[] = {{16, 1}, {8, 1}, {8, 8}};  // low bytes of indices; the file's qh words; d
  using Codes = Words<1>;
  struct Scales {
    Words<2> qh, d;
  };
  using Decoded = UnitDM;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<IQ1_S, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_unit<IQ1_S, 1, Words<2>>(u), load_group<IQ1_S, 2, Words<2>>(u)};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table lookup) {
    Decoded out;
    const uint32_t qh = s.qh.w[row / 2] >> (16 * (row % 2)), plus = ~(qh >> 15) & 1;
    for (int i = 0; i < 4; ++i)
      put_eight_iq1(lookup.grid, (c.w[0] >> (8 * i) & 255) | (qh >> (3 * i) & 7) << 8, plus, i, out.w);
    out.d = half_at(s.d.w[row / 2], row % 2) * float_of_small((qh >> 12 & 7) * 2 + 1);
    out.m = -4.5f * out.d;
    return out;
  }
};

struct IQ1_M : QuantizedType {
  static constexpr int kStride = 4, kRows = 4, kTableBytes = 4 * 2048;
  static constexpr float kFactor = 0.25f;
  // low bytes of indices; a nibble each of 3 high bits and sign of the shift; d; two 3-bit scales in a byte per row
  static constexpr Plane kPlanes[] = {{16, 1}, {8, 1}, {8, 8}, {4, 1}};
  using Codes = Words<1>;
  struct Scales {
    Words<2> qh, d;
    Words<1> codes;
  };
  using Decoded = UnitDM2;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<IQ1_M, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_unit<IQ1_M, 1, Words<2>>(u), load_group<IQ1_M, 2, Words<2>>(u), load_unit<IQ1_M, 3, Words<1>>(u)};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table lookup) {
    Decoded out;
    const uint32_t qh = s.qh.w[row / 2] >> (16 * (row % 2));
    for (int i = 0; i < 4; ++i)
      put_eight_iq1(lookup.grid, (c.w[0] >> (8 * i) & 255) | (qh >> (4 * i) & 7) << 8, ~(qh >> (4 * i + 3)) & 1, i,
                    out.w);
    const float d = half_at(s.d.w[row / 2], row % 2);
    const uint32_t codes = s.codes.w[0] >> (8 * row);
    out.d0 = d * float_of_small((codes & 7) * 2 + 1);
    out.d1 = d * float_of_small((codes >> 4 & 7) * 2 + 1);
    out.m0 = -4.5f * out.d0;
    out.m1 = -4.5f * out.d1;
    return out;
  }
};

}  // namespace tokamak::cuda

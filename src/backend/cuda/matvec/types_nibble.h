// Types of four-bit codes (and five: one more plane of bits) under a scale per 32.
// Code order: in "halves" order byte b of word i holds weight 4i + b in its low nibble and 16 + 4i + b in its high one;
// in "pick" order nibble n of word i is weight 8i + n (the selector of pick_bytes).
#pragma once

#include "backend/cuda/matvec/activations.h"
#include "backend/cuda/matvec/tile.h"

namespace tokamak::cuda {

// What types of 32 weights per unit share.
struct QuantizedType {
  static constexpr bool kQuantized = true;
  static constexpr int kUnit = 32, kTableBytes = 0, kOffset = 0, kStride = 16;
  static constexpr int kRegisters = 72;  // of the one-column kernel: 28 warps per multiprocessor
  static constexpr float kFactor = 1.0f;
  static constexpr bool kSigned = false, kHigh16 = false;
  static constexpr bool kTwoSided = false;  // see TwoSided in activations.h
  using Acts = ActsQ8;
  using Table = Lookup;
  // What is done once per row block with its scales.
  template <class Scales>
  TOKAMAK_HD static const Scales& prepare(const Scales& s) {
    return s;
  }
};

TOKAMAK_HD void split_nibbles(const Words<4>& c, uint32_t (&w)[8]) {  // kHigh16
  for (int i = 0; i < 4; ++i) w[i] = c.w[i] & 0x0F0F0F0F, w[4 + i] = c.w[i] & 0xF0F0F0F0;
}
// Five words c[0..3], e of five-bit codes: the low five bits of their bytes are words 0 to 4 of the unit; of words 5 to
// 7 the low three bits are the top three of words 0 to 2, and the high two lie in the tops of the other two words.
TOKAMAK_HD void split_five_bits(const Words<4>& c, uint32_t e, uint32_t (&w)[8]) {
  for (int i = 0; i < 4; ++i) w[i] = c.w[i] & 0x1F1F1F1F;
  w[4] = e & 0x1F1F1F1F;
  w[5] = (c.w[0] >> 5 & 0x07070707) | (c.w[3] >> 2 & 0x18181818);
  w[6] = (c.w[1] >> 5 & 0x07070707) | (e >> 2 & 0x18181818);
  w[7] = (c.w[2] >> 5 & 0x07070707) | (c.w[3] >> 4 & 0x08080808) | (e >> 3 & 0x10101010);
}

struct Q4_0 : QuantizedType {
  static constexpr int kRows = 4, kOffset = 8;
  static constexpr bool kHigh16 = true;
  static constexpr Plane kPlanes[] = {{64, 1}, {8, 1}};  // codes, d
  using Codes = Words<4>;
  using Scales = Words<2>;
  using Decoded = UnitD;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<Q4_0, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) { return load_unit<Q4_0, 1, Scales>(u); }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    split_nibbles(c, out.w);
    out.d = half_at(s.w[row / 2], row % 2);
    return out;
  }
};

struct Q4_1 : QuantizedType {
  static constexpr int kRows = 4;
  static constexpr bool kHigh16 = true;
  static constexpr Plane kPlanes[] = {{64, 1}, {16, 1}};  // codes, d and m
  using Codes = Words<4>;
  using Scales = Words<4>;
  using Decoded = UnitDM;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<Q4_1, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) { return load_unit<Q4_1, 1, Scales>(u); }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    split_nibbles(c, out.w);
    out.d = half_at(s.w[row], 0);
    out.m = half_at(s.w[row], 1);
    return out;
  }
};

struct Q5_0 : QuantizedType {
  static constexpr int kRows = 4, kOffset = 16;
  static constexpr Plane kPlanes[] = {{64, 1}, {16, 1}, {8, 1}};  // codes, fifth words, d
  using Codes = Words<4>;
  struct Scales {
    Words<4> fifth;
    Words<2> d;
  };
  using Decoded = UnitD;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<Q5_0, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_unit<Q5_0, 1, Words<4>>(u), load_unit<Q5_0, 2, Words<2>>(u)};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    split_five_bits(c, s.fifth.w[row], out.w);
    out.d = half_at(s.d.w[row / 2], row % 2);
    return out;
  }
};

struct Q5_1 : QuantizedType {
  static constexpr int kRows = 4;
  static constexpr Plane kPlanes[] = {{64, 1}, {16, 1}, {16, 1}};  // codes, fifth words, d and m
  using Codes = Words<4>;
  struct Scales {
    Words<4> fifth, dm;
  };
  using Decoded = UnitDM;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<Q5_1, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_unit<Q5_1, 1, Words<4>>(u), load_unit<Q5_1, 2, Words<4>>(u)};
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    split_five_bits(c, s.fifth.w[row], out.w);
    out.d = half_at(s.dm.w[row], 0);
    out.m = half_at(s.dm.w[row], 1);
    return out;
  }
};

// Signed bytes as they are: weights 0 to 15 of the unit in part 0, 16 to 31 in part 1.
struct Q8_0 : QuantizedType {
  using Acts = ActsQ15;
  static constexpr int kRows = 2;
  static constexpr bool kSigned = true;
  static constexpr Plane kPlanes[] = {{64, 1}, {4, 1}};
  struct Codes {
    Words<4> part[2];
  };
  using Scales = Words<1>;
  using Decoded = UnitD;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) {
    return {{load_row<Q8_0, 0, Words<4>, 2>(u, row, 0), load_row<Q8_0, 0, Words<4>, 2>(u, row, 1)}};
  }
  TOKAMAK_HD static Scales load_scales(const auto& u) { return load_unit<Q8_0, 1, Scales>(u); }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales& s, int row, Table) {
    Decoded out;
    for (int i = 0; i < 8; ++i) out.w[i] = c.part[i / 4].w[i % 4];
    out.d = half_at(s.w[0], row);
    return out;
  }
};

// --- four-bit floats, doubled values. A table of magnitudes (top bits clear) looked up with a code of the other sign
// gives 0.
TOKAMAK_HD uint32_t e2m1_bytes(uint32_t codes, uint32_t zero) {
  return pick_bytes(0x03020100 + zero, 0x0C080604, codes);
}
TOKAMAK_HD TwoSided decode_e2m1(const Words<4>& c, Lookup lookup) {
  TwoSided out;
  for (int i = 0; i < 4; ++i) {
    const uint32_t flipped = c.w[i] ^ 0x88888888;
    out.plus[2 * i] = e2m1_bytes(c.w[i], lookup.zero);
    out.plus[2 * i + 1] = e2m1_bytes(c.w[i] >> 16, lookup.zero);
    out.minus[2 * i] = e2m1_bytes(flipped, lookup.zero);
    out.minus[2 * i + 1] = e2m1_bytes(flipped >> 16, lookup.zero);
  }
  return out;
}

struct MXFP4 : QuantizedType {
  static constexpr int kRows = 4;
  static constexpr bool kSigned = true, kTwoSided = true;
  static constexpr float kFactor = 0.5f;                 // the codes are doubled
  static constexpr Plane kPlanes[] = {{64, 1}, {4, 1}};  // codes in pick order, exponents
  using Codes = Words<4>;
  using Scales = Words<1>;
  using Decoded = UnitD;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<MXFP4, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) { return load_unit<MXFP4, 1, Scales>(u); }
  TOKAMAK_HD static TwoSided decode_codes(const Codes& c, const Scales&, int, Table lookup) {
    return decode_e2m1(c, lookup);
  }
  TOKAMAK_HD static Decoded decode(const Codes&, const Scales& s, int row, Table) {  // scales only
    Decoded out;
    const uint32_t bits = (s.w[0] >> (8 * row) & 255) << 23;
    out.d = as_float(bits == 0 ? 0x00400000 : bits);  // exponent 0 is 2^-127
    return out;
  }
};

// Scale bytes are UE4M3 without the code that stands for NaN (packed as 0). Seven bits shifted to the place of a
// binary16's exponent are the value times 2^-8.
struct NVFP4 : QuantizedType {
  static constexpr int kRows = 4;
  static constexpr bool kSigned = true, kTwoSided = true;
  static constexpr float kFactor = 128.0f;               // 2^8 / 2
  static constexpr Plane kPlanes[] = {{64, 1}, {8, 1}};  // codes in pick order, two scales per row
  using Codes = Words<4>;
  using Scales = Words<2>;
  using Decoded = UnitD2;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<NVFP4, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) { return load_unit<NVFP4, 1, Scales>(u); }
  TOKAMAK_HD static TwoSided decode_codes(const Codes& c, const Scales&, int, Table lookup) {
    return decode_e2m1(c, lookup);
  }
  TOKAMAK_HD static Decoded decode(const Codes&, const Scales& s, int row, Table) {  // scales only
    Decoded out;
    const uint32_t halves = pick_bytes(s.w[row / 2], 0, row % 2 ? 0x3424 : 0x1404) >> 1;
    out.d0 = half_at(halves, 0);
    out.d1 = half_at(halves, 1);
    return out;
  }
};

// --- the table of IQ4: magnitudes of its positive and of its negative half.
TOKAMAK_HD TwoSided decode_iq4(const Words<4>& c, Lookup lookup) {
  TwoSided out;
  const uint32_t plus = 0x26190D01 + lookup.zero, minus = 0x4153687F + lookup.zero;
  for (int i = 0; i < 4; ++i) {
    const uint32_t flipped = c.w[i] ^ 0x88888888;
    out.plus[2 * i] = pick_bytes(plus, 0x71594535, flipped);
    out.plus[2 * i + 1] = pick_bytes(plus, 0x71594535, flipped >> 16);
    out.minus[2 * i] = pick_bytes(minus, 0x0A162331, c.w[i]);
    out.minus[2 * i + 1] = pick_bytes(minus, 0x0A162331, c.w[i] >> 16);
  }
  return out;
}

struct IQ4_NL : QuantizedType {
  static constexpr int kRows = 4;
  static constexpr bool kSigned = true, kTwoSided = true;
  static constexpr Plane kPlanes[] = {{64, 1}, {8, 1}};
  using Codes = Words<4>;
  using Scales = Words<2>;
  using Decoded = UnitD;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<IQ4_NL, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) { return load_unit<IQ4_NL, 1, Scales>(u); }
  TOKAMAK_HD static TwoSided decode_codes(const Codes& c, const Scales&, int, Table lookup) {
    return decode_iq4(c, lookup);
  }
  TOKAMAK_HD static Decoded decode(const Codes&, const Scales& s, int row, Table) {  // scales only
    Decoded out;
    out.d = half_at(s.w[row / 2], row % 2);
    return out;
  }
};

struct IQ4_XS : QuantizedType {
  static constexpr int kRows = 4;
  static constexpr bool kSigned = true, kTwoSided = true;
  static constexpr Plane kPlanes[] = {{64, 1}, {8, 8}, {2, 1}, {1, 1}};  // codes, d, scales' nibbles and high pairs
  using Codes = Words<4>;
  struct Scales {
    Words<2> d;
    uint16_t low;
    uint8_t high;
  };
  using Decoded = UnitD;
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) { return load_row<IQ4_XS, 0, Codes>(u, row); }
  TOKAMAK_HD static Scales load_scales(const auto& u) {
    return {load_group<IQ4_XS, 1, Words<2>>(u), load_unit<IQ4_XS, 2, uint16_t>(u), load_unit<IQ4_XS, 3, uint8_t>(u)};
  }
  TOKAMAK_HD static TwoSided decode_codes(const Codes& c, const Scales&, int, Table lookup) {
    return decode_iq4(c, lookup);
  }
  TOKAMAK_HD static Decoded decode(const Codes&, const Scales& s, int row, Table) {  // scales only
    Decoded out;
    const uint32_t scale = (s.low >> (4 * row) & 15u) | (s.high >> (2 * row) & 3u) << 4;
    out.d = half_at(s.d.w[row / 2], row % 2) * (float_of_small(scale) - 32.0f);
    return out;
  }
};

}  // namespace tokamak::cuda

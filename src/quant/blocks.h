// The bytes of one block of each quantized type, in file order. Byte order is little-endian. Sizes are bytes.
// d, dmin, m and s are binary16 codes unless stated; q is the stored code of an element; j counts elements of a block.
// Structs have alignment 1 or 2 in memory but a file promises neither: read them with load_block.
// Source: the decoders of the `gguf` Python package (gguf/quants.py), which the golden files hold us to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/dtypes.h"

namespace tokamak {

// --- 32 elements, one or two scales. qs byte j holds element j (low nibble) and element j + 16 (high nibble).
struct BlockQ4_0 {
  uint16_t d;
  uint8_t qs[16];
};
struct BlockQ4_1 {
  uint16_t d, m;
  uint8_t qs[16];
};
struct BlockQ5_0 {
  uint16_t d;
  uint8_t qh[4];  // bit j % 8 of byte j / 8 is bit 4 of element j
  uint8_t qs[16];
};
struct BlockQ5_1 {
  uint16_t d, m;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ8_0 {
  uint16_t d;
  int8_t qs[32];
};
struct BlockQ8_1 {
  uint16_t d, s;  // s = d * sum(qs)
  int8_t qs[32];
};

// --- 256 elements with a second level of scales.
struct BlockQ2_K {
  uint8_t scales[16];  // of 16 elements each: low nibble scale, high nibble min
  uint8_t qs[64];      // byte 32 (j / 128) + j % 32, bits 2 (j % 128 / 32)
  uint16_t d, dmin;
};
struct BlockQ3_K {
  uint8_t hmask[32];   // bit j / 32 of byte j % 32; clear means 4 less
  uint8_t qs[64];      // as in Q2_K
  uint8_t scales[12];  // 16 of 6 bits, offset 32: low nibbles in bytes 0-7, high pairs in bytes 8-11
  uint16_t d;
};
struct BlockQ4_K {
  uint16_t d, dmin;
  uint8_t scales[12];  // 8 scales and 8 mins of 6 bits; unpack_scale_min
  uint8_t qs[128];     // byte 32 (j / 64) + j % 32, high nibble when j % 64 >= 32
};
struct BlockQ5_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t qh[32];  // bit j / 32 of byte j % 32 is bit 4 of element j
  uint8_t qs[128];
};
struct BlockQ6_K {
  uint8_t ql[128];    // byte 64 (j / 128) + j % 64, high nibble when j % 128 >= 64
  uint8_t qh[64];     // byte 32 (j / 128) + j % 32, bits 2 (j % 128 / 32)
  int8_t scales[16];  // of 16 elements each
  uint16_t d;
};
struct BlockQ8_K {
  float d;
  int8_t qs[256];
  int16_t sums[16];  // of 16 codes each
};

// --- 256 elements drawn from a grid (see iq_tables.h), 8 or 4 at a time.
struct BlockIQ2_XXS {
  uint16_t d;
  uint16_t qs[32];  // per 32 elements: four grid bytes, then 4 x 7 sign bits and a 4-bit scale in one 32-bit word
};
struct BlockIQ2_XS {
  uint16_t d;
  uint16_t qs[32];    // 9 bits of grid, 7 bits of signs
  uint8_t scales[8];  // nibbles, of 16 elements each
};
struct BlockIQ2_S {
  uint16_t d;
  uint8_t qs[32], signs[32];
  uint8_t qh[8];  // bits 8-9 of four grid indices
  uint8_t scales[8];
};
struct BlockIQ3_XXS {
  uint16_t d;
  uint8_t qs[64];
  uint8_t scales[32];  // eight 32-bit words: 4 x 7 sign bits and a 4-bit scale
};
struct BlockIQ3_S {
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];  // bit 8 of eight grid indices
  uint8_t signs[32];
  uint8_t scales[4];  // nibbles, of 32 elements each
};
struct BlockIQ1_S {
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];  // per 32 elements: 4 x 3 high grid bits, 3-bit scale, sign of the shift
};
struct BlockIQ1_M {
  uint8_t qs[32];
  uint8_t qh[16];      // nibbles, per 8 elements: 3 high grid bits, sign of the shift
  uint16_t scales[4];  // 4 x 3-bit scales of 16 elements each; the top nibbles, first lowest, are d
};
struct BlockIQ4_NL {
  uint16_t d;
  uint8_t qs[16];  // as in Q4_0
};
struct BlockIQ4_XS {
  uint16_t d;
  uint16_t scales_h;    // bits 4-5 of eight scales
  uint8_t scales_l[4];  // nibbles, of 32 elements each
  uint8_t qs[128];      // eight runs of 16 bytes, each as in Q4_0
};

// --- ternary, one-bit and two-bit.
struct BlockTQ1_0 {
  uint8_t qs[48];  // five base-3 digits a byte: 32 bytes for elements 0-159, 16 bytes for 160-239
  uint8_t qh[4];   // four digits a byte for elements 240-255
  uint16_t d;
};
struct BlockTQ2_0 {
  uint8_t qs[64];  // as in Q2_K
  uint16_t d;
};
struct BlockQ1_0 {  // 128 elements
  uint16_t d;
  uint8_t qs[16];  // bit j % 8 of byte j / 8; set means +d
};
struct BlockQ2_0 {  // 64 elements
  uint16_t d;
  uint8_t qs[16];  // bits 2 (j % 4) of byte j / 4
};

// --- four-bit floats.
struct BlockMXFP4 {  // 32 elements
  uint8_t e;         // E8M0: 2^(e - 127)
  uint8_t qs[16];    // E2M1, as in Q4_0
};
struct BlockNVFP4 {   // 64 elements
  uint8_t scales[4];  // UE4M3, of 16 elements each
  uint8_t qs[32];     // four runs of 8 bytes; byte j of a run holds its elements j and j + 8
};

template <class Block>
Block load_block(const std::byte* bytes) {
  Block block;
  std::memcpy(&block, bytes, sizeof block);
  return block;
}
template <class Block>
void store_block(std::byte* bytes, const Block& block) {
  std::memcpy(bytes, &block, sizeof block);
}

// Scale and min of group g (0 to 7) of Q4_K and Q5_K, each 0 to 63. Groups 0-3 lie in the low six bits of bytes g and
// g + 4; groups 4-7 have their low four bits in byte g + 4 and their high two on top of bytes g - 4 and g.
struct ScaleMin {
  uint8_t scale, min;
};
constexpr ScaleMin unpack_scale_min(const uint8_t (&scales)[12], int g) {
  if (g < 4) return {static_cast<uint8_t>(scales[g] & 63), static_cast<uint8_t>(scales[g + 4] & 63)};
  return {static_cast<uint8_t>((scales[g + 4] & 15) | ((scales[g - 4] >> 6) << 4)),
          static_cast<uint8_t>((scales[g + 4] >> 4) | ((scales[g] >> 6) << 4))};
}
constexpr void pack_scale_min(uint8_t (&scales)[12], int g, ScaleMin value) {  // into zeroed bytes
  if (g < 4) {
    scales[g] |= value.scale;
    scales[g + 4] |= value.min;
    return;
  }
  scales[g + 4] = static_cast<uint8_t>((value.scale & 15) | (value.min << 4));
  scales[g - 4] |= static_cast<uint8_t>((value.scale >> 4) << 6);
  scales[g] |= static_cast<uint8_t>((value.min >> 4) << 6);
}

}  // namespace tokamak

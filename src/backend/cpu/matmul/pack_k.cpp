// Packers of the K types. File blocks: quant/blocks.h; chunks: formats.h.
#include "backend/cpu/matmul/pack.h"

namespace tokamak::cpu {
namespace {

uint32_t u8(const std::byte* p, int i) { return std::to_integer<uint32_t>(p[i]); }

// d, dmin and the 12 bytes of six-bit scales and mins that start a Q4_K and a Q5_K block -> chunk bytes 0..255.
//   byte g of dword `row`, g = 0..3:  A = sc[g] & 15 | (m[g] & 15) << 4;  B = the same of g + 4;
//   H = sc[g] >> 4 | m[g] >> 4 << 2 | sc[g + 4] >> 4 << 4 | m[g + 4] >> 4 << 6
void pack_scales_and_mins(std::byte* chunk, int row, const std::byte* block) {
  const std::byte* s = block + 4;
  for (int g = 0; g < 4; ++g) {
    const uint32_t sc0 = u8(s, g) & 63, m0 = u8(s, g + 4) & 63;
    const uint32_t sc1 = (u8(s, g + 8) & 15) | (u8(s, g) >> 6 << 4),
                   m1 = (u8(s, g + 8) >> 4) | (u8(s, g + 4) >> 6 << 4);
    chunk[4 * row + g] = static_cast<std::byte>((sc0 & 15) | ((m0 & 15) << 4));
    chunk[64 + 4 * row + g] = static_cast<std::byte>((sc1 & 15) | ((m1 & 15) << 4));
    chunk[128 + 4 * row + g] = static_cast<std::byte>((sc0 >> 4) | (m0 >> 4 << 2) | (sc1 >> 4 << 4) | (m1 >> 4 << 6));
  }
  std::memcpy(chunk + 192 + 2 * row, block, 2);
  std::memcpy(chunk + 224 + 2 * row, block + 2, 2);
}

// The 6-bit codes of a Q6_K block in element order. Per 128: 64 bytes of low nibbles, 32 bytes of high bit pairs.
void decode_q6_k_codes(const std::byte* block, uint8_t* codes) {
  for (int half = 0; half < 2; ++half) {
    const std::byte *low = block + 64 * half, *high = block + 128 + 32 * half;
    uint8_t* out = codes + 128 * half;
    for (int i = 0; i < 32; ++i)
      for (int part = 0; part < 4; ++part) {
        const uint32_t nibble = (u8(low, i + 32 * (part & 1)) >> (part & 2 ? 4 : 0)) & 15;
        out[32 * part + i] = static_cast<uint8_t>(nibble | (((u8(high, i) >> (2 * part)) & 3) << 4));
      }
  }
}

}  // namespace

void pack_q4_k(const PackWeightsTask& task) {
  pack_panels(DType::q4_k, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    pack_scales_and_mins(chunk, row, block);
    scatter_dwords(chunk + 256, row, block + 16, 32);
  });
}

void pack_q5_k(const PackWeightsTask& task) {
  pack_panels(DType::q5_k, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    pack_scales_and_mins(chunk, row, block);
    for (int g = 0; g < 8; ++g) {
      uint32_t bits = 0;  // of the 32 elements of group g: bit g of the file's 32 high-bit bytes
      for (int i = 0; i < 32; ++i) bits |= ((u8(block + 16, i) >> g) & 1) << i;
      store_u32(chunk + 256 + 640 * (g / 2) + 64 * (g % 2) + 4 * row, transpose_high_bits(bits));
    }
    for (int run = 0; run < 4; ++run) scatter_dwords(chunk + 384 + 640 * run, row, block + 48 + 32 * run, 8);
  });
}

void pack_q6_k(const PackWeightsTask& task) {
  pack_panels(DType::q6_k, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    scatter_dwords(chunk, row, block + 192, 4);
    std::memcpy(chunk + 256 + 2 * row, block + 208, 2);
    uint8_t codes[256];
    decode_q6_k_codes(block, codes);
    for (int group = 0; group < 16; ++group) {
      uint32_t quads[4];
      std::memcpy(quads, codes + 16 * group, sizeof quads);
      for (int v = 0; v < 3; ++v)  // bits 0-5: quad v; bits 6-7: two bits of quad 3
        store_u32(chunk + 320 + 192 * group + 64 * v + 4 * row, quads[v] | (((quads[3] >> (2 * v)) & 0x03030303) << 6));
    }
  });
}

}  // namespace tokamak::cpu

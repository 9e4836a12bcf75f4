// Shared by the packers: walks panels, chunks, rows and file blocks; scatters dwords into code vectors.
#pragma once

#include <cstring>

#include "backend/cpu/matmul/formats.h"

namespace tokamak::cpu {

inline constexpr size_t kVector = 64;  // bytes of a code vector

// Bit q of result byte i = bit 4q + i of `bits`: the order of H in formats.h.
constexpr uint32_t transpose_high_bits(uint32_t bits) {
  uint32_t out = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t x = (bits >> i) & 0x11111111;
    x = (x | (x >> 3)) & 0x03030303;
    x = (x | (x >> 6)) & 0x000F000F;
    x = (x | (x >> 12)) & 0xFF;
    out |= x << (8 * i);
  }
  return out;
}
static_assert(transpose_high_bits(0x00000001) == 1 && transpose_high_bits(0x80000012) == 0x80000102);

inline uint32_t load_u32(const std::byte* p) {
  uint32_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
inline void store_u32(std::byte* p, uint32_t x) { std::memcpy(p, &x, sizeof x); }

// Dword `row` of vectors v, v + 64, ... = the n_dwords dwords at `codes`, each xor `flip`.
inline void scatter_dwords(std::byte* v, int row, const std::byte* codes, int n_dwords, uint32_t flip = 0) {
  for (int t = 0; t < n_dwords; ++t)
    store_u32(v + kVector * static_cast<size_t>(t) + 4 * row, load_u32(codes + 4 * t) ^ flip);
}

// Calls place(chunk, row 0..15, index of the block in its chunk, file block) for every block; chunks are zeroed first.
template <class Place>
void pack_panels(DType dtype, const PackWeightsTask& t, Place place) {
  const PackedFormat& format = *find_packed_format(dtype);
  const DTypeRow& type = dtype_row(dtype);
  const int64_t n_blocks = t.k / type.block_elems, blocks_per_chunk = format.chunk_k / type.block_elems;
  for (int64_t p = t.panel_begin; p < t.panel_end; ++p) {
    std::byte* panel = t.out + p * packed_panel_bytes(format, t.k);
    std::memset(panel, 0, static_cast<size_t>(packed_panel_bytes(format, t.k)));
    for (int64_t b = 0; b < n_blocks; ++b) {
      std::byte* chunk = panel + b / blocks_per_chunk * format.chunk_bytes;
      for (int row = 0; row < kPanelRows && p * kPanelRows + row < t.n_rows; ++row) {
        const std::byte* file_row = t.rows + static_cast<size_t>(p * kPanelRows + row) * t.row_bytes;
        place(chunk, row, static_cast<int>(b % blocks_per_chunk), file_row + b * type.block_bytes);
      }
    }
  }
}

}  // namespace tokamak::cpu

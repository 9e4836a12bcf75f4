// Shared by the family files: from a function on one block to a function on a row of bytes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "quant/blocks.h"
#include "quant/lanes.h"

namespace tokamak {

template <class Block, DType type, class DecodeBlock>
void decode_blocks(const std::byte* blocks, int64_t n_blocks, float* out, DecodeBlock&& decode_block) {
  static_assert(sizeof(Block) == dtype_row(type).block_bytes);
  for (int64_t b = 0; b < n_blocks; ++b)
    decode_block(load_block<Block>(blocks + b * static_cast<int64_t>(sizeof(Block))),
                 out + b * dtype_row(type).block_elems);
}

template <class Block, DType type, class EncodeBlock>
void encode_blocks(const float* x, int64_t n_blocks, std::byte* blocks, EncodeBlock&& encode_block) {
  static_assert(sizeof(Block) == dtype_row(type).block_bytes);
  for (int64_t b = 0; b < n_blocks; ++b) {
    Block block{};
    encode_block(x + b * dtype_row(type).block_elems, block);
    store_block(blocks + b * static_cast<int64_t>(sizeof(Block)), block);
  }
}

constexpr bool f16_is_finite(uint16_t code) { return (code & 0x7C00) != 0x7C00; }
inline constexpr const char* kScaleFault = "the scale of a block is inf or NaN";

// 1 / d, or 0 when d is 0 or so small that the inverse overflows (its f16 code is then 0 as well).
inline float inverse_or_zero(float d) {
  const float inverse = 1.0f / d;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// n is a multiple of 4.
inline float max_magnitude(const float* x, int n) {
  F32x4 largest{};
  for (int i = 0; i < n; i += 4) largest = max4(max4(load4(x + i), -load4(x + i)), largest);
  return std::max({largest[0], largest[1], largest[2], largest[3]});
}

}  // namespace tokamak

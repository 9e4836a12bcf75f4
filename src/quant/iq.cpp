#include "quant/iq.h"

#include "quant/block_loops.h"
#include "quant/iq_tables.h"

namespace tokamak {

namespace {

int nibble_of(const uint8_t* packed, int i) { return (packed[i / 2] >> (4 * (i % 2))) & 15; }
int run_nibble(const uint8_t* qs, int j) { return j < 16 ? qs[j] & 15 : qs[j - 16] >> 4; }

uint32_t load_u32(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// y[8] = +-scale * point.
void put_iq2(uint16_t point, unsigned signs, float scale, float* y) {
  for (int k = 0; k < 8; ++k) {
    const float value = scale * static_cast<float>(kIq2Values[(point >> (2 * k)) & 3]);
    y[k] = (signs >> k) & 1 ? -value : value;
  }
}
// y[4] = +-scale * point.
void put_iq3(uint16_t point, const uint8_t (&values)[8], unsigned signs, float scale, float* y) {
  for (int k = 0; k < 4; ++k) {
    const float value = scale * static_cast<float>(values[(point >> (3 * k)) & 7]);
    y[k] = (signs >> k) & 1 ? -value : value;
  }
}
// y[8] = scale * (point + shift).
void put_iq1(uint16_t point, float scale, float shift, float* y) {
  for (int k = 0; k < 8; ++k) y[k] = scale * (static_cast<float>((point >> (2 * k)) & 3) - 1.0f + shift);
}
constexpr float kIq1Shift = 0.125f;

uint16_t iq1_m_scale(const BlockIQ1_M& block) {
  unsigned d = 0;
  for (int i = 0; i < 4; ++i) d |= static_cast<unsigned>(block.scales[i] >> 12) << (4 * i);
  return static_cast<uint16_t>(d);
}

template <class Block>
const char* fault_of_d(const std::byte* bytes) {
  return f16_is_finite(load_block<Block>(bytes).d) ? nullptr : kScaleFault;
}

}  // namespace

void decode_iq2_xxs(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockIQ2_XXS, DType::iq2_xxs>(blocks, n_blocks, out, [](const BlockIQ2_XXS& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int g = 0; g < 8; ++g) {  // 32 elements
      const uint16_t* words = block.qs + 4 * g;
      const uint32_t signs_and_scale = words[2] | static_cast<uint32_t>(words[3]) << 16;
      const float scale = d * (0.5f + static_cast<float>(signs_and_scale >> 28)) * 0.25f;
      for (int i = 0; i < 4; ++i) {
        const unsigned index = (words[i / 2] >> (8 * (i % 2))) & 255;
        put_iq2(kIq2XxsGrid[index], eight_signs(signs_and_scale >> (7 * i)), scale, y + 32 * g + 8 * i);
      }
    }
  });
}

void decode_iq2_xs(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockIQ2_XS, DType::iq2_xs>(blocks, n_blocks, out, [](const BlockIQ2_XS& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 32; ++i) {  // 8 elements
      const float scale = d * (0.5f + static_cast<float>(nibble_of(block.scales, i / 2))) * 0.25f;
      put_iq2(kIq2XsGrid[block.qs[i] & 511], eight_signs(block.qs[i] >> 9), scale, y + 8 * i);
    }
  });
}

void decode_iq2_s(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockIQ2_S, DType::iq2_s>(blocks, n_blocks, out, [](const BlockIQ2_S& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 32; ++i) {  // 8 elements
      const float scale = d * (0.5f + static_cast<float>(nibble_of(block.scales, i / 2))) * 0.25f;
      const unsigned high = (block.qh[i / 4] >> (2 * (i % 4))) & 3;
      put_iq2(kIq2SGrid[block.qs[i] | high << 8], block.signs[i], scale, y + 8 * i);
    }
  });
}

void decode_iq3_xxs(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockIQ3_XXS, DType::iq3_xxs>(blocks, n_blocks, out, [](const BlockIQ3_XXS& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 64; ++i) {  // 4 elements
      const uint32_t signs_and_scale = load_u32(block.scales + 4 * (i / 8));
      const float scale = d * (0.5f + static_cast<float>(signs_and_scale >> 28)) * 0.5f;
      const unsigned signs = eight_signs(signs_and_scale >> (7 * (i / 2 % 4)));
      put_iq3(kIq3XxsGrid[block.qs[i]], kIq3XxsValues, signs >> (4 * (i % 2)), scale, y + 4 * i);
    }
  });
}

void decode_iq3_s(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockIQ3_S, DType::iq3_s>(blocks, n_blocks, out, [](const BlockIQ3_S& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 64; ++i) {  // 4 elements
      const float scale = d * static_cast<float>(1 + 2 * nibble_of(block.scales, i / 8));
      const unsigned high = (block.qh[i / 8] >> (i % 8)) & 1;
      put_iq3(kIq3SGrid[block.qs[i] | high << 8], kIq3SValues, block.signs[i / 2] >> (4 * (i % 2)), scale, y + 4 * i);
    }
  });
}

void decode_iq1_s(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockIQ1_S, DType::iq1_s>(blocks, n_blocks, out, [](const BlockIQ1_S& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 32; ++i) {  // 8 elements
      const unsigned word = block.qh[i / 4];
      const float scale = d * static_cast<float>(2 * ((word >> 12) & 7) + 1);
      const unsigned high = (word >> (3 * (i % 4))) & 7;
      put_iq1(kIq1Grid[block.qs[i] | high << 8], scale, word & 0x8000 ? -kIq1Shift : kIq1Shift, y + 8 * i);
    }
  });
}

void decode_iq1_m(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockIQ1_M, DType::iq1_m>(blocks, n_blocks, out, [](const BlockIQ1_M& block, float* y) {
    const float d = f16_to_f32(iq1_m_scale(block));
    for (int i = 0; i < 32; ++i) {  // 8 elements
      const unsigned code = (block.scales[i / 8] >> (3 * (i / 2 % 4))) & 7u;
      const unsigned nibble = static_cast<unsigned>(nibble_of(block.qh, i));
      const float shift = nibble & 8 ? -kIq1Shift : kIq1Shift;
      put_iq1(kIq1Grid[block.qs[i] | (nibble & 7) << 8], d * static_cast<float>(2 * code + 1), shift, y + 8 * i);
    }
  });
}

void decode_iq4_nl(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockIQ4_NL, DType::iq4_nl>(blocks, n_blocks, out, [](const BlockIQ4_NL& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < 32; ++j) y[j] = d * static_cast<float>(kIq4Values[run_nibble(block.qs, j)]);
  });
}

void decode_iq4_xs(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockIQ4_XS, DType::iq4_xs>(blocks, n_blocks, out, [](const BlockIQ4_XS& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int g = 0; g < 8; ++g) {
      const int code = nibble_of(block.scales_l, g) | ((block.scales_h >> (2 * g)) & 3) << 4;
      const float scale = d * static_cast<float>(code - 32);
      for (int j = 0; j < 32; ++j)
        y[32 * g + j] = scale * static_cast<float>(kIq4Values[run_nibble(block.qs + 16 * g, j)]);
    }
  });
}

const char* fault_iq2_xxs(const std::byte* block) { return fault_of_d<BlockIQ2_XXS>(block); }
const char* fault_iq2_xs(const std::byte* block) { return fault_of_d<BlockIQ2_XS>(block); }
const char* fault_iq2_s(const std::byte* block) { return fault_of_d<BlockIQ2_S>(block); }
const char* fault_iq3_xxs(const std::byte* block) { return fault_of_d<BlockIQ3_XXS>(block); }
const char* fault_iq3_s(const std::byte* block) { return fault_of_d<BlockIQ3_S>(block); }
const char* fault_iq1_s(const std::byte* block) { return fault_of_d<BlockIQ1_S>(block); }
const char* fault_iq1_m(const std::byte* bytes) {
  return f16_is_finite(iq1_m_scale(load_block<BlockIQ1_M>(bytes))) ? nullptr : kScaleFault;
}
const char* fault_iq4_nl(const std::byte* block) { return fault_of_d<BlockIQ4_NL>(block); }
const char* fault_iq4_xs(const std::byte* block) { return fault_of_d<BlockIQ4_XS>(block); }

}  // namespace tokamak

#include "quant/k_quants.h"

#include <cmath>

#include "quant/block_loops.h"

namespace tokamak {

namespace {

constexpr int kElems = 256;

int two_bits(const uint8_t* qs, int j) { return (qs[32 * (j / 128) + j % 32] >> (2 * (j % 128 / 32))) & 3; }
int k_nibble(const uint8_t* qs, int j) {
  const int byte = qs[32 * (j / 64) + j % 32];
  return j % 64 < 32 ? byte & 15 : byte >> 4;
}
int q6_low(const uint8_t* ql, int j) {
  const int byte = ql[64 * (j / 128) + j % 64];
  return j % 128 < 64 ? byte & 15 : byte >> 4;
}
// Scale g (0 to 15) of Q3_K, offset 32 removed.
int q3_scale(const uint8_t* scales, int g) {
  const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
  const int high = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
  return (low | high << 4) - 32;
}

template <class Block>
const char* fault_of_d(const std::byte* bytes) {
  return f16_is_finite(load_block<Block>(bytes).d) ? nullptr : kScaleFault;
}
template <class Block>
const char* fault_of_d_and_dmin(const std::byte* bytes) {
  const auto block = load_block<Block>(bytes);
  return f16_is_finite(block.d) && f16_is_finite(block.dmin) ? nullptr : kScaleFault;
}

}  // namespace

void decode_q2_k(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ2_K, DType::q2_k>(blocks, n_blocks, out, [](const BlockQ2_K& block, float* y) {
    const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
    for (int j = 0; j < kElems; ++j) {
      const uint8_t packed = block.scales[j / 16];
      const float scale = d * static_cast<float>(packed & 15), min = dmin * static_cast<float>(packed >> 4);
      y[j] = scale * static_cast<float>(two_bits(block.qs, j)) - min;
    }
  });
}

void decode_q3_k(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ3_K, DType::q3_k>(blocks, n_blocks, out, [](const BlockQ3_K& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < kElems; ++j) {
      const int high = (block.hmask[j % 32] >> (j / 32)) & 1;
      const float scale = d * static_cast<float>(q3_scale(block.scales, j / 16));
      y[j] = scale * static_cast<float>(two_bits(block.qs, j) - (high ? 0 : 4));
    }
  });
}

void decode_q4_k(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ4_K, DType::q4_k>(blocks, n_blocks, out, [](const BlockQ4_K& block, float* y) {
    const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
    for (int g = 0; g < 8; ++g) {
      const ScaleMin group = unpack_scale_min(block.scales, g);
      const float scale = d * group.scale, min = dmin * group.min;
      for (int j = 32 * g; j < 32 * (g + 1); ++j) y[j] = scale * static_cast<float>(k_nibble(block.qs, j)) - min;
    }
  });
}

void decode_q5_k(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ5_K, DType::q5_k>(blocks, n_blocks, out, [](const BlockQ5_K& block, float* y) {
    const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
    for (int g = 0; g < 8; ++g) {
      const ScaleMin group = unpack_scale_min(block.scales, g);
      const float scale = d * group.scale, min = dmin * group.min;
      for (int j = 32 * g; j < 32 * (g + 1); ++j) {
        const int high = (block.qh[j % 32] >> g) & 1;
        y[j] = scale * static_cast<float>(k_nibble(block.qs, j) | high << 4) - min;
      }
    }
  });
}

void decode_q6_k(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ6_K, DType::q6_k>(blocks, n_blocks, out, [](const BlockQ6_K& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < kElems; ++j) {
      const int q = (q6_low(block.ql, j) | two_bits(block.qh, j) << 4) - 32;
      y[j] = d * static_cast<float>(block.scales[j / 16]) * static_cast<float>(q);
    }
  });
}

void decode_q8_k(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ8_K, DType::q8_k>(blocks, n_blocks, out, [](const BlockQ8_K& block, float* y) {
    for (int j = 0; j < kElems; ++j) y[j] = block.d * static_cast<float>(block.qs[j]);
  });
}

// d = max magnitude / 127, halves rounded to even.
void encode_q8_k(const float* x, int64_t n_blocks, const float*, std::byte* blocks) {
  encode_blocks<BlockQ8_K, DType::q8_k>(x, n_blocks, blocks, [](const float* xb, BlockQ8_K& block) {
    block.d = max_magnitude(xb, kElems) / 127.0f;
    const float inverse = inverse_or_zero(block.d);
    if (inverse == 0.0f) block.d = 0.0f;
    for (int j = 0; j < kElems; ++j) {
      block.qs[j] = static_cast<int8_t>(std::nearbyint(xb[j] * inverse));
      block.sums[j / 16] = static_cast<int16_t>(block.sums[j / 16] + block.qs[j]);
    }
  });
}

const char* fault_q2_k(const std::byte* block) { return fault_of_d_and_dmin<BlockQ2_K>(block); }
const char* fault_q3_k(const std::byte* block) { return fault_of_d<BlockQ3_K>(block); }
const char* fault_q4_k(const std::byte* block) { return fault_of_d_and_dmin<BlockQ4_K>(block); }
const char* fault_q5_k(const std::byte* block) { return fault_of_d_and_dmin<BlockQ5_K>(block); }
const char* fault_q6_k(const std::byte* block) { return fault_of_d<BlockQ6_K>(block); }
// d * 128 is the largest magnitude a block can decode to.
const char* fault_q8_k(const std::byte* bytes) {
  return std::isfinite(load_block<BlockQ8_K>(bytes).d * 128.0f) ? nullptr : kScaleFault;
}

}  // namespace tokamak

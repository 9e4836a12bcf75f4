#include "quant/ternary.h"

#include <algorithm>
#include <cmath>

#include "quant/block_loops.h"

namespace tokamak {

namespace {

// Where element j of a TQ1_0 block lies: a byte (48 to 51 are qh) and which of its base-3 digits, 0 the most
// significant.
struct TritPlace {
  int byte, digit;
};
constexpr TritPlace trit_place(int j) {
  if (j < 160) return {j % 32, j / 32};
  if (j < 240) return {32 + (j - 160) % 16, (j - 160) / 16};
  return {48 + (j - 240) % 4, (j - 240) / 4};
}
constexpr int kPowersOf3[] = {1, 3, 9, 27, 81};

// A byte holds ceil(n * 256 / 243), n = its five digits as a number: multiplying by 3^k modulo 256 brings digit k to
// the top, where a further multiplication by 3 carries it out.
constexpr int trit(uint8_t byte, int digit) { return (static_cast<uint8_t>(byte * kPowersOf3[digit]) * 3) >> 8; }

// -1, 0, +1 nearest to x / d, d the largest magnitude; halves away from zero.
int nearest_trit(float x, float inverse) { return static_cast<int>(std::round(x * inverse)); }

template <class Block>
const char* fault_of_d(const std::byte* bytes) {
  return f16_is_finite(load_block<Block>(bytes).d) ? nullptr : kScaleFault;
}

}  // namespace

void decode_tq1_0(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockTQ1_0, DType::tq1_0>(blocks, n_blocks, out, [](const BlockTQ1_0& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < 256; ++j) {
      const auto [byte, digit] = trit_place(j);
      y[j] = d * static_cast<float>(trit(byte < 48 ? block.qs[byte] : block.qh[byte - 48], digit) - 1);
    }
  });
}

void decode_tq2_0(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockTQ2_0, DType::tq2_0>(blocks, n_blocks, out, [](const BlockTQ2_0& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < 256; ++j) {
      const int q = (block.qs[32 * (j / 128) + j % 32] >> (2 * (j % 128 / 32))) & 3;
      y[j] = d * static_cast<float>(q - 1);
    }
  });
}

void decode_q1_0(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ1_0, DType::q1_0>(blocks, n_blocks, out, [](const BlockQ1_0& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < 128; ++j) y[j] = (block.qs[j / 8] >> (j % 8)) & 1 ? d : -d;
  });
}

void decode_q2_0(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ2_0, DType::q2_0>(blocks, n_blocks, out, [](const BlockQ2_0& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < 64; ++j) y[j] = d * static_cast<float>(((block.qs[j / 4] >> (2 * (j % 4))) & 3) - 1);
  });
}

void encode_tq1_0(const float* x, int64_t n_blocks, const float*, std::byte* blocks) {
  encode_blocks<BlockTQ1_0, DType::tq1_0>(x, n_blocks, blocks, [](const float* xb, BlockTQ1_0& block) {
    const float d = max_magnitude(xb, 256), inverse = inverse_or_zero(d);
    int numbers[52] = {};
    for (int j = 0; j < 256; ++j) {
      const auto [byte, digit] = trit_place(j);
      numbers[byte] += (nearest_trit(xb[j], inverse) + 1) * kPowersOf3[4 - digit];
    }
    const auto pack = [&](int byte) { return static_cast<uint8_t>((numbers[byte] * 256 + 242) / 243); };
    for (int i = 0; i < 48; ++i) block.qs[i] = pack(i);
    for (int i = 0; i < 4; ++i) block.qh[i] = pack(48 + i);
    block.d = f32_to_f16(d);
  });
}

void encode_tq2_0(const float* x, int64_t n_blocks, const float*, std::byte* blocks) {
  encode_blocks<BlockTQ2_0, DType::tq2_0>(x, n_blocks, blocks, [](const float* xb, BlockTQ2_0& block) {
    const float d = max_magnitude(xb, 256), inverse = inverse_or_zero(d);
    for (int j = 0; j < 256; ++j) {
      const int q = nearest_trit(xb[j], inverse) + 1;
      block.qs[32 * (j / 128) + j % 32] |= static_cast<uint8_t>(q << (2 * (j % 128 / 32)));
    }
    block.d = f32_to_f16(d);
  });
}

void encode_q1_0(const float* x, int64_t n_blocks, const float*, std::byte* blocks) {
  encode_blocks<BlockQ1_0, DType::q1_0>(x, n_blocks, blocks, [](const float* xb, BlockQ1_0& block) {
    float sum = 0.0f;
    for (int j = 0; j < 128; ++j) {
      sum += std::fabs(xb[j]);
      if (xb[j] >= 0.0f) block.qs[j / 8] |= static_cast<uint8_t>(1 << (j % 8));
    }
    block.d = f32_to_f16(sum / 128.0f);
  });
}

// d is the largest magnitude, so code 3 (+2 d) is never produced: the published encoder of the type.
void encode_q2_0(const float* x, int64_t n_blocks, const float*, std::byte* blocks) {
  encode_blocks<BlockQ2_0, DType::q2_0>(x, n_blocks, blocks, [](const float* xb, BlockQ2_0& block) {
    const float d = max_magnitude(xb, 64), inverse = inverse_or_zero(d);
    for (int j = 0; j < 64; ++j)
      block.qs[j / 4] |= static_cast<uint8_t>((nearest_trit(xb[j], inverse) + 1) << (2 * (j % 4)));
    block.d = f32_to_f16(d);
  });
}

const char* fault_tq1_0(const std::byte* block) { return fault_of_d<BlockTQ1_0>(block); }
const char* fault_tq2_0(const std::byte* block) { return fault_of_d<BlockTQ2_0>(block); }
const char* fault_q1_0(const std::byte* block) { return fault_of_d<BlockQ1_0>(block); }
const char* fault_q2_0(const std::byte* block) { return fault_of_d<BlockQ2_0>(block); }

}  // namespace tokamak

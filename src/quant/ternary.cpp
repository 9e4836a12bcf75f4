#include "quant/ternary.h"

#include <algorithm>
#include <cmath>

#include "quant/block_loops.h"
#include "quant/scale_search.h"

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

namespace {

// The least weighted squared error for codes -1 .. high. A type without a code for +2 has nothing to gain from d < 0.
constexpr IntegerLevels kTernary{-1.0f, 1.0f}, kMinusOneToTwo{-1.0f, 2.0f};
// The level on which the largest magnitude falls; values beyond the last level are cut off.
constexpr float kTernaryEnds[] = {0.7f, 0.9f, 1.1f, 1.3f, 1.5f, 1.7f, 1.9f, 2.1f, 2.4f, 2.8f, 3.3f, 4.0f, 5.0f, 7.0f};
constexpr float kMinusOneToTwoEnds[] = {0.9f,  1.2f,  1.4f,  1.6f,  1.8f,  2.0f,  2.2f,  2.4f,
                                        2.7f,  3.0f,  3.5f,  4.2f,  5.5f,  -0.8f, -1.0f, -1.2f,
                                        -1.5f, -1.8f, -2.1f, -2.4f, -2.7f, -3.1f, -3.6f, -4.4f};

// codes[n] = level + 1 for the d that is returned.
template <int n>
uint16_t search_codes(const Samples<n>& samples, const IntegerLevels& levels, std::span<const float> ends, int* codes) {
  const F16Scale d =
      rounded_scale(static_cast<double>(fit_scale(levels, run_of(samples, 0, n), ends)), samples.exponent);
  const float inverse = inverse_or_zero(d.value);
  for (int j = 0; j < n; ++j)
    codes[j] = static_cast<int>(std::nearbyint(std::clamp(samples.x[j] * inverse, levels.low, levels.high))) + 1;
  return d.code;
}

// d is the largest magnitude; with importance a searched one.
uint16_t ternary_codes(const float* x, const float* importance, int (&codes)[256]) {
  if (importance) return search_codes(Samples<256>(x, importance), kTernary, kTernaryEnds, codes);
  const float d = max_magnitude(x, 256), inverse = inverse_or_zero(d);
  for (int j = 0; j < 256; ++j) codes[j] = nearest_trit(x[j], inverse) + 1;
  return f32_to_f16(d);
}

const float* offset_or_null(const float* p, ptrdiff_t n) { return p ? p + n : nullptr; }

}  // namespace

void encode_tq1_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_blocks<BlockTQ1_0, DType::tq1_0>(x, n_blocks, blocks, [&](const float* xb, BlockTQ1_0& block) {
    int codes[256], numbers[52] = {};
    block.d = ternary_codes(xb, offset_or_null(importance, xb - x), codes);
    for (int j = 0; j < 256; ++j) {
      const auto [byte, digit] = trit_place(j);
      numbers[byte] += codes[j] * kPowersOf3[4 - digit];
    }
    const auto pack = [&](int byte) { return static_cast<uint8_t>((numbers[byte] * 256 + 242) / 243); };
    for (int i = 0; i < 48; ++i) block.qs[i] = pack(i);
    for (int i = 0; i < 4; ++i) block.qh[i] = pack(48 + i);
  });
}

void encode_tq2_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_blocks<BlockTQ2_0, DType::tq2_0>(x, n_blocks, blocks, [&](const float* xb, BlockTQ2_0& block) {
    int codes[256];
    block.d = ternary_codes(xb, offset_or_null(importance, xb - x), codes);
    for (int j = 0; j < 256; ++j)
      block.qs[32 * (j / 128) + j % 32] |= static_cast<uint8_t>(codes[j] << (2 * (j % 128 / 32)));
  });
}

// d is the mean magnitude, the least-squares scale of the signs.
void encode_q1_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_blocks<BlockQ1_0, DType::q1_0>(x, n_blocks, blocks, [&](const float* xb, BlockQ1_0& block) {
    float sum = 0.0f;
    for (int j = 0; j < 128; ++j) {
      sum += std::fabs(xb[j]);
      if (xb[j] >= 0.0f) block.qs[j / 8] |= static_cast<uint8_t>(1 << (j % 8));
    }
    block.d = f32_to_f16(sum / 128.0f);
    if (!importance) return;
    const Samples<128> samples(xb, importance + (xb - x));
    double weighted = 0.0, weights = 0.0;
    for (int j = 0; j < 128; ++j)
      weighted += std::fabs(static_cast<double>(samples.wx[j])), weights += static_cast<double>(samples.w[j]);
    block.d = rounded_scale(weighted / weights, samples.exponent).code;
  });
}

// The published encoder takes d = the largest magnitude, so that code 3 (+2 d) never occurs; its error is twice ours.
void encode_q2_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<64, BlockQ2_0, DType::q2_0>(
      x, n_blocks, importance, blocks, [](const Samples<64>& samples, BlockQ2_0& block) {
        int codes[64];
        block.d = search_codes(samples, kMinusOneToTwo, kMinusOneToTwoEnds, codes);
        for (int j = 0; j < 64; ++j) block.qs[j / 4] |= static_cast<uint8_t>(codes[j] << (2 * (j % 4)));
      });
}

const char* fault_tq1_0(const std::byte* block) { return fault_of_d<BlockTQ1_0>(block); }
const char* fault_tq2_0(const std::byte* block) { return fault_of_d<BlockTQ2_0>(block); }
const char* fault_q1_0(const std::byte* block) { return fault_of_d<BlockQ1_0>(block); }
const char* fault_q2_0(const std::byte* block) { return fault_of_d<BlockQ2_0>(block); }

}  // namespace tokamak

#include "quant/fp4.h"

#include <algorithm>
#include <cmath>

#include "quant/block_loops.h"
#include "quant/scale_search.h"

namespace tokamak {

namespace {

// Half of 2^(e - 127). e = 0 and 1 give the subnormals 2^-128 and 2^-127; 255 (NaN in the OCP standard) gives 2^127.
float half_of_e8m0(uint8_t e) { return std::ldexp(1.0f, e - 128); }

// Half of an unsigned E4M3. 0x7F (NaN in the standard) decodes to 0. Bit 7 is not part of the exponent; only 0x7F
// itself is special, so 0xFF decodes as 480 / 2.
float half_of_ue4m3(uint8_t code) {
  if (code == 0x7F) return 0.0f;
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -10)
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
}

// Nearest UE4M3 code, halves up, at most 0x7E (448).
uint8_t nearest_ue4m3(float value) {
  if (value == 0.0f) return 0;
  if (value >= 448.0f) return 0x7E;
  int exponent = 0;
  std::frexp(value, &exponent);                     // value = f * 2^exponent, f in [0.5, 1)
  const int field = std::max(exponent - 1 + 7, 1);  // subnormals share the unit of field 1
  const int units = static_cast<int>(std::floor(std::ldexp(value, 10 - field) + 0.5f));  // unit 2^(field - 10)
  return static_cast<uint8_t>(std::min((field - 1) * 8 + units, 0x7E));  // units 8..16 carry into the exponent
}

// Code whose value times d is nearest to x; the lower magnitude of equals, and +0 rather than -0.
int nearest_e2m1(float x, float d) {
  constexpr float middles[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f};  // between doubled magnitudes
  int code = 0;
  for (const float middle : middles) code += std::fabs(x) > middle * d;
  return x < 0.0f && code > 0 ? code | 8 : code;
}

struct E2M1Levels {  // doubled: 0, 1, 2, then two significant bits up to 12
  F32x4 nearest(F32x4 v) const {
    v = min4(max4(v, splat4(-12.0f)), splat4(12.0f));
    I32x4 bits;
    std::memcpy(&bits, &v, sizeof bits);
    bits = (bits + 0x00200000) & ~0x003FFFFF;  // the sign stays outside
    F32x4 large;
    std::memcpy(&large, &bits, sizeof large);
    return max4(v, -v) < splat4(2.0f) ? round4(v) : large;
  }
};
constexpr E2M1Levels kLevels;

// Of the scales scale_of(first) .. scale_of(last), in units of the samples, the number of the one with the least error.
template <class ScaleOf>
int best_scale(const Run& run, int first, int last, ScaleOf&& scale_of) {
  int best = first;
  float best_gain = -1.0f;
  for (int number = first; number <= last; ++number) {
    const float scale = scale_of(number), gain = moments_of(kLevels, run, inverse_or_zero(scale)).gain_of(scale);
    if (gain > best_gain) best_gain = gain, best = number;
  }
  return best;
}

int nibble_16(const uint8_t* qs, int j) { return j < 16 ? qs[j] & 15 : qs[j - 16] >> 4; }
int nibble_8(const uint8_t* qs, int j) { return j < 8 ? qs[j] & 15 : qs[j - 8] >> 4; }

}  // namespace

void decode_mxfp4(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockMXFP4, DType::mxfp4>(blocks, n_blocks, out, [](const BlockMXFP4& block, float* y) {
    const float d = half_of_e8m0(block.e);
    for (int j = 0; j < 32; ++j) y[j] = d * static_cast<float>(kDoubledE2M1[nibble_16(block.qs, j)]);
  });
}

void decode_nvfp4(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockNVFP4, DType::nvfp4>(blocks, n_blocks, out, [](const BlockNVFP4& block, float* y) {
    for (int run = 0; run < 4; ++run) {
      const float d = half_of_ue4m3(block.scales[run]);
      for (int j = 0; j < 16; ++j)
        y[16 * run + j] = d * static_cast<float>(kDoubledE2M1[nibble_8(block.qs + 8 * run, j)]);
    }
  });
}

// The exponent is floor(log2(max)) - 2, so that the largest magnitude falls on 4 .. 8 and at most clips to 6. With
// importance, the best exponent around it.
void encode_mxfp4(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_blocks<BlockMXFP4, DType::mxfp4>(x, n_blocks, blocks, [&](const float* xb, BlockMXFP4& block) {
    const float largest = max_magnitude(xb, 32);
    int e = largest > 0.0f ? std::max(static_cast<int>(std::floor(std::log2(largest))) - 2 + 127, 0) : 0;
    if (importance && largest > 0.0f) {
      const Samples<32> samples(xb, importance + (xb - x));
      const Run run = run_of(samples, 0, 32);
      const int heaviest = std::ilogb(anchors_of(run).heaviest) + samples.exponent - 2 + 127;
      e = best_scale(run, std::max(std::min(e, heaviest) - 3, 0), std::min(e + 1, 252),
                     [&](int exponent) { return std::ldexp(1.0f, exponent - 128 - samples.exponent); });
    }
    block.e = static_cast<uint8_t>(e);
    const float d = half_of_e8m0(block.e);
    for (int j = 0; j < 32; ++j) {
      const int q = nearest_e2m1(xb[j], d);
      block.qs[j % 16] |= static_cast<uint8_t>(j < 16 ? q : q << 4);
    }
  });
}

// The best of the scales around a sixth of the largest magnitude (which would fall on the last code): up to twice as
// large, or smaller with elements cut off, down to what suits the element that weighs most.
void encode_nvfp4(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_blocks<BlockNVFP4, DType::nvfp4>(x, n_blocks, blocks, [&](const float* xb, BlockNVFP4& block) {
    const Samples<64> samples(xb, importance ? importance + (xb - x) : nullptr);
    const auto scale_of = [&](int code) {
      return std::ldexp(half_of_ue4m3(static_cast<uint8_t>(code)), -samples.exponent);
    };
    for (int run = 0; run < 4; ++run) {
      const Run elements = run_of(samples, 16 * run, 16);
      const auto code_of = [&](float largest) {
        return static_cast<int>(nearest_ue4m3(std::ldexp(std::fabs(largest), samples.exponent) / 6.0f));
      };
      const Anchors anchors = anchors_of(elements);
      const int middle = code_of(anchors.extreme), low = std::min(middle, code_of(anchors.heaviest));
      const int code =
          middle == 0x7E ? middle : best_scale(elements, std::max(low - 4, 0), std::min(middle + 9, 0x7E), scale_of);
      block.scales[run] = static_cast<uint8_t>(code);
      const float d = half_of_ue4m3(block.scales[run]);
      for (int j = 0; j < 16; ++j) {
        const int q = nearest_e2m1(xb[16 * run + j], d);
        block.qs[8 * run + j % 8] |= static_cast<uint8_t>(j < 8 ? q : q << 4);
      }
    }
  });
}

const char* fault_mxfp4(const std::byte* bytes) {
  const auto block = load_block<BlockMXFP4>(bytes);
  if (block.e == 255) return "the scale of a block is NaN";
  if (block.e < 253) return nullptr;  // 6 * 2^125 is the largest product that fits
  float y[32];
  decode_mxfp4(bytes, 1, y);
  return std::all_of(y, y + 32, [](float v) { return std::isfinite(v); }) ? nullptr : "a value overflows f32";
}

}  // namespace tokamak

// Encoders of the K types: scales searched group by group, then rounded to their integer codes together with the
// super-scales. The codes of the elements are always the nearest for the scales as stored.
#include <algorithm>

#include "quant/k_quants.h"
#include "quant/scale_search.h"

namespace tokamak {

namespace {

constexpr int kElems = 256;

template <int groups>
void make_runs(const Samples<kElems>& samples, Run (&runs)[groups]) {
  for (int g = 0; g < groups; ++g) runs[g] = run_of(samples, kElems / groups * g, kElems / groups);
}
template <int groups>
void make_affine_runs(const Samples<kElems>& samples, AffineRun (&runs)[groups]) {
  for (int g = 0; g < groups; ++g)
    runs[g] = affine_run(run_of(samples, kElems / groups * g, kElems / groups), MinSign::not_negative);
}

// codes[n] = nearest levels of x * inverse + offset.
void put_codes(const Run& run, const IntegerLevels& levels, float inverse, float offset, uint8_t* codes) {
  for (int i = 0; i < run.n; i += 4) {
    const F32x4 q = levels.nearest(load4(run.x + i) * inverse + offset);
    for (int k = 0; k < 4; ++k) codes[i + k] = static_cast<uint8_t>(static_cast<int>(q[k]));
  }
}

template <int groups>
GroupScalesAndMins<groups> fit_affine(const Samples<kElems>& samples, int q_max, int code_max,
                                      uint8_t (&codes)[kElems]) {
  AffineRun runs[groups];
  make_affine_runs(samples, runs);
  const auto fit = fit_group_scales_and_mins(runs, static_cast<float>(q_max), code_max, samples.exponent);
  for (int g = 0; g < groups; ++g) {
    const float inverse = inverse_or_zero(fit.d.value * static_cast<float>(fit.scale[g]));
    put_codes(runs[g].run, {0.0f, static_cast<float>(q_max)}, inverse,
              fit.dmin.value * static_cast<float>(fit.min[g]) * inverse, codes + kElems / groups * g);
  }
  return fit;
}

// Codes with an offset of half the range: levels -half .. half - 1.
template <int groups>
GroupScales<groups> fit_symmetric(const Samples<kElems>& samples, int half, std::span<const float> ends, int code_low,
                                  int code_high, uint8_t (&codes)[kElems]) {
  const IntegerLevels levels{static_cast<float>(-half), static_cast<float>(half - 1)};
  Run runs[groups];
  make_runs(samples, runs);
  const auto fit = fit_group_scales(levels, runs, ends, code_low, code_high, samples.exponent, half > 4 ? 1 : 2);
  for (int g = 0; g < groups; ++g) {
    const float inverse = inverse_or_zero(fit.d.value * static_cast<float>(fit.code[g]));
    put_codes(runs[g], levels, inverse, 0.0f, codes + kElems / groups * g);
  }
  for (uint8_t& code : codes) code = static_cast<uint8_t>(code + half);
  return fit;
}

// Codes of two bits: byte 32 (j / 128) + j % 32, bits 2 (j % 128 / 32).
void pack_two_bits(const uint8_t (&codes)[kElems], uint8_t (&qs)[64]) {
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 32; ++i) {
      const uint8_t* q = codes + 128 * half + i;
      qs[32 * half + i] = static_cast<uint8_t>((q[0] & 3) | (q[32] & 3) << 2 | (q[64] & 3) << 4 | (q[96] & 3) << 6);
    }
}
// Low nibbles of codes: byte 32 (j / 64) + j % 32, high nibble when j % 64 >= 32.
void pack_nibbles(const uint8_t (&codes)[kElems], uint8_t (&qs)[128]) {
  for (int part = 0; part < 4; ++part)
    for (int i = 0; i < 32; ++i)
      qs[32 * part + i] = static_cast<uint8_t>((codes[64 * part + i] & 15) | (codes[64 * part + i + 32] & 15) << 4);
}

void encode_block_q2_k(const Samples<kElems>& samples, BlockQ2_K& block) {
  uint8_t codes[kElems];
  const auto fit = fit_affine<16>(samples, 3, 15, codes);
  block.d = fit.d.code;
  block.dmin = fit.dmin.code;
  for (int g = 0; g < 16; ++g) block.scales[g] = static_cast<uint8_t>(fit.scale[g] | fit.min[g] << 4);
  pack_two_bits(codes, block.qs);
}

template <class Block>
void put_scales_and_mins(const GroupScalesAndMins<8>& fit, Block& block) {
  block.d = fit.d.code;
  block.dmin = fit.dmin.code;
  for (int g = 0; g < 8; ++g)
    pack_scale_min(block.scales, g, {static_cast<uint8_t>(fit.scale[g]), static_cast<uint8_t>(fit.min[g])});
}

void encode_block_q4_k(const Samples<kElems>& samples, BlockQ4_K& block) {
  uint8_t codes[kElems];
  put_scales_and_mins(fit_affine<8>(samples, 15, 63, codes), block);
  pack_nibbles(codes, block.qs);
}

void encode_block_q5_k(const Samples<kElems>& samples, BlockQ5_K& block) {
  uint8_t codes[kElems];
  put_scales_and_mins(fit_affine<8>(samples, 31, 63, codes), block);
  pack_nibbles(codes, block.qs);
  for (int j = 0; j < kElems; ++j) block.qh[j % 32] |= static_cast<uint8_t>((codes[j] >> 4) << (j / 32));
}

constexpr float kEnds3[] = {-4.6f, -4.2f, -3.8f, -3.4f, -3.0f, 2.3f, 2.7f, 3.1f, 3.6f};

void encode_block_q3_k(const Samples<kElems>& samples, BlockQ3_K& block) {
  uint8_t codes[kElems];
  const auto fit = fit_symmetric<16>(samples, 4, kEnds3, -32, 31, codes);
  block.d = fit.d.code;
  for (int g = 0; g < 16; ++g) {
    const int scale = fit.code[g] + 32;
    block.scales[g % 8] |= static_cast<uint8_t>(g < 8 ? scale & 15 : (scale & 15) << 4);
    block.scales[8 + g % 4] |= static_cast<uint8_t>((scale >> 4) << (2 * (g / 4)));
  }
  pack_two_bits(codes, block.qs);
  for (int j = 0; j < kElems; ++j) block.hmask[j % 32] |= static_cast<uint8_t>((codes[j] >> 2) << (j / 32));
}

constexpr float kEnds6[] = {-32.8f, -32.3f, -31.9f, -31.5f, -31.0f, -30.3f, 30.4f, 30.9f, 31.3f, 31.8f};

void encode_block_q6_k(const Samples<kElems>& samples, BlockQ6_K& block) {
  uint8_t codes[kElems];
  const auto fit = fit_symmetric<16>(samples, 32, kEnds6, -128, 127, codes);
  block.d = fit.d.code;
  for (int g = 0; g < 16; ++g) block.scales[g] = static_cast<int8_t>(fit.code[g]);
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 64; ++i) {
      const uint8_t* q = codes + 128 * half + i;
      block.ql[64 * half + i] = static_cast<uint8_t>((q[0] & 15) | (q[64] & 15) << 4);
    }
  for (uint8_t& code : codes) code = static_cast<uint8_t>(code >> 4);
  pack_two_bits(codes, block.qh);
}

}  // namespace

void encode_q2_k(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockQ2_K, DType::q2_k>(x, n_blocks, importance, blocks, encode_block_q2_k);
}
void encode_q3_k(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockQ3_K, DType::q3_k>(x, n_blocks, importance, blocks, encode_block_q3_k);
}
void encode_q4_k(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockQ4_K, DType::q4_k>(x, n_blocks, importance, blocks, encode_block_q4_k);
}
void encode_q5_k(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockQ5_K, DType::q5_k>(x, n_blocks, importance, blocks, encode_block_q5_k);
}
void encode_q6_k(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockQ6_K, DType::q6_k>(x, n_blocks, importance, blocks, encode_block_q6_k);
}

}  // namespace tokamak

#include "quant/legacy.h"

#include <algorithm>
#include <cmath>

#include "quant/block_loops.h"
#include "quant/scale_search.h"

namespace tokamak {

namespace {

constexpr int kElems = 32;

int nibble(const uint8_t* qs, int j) { return j < 16 ? qs[j] & 15 : qs[j - 16] >> 4; }
int fifth_bit(const uint8_t* qh, int j) { return (qh[j / 8] >> (j % 8)) & 1; }

void put_nibble(uint8_t* qs, int j, int q) { qs[j % 16] |= static_cast<uint8_t>(j < 16 ? q : q << 4); }
void put_fifth_bit(uint8_t* qh, int j, int q) { qh[j / 8] |= static_cast<uint8_t>((q >> 4) << (j % 8)); }

// Calls put(j, code) with codes 0 .. 2 * half - 1 and returns d. The element of largest magnitude (the first of equals)
// gets code 0 exactly, whatever its sign.
template <class Put>
uint16_t encode_symmetric(const float* x, int half, Put&& put) {
  float extreme = 0.0f;
  for (int j = 0; j < kElems; ++j)
    if (std::fabs(x[j]) > std::fabs(extreme)) extreme = x[j];
  const float d = extreme / static_cast<float>(-half);
  const float inverse = inverse_or_zero(d);
  for (int j = 0; j < kElems; ++j) {
    const int q = static_cast<int>(x[j] * inverse + (static_cast<float>(half) + 0.5f));
    put(j, std::clamp(q, 0, 2 * half - 1));
  }
  return f32_to_f16(d);
}

// Calls put(j, code) with codes 0 .. q_max; d and m span the block from its smallest to its largest element.
template <class Put>
void encode_affine(const float* x, int q_max, uint16_t& d_code, uint16_t& m_code, Put&& put) {
  F32x4 lows = load4(x), highs = lows;
  for (int j = 4; j < kElems; j += 4) lows = min4(load4(x + j), lows), highs = max4(load4(x + j), highs);
  const float low = std::min({lows[0], lows[1], lows[2], lows[3]});
  const float d = (std::max({highs[0], highs[1], highs[2], highs[3]}) - low) / static_cast<float>(q_max);
  const float inverse = inverse_or_zero(d), top = static_cast<float>(q_max);
  for (int j = 0; j < kElems; ++j) {
    const float code = (x[j] - low) * inverse + 0.5f;
    put(j, static_cast<int>(code > 0.0f ? (code < top ? code : top) : 0.0f));  // NaN (d overflowed): 0
  }
  d_code = f32_to_f16(d);
  m_code = f32_to_f16(low);
}

// The same two with importance: d (and m) for the least weighted squared error.
constexpr float kShares[] = {0.7f, 0.76f, 0.82f, 0.88f, 0.91f, 0.94f, 0.97f, 1.0f, 1.03f, 1.06f, 1.1f, 1.15f, 1.2f};

template <class Put>
uint16_t search_symmetric(const float* x, const float* importance, int half, Put&& put) {
  const Samples<kElems> samples(x, importance);
  const Run run = run_of(samples, 0, kElems);
  const IntegerLevels levels{static_cast<float>(-half), static_cast<float>(half - 1)};
  float ends[2 * std::size(kShares)];  // the largest magnitude near the lowest level, or near the highest
  for (size_t i = 0; i < std::size(kShares); ++i)
    ends[2 * i] = kShares[i] * levels.low, ends[2 * i + 1] = kShares[i] * levels.high;
  const F16Scale d = rounded_scale(static_cast<double>(fit_scale(levels, run, ends)), samples.exponent);
  const float inverse = inverse_or_zero(d.value);
  for (int j = 0; j < kElems; ++j) {
    const float code = std::nearbyint(std::clamp(samples.x[j] * inverse, levels.low, levels.high));
    put(j, static_cast<int>(code) + half);
  }
  return d.code;
}

template <class Put>
void search_affine(const float* x, const float* importance, int q_max, uint16_t& d_code, uint16_t& m_code, Put&& put) {
  double mean = 0.0;  // taken out and put back into m: sums of offset elements would lose the differences
  for (int j = 0; j < kElems; ++j) mean += static_cast<double>(x[j]) / kElems;
  float centred[kElems];
  for (int j = 0; j < kElems; ++j) centred[j] = static_cast<float>(static_cast<double>(x[j]) - mean);
  const Samples<kElems> samples(centred, importance);
  const AffineRun run = affine_run(run_of(samples, 0, kElems), MinSign::any);
  const auto fit = fit_scales_and_mins(run, static_cast<float>(q_max)).fit[0];
  const F16Scale d = rounded_scale(static_cast<double>(fit.scale), samples.exponent);
  d_code = d.code;
  m_code = f32_to_f16(static_cast<float>(std::ldexp(static_cast<double>(-fit.min), samples.exponent) + mean));
  const double inverse = static_cast<double>(inverse_or_zero(f16_to_f32(d.code))),
               m = static_cast<double>(f16_to_f32(m_code));
  for (int j = 0; j < kElems; ++j) {
    const double code = (static_cast<double>(x[j]) - m) * inverse;
    put(j, static_cast<int>(std::nearbyint(code > 0.0 ? std::min(code, static_cast<double>(q_max)) : 0.0)));
  }
}

// Codes -127 .. 127, halves rounded away from zero. Returns the unrounded d.
float encode_int8(const float* x, int8_t* qs) {
  const float d = max_magnitude(x, kElems) / 127.0f;
  const float inverse = inverse_or_zero(d);
  for (int j = 0; j < kElems; ++j) {
    const float v = x[j] * inverse;
    const int whole = static_cast<int>(v);
    const float fraction = v - static_cast<float>(whole);
    qs[j] = static_cast<int8_t>(whole + (fraction >= 0.5f) - (fraction <= -0.5f));
  }
  return d;
}

template <class Block>
const char* fault_of_d(const std::byte* bytes) {
  return f16_is_finite(load_block<Block>(bytes).d) ? nullptr : kScaleFault;
}
template <class Block>
const char* fault_of_d_and_m(const std::byte* bytes) {
  const auto block = load_block<Block>(bytes);
  return f16_is_finite(block.d) && f16_is_finite(block.m) ? nullptr : kScaleFault;
}

}  // namespace

void decode_q4_0(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ4_0, DType::q4_0>(blocks, n_blocks, out, [](const BlockQ4_0& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < kElems; ++j) y[j] = d * static_cast<float>(nibble(block.qs, j) - 8);
  });
}

void decode_q4_1(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ4_1, DType::q4_1>(blocks, n_blocks, out, [](const BlockQ4_1& block, float* y) {
    const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
    for (int j = 0; j < kElems; ++j) y[j] = d * static_cast<float>(nibble(block.qs, j)) + m;
  });
}

void decode_q5_0(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ5_0, DType::q5_0>(blocks, n_blocks, out, [](const BlockQ5_0& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < kElems; ++j)
      y[j] = d * static_cast<float>((nibble(block.qs, j) | fifth_bit(block.qh, j) << 4) - 16);
  });
}

void decode_q5_1(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ5_1, DType::q5_1>(blocks, n_blocks, out, [](const BlockQ5_1& block, float* y) {
    const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
    for (int j = 0; j < kElems; ++j)
      y[j] = d * static_cast<float>(nibble(block.qs, j) | fifth_bit(block.qh, j) << 4) + m;
  });
}

void decode_q8_0(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ8_0, DType::q8_0>(blocks, n_blocks, out, [](const BlockQ8_0& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < kElems; ++j) y[j] = d * static_cast<float>(block.qs[j]);
  });
}

void decode_q8_1(const std::byte* blocks, int64_t n_blocks, float* out) {
  decode_blocks<BlockQ8_1, DType::q8_1>(blocks, n_blocks, out, [](const BlockQ8_1& block, float* y) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < kElems; ++j) y[j] = d * static_cast<float>(block.qs[j]);
  });
}

void encode_q4_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_blocks<BlockQ4_0, DType::q4_0>(x, n_blocks, blocks, [&](const float* xb, BlockQ4_0& block) {
    const auto put = [&](int j, int q) { put_nibble(block.qs, j, q); };
    block.d = importance ? search_symmetric(xb, importance + (xb - x), 8, put) : encode_symmetric(xb, 8, put);
  });
}

void encode_q4_1(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_blocks<BlockQ4_1, DType::q4_1>(x, n_blocks, blocks, [&](const float* xb, BlockQ4_1& block) {
    const auto put = [&](int j, int q) { put_nibble(block.qs, j, q); };
    if (importance)
      search_affine(xb, importance + (xb - x), 15, block.d, block.m, put);
    else
      encode_affine(xb, 15, block.d, block.m, put);
  });
}

void encode_q5_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_blocks<BlockQ5_0, DType::q5_0>(x, n_blocks, blocks, [&](const float* xb, BlockQ5_0& block) {
    const auto put = [&](int j, int q) {
      put_nibble(block.qs, j, q & 15);
      put_fifth_bit(block.qh, j, q);
    };
    block.d = importance ? search_symmetric(xb, importance + (xb - x), 16, put) : encode_symmetric(xb, 16, put);
  });
}

void encode_q5_1(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_blocks<BlockQ5_1, DType::q5_1>(x, n_blocks, blocks, [&](const float* xb, BlockQ5_1& block) {
    const auto put = [&](int j, int q) {
      put_nibble(block.qs, j, q & 15);
      put_fifth_bit(block.qh, j, q);
    };
    if (importance)
      search_affine(xb, importance + (xb - x), 31, block.d, block.m, put);
    else
      encode_affine(xb, 31, block.d, block.m, put);
  });
}

void encode_q8_0(const float* x, int64_t n_blocks, const float*, std::byte* blocks) {
  encode_blocks<BlockQ8_0, DType::q8_0>(
      x, n_blocks, blocks, [](const float* xb, BlockQ8_0& block) { block.d = f32_to_f16(encode_int8(xb, block.qs)); });
}

void encode_q8_1(const float* x, int64_t n_blocks, const float*, std::byte* blocks) {
  encode_blocks<BlockQ8_1, DType::q8_1>(x, n_blocks, blocks, [](const float* xb, BlockQ8_1& block) {
    const float d = encode_int8(xb, block.qs);
    int sum = 0;
    for (int8_t q : block.qs) sum += q;
    block.d = f32_to_f16(d);
    block.s = f32_to_f16(d * static_cast<float>(sum));
  });
}

const char* fault_q4_0(const std::byte* block) { return fault_of_d<BlockQ4_0>(block); }
const char* fault_q4_1(const std::byte* block) { return fault_of_d_and_m<BlockQ4_1>(block); }
const char* fault_q5_0(const std::byte* block) { return fault_of_d<BlockQ5_0>(block); }
const char* fault_q5_1(const std::byte* block) { return fault_of_d_and_m<BlockQ5_1>(block); }
const char* fault_q8_0(const std::byte* block) { return fault_of_d<BlockQ8_0>(block); }
const char* fault_q8_1(const std::byte* bytes) {
  const auto block = load_block<BlockQ8_1>(bytes);
  return f16_is_finite(block.d) && f16_is_finite(block.s) ? nullptr : kScaleFault;
}

}  // namespace tokamak

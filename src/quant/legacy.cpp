#include "quant/legacy.h"

#include <algorithm>
#include <cmath>

#include "quant/block_loops.h"

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
  const auto [low, high] = std::minmax_element(x, x + kElems);
  const float d = (*high - *low) / static_cast<float>(q_max);
  const float inverse = inverse_or_zero(d);
  for (int j = 0; j < kElems; ++j) {
    const float code = (x[j] - *low) * inverse + 0.5f;
    put(j, static_cast<int>(std::fmin(std::fmax(code, 0.0f), static_cast<float>(q_max))));  // NaN (d overflowed): 0
  }
  d_code = f32_to_f16(d);
  m_code = f32_to_f16(*low);
}

// Codes -127 .. 127, halves rounded away from zero. Returns the unrounded d.
float encode_int8(const float* x, int8_t* qs) {
  const float d = max_magnitude(x, kElems) / 127.0f;
  const float inverse = inverse_or_zero(d);
  for (int j = 0; j < kElems; ++j) qs[j] = static_cast<int8_t>(std::round(x[j] * inverse));
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

void encode_q4_0(const float* x, int64_t n_blocks, const float*, std::byte* blocks) {
  encode_blocks<BlockQ4_0, DType::q4_0>(x, n_blocks, blocks, [](const float* xb, BlockQ4_0& block) {
    block.d = encode_symmetric(xb, 8, [&](int j, int q) { put_nibble(block.qs, j, q); });
  });
}

void encode_q4_1(const float* x, int64_t n_blocks, const float*, std::byte* blocks) {
  encode_blocks<BlockQ4_1, DType::q4_1>(x, n_blocks, blocks, [](const float* xb, BlockQ4_1& block) {
    encode_affine(xb, 15, block.d, block.m, [&](int j, int q) { put_nibble(block.qs, j, q); });
  });
}

void encode_q5_0(const float* x, int64_t n_blocks, const float*, std::byte* blocks) {
  encode_blocks<BlockQ5_0, DType::q5_0>(x, n_blocks, blocks, [](const float* xb, BlockQ5_0& block) {
    block.d = encode_symmetric(xb, 16, [&](int j, int q) {
      put_nibble(block.qs, j, q & 15);
      put_fifth_bit(block.qh, j, q);
    });
  });
}

void encode_q5_1(const float* x, int64_t n_blocks, const float*, std::byte* blocks) {
  encode_blocks<BlockQ5_1, DType::q5_1>(x, n_blocks, blocks, [](const float* xb, BlockQ5_1& block) {
    encode_affine(xb, 31, block.d, block.m, [&](int j, int q) {
      put_nibble(block.qs, j, q & 15);
      put_fifth_bit(block.qh, j, q);
    });
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

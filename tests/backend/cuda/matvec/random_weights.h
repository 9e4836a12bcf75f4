// Random rows of any type with usable scales, for tests and benches of matrix kernels.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "quant/blocks.h"
#include "tensor/dtypes.h"

namespace tokamak::testing {

// Counter-based: value n of stream `seed`.
inline uint32_t random_bits(uint64_t seed, uint64_t n) {
  uint64_t x = seed * 0x9E3779B97F4A7C15u + n * 0xD1B54A32D192ED03u + 0x2545F4914F6CDD1Du;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return static_cast<uint32_t>((x ^ x >> 31) >> 16);
}
inline float random_unit(uint64_t seed, uint64_t n) {  // -1 .. 1
  return static_cast<float>(static_cast<int32_t>(random_bits(seed, n))) * 0x1p-31f;
}

inline std::vector<float> random_floats(size_t n, uint64_t seed) {  // -1 .. 1
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = random_unit(seed, i);
  return values;
}

// Where a block keeps its binary16 scales: byte offsets, -1 for none.
struct ScaleFields {
  DType dtype;
  int first, second;
};
inline constexpr ScaleFields kScaleFields[] = {
    {DType::q4_0, 0, -1},   {DType::q4_1, 0, 2},     {DType::q5_0, 0, -1},    {DType::q5_1, 0, 2},
    {DType::q8_0, 0, -1},   {DType::q2_k, 80, 82},   {DType::q3_k, 108, -1},  {DType::q4_k, 0, 2},
    {DType::q5_k, 0, 2},    {DType::q6_k, 208, -1},  {DType::iq2_xxs, 0, -1}, {DType::iq2_xs, 0, -1},
    {DType::iq2_s, 0, -1},  {DType::iq3_xxs, 0, -1}, {DType::iq3_s, 0, -1},   {DType::iq1_s, 0, -1},
    {DType::iq4_nl, 0, -1}, {DType::iq4_xs, 0, -1},  {DType::tq1_0, 52, -1},  {DType::tq2_0, 64, -1},
    {DType::q1_0, 0, -1},   {DType::q2_0, 0, -1},
};

// A block of random bits whose scales are of magnitude 0.005 to 0.01 (its tensor's scale is 1).
inline void fill_random_block(DType dtype, uint64_t seed, uint64_t block_idx, std::byte* block) {
  const DTypeRow& row = dtype_row(dtype);
  const uint64_t base = block_idx * 512;
  for (int i = 0; i < row.block_bytes; ++i)
    block[i] = static_cast<std::byte>(random_bits(seed, base + static_cast<uint64_t>(i)));
  const auto scale = [&](uint64_t n) {
    const float u = random_unit(seed, base + 400 + n);
    return f32_to_f16(u < 0.0f ? -0.0075f + 0.0025f * u : 0.0075f + 0.0025f * u);
  };
  const auto put = [&](int at, auto value) {
    if (at >= 0) std::memcpy(block + at, &value, sizeof value);
  };
  for (const ScaleFields& f : kScaleFields)
    if (f.dtype == dtype) put(f.first, scale(0)), put(f.second, scale(1));
  const float plain = random_unit(seed, base + 410);
  if (dtype == DType::f32) put(0, plain);
  if (dtype == DType::f16) put(0, f32_to_f16(plain));
  if (dtype == DType::bf16) put(0, f32_to_bf16(plain));
  if (dtype == DType::mxfp4) put(0, static_cast<uint8_t>(118 + random_bits(seed, base + 411) % 6));
  if (dtype == DType::iq1_m) {
    auto b = load_block<BlockIQ1_M>(block);
    for (int i = 0; i < 4; ++i)
      b.scales[i] = static_cast<uint16_t>((b.scales[i] & 0x0FFF) | (scale(0) >> (4 * i) & 15) << 12);
    store_block(block, b);
  }
}
inline std::vector<std::byte> random_rows(DType dtype, int64_t n_rows, int64_t k, uint64_t seed) {
  const DTypeRow& row = dtype_row(dtype);
  std::vector<std::byte> rows(dtype_bytes(dtype, static_cast<uint64_t>(n_rows * k)));
  for (size_t b = 0; b * row.block_bytes < rows.size(); ++b)
    fill_random_block(dtype, seed, b, rows.data() + b * row.block_bytes);
  return rows;
}

}  // namespace tokamak::testing

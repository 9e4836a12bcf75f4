// Weights decoded to binary16 by the kernel's own code, on the host, against the dequantizer of src/quant.
#include "backend/cuda/gemm/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/cuda/matvec/geometry.h"
#include "backend/cuda/matvec/packed.h"
#include "backend/cuda/matvec/random_weights.h"
#include "quant/codec.h"

namespace tokamak::cuda {
namespace {

struct Decoded {
  std::vector<float> expected, got;  // [n_rows, k]
  int64_t k;
};

// All weights of a matrix through block_pair_halves, put back in order.
template <class P>
Decoded decode_matrix(DType dtype, const std::vector<std::byte>& rows, int64_t n_rows, int64_t k) {
  Decoded out{std::vector<float>(static_cast<size_t>(n_rows * k)), std::vector<float>(static_cast<size_t>(n_rows * k)),
              k};
  decode_row(dtype, rows.data(), n_rows * k, out.expected.data());
  std::vector<std::byte> packed = pack(dtype, rows, 1, n_rows, k);
  packed.resize(packed.size() + 16);
  const auto* bytes = reinterpret_cast<const uint8_t*>(packed.data());
  const Geometry g = geometry_of<P>(n_rows, k);
  const Lookup lookup{reinterpret_cast<const uint32_t*>(bytes), 0};
  constexpr int kBlocksPerSlice = kSliceUnits / kUnitsPerBlock<P>;
  for (int64_t row = 0; row < n_rows; row += 2)
    for (int64_t block = 0; block < (k + 31) / 32; ++block) {
      const int64_t slice = block / kBlocksPerSlice;
      const uint8_t* tile = bytes + P::kTableBytes + row / P::kRows * g.row_block_bytes + slice * g.tile_bytes;
      const int n_units = slice + 1 < g.n_slices ? kSliceUnits : g.last_units;
      const int in_block = static_cast<int>(row % P::kRows);
      const BlockPair<P> pair = load_block_pair<P>(tile, static_cast<int>(block % kBlocksPerSlice), n_units, in_block,
                                                   row + 1 < n_rows ? g.row_block_bytes : 0);
      uint32_t halves[2][2][8];
      block_pair_halves<P, 0>(pair, in_block, lookup, halves[0]);
      block_pair_halves<P, 1>(pair, in_block, lookup, halves[1]);
      for (int h = 0; h < 2; ++h)
        for (int r = 0; r < 2 && row + r < n_rows; ++r)
          for (int i = 0; i < 16; ++i) {
            const int64_t at = 32 * block + 16 * h + i;
            if (at < k)
              out.got[static_cast<size_t>((row + r) * k + at)] =
                  half_at(halves[h][r][i / 4 * 2 + i % 2], i % 4 / 2) * kHalfFactor<P>;
          }
    }
  return out;
}

Decoded decode_type(DType dtype, const std::vector<std::byte>& rows, int64_t n_rows, int64_t k) {
  switch (dtype) {
#define CASE(type, P) \
  case DType::type:   \
    return decode_matrix<P>(dtype, rows, n_rows, k)
    CASE(f16, F16);
    CASE(bf16, BF16);
    CASE(q4_0, Q4_0);
    CASE(q4_1, Q4_1);
    CASE(q5_0, Q5_0);
    CASE(q5_1, Q5_1);
    CASE(q8_0, Q8_0);
    CASE(mxfp4, MXFP4);
    CASE(nvfp4, NVFP4);
    CASE(iq4_nl, IQ4_NL);
    CASE(iq4_xs, IQ4_XS);
    CASE(q2_k, Q2_K);
    CASE(q3_k, Q3_K);
    CASE(q4_k, Q4_K);
    CASE(q5_k, Q5_K);
    CASE(q6_k, Q6_K);
    CASE(q1_0, Q1_0);
    CASE(q2_0, Q2_0);
    CASE(tq2_0, TQ2_0);
    CASE(tq1_0, TQ2_0);
    CASE(iq2_xxs, IQ2_XXS);
    CASE(iq2_xs, IQ2_XS);
    CASE(iq2_s, IQ2_S);
    CASE(iq3_xxs, IQ3_XXS);
    CASE(iq3_s, IQ3_S);
    CASE(iq1_s, IQ1_S);
    CASE(iq1_m, IQ1_M);
#undef CASE
    default:
      ADD_FAILURE() << "no halves of " << dtype_name(dtype);
      return {};
  }
}

TEST(GemmHalf, DecodesEveryType) {
  for (const MatvecLayout& layout : matvec_layouts()) {
    if (layout.dtype == DType::f32) continue;  // not rounded to 11 bits
    for (const int64_t k : {256, 1536, 2304}) {
      const int64_t n_rows = 21;
      const Decoded d = decode_type(layout.dtype, testing::random_rows(layout.dtype, n_rows, k, 7), n_rows, k);
      for (size_t i = 0; i < d.got.size(); ++i) {
        // Three roundings of 2^-11: scale, minimum, sum. Minimum and product may be twice the largest weight of the
        // surrounding 256.
        double largest = 0.0;
        for (size_t j = i / 256 * 256; j < i / 256 * 256 + 256; ++j)
          largest = std::max(largest, std::fabs(double{d.expected[j]}));
        const double tolerance = layout.dtype == DType::nvfp4 || layout.dtype == DType::mxfp4 ? 0.0
                                 : layout.dtype == DType::f16                                 ? 0.0
                                                                                              : 5 * 0x1p-11 * largest;
        ASSERT_NEAR(d.got[i], d.expected[i], tolerance) << dtype_name(layout.dtype) << " k " << k << " element " << i;
      }
    }
  }
}

TEST(GemmHalf, F32IsTheSumOfTwo) {
  for (const int64_t k : {7, 512, 1040}) {
    const std::vector<std::byte> rows = testing::random_rows(DType::f32, 5, k, 3);
    const Decoded high = decode_matrix<F32High>(DType::f32, rows, 5, k),
                  low = decode_matrix<F32Low>(DType::f32, rows, 5, k);
    for (size_t i = 0; i < high.got.size(); ++i)
      ASSERT_NEAR(high.got[i] + low.got[i], high.expected[i], 0x1p-22 * std::fabs(high.expected[i])) << i;
  }
}

// Exact where a half can hold the value: scales that are powers of two.
TEST(GemmHalf, SmallAndLargeScales) {
  for (const double scale : {0x1p-22, 0x1p-10, 1.0, 0x1p4}) {
    std::vector<std::byte> rows(2 * sizeof(BlockQ8_0));
    for (int r = 0; r < 2; ++r) {
      BlockQ8_0 block{};
      block.d = f32_to_f16(static_cast<float>(scale));
      for (int i = 0; i < 32; ++i) block.qs[i] = static_cast<int8_t>(8 * i - 128 + r);
      std::memcpy(rows.data() + static_cast<size_t>(r) * sizeof block, &block, sizeof block);
    }
    const Decoded d = decode_type(DType::q8_0, rows, 2, 32);
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(d.got[i], d.expected[i]) << scale;
  }
}

TEST(GemmHalf, HostArithmeticRoundsToNearest) {
  EXPECT_EQ(host_half(1.0), 0x3C00u);
  EXPECT_EQ(host_half(1.0 + 0x1p-11), 0x3C00u);      // a tie: to even
  EXPECT_EQ(host_half(1.0 + 3 * 0x1p-11), 0x3C02u);  // the other way
  EXPECT_EQ(host_half(-0x1p-24), 0x8001u);           // smallest
  EXPECT_EQ(host_half(0x1p-25), 0u);                 // half of it
  EXPECT_EQ(host_half(0x1p-14 - 0x1p-26), 0x0400u);  // rounds up to the normal numbers
  EXPECT_EQ(host_half(2.0 - 0x1p-12), 0x4000u);      // to the next exponent
  EXPECT_EQ(host_half(65519.0), 0x7BFFu);
  EXPECT_EQ(host_half(65520.0), 0x7C00u);
  for (const int n : {0, 1, -1, 8, -1032, -1152, 2047, 256}) {
    EXPECT_EQ(half2_int(n) & 0xFFFF, host_half(n)) << n;
    EXPECT_EQ(half2_int(n) >> 16, host_half(n)) << n;
  }
}

}  // namespace
}  // namespace tokamak::cuda

// Packed layouts without a GPU: the kernel's own decoding, on the host, against the dequantizer of src/quant.
#include "backend/cuda/matvec/layout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/matvec/activations.h"
#include "backend/cuda/matvec/matvec_reference.h"
#include "quant/codec.h"

namespace tokamak::cuda {
namespace {

using tokamak::testing::random_rows;

TEST(MatvecLayout, CoversEveryTypeOfWeights) {
  for (const DTypeRow& row : kDTypes) {
    const bool is_weight = (is_quantized(row.id) && row.id != DType::q8_1 && row.id != DType::q8_k) ||
                           row.id == DType::f32 || row.id == DType::f16 || row.id == DType::bf16;
    EXPECT_EQ(has_matvec(row.id), is_weight) << row.name;
  }
}

// Element by element: activations that are 127 at one place and 0 elsewhere bring out one weight (times 127).
TEST(MatvecLayout, DecodesEveryElement) {
  for (const MatvecLayout& layout : matvec_layouts()) {
    const int64_t k = 1024 + 512, n_rows = 11;
    const std::vector<std::byte> rows = random_rows(layout.dtype, n_rows, k, 7);
    const std::vector<std::byte> packed = pack(layout.dtype, rows, 1, n_rows, k);
    std::vector<float> weights(static_cast<size_t>(n_rows * k));
    decode_row(layout.dtype, rows.data(), n_rows * k, weights.data());
    std::vector<float> x(static_cast<size_t>(k)), y(static_cast<size_t>(n_rows));
    std::vector<std::byte> acts(static_cast<size_t>(q8_column_bytes(k)));
    for (int64_t i = 0; i < k; i += 37) {
      x[static_cast<size_t>(i)] = 127.0f;
      quantize_q8_column(x.data(), k, acts.data());
      const void* in = layout.activations != ActivationForm::f32 ? static_cast<const void*>(acts.data()) : x.data();
      layout.multiply(packed.data(), 0, n_rows, k, in, y.data());
      for (int64_t r = 0; r < n_rows; ++r) {
        const float expected = 127.0f * weights[static_cast<size_t>(r * k + i)];
        // Sum of at most eight roundings of numbers below the largest weight of the block.
        ASSERT_NEAR(y[static_cast<size_t>(r)], expected, 1e-6 * (std::fabs(expected) + 127.0 * 2.0))
            << dtype_name(layout.dtype) << " row " << r << " element " << i;
      }
      x[static_cast<size_t>(i)] = 0.0f;
    }
  }
}

// Nothing but the low bytes depends on whether they are wanted.
TEST(MatvecLayout, LowBytesRefineTheCodes) {
  const int64_t k = 96;
  std::vector<float> x(k);
  for (size_t i = 0; i < x.size(); ++i) x[i] = tokamak::testing::random_unit(3, i);
  std::vector<std::byte> wide(static_cast<size_t>(q8_column_bytes(k)), std::byte{0xAA}), narrow = wide;
  quantize_q8_column(x.data(), k, wide.data());
  quantize_q8_column(x.data(), k, narrow.data(), false);
  const auto at = static_cast<int64_t>(q8_low_offset(k));
  EXPECT_TRUE(std::equal(narrow.begin(), narrow.begin() + k + k / 32 * 8, wide.begin()));
  EXPECT_EQ(std::vector(narrow.begin() + at, narrow.end()),
            std::vector(static_cast<size_t>(q8_column_bytes(k) - at), std::byte{0xAA}));
  for (int64_t group_idx = 0; group_idx < k / 32; ++group_idx) {
    GroupQ8 group;
    GroupLow low_group;
    std::memcpy(&group, wide.data() + k + 8 * group_idx, sizeof group);
    std::memcpy(&low_group, wide.data() + at + k + 4 * group_idx, sizeof low_group);
    int sums[2] = {}, low_sums[2] = {};
    for (int64_t i = 0; i < 32; ++i) {
      const int code = static_cast<int8_t>(wide[static_cast<size_t>(32 * group_idx + i)]),
                low = static_cast<int8_t>(wide[static_cast<size_t>(at + 32 * group_idx + i)]);
      sums[i / 16] += code, low_sums[i / 16] += low;
      // Half a step, and four roundings of a code.
      ASSERT_NEAR(group.d * (code + low / 128.0), x[static_cast<size_t>(32 * group_idx + i)],
                  group.d * (0.5 / 128 + 4 * 0x1p-24 * 127));
    }
    EXPECT_EQ(std::pair(int{group.s0}, int{group.s1}), std::pair(sums[0], sums[1]));
    EXPECT_EQ(std::pair(int{low_group.s0}, int{low_group.s1}), std::pair(low_sums[0], low_sums[1]));
  }
}

// A step of 2 / (127 * 128 * 2) of uniform values: (1 / 16256)^2 / 12 of 1 / 3. Codes of 8 bits: 1.6e-5.
TEST(MatvecLayout, FifteenBitsLoseABillionth) {
  for (const DType dtype : {DType::q8_0, DType::q6_k}) {
    ASSERT_EQ(activation_of(dtype), ActivationForm::q15);
    const int64_t k = 2048, n_rows = 64;
    const ReferenceCase c = make_case(dtype, 1, n_rows, k, 1, 17);
    std::vector<std::byte> packed(packed_bytes(dtype, 1, n_rows, k));
    pack_matrices(dtype, {c.rows.data(), 1, n_rows, k, packed.data()});
    std::vector<float> y(static_cast<size_t>(n_rows));
    find_matvec_layout(dtype)->multiply(packed.data(), 0, n_rows, k, c.column(0), y.data());
    double error = 0, total = 0;
    for (size_t r = 0; r < y.size(); ++r) {
      double exact = 0;
      for (size_t i = 0; i < c.x.size(); ++i) exact += double{c.weights[r * c.x.size() + i]} * c.x[i];
      error += (y[r] - exact) * (y[r] - exact), total += exact * exact;
    }
    EXPECT_LT(error / total, 3e-9) << dtype_name(dtype);
  }
}

TEST(MatvecLayout, MultipliesWithinRounding) {
  for (const MatvecLayout& layout : matvec_layouts())
    for (const int64_t k : {256, 768, 2304})
      for (const int64_t n_rows : {1, 5, 8, 13}) {
        const ReferenceCase reference = make_case(layout.dtype, 2, n_rows, k, 1, 11);
        const std::vector<std::byte> packed = packed_of(reference);
        std::vector<float> y(static_cast<size_t>(n_rows));
        for (int64_t matrix = 0; matrix < 2; ++matrix) {
          layout.multiply(packed.data(), matrix, n_rows, k, reference.column(0), y.data());
          for (int64_t r = 0; r < n_rows; ++r) {
            const Expected expected = reference.expect(matrix, r, 0);
            ASSERT_NEAR(y[static_cast<size_t>(r)], expected.value, expected.tolerance)
                << dtype_name(layout.dtype) << " k " << k << " rows " << n_rows << " row " << r;
          }
        }
      }
}

// Rows of odd length exist for plain types only.
TEST(MatvecLayout, PlainRowsOfAnyLength) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const int64_t k : {1, 7, 16, 33, 515}) {
      const ReferenceCase reference = make_case(dtype, 1, 3, k, 1, 5);
      const std::vector<std::byte> packed = packed_of(reference);
      float y[3];
      find_matvec_layout(dtype)->multiply(packed.data(), 0, 3, k, reference.column(0), y);
      for (int r = 0; r < 3; ++r) {
        const Expected expected = reference.expect(0, r, 0);
        ASSERT_NEAR(y[r], expected.value, expected.tolerance) << dtype_name(dtype) << " k " << k;
      }
    }
}

TEST(MatvecLayout, BytesPerWeightStayNearTheFile) {
  for (const MatvecLayout& layout : matvec_layouts()) {
    const double file = static_cast<double>(dtype_bytes(layout.dtype, 4096 * 14336));
    const double packed = static_cast<double>(packed_bytes(layout.dtype, 1, 4096, 14336));
    EXPECT_LE(packed / file, layout.dtype == DType::tq1_0 ? 1.23 : 1.06) << dtype_name(layout.dtype);
  }
}

TEST(MatvecLayout, RangesOfRowBlocksMakeTheSameBytes) {
  for (const MatvecLayout& layout : matvec_layouts()) {
    const int64_t n_rows = 11, k = 768, n_blocks = 2 * ((n_rows + layout.row_block - 1) / layout.row_block);
    const std::vector<std::byte> rows = random_rows(layout.dtype, 2 * n_rows, k, 7);
    const std::vector<std::byte> whole = pack(layout.dtype, rows, 2, n_rows, k);
    std::vector<std::byte> parts(whole.size(), std::byte{0xAA});
    for (int64_t begin = 0; begin < n_blocks; begin += 3)
      pack_matrices(layout.dtype, {rows.data(), 2, n_rows, k, parts.data(), begin, std::min(begin + 3, n_blocks)});
    EXPECT_EQ(whole, parts) << dtype_name(layout.dtype);
  }
}

TEST(MatvecLayout, SubnormalAndSpecialScales) {
  const float ones[64] = {1.0f, 1.0f};
  std::vector<std::byte> acts(static_cast<size_t>(q8_column_bytes(64)));
  quantize_q8_column(ones, 64, acts.data());
  for (const int code : {0, 1, 5, 0x38, 0x7E, 0x7F, 0xFF, 0x80}) {
    BlockNVFP4 block{};
    block.scales[0] = static_cast<uint8_t>(code);
    block.qs[0] = 7, block.qs[1] = 9;  // 6 and -0.5
    float weights[64], y;
    decode_row(DType::nvfp4, reinterpret_cast<const std::byte*>(&block), 64, weights);
    const std::vector<std::byte> packed = pack(DType::nvfp4, std::as_bytes(std::span(&block, 1)), 1, 1, 64);
    find_matvec_layout(DType::nvfp4)->multiply(packed.data(), 0, 1, 64, acts.data(), &y);
    EXPECT_NEAR(y, weights[0] + weights[1], 1e-6 * std::fabs(weights[0])) << code;
  }
  quantize_q8_column(ones, 32, acts.data());
  for (const int e : {0, 1, 2, 100, 127}) {
    BlockMXFP4 block{};
    block.e = static_cast<uint8_t>(e);
    block.qs[0] = 7, block.qs[1] = 9;
    float weights[32], y;
    decode_row(DType::mxfp4, reinterpret_cast<const std::byte*>(&block), 32, weights);
    const std::vector<std::byte> packed = pack(DType::mxfp4, std::as_bytes(std::span(&block, 1)), 1, 1, 32);
    find_matvec_layout(DType::mxfp4)->multiply(packed.data(), 0, 1, 32, acts.data(), &y);
    EXPECT_NEAR(y, weights[0] + weights[1], 1e-6 * std::fabs(weights[0]) + 1e-44) << e;
  }
}

}  // namespace
}  // namespace tokamak::cuda

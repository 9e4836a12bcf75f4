#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/matmul_helpers.h"

namespace tokamak::cpu::test {
namespace {

constexpr ActivationKind kInt8Kinds[] = {ActivationKind::int8_group32, ActivationKind::int8_group256};

// Values at rounding ties, tiny and huge groups, a zero group, an infinity and a NaN.
std::vector<float> awkward_floats(int64_t n_cols, int64_t k) {
  std::vector<float> x = random_floats(static_cast<size_t>(n_cols * k), 61);
  for (size_t i = 0; i < 256; ++i) x[i] = static_cast<float>(static_cast<int>(i) % 255 - 127) + (i % 2 ? 0.5f : 0.0f);
  x[0] = 127.0f;
  for (size_t i = 256; i < 512; ++i) x[i] = 0.0f;
  for (size_t i = 512; i < 768; ++i) x[i] *= 1e-40f;
  for (size_t i = 768; i < 1024; ++i) x[i] *= 1e37f;
  x[1100] = std::numeric_limits<float>::infinity();
  x[1400] = std::numeric_limits<float>::quiet_NaN();
  return x;
}

TEST(MatmulActivations, SameBytesOnEveryInstructionSet) {
  for (ActivationKind kind : kInt8Kinds)
    for (int64_t n_cols : {1, 3, 8, 11}) {
      const int64_t k = 1792;
      const std::vector<float> x = awkward_floats(n_cols, k);
      const AlignedBytes scalar = pack_columns(kind, Isa::scalar, x, n_cols, k);
      for (const IsaRow& row : kIsas) {
        if (!isa_available(row.isa)) continue;
        const AlignedBytes packed = pack_columns(kind, row.isa, x, n_cols, k);
        EXPECT_EQ(std::memcmp(scalar.data(), packed.data(), scalar.size()), 0)
            << activation_format(kind).name << " " << row.name << " " << n_cols;
      }
    }
}

TEST(MatmulActivations, CodesAreNearestAndNonFiniteGroupsAreNaN) {
  for (ActivationKind kind : kInt8Kinds) {
    const int64_t k = 1792, group = activation_format(kind).group_elems;
    const std::vector<float> x = awkward_floats(1, k);
    const std::vector<double> y = unpack_columns(kind, pack_columns(kind, best_isa(), x, 1, k), 1, k);
    for (int64_t g = 0; g < k; g += group) {
      double max_abs = 0;
      bool finite = true;
      for (int64_t i = g; i < g + group; ++i) {
        finite = finite && std::isfinite(x[static_cast<size_t>(i)]);
        max_abs = std::max(max_abs, std::abs(double{x[static_cast<size_t>(i)]}));
      }
      for (int64_t i = g; i < g + group; ++i) {
        const double got = y[static_cast<size_t>(i)], want = double{x[static_cast<size_t>(i)]};
        if (!finite)
          ASSERT_TRUE(std::isnan(got)) << i;
        else if (max_abs < 0x1p-120)
          ASSERT_EQ(got, 0.0);
        else
          ASSERT_LE(std::abs(got - want), max_abs / 127 * (0.5 + 1e-4)) << i;  // 1e-4 > 127 * 3 u: the scale's rounding
      }
    }
  }
}

TEST(MatmulActivations, ColumnRangesEqualTheWhole) {
  for (ActivationKind kind : {ActivationKind::f32, ActivationKind::int8_group32, ActivationKind::int8_group256}) {
    const int64_t k = 256, n_cols = 19;
    const std::vector<float> x = random_floats(static_cast<size_t>(n_cols * k), 67);
    const AlignedBytes whole = pack_columns(kind, best_isa(), x, n_cols, k);
    AlignedBytes parts(whole.size());
    for (int64_t col = 0; col < n_cols; ++col)
      pack_activations(kind, best_isa(), {x.data(), k, n_cols, k, col, col + 1, parts.data()});
    EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size()), 0) << activation_format(kind).name;
  }
}

// The stored sums are those of the codes.
TEST(MatmulActivations, Group32CarriesItsSums) {
  const int64_t k = 96;
  const std::vector<float> x = random_floats(static_cast<size_t>(k), 71);
  const AlignedBytes packed = pack_columns(ActivationKind::int8_group32, best_isa(), x, 1, k);
  for (int64_t b = 0; b < 3; ++b) {
    const std::byte* block = packed.data() + 52 * b;
    int32_t sum = 0;
    for (int i = 0; i < 32; ++i) sum += static_cast<int8_t>(block[i]);
    float d, scaled;
    int32_t starts[3];
    std::memcpy(&d, block + 32, 4);
    std::memcpy(&scaled, block + 36, 4);
    std::memcpy(starts, block + 40, 12);
    EXPECT_EQ(scaled, d * static_cast<float>(sum));
    EXPECT_EQ(starts[0], -8 * sum);
    EXPECT_EQ(starts[1], -16 * sum);
    EXPECT_EQ(starts[2], -128 * sum);
  }
  ASSERT_EQ(packed.size(), 52u * 4);  // a fourth, zero block fills the chunk of 64
  for (size_t i = 52 * 3; i < packed.size(); ++i) EXPECT_EQ(packed.data()[i], std::byte{0});
}

}  // namespace
}  // namespace tokamak::cpu::test

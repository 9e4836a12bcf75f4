#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/matmul_helpers.h"

namespace tokamak::cpu::test {
namespace {

constexpr ActivationKind kIntegerKinds[] = {ActivationKind::int8, ActivationKind::int16};

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
  for (ActivationKind kind : kIntegerKinds)
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
  for (ActivationKind kind : kIntegerKinds) {
    const int64_t k = 1792, group = activation_format(kind).group_elems;
    const double max_code = activation_format(kind).max_code;
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
        else if (max_abs < 0x1p-80)
          ASSERT_EQ(got, 0.0);
        else
          // + 3 roundings of the scale, each u = 2^-24 of a code of at most max_code
          ASSERT_LE(std::abs(got - want), max_abs / max_code * (0.5 + max_code * 3 * 0x1p-24)) << i;
      }
    }
  }
}

TEST(MatmulActivations, ColumnRangesEqualTheWhole) {
  for (ActivationKind kind : {ActivationKind::f32, ActivationKind::int8, ActivationKind::int16}) {
    const int64_t k = 256, n_cols = 19;
    const std::vector<float> x = random_floats(static_cast<size_t>(n_cols * k), 67);
    const AlignedBytes whole = pack_columns(kind, best_isa(), x, n_cols, k);
    AlignedBytes parts(whole.size());
    for (int64_t col = 0; col < n_cols; ++col)
      pack_activations(kind, best_isa(), {x.data(), k, n_cols, k, col, col + 1, parts.data()});
    EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size()), 0) << activation_format(kind).name;
  }
}

// The stored numbers are those of the codes; groups past k are zero.
TEST(MatmulActivations, GroupsCarryTheirSums) {
  for (ActivationKind kind : kIntegerKinds) {
    const int64_t k = 96, code_bytes = kind == ActivationKind::int8 ? 32 : 64;
    const int64_t stride = activation_format(kind).group_bytes_per_col;
    const std::vector<float> x = random_floats(static_cast<size_t>(k), 71);
    const AlignedBytes packed = pack_columns(kind, best_isa(), x, 1, k);
    ASSERT_EQ(packed.size(), static_cast<size_t>(4 * stride));
    for (int64_t g = 0; g < 3; ++g) {
      const std::byte* group = packed.data() + stride * g;
      int32_t sums[2] = {0, 0};
      for (int i = 0; i < 32; ++i) {
        int32_t code = static_cast<int8_t>(group[i]);
        if (kind == ActivationKind::int16) code = 128 * code + static_cast<int8_t>(group[32 + i]);
        sums[i / 16] += code;
      }
      const auto f32 = [&](GroupArray array) {
        float v;
        std::memcpy(&v, group + code_bytes + 4 * static_cast<int>(array), 4);
        return v;
      };
      const auto i32 = [&](GroupArray array) {
        int32_t v;
        std::memcpy(&v, group + code_bytes + 4 * static_cast<int>(array), 4);
        return v;
      };
      const float d = f32(GroupArray::d);
      const int32_t s = sums[0] + sums[1];
      EXPECT_EQ(f32(GroupArray::d_s), d * static_cast<float>(s));
      EXPECT_EQ(f32(GroupArray::d_s0), d * static_cast<float>(sums[0]));
      EXPECT_EQ(f32(GroupArray::d_s1), d * static_cast<float>(sums[1]));
      EXPECT_EQ(i32(GroupArray::minus8_s), -8 * s);
      EXPECT_EQ(i32(GroupArray::minus16_s), -16 * s);
      EXPECT_EQ(i32(GroupArray::minus128_s), -128 * s);
      EXPECT_EQ(i32(GroupArray::minus32_s0), -32 * sums[0]);
      EXPECT_EQ(i32(GroupArray::minus32_s1), -32 * sums[1]);
    }
    for (size_t i = static_cast<size_t>(3 * stride); i < packed.size(); ++i) EXPECT_EQ(packed.data()[i], std::byte{0});
  }
}

}  // namespace
}  // namespace tokamak::cpu::test

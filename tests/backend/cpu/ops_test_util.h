// Shared by the tests of src/backend/cpu/ops: the instruction sets of this machine, test data, bit comparison.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/ops/ops.h"

namespace tokamak::cpu {

inline constexpr double kUnit = 0x1p-24;  // rounding error of f32

// Scalar first; says which are missing.
inline std::vector<Isa> usable_isas() {
  std::vector<Isa> isas;
  for (const IsaRow& row : kIsas) {
    if (isa_available(row.isa))
      isas.push_back(row.isa);
    else
      std::printf("skipped: %s is not on this machine\n", std::string(row.name).c_str());
  }
  return isas;
}

inline std::vector<float> random_floats(size_t n, uint32_t seed, float scale = 1) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(n);
  for (float& v : x) v = normal(rng);
  return x;
}

// Equal bits; any NaN equals any NaN.
inline void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i]))
        << what << " element " << i << ": " << a[i] << " and " << b[i];
  }
}

// Sizes around every vector and unroll border, a prime, and a model's width.
inline constexpr int64_t kRowSizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 127, 128, 576};

}  // namespace tokamak::cpu

#include "backend/cuda/sampling/top_logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "backend/cuda/matvec/device_memory.h"
#include "backend/cuda/matvec/random_weights.h"

namespace tokamak::cuda {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
bool is_bad(float x) { return !(x <= std::numeric_limits<float>::max()); }

// The definition: NaN and +infinity first, then by value, ties by lowest id.
std::vector<TopLogit> expected_top(std::span<const float> row) {
  std::vector<int32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) {
    const float x = row[static_cast<size_t>(a)], y = row[static_cast<size_t>(b)];
    return is_bad(x) != is_bad(y) ? is_bad(x) : !is_bad(x) && x > y;
  });
  std::vector<TopLogit> out(kTopLogits);
  for (size_t i = 0; i < std::min(kTopLogits, ids.size()); ++i)
    out[i] = {.id = ids[i], .logit = row[static_cast<size_t>(ids[i])]};
  return out;
}

struct Case {
  const char* name;
  std::function<float(size_t row, size_t i)> value;
};
float random_float(size_t row, size_t i) { return tokamak::testing::random_unit(17 + row, i); }

const std::vector<Case>& cases() {
  static const std::vector<Case> out = {
      {"random", [](size_t r, size_t i) { return 20 * random_float(r, i); }},
      {"few values", [](size_t r, size_t i) { return std::round(3 * random_float(r, i)); }},
      {"all equal", [](size_t, size_t) { return -1.5f; }},
      {"both zeros", [](size_t, size_t i) { return i % 2 ? 0.0f : -0.0f; }},
      {"rising", [](size_t, size_t i) { return static_cast<float>(i) * 0.001f; }},
      {"falling", [](size_t, size_t i) { return static_cast<float>(i) * -0.001f; }},
      {"most forbidden", [](size_t r, size_t i) { return i % 997 == 5 ? random_float(r, i) : -kInf; }},
      {"all forbidden", [](size_t, size_t) { return -kInf; }},
      {"infinity", [](size_t r, size_t i) { return i == 777 ? kInf : random_float(r, i); }},
      {"NaN",
       [](size_t r, size_t i) { return i % 1000 == 999 ? (i % 2000 == 999 ? -kNan : kNan) : random_float(r, i); }},
      // More values near the best than one sort takes: all in few groups, of which the smallest is far down.
      {"crowded groups", [](size_t r, size_t i) { return i / 256 % 3 == 0 ? 9 + random_float(r, i) : -9.0f; }},
  };
  return out;
}

void check(size_t n_vocab, const Case& c) {
  const size_t n_rows = n_vocab < 1000 ? 3 : 2;
  std::vector<float> logits(n_rows * n_vocab);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = c.value(i / n_vocab, i % n_vocab);
  DeviceBytes device_logits(logits), scratch(top_logits_scratch(static_cast<int64_t>(n_rows))),
      top(n_rows * kTopLogits * sizeof(TopLogit));
  ASSERT_EQ(launch_top_logits({.logits = device_logits.as<float>(),
                               .n_rows = static_cast<int64_t>(n_rows),
                               .n_vocab = static_cast<int64_t>(n_vocab),
                               .scratch = scratch.data(),
                               .top = top.as<TopLogit>()},
                              nullptr),
            cudaSuccess);
  const std::vector<TopLogit> found = top.read<TopLogit>();
  for (size_t r = 0; r < n_rows; ++r) {
    const std::vector<TopLogit> expected = expected_top(std::span(logits).subspan(r * n_vocab, n_vocab));
    for (size_t i = 0; i < kTopLogits; ++i) {
      const TopLogit &a = found[r * kTopLogits + i], &b = expected[i];
      ASSERT_EQ(a.id, b.id) << c.name << ", row " << r << ", place " << i;
      ASSERT_TRUE(a.logit == b.logit || (std::isnan(a.logit) && std::isnan(b.logit))) << c.name;
    }
  }
}

class TopLogitsOf : public ::testing::TestWithParam<size_t> {};

TEST_P(TopLogitsOf, AreTheBestInOrder) {
  REQUIRE_DEVICE();
  for (const Case& c : cases()) check(GetParam(), c);
}

INSTANTIATE_TEST_SUITE_P(All, TopLogitsOf,
                         ::testing::ValuesIn(choose<size_t>(
                             {5, 100, 151, 4064, 4097, 32000, 49152, 128256, 151936, 262144}, {5, 151, 4097, 32000})),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tokamak::cuda

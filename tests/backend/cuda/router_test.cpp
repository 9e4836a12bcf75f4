// Experts and weights of tokens against the definition, also where scores are equal, infinite or no numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backend/cuda/matvec/device_memory.h"
#include "backend/cuda/matvec/random_weights.h"
#include "backend/cuda/ops/routing.h"

namespace tokamak::cuda {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kTokens = 5;

struct Routed {
  std::vector<int32_t> ids;
  std::vector<double> weights;
};

double score_of(RouterKind kind, double x) {
  if (kind == RouterKind::sigmoid) return 1 / (1 + std::exp(-x));
  if (kind == RouterKind::softplus_sqrt) return std::sqrt(std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0));
  return x;
}

void soften(std::vector<double>& x) {
  const double largest = *std::ranges::max_element(x);
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - largest);
  for (double& v : x) v /= sum;
}

// The definition (routing.h), in double. The order of experts is that of scores in f32, as the kernel has them.
Routed expected(const RouterArgs& a, std::vector<double> p, const std::vector<float>& bias) {
  for (double& v : p) v = score_of(a.kind, v);
  if (a.kind == RouterKind::soft_max) soften(p);
  Routed out{.ids = std::vector<int32_t>(p.size()), .weights = {}};
  std::iota(out.ids.begin(), out.ids.end(), 0);
  const auto score = [&](int32_t e) {
    return p[static_cast<size_t>(e)] + (bias.empty() ? 0 : bias[static_cast<size_t>(e)]);
  };
  std::ranges::stable_sort(out.ids, [&](int32_t i, int32_t j) {
    return score(i) > score(j) || (std::isnan(score(j)) && !std::isnan(score(i)));
  });
  out.ids.resize(static_cast<size_t>(a.n_used));
  for (int32_t e : out.ids) out.weights.push_back(p[static_cast<size_t>(e)]);
  if (a.kind == RouterKind::late_soft_max) soften(out.weights);
  double sum = 0;
  for (double& w : out.weights) {
    if (a.kind == RouterKind::late_sigmoid) w = 1 / (1 + std::exp(-w));
    sum += w;
  }
  for (double& w : out.weights) w *= a.scale / (a.renormalise ? std::clamp(sum, double{a.low}, double{a.high}) : 1.0);
  return out;
}

// Multiples of 1/8, many of them equal; every third token has one infinity below and, with `numbers` off, a NaN.
std::vector<float> logits(int64_t n_expert, bool numbers) {
  std::vector<float> out(kTokens * static_cast<size_t>(n_expert));
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::round(32 * testing::random_unit(91, i)) / 8;
  for (size_t t = 0; t < kTokens; t += 3) {
    out[t * static_cast<size_t>(n_expert)] = -kInf;
    if (!numbers) out[t * static_cast<size_t>(n_expert) + 1] = kNan;
  }
  return out;
}

void check(RouterArgs a, bool numbers, const std::vector<float>& bias) {
  const std::vector<float> x = logits(a.n_expert, numbers);
  const auto n_used = static_cast<size_t>(a.n_used), n_expert = static_cast<size_t>(a.n_expert);
  DeviceBytes x_bytes(x), bias_bytes(bias.empty() ? x : bias), ids(kTokens * n_used * 4), weights(kTokens * n_used * 4);
  a.n_tokens = kTokens;
  a.x = x_bytes.as<float>();
  a.x_stride = a.n_expert;
  a.bias = bias.empty() ? nullptr : bias_bytes.as<float>();
  a.ids = ids.as<int32_t>();
  a.ids_stride = a.n_used;
  a.weights = weights.as<float>();
  ASSERT_EQ(launch_router(a, nullptr), cudaSuccess);
  const std::vector<int32_t> got_ids = ids.read<int32_t>();
  const std::vector<float> got = weights.read<float>();
  for (size_t t = 0; t < kTokens; ++t) {
    const Routed e = expected(
        a, {x.begin() + static_cast<ptrdiff_t>(t * n_expert), x.begin() + static_cast<ptrdiff_t>((t + 1) * n_expert)},
        bias);
    for (size_t r = 0; r < n_used; ++r) {
      SCOPED_TRACE(::testing::Message() << n_expert << " experts, " << n_used << " used, kind "
                                        << static_cast<int>(a.kind) << ", token " << t << ", place " << r);
      ASSERT_EQ(got_ids[t * n_used + r], e.ids[r]);
      if (std::isnan(e.weights[r])) continue;
      ASSERT_NEAR(got[t * n_used + r], e.weights[r], 3e-6 * std::abs(e.weights[r]) + 1e-9);
    }
  }
}

struct Shape {
  int64_t n_expert, n_used;
};
// On both sides of what a lane of a warp holds, of a warp's places, and of the kernel for more.
constexpr Shape kShapes[] = {{2, 2},   {8, 2},    {33, 5},   {128, 8},  {129, 8},
                             {256, 8}, {257, 22}, {512, 32}, {512, 33}, {600, 4}};

TEST(Router, EveryKindAndSize) {
  REQUIRE_DEVICE();
  for (const auto kind : {RouterKind::soft_max, RouterKind::sigmoid, RouterKind::softplus_sqrt,
                          RouterKind::late_soft_max, RouterKind::late_sigmoid})
    for (const Shape& shape : kShapes) {
      RouterArgs a{.kind = kind, .n_expert = shape.n_expert, .n_used = shape.n_used};
      check(a, true, {});
      a.renormalise = true;
      a.low = 1e-6f;
      a.high = kInf;
      a.scale = 2.5f;
      check(a, true, {});
      if (HasFatalFailure()) return;
    }
}

// Scores that are no numbers come last; soft max would make all of them so.
TEST(Router, NoNumbersComeLast) {
  REQUIRE_DEVICE();
  for (const auto kind : {RouterKind::sigmoid, RouterKind::softplus_sqrt, RouterKind::late_sigmoid})
    for (const Shape& shape : kShapes) {
      check({.kind = kind, .n_expert = shape.n_expert, .n_used = shape.n_used}, false, {});
      if (HasFatalFailure()) return;
    }
}

// The bias chooses and does not weigh. Steps of 1/4: no two scores are closer than rounding.
TEST(Router, BiasChooses) {
  REQUIRE_DEVICE();
  for (const Shape& shape : kShapes) {
    std::vector<float> bias(static_cast<size_t>(shape.n_expert));
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = std::round(16 * testing::random_unit(92, i)) / 4;
    check({.kind = RouterKind::sigmoid, .n_expert = shape.n_expert, .n_used = shape.n_used}, true, bias);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tokamak::cuda

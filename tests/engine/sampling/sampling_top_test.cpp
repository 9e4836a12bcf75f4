// The best logits alone give the token that all of them give.
#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "sampling_helpers.h"

namespace tokamak::testing_sampling {
namespace {

constexpr size_t kVocab = 1000;

// What a device selects: see Program::run_top.
std::vector<TopLogit> top_of(const std::vector<float>& logits) {
  std::vector<TopLogit> out;
  for (size_t i = 0; i < logits.size(); ++i) out.push_back({static_cast<int32_t>(i), logits[i]});
  const auto rank = [](float x) { return x <= std::numeric_limits<float>::max() ? x : kInf; };
  std::ranges::stable_sort(out, [&](const TopLogit& a, const TopLogit& b) { return rank(a.logit) > rank(b.logit); });
  out.resize(kTopLogits);
  return out;
}

std::vector<float> random_logits(uint64_t seed, double steps) {
  std::vector<float> logits;
  for (size_t i = 0; i < kVocab; ++i) {
    const double x = uniform(seed, i) * uniform(seed, i, 1) * 20;
    logits.push_back(static_cast<float>(steps > 0 ? std::round(x * steps) / steps : x));
    if (uniform(seed, i, 2) < 0.05) logits.back() = -kInf;
  }
  return logits;
}

std::vector<SamplerParams> settings() {
  std::vector<SamplerParams> out;
  const auto add = [&](auto change) {
    SamplerParams params;
    params.seed = 7;
    change(params);
    out.push_back(params);
  };
  add([](SamplerParams&) {});  // the defaults
  add([](SamplerParams& p) { p.temperature = 0; });
  add([](SamplerParams& p) { p.temperature = 1.7, p.top_k = 5, p.top_p = 1, p.min_p = 0; });
  add([](SamplerParams& p) { p.top_k = 100, p.top_p = 0.5, p.min_keep = 110; });
  add([](SamplerParams& p) { p.typical_p = 0.7, p.xtc_probability = 0.5, p.xtc_threshold = 0.02; });
  add([](SamplerParams& p) { p.dynatemp_range = 0.5; });
  add([](SamplerParams& p) { p.adaptive_target = 0.3; });
  add([](SamplerParams& p) { p.suppress_tokens = {3, 5, 8, 500}; });
  add([](SamplerParams& p) { p.temperature = 0, p.suppress_tokens = {3, 5, 8, 500}; });
  add([](SamplerParams& p) { p.logit_bias = {{11, -kInf}}, p.top_k = 1; });
  add([](SamplerParams& p) { p.samplers = parse_samplers("kmt").value(); });
  return out;
}

TEST(SamplingTop, TheSameTokenAsFromAllLogits) {
  for (const SamplerParams& params : settings()) {
    Sampler whole = make(params, kVocab), top = make(params, kVocab);
    ASSERT_GT(top.n_top(), 0u) << top.why_all();
    for (uint64_t position = 0; position < 300; ++position) {
      const std::vector<float> logits = random_logits(position, position % 3 == 0 ? 0 : 4);
      const auto expected = whole.sample(logits, position), found = top.sample_top(top_of(logits), position);
      ASSERT_TRUE(expected.has_value() && found.has_value());
      ASSERT_EQ(found->id, expected->id) << position;
      ASSERT_EQ(found->prob, expected->prob) << position;
      const auto all = whole.last_candidates(), few = top.last_candidates();
      ASSERT_EQ(few.size(), all.size());
      for (size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(few[i].id == all[i].id && few[i].prob == all[i].prob) << i;
      whole.accept(expected->id);
      top.accept(found->id);
    }
  }
}

TEST(SamplingTop, ErrorsAreTheSame) {
  SamplerParams params;
  params.seed = 1;
  Sampler whole = make(params, kVocab), top = make(params, kVocab);
  const auto expect_same = [&](const std::vector<float>& logits) {
    const auto expected = whole.sample(logits, 3), found = top.sample_top(top_of(logits), 3);
    ASSERT_FALSE(expected.has_value() || found.has_value());
    EXPECT_EQ(found.error().code, expected.error().code);
    EXPECT_EQ(found.error().what, expected.error().what);
  };
  expect_same(std::vector<float>(kVocab, -kInf));
  std::vector<float> logits = random_logits(1, 0);
  logits[700] = kInf;
  expect_same(logits);
  logits[300] = std::numeric_limits<float>::quiet_NaN();
  expect_same(logits);
}

TEST(SamplingTop, OthersTakeAllAndSayWhy) {
  const auto why = [](auto change) {
    SamplerParams params;
    change(params);
    const Sampler sampler = make(params, kVocab);
    EXPECT_EQ(sampler.n_top(), 0u);
    return sampler.why_all();
  };
  EXPECT_EQ(why([](SamplerParams& p) { p.repeat_penalty = 1.1; }), "penalties");
  EXPECT_EQ(why([](SamplerParams& p) { p.dry_multiplier = 0.8; }), "dry");
  EXPECT_EQ(why([](SamplerParams& p) { p.top_n_sigma = 1; }), "top_n_sigma");
  EXPECT_EQ(why([](SamplerParams& p) { p.top_k = 0; }), "top_p");
  EXPECT_EQ(why([](SamplerParams& p) { p.top_k = 0, p.top_p = 1, p.min_p = 0, p.temperature = 1; }), "no top_k");
  EXPECT_EQ(why([](SamplerParams& p) { p.top_k = 1000; }), "a large top_k");
  EXPECT_EQ(why([](SamplerParams& p) { p.mirostat = 2, p.temperature = 1; }), "mirostat");
  EXPECT_EQ(why([](SamplerParams& p) { p.logit_bias = {{3, 1.0f}}; }), "logit_bias");
  EXPECT_EQ(why([](SamplerParams& p) { p.samplers = parse_samplers("tk").value(); }), "temperature");
}

}  // namespace
}  // namespace tokamak::testing_sampling

// What the sampling tests share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "engine/sampling/sampler.h"

namespace tokamak::testing_sampling {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

// No sampler at all, so that a test names those it wants.
inline SamplerParams bare(std::string_view letters = "") {
  SamplerParams params;
  params.seed = 1;
  params.temperature = 1;
  params.samplers = parse_samplers(letters).value();
  return params;
}

inline Sampler make(SamplerParams params, size_t n_vocab, TokenText text = {}) {
  return Sampler::create(std::move(params), {.n_vocab = n_vocab, .text = std::move(text)}).value();
}

// ln of the probabilities, the logits that have them.
inline std::vector<float> logits_of(const std::vector<double>& probs) {
  std::vector<float> logits;
  for (double p : probs) logits.push_back(p > 0 ? static_cast<float>(std::log(p)) : -kInf);
  return logits;
}

// Token id -> final probability after one step.
inline std::map<int32_t, double> distribution(Sampler& sampler, const std::vector<float>& logits,
                                              uint64_t position = 0) {
  std::map<int32_t, double> out;
  EXPECT_TRUE(sampler.sample(logits, position).has_value());
  for (const Candidate& c : sampler.last_candidates()) out[c.id] = c.prob;
  return out;
}
inline std::map<int32_t, double> distribution(const SamplerParams& params, const std::vector<double>& probs) {
  Sampler sampler = make(params, probs.size());
  return distribution(sampler, logits_of(probs));
}

// Probabilities pass through a few f32 operations: 8 units in the last place of 1 is generous.
inline void expect_distribution(const std::map<int32_t, double>& actual, const std::map<int32_t, double>& expected) {
  constexpr double kTolerance = 8 * 0x1p-23;
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [id, prob] : expected) {
    ASSERT_TRUE(actual.contains(id)) << id;
    EXPECT_NEAR(actual.at(id), prob, kTolerance) << id;
  }
}

}  // namespace tokamak::testing_sampling

// What a request may ask of the sampler and be told about the prompt, through the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model_server_helpers.h"

namespace tokamak::test {
namespace {

using Json = nlohmann::ordered_json;

const Json kHi = {{{"role", "user"}, {"content", "hi"}}};
const std::pair<std::string_view, Json> kDialects[] = {
    {"/completion", {{"prompt", "hi"}, {"n_predict", 3}}},
    {"/v1/completions", {{"prompt", "hi"}, {"max_tokens", 3}}},
    {"/v1/chat/completions", {{"messages", kHi}, {"max_tokens", 3}}},
    {"/v1/responses", {{"input", "hi"}, {"max_output_tokens", 3}}},
    {"/v1/messages", {{"messages", kHi}, {"max_tokens", 3}}},
};

TEST(Timings, TellReusedAndRecomputedTokensInEveryDialect) {
  const ModelServer server;
  for (const auto& [path, body] : kDialects) {
    const Json timings = server.ask(path, body)["timings"];
    EXPECT_EQ(timings["recomputed_n"], 0) << path;
    EXPECT_LE(timings["cache_n"], timings["first_difference"]) << path;
    EXPECT_LE(timings["first_difference"].get<int>(), timings["cache_n"].get<int>() + timings["prompt_n"].get<int>());
  }
}

TEST(Timings, NameTheFirstPositionThatDiffers) {
  const ModelServer server;
  std::vector<int> prompt;
  for (int i = 0; i < 200; ++i) prompt.push_back(5 + i % 37);
  const auto first_difference = [&](const std::vector<int>& tokens) {
    const Json answer = server.ask("/v1/completions", {{"prompt", tokens}, {"max_tokens", 1}});
    return answer["timings"]["first_difference"].get<int>();
  };
  EXPECT_EQ(first_difference(prompt), 0);
  prompt[150] = 50;
  EXPECT_EQ(first_difference(prompt), 150);
  prompt[70] = 50;
  EXPECT_EQ(first_difference(prompt), 70);
}

Json completion(const Json& more) {
  Json body = {{"prompt", "hi"}, {"n_predict", 6}, {"temperature", 1}, {"seed", 3}};
  body.update(more);
  return body;
}

TEST(NProbs, AreLogarithmsOfTheModelOrProbabilitiesAfterTheSamplers) {
  const ModelServer server;
  const Json fields = {{"n_probs", 5}, {"top_k", 2}, {"top_p", 1}, {"min_p", 0}};
  Json body = completion(fields);
  const Json before = server.ask("/completion", body)["completion_probabilities"];
  body["post_sampling_probs"] = true;
  const Json answer = server.ask("/completion", body);
  const Json& after = answer["completion_probabilities"];
  ASSERT_EQ(before.size(), after.size());
  ASSERT_GT(after.size(), 0);
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(before[i]["id"], after[i]["id"]);
    EXPECT_LE(before[i]["logprob"], 0);
    ASSERT_EQ(before[i]["top_logprobs"].size(), 5);
    EXPECT_FALSE(before[i].contains("prob") || after[i].contains("logprob") || after[i].contains("top_logprobs"));
    const Json& top = after[i]["top_probs"];
    ASSERT_EQ(top.size(), 2) << "top_k leaves two";
    EXPECT_NEAR(top[0]["prob"].get<double>() + top[1]["prob"].get<double>(), 1, 1e-5);
    // The two keep their ratio: no sampler but top_k is at work.
    const Json& logs = before[i]["top_logprobs"];
    EXPECT_EQ(top[0]["id"], logs[0]["id"]);
    EXPECT_NEAR(std::log(top[0]["prob"].get<double>() / top[1]["prob"].get<double>()),
                logs[0]["logprob"].get<double>() - logs[1]["logprob"].get<double>(), 1e-3);
    const bool is_first = top[0]["id"] == after[i]["id"];
    EXPECT_EQ(after[i]["prob"], top[is_first ? 0 : 1]["prob"]);
    EXPECT_TRUE(after[i]["token"].is_string() && after[i]["bytes"].is_array());
  }
}

TEST(SamplingFields, AdaptiveAndInfillAreTakenAndChecked) {
  const ModelServer server;
  const Json adaptive = completion({{"adaptive_target", 0.01}, {"adaptive_decay", 0.5}, {"n_predict", 24}});
  const Json answer = server.ask("/completion", adaptive);
  EXPECT_EQ(answer["generation_settings"]["adaptive_target"], 0.01);
  EXPECT_EQ(server.ask("/completion", adaptive)["content"], answer["content"]);
  EXPECT_NE(server.ask("/completion", completion({{"n_predict", 24}}))["content"], answer["content"]);
  EXPECT_EQ(server.refusal("/completion", completion({{"adaptive_decay", 1}}))["param"], "adaptive_decay");
  server.ask("/completion", completion({{"samplers", {"top_k", "top_p", "infill"}}}));
  server.ask("/completion", completion({{"samplers", {"top_k", "adaptive_p"}}}));
}

}  // namespace
}  // namespace tokamak::test

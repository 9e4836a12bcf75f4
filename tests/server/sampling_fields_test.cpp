// What a request may ask of the sampler and be told about the prompt, through the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tokamak::test

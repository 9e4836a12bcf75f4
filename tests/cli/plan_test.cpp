#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/chat_model_helpers.h"
#include "cli/process_helpers.h"

namespace tokamak::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Plan, SaysWhatServingWillReserve) {
  const RunResult text = run_tokamak({"plan", chat_model().string(), "-t", "1", "--ctx-size", "256"});
  ASSERT_EQ(text.status, 0) << text.talk;
  for (const char* part :
       {"context 256 tokens", "KV cache 1024 tokens", "16 requests at once", "kv cache", "logits", "sum"})
    EXPECT_THAT(text.output, HasSubstr(part));
  const auto kv_bytes = [](const char* kv_tokens) {
    const RunResult result = run_tokamak(
        {"plan", chat_model().string(), "-t", "1", "--ctx-size", "256", "--kv-tokens", kv_tokens, "--json"});
    EXPECT_EQ(result.status, 0) << result.talk;
    const json parsed = json::parse(result.output);
    uint64_t sum = 0, kv = 0;
    for (const json& part : parsed["parts"]) {
      if (!part["file_mapping"].get<bool>()) sum += part["bytes"].get<uint64_t>();
      if (part["what"] == "kv cache") kv = part["bytes"];
    }
    EXPECT_EQ(parsed["reserved_bytes"].get<uint64_t>(), sum);
    return kv;
  };
  EXPECT_EQ(kv_bytes("4096"), 4 * kv_bytes("1024"));
}

TEST(Plan, RefusesWhatServingWouldRefuse) {
  expect_refusal({"plan", chat_model().string(), "--parallel", "0"}, 2, "--parallel");
  expect_refusal({"plan", "no such file.gguf"}, 3, "no such file");
  // Not the setting that follows from it.
  const RunResult beyond = run_tokamak({"plan", chat_model().string(), "--ctx-size", "1999999999"});
  EXPECT_EQ(beyond.status, 2);
  EXPECT_THAT(beyond.talk, HasSubstr("context size (--ctx-size): 1999999999"));
  EXPECT_THAT(beyond.talk, testing::Not(HasSubstr("--kv-tokens")));
  const RunResult largest = run_tokamak({"plan", chat_model().string(), "--ctx-size", "1073741824", "-t", "1"});
  EXPECT_EQ(largest.status, 0) << largest.talk;
}

TEST(Plan, CountsEveryDevice) {
  const RunResult result = run_tokamak({"plan", chat_model().string(), "-t", "1", "--json"});
  ASSERT_EQ(result.status, 0) << result.talk;
  const json parsed = json::parse(result.output);
  EXPECT_EQ(parsed["devices"]["host"], parsed["reserved_bytes"]);
  EXPECT_THAT(parsed["runs_on"].get<std::string>(), HasSubstr("1 thread"));
}

}  // namespace
}  // namespace tokamak::test

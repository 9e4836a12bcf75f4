// A device that fails while the server runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_server_helpers.h"

namespace tokamak::test {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

TEST(LostDevice, AnswersFailWithAReasonAndTheServerLives) {
  DeviceScript script;
  script.stays_lost = true;
  const ModelServer server({.chat_template = std::string(kThinkingTemplate)}, 1024, {}, {.n_parallel = 4}, &script);
  const Json request = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"max_tokens", 3}};
  server.ask("/v1/chat/completions", request);
  EXPECT_EQ(fetch(server.port(), "GET", "/health").status, 200);

  script.fails_after = script.n_runs.load();
  Json error = server.refusal("/v1/chat/completions", request, 500);
  EXPECT_EQ(error["message"], "running: the device is lost");
  while (fetch(server.port(), "GET", "/health").status == 200) continue;
  const Reply health = fetch(server.port(), "GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_THAT(health.body, HasSubstr("the device is lost for good"));
  for (int i = 0; i < 2; ++i) {
    error = server.refusal("/v1/chat/completions", request, 500);
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("the device is lost for good"));
  }
  EXPECT_EQ(fetch(server.port(), "GET", "/v1/models").status, 200);
}

}  // namespace
}  // namespace tokamak::test

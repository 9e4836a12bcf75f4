#include "chat/tool_fallback.h"

#include <gtest/gtest.h>

namespace tokamak {
namespace {

ChatRequest history(Json arguments) {
  ChatRequest request;
  request.messages = {{.role = "user", .content = "weather?"},
                      {.role = "assistant", .tool_calls = {{.name = "look", .arguments = std::move(arguments)}}},
                      {.role = "tool", .content = "rain"},
                      {.role = "tool", .content = "wind"}};
  request.tools = {Json{{"type", "function"}, {"function", {{"name", "look"}}}}};
  return request;
}

TEST(ToolFallbackTest, ToolsCallsAndResultsBecomeText) {
  const auto made = describe_tools(history({{"town", "Rome"}}));
  ASSERT_TRUE(made.has_value());
  ASSERT_EQ(made->messages.size(), 4u);
  EXPECT_EQ(made->messages[0].role, "system");
  EXPECT_NE(std::get<std::string>(made->messages[0].content).find(R"({"name":"look"})"), std::string::npos);
  EXPECT_EQ(std::get<std::string>(made->messages[2].content),
            "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"town\":\"Rome\"}}\n</tool_call>");
  EXPECT_EQ(made->messages[3].role, "user");
  EXPECT_EQ(std::get<std::string>(made->messages[3].content),
            "<tool_response>\nrain\n</tool_response>\n<tool_response>\nwind\n</tool_response>");
  EXPECT_TRUE(made->tools.empty());
}

TEST(ToolFallbackTest, ArgumentsMayBeTextOfAnObjectOnly) {
  for (const char* good : {R"({"a": 1})", "", "  ", "null"}) EXPECT_TRUE(describe_tools(history(good))) << good;
  for (const Json& bad : {Json("{bad"), Json("[1]"), Json(7)}) {
    const auto made = describe_tools(history(bad));
    ASSERT_FALSE(made.has_value()) << bad;
    EXPECT_EQ(made.error().code, ErrorCode::bad_argument);
    EXPECT_EQ(made.error().where.substr(0, 11), "messages[1]");
  }
}

TEST(ToolFallbackTest, WithoutToolsNothingChanges) {
  ChatRequest request;
  request.messages = {{.role = "user", .content = "hi"}};
  const auto made = describe_tools(request);
  ASSERT_TRUE(made.has_value());
  ASSERT_EQ(made->messages.size(), 1u);
  EXPECT_EQ(std::get<std::string>(made->messages[0].content), "hi");
}

}  // namespace
}  // namespace tokamak

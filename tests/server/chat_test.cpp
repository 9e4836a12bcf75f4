// Chat and text completions: structured output, tool calls, several answers and prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_server_helpers.h"

namespace tokamak::test {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr std::string_view kChat = "/v1/chat/completions", kText = "/v1/completions";
const Json kSchema = {
    {"type", "object"},
    {"properties",
     {{"mood", {{"enum", {"calm", "storm"}}}}, {"n", {{"type", "integer"}, {"maximum", 9}, {"minimum", 1}}}}},
    {"required", {"mood", "n"}}};
const Json kTool = {
    {"type", "function"},
    {"function",
     {{"name", "weather"},
      {"parameters",
       {{"type", "object"}, {"properties", {{"town", {{"enum", {"Rome", "Oslo"}}}}}}, {"required", {"town"}}}}}}};

Json chat(const Json& more = Json::object()) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"max_tokens", 200}, {"temperature", 0}};
  body.update(more);
  return body;
}
const Json& only_choice(const Json& answer) { return answer["choices"][0]; }

class ChatTest : public testing::Test {
 protected:
  ModelServer server_;

  std::string content(const Json& more) {
    const Json answer = server_.ask(kChat, chat(more));
    EXPECT_EQ(only_choice(answer)["finish_reason"], "stop");
    return only_choice(answer)["message"]["content"];
  }
};

TEST_F(ChatTest, AllFormsOfStructuredOutputBind) {
  for (const Json& form :
       {Json{{"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", kSchema}}}}}},
        Json{{"response_format", {{"type", "json_object"}, {"schema", kSchema}}}}, Json{{"json_schema", kSchema}}}) {
    const Json made = Json::parse(content(form));
    EXPECT_TRUE(made["mood"] == "calm" || made["mood"] == "storm") << made;
    EXPECT_TRUE(made["n"] >= 1 && made["n"] <= 9) << made;
  }
  EXPECT_EQ(content({{"grammar", "root ::= \"ab\" [c-d]{3}"}}).substr(0, 2), "ab");
  EXPECT_EQ(content({{"regex", "x{5}y"}}), "xxxxxy");
  EXPECT_EQ(content({{"response_format", {{"type", "regex"}, {"regex", "z{3}"}}}}), "zzz");
}

TEST_F(ChatTest, WhatCannotBeCompiledIsRefusedByName) {
  const std::pair<Json, std::string> cases[] = {
      {{{"regex", "^[a-$"}}, "regex"},
      {{{"regex", "(?=a)b"}}, "regex"},
      {{{"grammar", "root ::= nowhere"}}, "grammar"},
      {{{"json_schema", {{"type", "object"}, {"properties", {{"a", {{"pattern", "^ready\\~go$"}}}}}}}}, "json_schema"},
      {{{"json_schema", {{"$ref", "#/$defs/no"}}}}, "json_schema"},
      {{{"response_format", {{"type", "xml"}}}}, "response_format.type"},
      {{{"response_format", {{"type", "json_schema"}}}}, "response_format.schema"},
      {{{"grammar", "root ::= \"a\""}, {"regex", "b"}}, "grammar"},
      {{{"grammar", "root ::= \"a\""}, {"grammar_lazy", true}}, "grammar_triggers"},
  };
  for (const auto& [more, field] : cases) EXPECT_EQ(server_.refusal(kChat, chat(more))["param"], field) << more;
  EXPECT_THAT(server_.refusal(kChat, chat(cases[3].first))["message"].get<std::string>(), HasSubstr("#/properties/a"));
}

TEST_F(ChatTest, KeywordsThatAreNotEnforcedAreNamedInAHeader) {
  const Reply reply = server_.post(
      kChat,
      chat({{"json_schema", {{"type", "array"}, {"items", {{"const", 1}}}, {"maxItems", 2}, {"uniqueItems", true}}}}));
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.head, HasSubstr("X-Tokamak-Not-Enforced: # uniqueItems"));
}

TEST_F(ChatTest, ALazyGrammarWaitsForItsTrigger) {
  // Forced up to the trigger by bias alone: the tiny model repeats one letter.
  const Json free = server_.ask(kChat, chat({{"max_tokens", 8}}));
  const std::string letter = only_choice(free)["message"]["content"].get<std::string>().substr(0, 1);
  const std::string text = content({{"grammar", "root ::= " + Json(letter).dump() + " \"!?\""},
                                    {"grammar_lazy", true},
                                    {"grammar_triggers", {{{"type", "word"}, {"value", letter}}}}});
  EXPECT_EQ(text, letter + "!?");
}

TEST_F(ChatTest, ARequiredCallComesWithArgumentsOfItsSchema) {
  const Json answer =
      server_.ask(kChat, chat({{"tools", {kTool}}, {"tool_choice", "required"}, {"parallel_tool_calls", false}}));
  const Json& message = only_choice(answer)["message"];
  EXPECT_EQ(only_choice(answer)["finish_reason"], "tool_calls");
  EXPECT_TRUE(message["content"].is_null());
  ASSERT_EQ(message["tool_calls"].size(), 1);
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "weather");
  const Json arguments = Json::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["town"] == "Rome" || arguments["town"] == "Oslo");
}

TEST_F(ChatTest, AStreamOfACallJoinsToTheWholeOne) {
  const Json body = chat({{"tools", {kTool}},
                          {"tool_choice", {{"type", "function"}, {"function", {{"name", "weather"}}}}},
                          {"stream", true}});
  std::string name, arguments, id, finish;
  for (const StreamEvent& event : stream_events(server_.post(kChat, body))) {
    const Json& choice = event.data["choices"][0];
    if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
    if (!choice["delta"].contains("tool_calls")) continue;
    const Json& call = choice["delta"]["tool_calls"][0];
    EXPECT_EQ(call["index"], 0);
    id += call.value("id", "");
    name += call["function"].value("name", "");
    arguments += call["function"].value("arguments", "");
  }
  EXPECT_EQ(finish, "tool_calls");
  EXPECT_EQ(name, "weather");
  EXPECT_TRUE(id.starts_with("call_"));
  EXPECT_TRUE(Json::parse(arguments).contains("town"));
}

TEST_F(ChatTest, ToolsAreRefusedByTheNameOfWhatIsWrong) {
  const std::pair<Json, std::string> cases[] = {
      {{{"tools", {{{"type", "function"}}}}}, "tools[0].function"},
      {{{"tools", {kTool}}, {"tool_choice", "sometimes"}}, "tool_choice"},
      {{{"tools", {kTool}}, {"tool_choice", {{"type", "function"}, {"function", {{"name", "no"}}}}}}, "tool_choice"},
      {{{"tool_choice", "required"}}, "tool_choice"},
  };
  for (const auto& [more, field] : cases) EXPECT_EQ(server_.refusal(kChat, chat(more))["param"], field) << more;
}

TEST_F(ChatTest, SeveralAnswersShareThePromptAndDifferBySeed) {
  const Json answer = server_.ask(kChat, chat({{"n", 3}, {"temperature", 1.5}, {"seed", 7}, {"max_tokens", 24}}));
  ASSERT_EQ(answer["choices"].size(), 3);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 72);
  const std::string first = answer["choices"][0]["message"]["content"],
                    second = answer["choices"][1]["message"]["content"];
  EXPECT_NE(first, second);
  const Json alone = server_.ask(kChat, chat({{"temperature", 1.5}, {"seed", 8}, {"max_tokens", 24}}));
  EXPECT_EQ(only_choice(alone)["message"]["content"], second);
}

TEST_F(ChatTest, AListOfPromptsHasAChoiceForEachAndEveryN) {
  const Json answer =
      server_.ask(kText, {{"prompt", {"one", "two"}}, {"n", 2}, {"max_tokens", 5}, {"temperature", 0}, {"echo", true}});
  ASSERT_EQ(answer["choices"].size(), 4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_THAT(answer["choices"][i]["text"].get<std::string>(), HasSubstr(i < 2 ? "one" : "two"));
  }
  EXPECT_EQ(server_.refusal(kText, {{"prompt", {Json::array({1}), Json::array()}}})["param"], "prompt[1]");
  EXPECT_EQ(server_.refusal(kText, {{"prompt", {"a", 999999}}})["param"], "prompt[1]");
}

// What a small body would make large, or a long one slow, is refused before it is done.
TEST_F(ChatTest, CountsAreBounded) {
  const std::vector<std::string> prompts(200, "a");
  EXPECT_EQ(server_.refusal(kText, {{"prompt", prompts}, {"n", 2}})["param"], "prompt");
  const std::vector<int> long_prompt(2000, 5);
  EXPECT_EQ(server_.refusal(kText, {{"prompt", long_prompt}, {"n", 64}})["code"], "context_length_exceeded");
  const Json trigger = {{"type", "word"}, {"value", "x"}};
  const std::vector<Json> triggers(65, trigger);
  EXPECT_EQ(server_.refusal(
                kChat,
                chat({{"grammar", "root ::= \"a\""}, {"grammar_lazy", true}, {"grammar_triggers", triggers}}))["param"],
            "grammar_triggers");
  const std::vector<Json> tools(1025, kTool);
  EXPECT_EQ(server_.refusal(kChat, chat({{"tools", tools}}))["param"], "tools");
}

TEST_F(ChatTest, ThoughtsHaveABudgetAndTheSchemaBindsTheAnswerOnly) {
  const Json answer = server_.ask(
      kChat,
      chat({{"chat_template_kwargs", {{"enable_thinking", true}}}, {"reasoning_budget", 5}, {"regex", "x{5}y"}}));
  const Json& message = only_choice(answer)["message"];
  EXPECT_EQ(message["content"], "xxxxxy");
  EXPECT_FALSE(message["reasoning_content"].get<std::string>().empty());
  EXPECT_EQ(message["reasoning_content"].get<std::string>().find("</think>"), std::string::npos);
}

}  // namespace
}  // namespace tokamak::test

// The grammar of tool calls takes what the template writes, and nothing else.
#include "server/tool_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/format_texts.h"
#include "server/reply_helpers.h"

namespace tokamak::server {
namespace {

using test::Answer;
using test::ReplyFixture;
using testing::HasSubstr;

Json tool(Json function) { return {{"type", "function"}, {"function", std::move(function)}}; }

// Whether the tokens of a text fit, and whether the answer may end there.
enum class Fit { no, begins, whole };
Fit fit(const ToolConstraint& constraint, const Tokenizer& tokenizer, std::string_view text) {
  GrammarState state(constraint.grammar, VocabTrie::create(tokenizer), constraint.triggers);
  for (const int32_t id : tokenizer.encode(text, {.add_special = false, .parse_special = true}))
    if (!state.accept(id)) return Fit::no;
  return state.can_end() ? Fit::whole : Fit::begins;
}

Result<std::optional<ToolConstraint>> constrain(const ReplyFormat& format, const Tokenizer& tokenizer,
                                                ToolChoice choice, std::vector<Json> tools, std::string name = {}) {
  return tool_constraint(
      format, {.tools = std::move(tools), .choice = choice, .name = std::move(name), .parallel = true}, tokenizer, {});
}

class ToolConstraints : public testing::TestWithParam<ReplyFixture> {};

TEST_P(ToolConstraints, TakeWhatTheTemplateWrites) {
  const ReplyFixture fixture = GetParam();
  const ChatTemplate chat_template = test::load_template(fixture.file);
  const ReplyFormat format = find_reply_format(chat_template);
  const std::string marker = format.calls->marker();
  for (const bool marker_is_token : {false, true}) {
    if (marker_is_token && (marker.empty() || format.messages != MessageFormat::none)) continue;
    const Tokenizer tokenizer =
        test::byte_tokenizer(marker_is_token ? std::vector{marker} : std::vector<std::string>{});
    for (const bool two : {false, true}) {
      if (two && !fixture.two_calls) continue;
      ChatMessage turn{.role = "assistant"};
      turn.tool_calls = {test::tricky_call()};
      if (two) turn.tool_calls.push_back(test::plain_call());
      if (format.calls->id_is_name)
        for (ToolCall& call : turn.tool_calls) call.id = "functions." + call.name + ":0";
      const Answer answer = render_answer(chat_template, fixture, turn);
      std::string text(trim_space(answer.text));
      if (text.starts_with("<think>")) text = trim_space(std::string_view(text).substr(text.find("</think>") + 8));
      SCOPED_TRACE(text);
      for (const ToolChoice choice : {ToolChoice::required, ToolChoice::named, ToolChoice::automatic}) {
        SCOPED_TRACE(static_cast<int>(choice));
        if (choice == ToolChoice::named && two) continue;
        const auto made = constrain(format, tokenizer, choice, test::reply_tools(), "get_weather");
        ASSERT_TRUE(made) << made.error().message();
        if (!*made) {
          EXPECT_EQ(choice, ToolChoice::automatic);
          const bool by_header = format.messages == MessageFormat::recipient;
          EXPECT_TRUE(marker.empty() && (by_header || format.calls->syntax == CallSyntax::named_json));
          continue;
        }
        const ToolConstraint& constraint = **made;
        EXPECT_EQ(fit(constraint, tokenizer, text), Fit::whole);
        std::string other = text;
        other.replace(other.find("get_weather"), 11, "get_secrets");
        EXPECT_EQ(fit(constraint, tokenizer, other), Fit::no);
        if (choice == ToolChoice::automatic) {
          EXPECT_EQ(fit(constraint, tokenizer, "No call is needed: {\"a\"}."), Fit::whole);
          const bool has_marker = !marker.empty() && format.messages == MessageFormat::none;
          EXPECT_EQ(fit(constraint, tokenizer, (has_marker ? "I look it up.\n" : "") + text), Fit::whole);
        } else {
          EXPECT_EQ(fit(constraint, tokenizer, "No call."), Fit::no);
          EXPECT_EQ(fit(constraint, tokenizer, ""), Fit::begins);
          const bool thinks = format.reasoning_start == "<think>";  // the thought itself is not fed
          EXPECT_EQ(fit(constraint, tokenizer, (thinks ? "<think>\n\n" : "") + text), Fit::whole);
        }
      }
    }
  }
}

TEST_P(ToolConstraints, HoldTypesOfParameters) {
  const ChatTemplate chat_template = test::load_template(GetParam().file);
  const ReplyFormat format = find_reply_format(chat_template);
  const Tokenizer tokenizer = test::byte_tokenizer({});
  const auto made = constrain(format, tokenizer, ToolChoice::required, test::reply_tools());
  ASSERT_TRUE(made && *made);
  ChatMessage turn{.role = "assistant"};
  ToolCall call = test::tricky_call();
  call.arguments["days"] = 7.5;  // an integer by the schema
  if (format.calls->id_is_name) call.id = "functions.get_weather:0";
  turn.tool_calls = {call};
  const Answer answer = render_answer(chat_template, GetParam(), turn);
  EXPECT_EQ(fit(**made, tokenizer, trim_space(answer.text)), Fit::no) << answer.text;
}

INSTANTIATE_TEST_SUITE_P(Templates, ToolConstraints, testing::ValuesIn(test::reply_fixtures()), [](const auto& row) {
  std::string name(row.param.file.substr(row.param.file.find('/') + 1));
  for (char& c : name)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

ReplyFormat hermes() { return find_reply_format(test::load_template("chat/02_qwen25_tools.jinja")); }

std::string refusal(ToolUse use, const ReplyFormat& format = hermes()) {
  const Tokenizer tokenizer = test::byte_tokenizer({});
  const auto made = tool_constraint(format, use, tokenizer, {});
  return made ? "" : made.error().where + ": " + made.error().what;
}

TEST(ToolConstraint, RefusesWhatIsWrongByItsName) {
  using enum ToolChoice;
  EXPECT_THAT(refusal({.tools = {tool({{"name", "a"}}), tool({{"name", "a"}})}}),
              HasSubstr("tools[1].function.name: two"));
  EXPECT_THAT(refusal({.tools = {tool({{"description", "x"}})}}), HasSubstr("tools[0].function.name: is missing"));
  EXPECT_THAT(refusal({.tools = {tool({{"name", ""}})}}), HasSubstr("tools[0].function.name"));
  EXPECT_THAT(refusal({.tools = {Json::object()}}), HasSubstr("tools[0].function: is missing"));
  EXPECT_THAT(refusal({.tools = {tool({{"name", "a"}})}, .choice = named, .name = "b"}),
              HasSubstr("tool_choice: there is no"));
  EXPECT_THAT(refusal({.choice = required}), HasSubstr("tool_choice"));
  EXPECT_THAT(refusal({.tools = {tool({{"name", "a"}, {"parameters", 5}})}}),
              HasSubstr("tools[0].function.parameters"));
  EXPECT_THAT(refusal({.tools = {tool({{"name", "a"}, {"parameters", {{"type", "string"}}}})}}),
              HasSubstr("tools[0].function.parameters.type"));
  const Json bad = {{"type", "object"}, {"properties", {{"k", {{"type", "string"}, {"pattern", "[a-"}}}}}};
  EXPECT_THAT(refusal({.tools = {tool({{"name", "a"}}), tool({{"name", "b"}, {"parameters", bad}})}}),
              testing::AllOf(HasSubstr("tools[1].function.parameters"), HasSubstr("/properties/k")));
  const ReplyFormat no_calls = find_reply_format(test::load_template("chat/05_mistral_v1.jinja"));
  EXPECT_THAT(refusal({.tools = {tool({{"name", "a"}})}, .choice = required}, no_calls),
              HasSubstr("shows no tool calls"));
  EXPECT_EQ(refusal({.tools = {tool({{"name", "a"}})}}, no_calls), "");
  EXPECT_EQ(refusal({.tools = {tool({{"name", "a"}})}, .choice = ToolChoice::none}), "");
}

TEST(ToolConstraint, ToolsWithoutParameters) {
  const Tokenizer tokenizer = test::byte_tokenizer({});
  const auto allows = [&](const Json& function, const std::string& arguments) {
    const auto made = constrain(hermes(), tokenizer, ToolChoice::required, {tool(function)});
    EXPECT_TRUE(made) << made.error().message();
    return made && fit(**made, tokenizer,
                       "<tool_call>\n{\"name\": \"a\", \"arguments\": " + arguments + "}\n</tool_call>") == Fit::whole;
  };
  EXPECT_TRUE(allows({{"name", "a"}}, "{}"));
  EXPECT_FALSE(allows({{"name", "a"}}, "{\"x\": 1}"));
  EXPECT_TRUE(allows({{"name", "a"}, {"parameters", nullptr}}, "{}"));
  EXPECT_TRUE(allows({{"name", "a"}, {"parameters", Json::object()}}, "{\"x\": [1]}"));
  EXPECT_FALSE(allows({{"name", "a"}, {"parameters", Json::object()}}, "[1]"));
  EXPECT_TRUE(allows({{"name", "a"}, {"parameters", {{"type", "object"}}}}, "{\"x\": 1}"));
  const Json empty = {{"type", "object"}, {"properties", Json::object()}};
  EXPECT_TRUE(allows({{"name", "a"}, {"parameters", empty}}, "{}"));
  EXPECT_FALSE(allows({{"name", "a"}, {"parameters", empty}}, "{\"x\": 1}"));
}

// Hard case 20: what clients send, in every syntax: nothing fails, what is not enforced is told.
TEST_P(ToolConstraints, TakesOrdinarySchemas) {
  const Json parameters = Json::parse(R"({"type": "object", "properties": {
      "phone": {"type": "string", "pattern": "\\d{3}-\\d{4}"}, "word": {"type": "string", "pattern": "\\S"},
      "inner": {"type": "object", "properties": {"key": {"type": "string", "pattern": "^[a-z_]+$"},
                                                  "long": {"type": "string", "maxLength": 6000}}},
      "when": {"type": "string", "format": "date-time"}, "mail": {"type": "string", "format": "email"},
      "list": {"type": "array", "items": {"type": "integer"}, "uniqueItems": true},
      "free": {}, "maybe": {"type": ["string", "null"]}, "pick": {"$ref": "#/$defs/mood"},
      "some": {"type": "object", "minProperties": 1}, "one": {"enum": ["a", 5]}},
      "required": ["phone"], "$defs": {"mood": {"enum": ["calm", "storm"]}}})");
  const ReplyFormat format = find_reply_format(test::load_template(GetParam().file));
  const Tokenizer tokenizer = test::byte_tokenizer({});
  for (const ToolChoice choice : {ToolChoice::automatic, ToolChoice::required}) {
    const auto made = constrain(format, tokenizer, choice, {tool({{"name", "a"}, {"parameters", parameters}})});
    ASSERT_TRUE(made) << made.error().message();
    if (!*made) continue;
    bool tells = false;
    for (const SchemaNote& note : (*made)->grammar->notes())
      tells |= note.keyword == "uniqueItems" && note.path.starts_with("tools[0].function.parameters #");
    EXPECT_TRUE(tells);
  }
}

}  // namespace
}  // namespace tokamak::server

// What a template writes for calls, thoughts and content is read back, in any pieces.
#include "server/reply.h"

#include <gtest/gtest.h>

#include <random>

#include "server/reply_helpers.h"

namespace tokamak {
namespace {

using test::Answer;
using test::read_reply;
using test::ReadReply;
using test::ReplyFixture;

std::vector<size_t> every_byte(size_t n) {
  std::vector<size_t> cuts;
  for (size_t i = 1; i < n; ++i) cuts.push_back(i);
  return cuts;
}
std::vector<size_t> random_cuts(size_t n, std::mt19937& random) {
  std::vector<size_t> cuts;
  for (size_t i = 1; i < n; ++i)
    if (random() % 5 == 0) cuts.push_back(i);
  return cuts;
}

// Ids are random where the format writes none.
ReadReply without_ids(ReadReply reply) {
  reply.ids.clear();
  return reply;
}

// The reply, checked to be the same for all pieces.
ReadReply read_all_ways(const ReplyFormat& format, const Answer& answer, bool wants_calls = true, int max_calls = 0) {
  const ReadReply whole = read_reply(format, answer, {}, wants_calls, max_calls);
  EXPECT_EQ(without_ids(read_reply(format, answer, every_byte(answer.text.size()), wants_calls, max_calls)),
            without_ids(whole));
  std::mt19937 random(7);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(without_ids(read_reply(format, answer, random_cuts(answer.text.size(), random), wants_calls, max_calls)),
              without_ids(whole));
  return whole;
}

class ReplyRoundTrip : public testing::TestWithParam<ReplyFixture> {};

void check_turn(const ReplyFixture& fixture, const std::vector<ToolCall>& calls, const std::string& content,
                const std::string& thought) {
  SCOPED_TRACE(content + "|" + thought + "|" + std::to_string(calls.size()));
  const ChatTemplate chat_template = test::load_template(fixture.file);
  const ReplyFormat format = find_reply_format(chat_template);
  ASSERT_TRUE(format.calls);
  ChatMessage turn{.role = "assistant"};
  if (!content.empty()) turn.content = content;
  if (!thought.empty()) turn.reasoning_content = thought;
  turn.tool_calls = calls;
  if (format.calls->id_is_name)
    for (ToolCall& call : turn.tool_calls) call.id = "functions." + call.name + ":0";
  const Answer answer = render_answer(chat_template, fixture, turn);
  SCOPED_TRACE(answer.text);
  const ReadReply reply = read_all_ways(format, answer);
  EXPECT_EQ(reply.content, content);
  EXPECT_EQ(reply.reasoning.substr(0, reply.reasoning.find_last_not_of('\n') + 1), thought);
  ASSERT_EQ(reply.names.size(), calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(reply.names[i], calls[i].name);
    const Json arguments = Json::parse(reply.arguments[i], nullptr, false);
    ASSERT_FALSE(arguments.is_discarded()) << reply.arguments[i];
    const nlohmann::json read = arguments, wanted = calls[i].arguments;  // some templates sort keys
    EXPECT_EQ(read, wanted) << reply.arguments[i];
  }
}

TEST_P(ReplyRoundTrip, OneCall) {
  check_turn(GetParam(), {test::tricky_call()}, "", "");
  check_turn(GetParam(), {test::plain_call()}, "", "");
}
TEST_P(ReplyRoundTrip, TwoCalls) {
  if (!GetParam().two_calls) GTEST_SKIP() << "the template takes one call";
  check_turn(GetParam(), {test::tricky_call(), test::plain_call()}, "", "");
}
TEST_P(ReplyRoundTrip, ContentInFront) {
  if (!GetParam().content) GTEST_SKIP() << "the template shows no content beside calls";
  check_turn(GetParam(), {test::plain_call()}, "Let me see {\"a\": 1} \U0001F994.", "");
  if (GetParam().two_calls) check_turn(GetParam(), {test::plain_call(), test::tricky_call()}, "Two.", "");
}
TEST_P(ReplyRoundTrip, ThoughtInFront) {
  if (!GetParam().thoughts) GTEST_SKIP() << "the template shows no thoughts";
  const std::string opener = find_reply_format(test::load_template(GetParam().file)).calls->marker();
  check_turn(GetParam(), {test::tricky_call()}, "", "Is " + opener + " needed?");
  if (GetParam().content) check_turn(GetParam(), {test::plain_call()}, "So.", "Hm.");
}
TEST_P(ReplyRoundTrip, ContentAlone) {
  const ChatTemplate chat_template = test::load_template(GetParam().file);
  const ReplyFormat format = find_reply_format(chat_template);
  if (format.messages == MessageFormat::harmony) GTEST_SKIP() << "ends plain turns differently";
  for (const char* text : {"Just text.", "{\"answer\": [1, 2]}", "{\"name\"", "[1] see below", "a\n\nb"}) {
    const Answer prompt{"", format.recipient_start + format.content_recipient + format.recipient_end + text};
    const ReadReply reply = read_all_ways(format, prompt);
    EXPECT_EQ(reply.content, text);
    EXPECT_TRUE(reply.names.empty());
  }
}
TEST_P(ReplyRoundTrip, CutAnywhere) {
  const ChatTemplate chat_template = test::load_template(GetParam().file);
  const ReplyFormat format = find_reply_format(chat_template);
  ChatMessage turn{.role = "assistant"};
  turn.tool_calls = {test::tricky_call()};
  Answer answer = render_answer(chat_template, GetParam(), turn);
  const std::string all = answer.text, whole = read_reply(format, answer, {}).arguments.at(0);
  for (size_t n = 0; n < all.size(); ++n) {
    if ((all[n] & 0xC0) == 0x80) continue;
    answer.text = all.substr(0, n);
    const ReadReply reply = read_reply(format, answer, {});
    EXPECT_EQ(without_ids(read_reply(format, answer, every_byte(n))), without_ids(reply)) << answer.text;
    ASSERT_LE(reply.names.size(), 1u);
    const std::string got = reply.arguments.empty() ? "" : reply.arguments[0];
    if (format.calls->syntax == CallSyntax::parameters) continue;  // an unfinished value is closed by its end
    EXPECT_EQ(whole.substr(0, got.size()), got) << answer.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, ReplyRoundTrip, testing::ValuesIn(test::reply_fixtures()), [](const auto& row) {
  std::string name(row.param.file.substr(row.param.file.find('/') + 1));
  for (char& c : name)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

ReplyFormat format_of(std::string_view file) { return find_reply_format(test::load_template(file)); }
ReadReply read_text(std::string_view file, std::string text, int max_calls = 0) {
  return read_all_ways(format_of(file), {"", std::move(text)}, true, max_calls);
}
constexpr std::string_view kHermes = "chat/02_qwen25_tools.jinja", kThinking = "chat/03_qwen3_thinking.jinja";

TEST(Reply, WhatIsNoCallIsContent) {
  for (const char* text :
       {"<tool_call> is a tag", "<tool_call>", "a <tool_call>{\"x\": 1}</tool_call> b",
        "<tool_call>\n{\"name\": 5}\n</tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
        "`<tool_call>` quoted", "<tool_call>{\"name\": \"f\""}) {
    const ReadReply reply = read_text(kHermes, text);
    EXPECT_EQ(reply.content, text);
    EXPECT_TRUE(reply.names.empty());
  }
}

TEST(Reply, CallsAmongText) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  ReadReply reply = read_text(kHermes, "One " + call + "\ntwo <tool_call> no " + call + "\n\n");
  EXPECT_EQ(reply.content, "One\ntwo <tool_call> no");
  EXPECT_EQ(reply.names, (std::vector<std::string>{"f", "f"}));
  EXPECT_EQ(reply.arguments, (std::vector<std::string>{"{\"a\": 1}", "{\"a\": 1}"}));
  reply = read_text(kHermes, call + call + call, 1);
  EXPECT_EQ(reply.names.size(), 1u);
  EXPECT_EQ(reply.content, "");
  EXPECT_EQ(read_all_ways(format_of(kHermes), {"", call}, false).content, call);  // no tools in the request
}

TEST(Reply, KeysInAnyOrderAndForm) {
  const auto one = [](const std::string& json) { return read_text(kHermes, "<tool_call>" + json + "</tool_call>"); };
  for (const char* json : {"{\"arguments\": {\"a\": 1}, \"name\": \"f\"}", "{\"name\":\"f\",\"parameters\":{\"a\": 1}}",
                           "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}}",
                           "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}",
                           "{\"id\": 7, \"name\": \"f\", \"arguments\": {\"a\": 1}}"}) {
    const ReadReply reply = one(json);
    ASSERT_EQ(reply.names, std::vector<std::string>{"f"}) << json;
    EXPECT_EQ(reply.arguments[0], "{\"a\": 1}") << json;
  }
  EXPECT_EQ(one("{\"name\": \"f\"}").arguments.at(0), "{}");
  EXPECT_EQ(one("{\"name\": \"f\", \"arguments\": null}").arguments.at(0), "{}");
}

// Hard case 37: a thought that quotes its own end and openers of calls, a second one, one that never ends.
TEST(Reply, ThoughtsThatQuoteTags) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  ReadReply reply =
      read_text(kThinking, "<think>\nThe `</think>` tag, <tool_call>{\"name\": \"no\"}.\n</think>\n\nNow " + call);
  EXPECT_EQ(reply.reasoning, "The `</think>` tag, <tool_call>{\"name\": \"no\"}.\n");
  EXPECT_EQ(reply.content, "Now");
  EXPECT_EQ(reply.names.size(), 1u);
  reply = read_text(kThinking, "<think>a</think>b<think>c</think>" + call + "<think>d</think>e");
  EXPECT_EQ(reply.reasoning, "acd");
  EXPECT_EQ(reply.content, "b\ne");
  EXPECT_EQ(reply.names.size(), 1u);
  reply = read_text(kThinking, "<think>never <tool_call> ends");
  EXPECT_EQ(reply.reasoning, "never <tool_call> ends");
  EXPECT_EQ(reply.content, "");
}

// Hard case 36: tokens end inside characters, in arguments too; one cut by the end is replaced once.
TEST(Reply, HalfCharactersInArguments) {
  const ReadReply reply =
      read_text(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"\U0001F994\u0449\u00EB\xED\x95");
  EXPECT_EQ(reply.arguments.at(0), "{\"a\": \"\U0001F994\u0449\u00EB\uFFFD");
}

TEST(Reply, MessagesOfHarmony) {
  constexpr std::string_view kFile = "chat/14_gptoss_harmony.jinja";
  ReadReply reply = read_text(
      kFile,
      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi {\"a\"}.<|return|>");
  EXPECT_EQ(reply.reasoning, "Hm.");
  EXPECT_EQ(reply.content, "Hi {\"a\"}.");
  reply = read_text(
      kFile,
      "<|channel|>analysis<|message|>to=functions.x<|end|><|start|>assistant<|channel|>commentary to=functions.f "
      "<|constrain|>json<|message|>{\"a\": \"<|end\"}<|call|>");
  EXPECT_EQ(reply.reasoning, "to=functions.x");
  EXPECT_EQ(reply.names, std::vector<std::string>{"f"});
  EXPECT_EQ(reply.arguments.at(0), "{\"a\": \"<|end\"}");
  EXPECT_EQ(reply.content, "");
  EXPECT_EQ(read_text(kFile, "No header at all.").content, "No header at all.");
  EXPECT_EQ(read_text(kFile, " to=functions.f<|message|>no arguments").content, "no arguments");
}

TEST(Reply, IdsOfNineWhereTheTemplateWantsThem) {
  const ReadReply reply =
      read_text("reply/mistral_call_id.jinja", "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[CALL_ID]abc123def[ARGS]{}");
  ASSERT_EQ(reply.ids.size(), 2u);
  EXPECT_EQ(reply.ids[0].size(), 9u);
  EXPECT_EQ(reply.ids[1], "abc123def");
}

// Deep nesting and long heads do not use the C stack or much time.
TEST(Reply, HostileText) {
  const std::string head = "<tool_call>{\"name\": \"f\", \"arguments\": ", deep(100000, '[');
  EXPECT_EQ(read_reply(format_of(kHermes), {"", head + deep}, {}).content.substr(0, 11), "<tool_call>");
  std::string openers;
  for (int i = 0; i < 20000; ++i) openers += "<tool_call>{\"x\": \"";
  EXPECT_EQ(read_reply(format_of(kHermes), {"", openers}, {}).content, openers);
  const ReadReply python =
      read_reply(format_of("reply/python_list.jinja"), {"", "<|tool_call_start|>[f(a=" + deep}, {});
  EXPECT_LE(python.names.size(), 1u);
}

// A text without escapes holds its own quote, and Python's lists stand beside it.
TEST(Reply, TextsWithoutEscapes) {
  const auto one = [](const std::string& arguments) {
    const ReadReply reply =
        read_text("reply/raw_python.jinja", "<|tool_call_start|>[f(" + arguments + "), g()]<|tool_call_end|>");
    EXPECT_EQ(reply.names, (std::vector<std::string>{"f", "g"})) << arguments;
    return reply.arguments.empty() ? "" : reply.arguments[0];
  };
  EXPECT_EQ(one("a='it's', b=1"), R"({"a": "it's", "b": 1})");
  EXPECT_EQ(one("a='say('x'), then 'y', so', b='\\n'"), R"({"a": "say('x'), then 'y', so", "b": "\\n"})");
  EXPECT_EQ(one("a='', b=['x', {'k': 'l\\'m'}], c=None"), R"({"a": "", "b": ["x", {"k": "l'm"}], "c": null})");
  EXPECT_EQ(one("a=\"as \\\"JSON\\\"\""), R"({"a": "as \"JSON\""})");
  const ReadReply cut = read_text("reply/raw_python.jinja", "<|tool_call_start|>[f(a='b', c='d'");
  EXPECT_EQ(cut.arguments, std::vector<std::string>{"{\"a\": \"b\""});
}

// Types of values inside come from the schema; without one a value is what it looks like.
TEST(Reply, NestedTags) {
  const auto tags = [](std::string text) {
    for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 4)) text.insert(at, "]~[");
    return text;
  };
  const auto read = [&](const std::string& name, const std::string& arguments) {
    return read_text("reply/nested_tags.jinja",
                     tags("<calls>\n<invoke name=\"" + name + "\">" + arguments + "</invoke>\n</calls>"));
  };
  const auto one = [&](const std::string& name, const std::string& arguments) {
    const ReadReply reply = read(name, arguments);
    return reply.arguments.size() == 1 ? reply.arguments[0] : "none: " + reply.content;
  };
  EXPECT_EQ(one("get_weather", "<days>5</days><places><item><at>5</at></item><item><at></at></item></places>"),
            R"({"days": 5, "places": [{"at": "5"}, {"at": ""}]})");
  EXPECT_EQ(one("get_weather", "<places></places>"), R"({"places": []})");
  EXPECT_EQ(one("other", "<a><item>5</item><item><item>x</item></item></a><b><c>true</c>\n<d></d></b>"),
            R"({"a": [5, ["x"]], "b": {"c": true, "d": ""}})");
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "<a>";
  EXPECT_LE(read("other", deep).names.size(), 1u);
  EXPECT_EQ(read("other", "<a><b>1</b>no tag</a>").arguments, std::vector<std::string>{"{\"a\": "});
}

TEST(Reply, MarkedTexts) {
  const auto one = [](const std::string& value) {
    const ReadReply reply = read_text("reply/cdata_params.jinja",
                                      "<function name=\"f\"><param name=\"a\">" + value + "</param></function>");
    return reply.arguments.size() == 1 ? reply.arguments[0] : "none";
  };
  EXPECT_EQ(one("<![CDATA[a]]b</param>]]>"), R"({"a": "a]]b</param>"})");
  EXPECT_EQ(one("<![CDATA[5]]>"), R"({"a": "5"})");
  EXPECT_EQ(one("5"), R"({"a": 5})");
  EXPECT_EQ(one("a < b"), R"({"a": "a < b"})");
}

// Thoughts, content and calls by recipient.
TEST(Reply, MessagesOfChannels) {
  constexpr std::string_view kFile = "reply/channels.jinja";
  const ReadReply reply = read_text(
      kFile,
      " to=self<|body|>Hm to=user.<|next|><|start|>assistant to=user<|body|>I look.<|next|><|start|>assistant "
      "to=f<|body|><x:calls>\n<x:invoke name=\"f\">\n</x:invoke>\n</x:calls>");
  EXPECT_EQ(reply.reasoning, "Hm to=user.");
  EXPECT_EQ(reply.content, "I look.");
  EXPECT_EQ(reply.names, std::vector<std::string>{"f"});
  EXPECT_EQ(read_text(kFile, "No header.").content, "No header.");
  EXPECT_EQ(read_text(kFile, " to=f<|body|>no call").content, "no call");
}

TEST(Reply, ControlTokensOfTheFormatAreKept) {
  const Tokenizer tokenizer = test::byte_tokenizer({"<tool_call>", "</tool_call>", "<other>"});
  const ReplyFormat format = format_of(kHermes);
  const std::vector<int32_t> kept = server::reply_tokens(format, tokenizer);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(tokenizer.token_bytes(kept[0]), "<tool_call>");
  EXPECT_EQ(tokenizer.token_bytes(kept[1]), "</tool_call>");
}

}  // namespace
}  // namespace tokamak

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
    const Answer prompt{
        "", std::string(format.messages == MessageFormat::none ? "" : "all" + format.calls->call[1].text) + text};
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

}  // namespace
}  // namespace tokamak

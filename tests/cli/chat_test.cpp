// run without a prompt, on a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/chat_model_helpers.h"
#include "cli/process_helpers.h"

namespace tokamak::test {
namespace {

using nlohmann::json;

// How an empty line being edited looks.
constexpr std::string_view kReady = "> \x1b[K", kContinues = "... \x1b[K";

// A chat that has been started and waits for its first message.
class Chat {
 public:
  explicit Chat(const std::vector<std::string>& more = {}, int64_t max_file_bytes = 0)
      : terminal(arguments(more), max_file_bytes) {
    EXPECT_TRUE(terminal.wait_for("/help lists")) << terminal.screen();
    expect(kReady);
  }

  void expect(std::string_view text) { EXPECT_TRUE(terminal.wait_for(text)) << text << " in\n" << terminal.screen(); }
  // A line that is worked on until the next prompt.
  void say(const std::string& line, std::string_view next = kReady) {
    terminal.type(line + "\r");
    expect("\n");
    expect(next);
  }
  // The messages so far.
  json messages() {
    const auto path = scratch_folder() / "messages.json";
    std::filesystem::remove(path);
    say("/save " + path.string());
    return json::parse(read_whole_file(path), nullptr, false);
  }

  Terminal terminal;

 private:
  static std::vector<std::string> arguments(const std::vector<std::string>& more) {
    std::vector<std::string> out = {"run", chat_model().string(), "--temp", "0", "-t", "1"};
    if (std::ranges::find(more, "-n") == more.end()) out.insert(out.end(), {"-n", "6"});
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
};

TEST(Chat, AnswersAndRemembers) {
  Chat chat;
  chat.say("hello");
  chat.terminal.type("/stats\r");
  chat.expect("23 prompt tokens at");
  chat.expect(kReady);
  chat.say("again");
  chat.terminal.type("/stats\r");
  // "<user>hello\n<assistant>" and the six tokens of the answer stay.
  chat.expect("(and 28 cached)");
  chat.expect(kReady);
  const json messages = chat.messages();
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[2]["content"], "again");
  EXPECT_EQ(messages[3]["role"], "assistant");
  EXPECT_EQ(messages[3]["content"].get<std::string>().size(), 6u);
  chat.terminal.type("\x04");
  EXPECT_EQ(chat.terminal.wait_for_end(), 0);
}

TEST(Chat, Commands) {
  Chat chat;
  chat.terminal.type("/help\r");
  chat.expect("/regen");
  chat.expect(kReady);
  chat.terminal.type("/sav x\r");
  chat.expect("did you mean /save?");
  chat.expect(kReady);
  chat.terminal.type("/regen\r");
  chat.expect("no answer to make again");
  chat.expect(kReady);
  chat.say("/system be brief");
  chat.say("hello");
  chat.say("/regen");
  const json messages = chat.messages();
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0]["content"], "be brief");
  EXPECT_EQ(messages[1]["content"], "hello");
  chat.say("/clear");
  EXPECT_EQ(chat.messages().size(), 1u);
  chat.terminal.type("/exit\r");
  EXPECT_EQ(chat.terminal.wait_for_end(), 0);
}

TEST(Chat, SeveralLinesMakeOneMessage) {
  Chat chat;
  chat.say("one\\", kContinues);
  chat.say("two");
  for (const char* begin : {"\"\"\"", "/multi"}) {
    chat.say(begin, kContinues);
    chat.say("a", kContinues);
    chat.say("", kContinues);
    chat.say("b", kContinues);
    chat.say("\"\"\"");
  }
  chat.say("\x1b[200~p\rq\x1b[201~");  // pasted
  const json messages = chat.messages();
  ASSERT_EQ(messages.size(), 8u) << messages.dump(2);
  EXPECT_EQ(messages[0]["content"], "one\ntwo");
  EXPECT_EQ(messages[2]["content"], "a\n\nb");
  EXPECT_EQ(messages[4]["content"], "a\n\nb");
  EXPECT_EQ(messages[6]["content"], "p\nq");
}

TEST(Chat, LinesCanBeEditedAndRecalled) {
  Chat chat;
  chat.say("hxllo\x1b[D\x1b[D\x1b[D\x7f\x65");      // cursor left, backspace, e
  chat.say("\x1b[A\x01O \x05!");                    // recall, Ctrl-A, Ctrl-E
  chat.say("w\xc3\xb6\x7f\xc3\xa9rld x\x17");       // backspace takes a whole character, Ctrl-W a word
  chat.say("gone\x15ok\x1b[A\x1b[A\x1b[B\x1b[B.");  // Ctrl-U; up and down come back to the new line
  const json messages = chat.messages();
  ASSERT_EQ(messages.size(), 8u) << messages.dump(2);
  EXPECT_EQ(messages[0]["content"], "hello");
  EXPECT_EQ(messages[2]["content"], "O hello!");
  EXPECT_EQ(messages[4]["content"], "w\xc3\xa9rld ");
  EXPECT_EQ(messages[6]["content"], "ok.");
}

TEST(Chat, InterruptStopsTheAnswerThenLeaves) {
  Chat chat({"-n", "-1", "-c", "300000"});  // an answer of many seconds
  chat.terminal.type("hello\r");
  chat.expect("hello");
  chat.expect("\n");
  for (int i = 0; i < 10; ++i) chat.terminal.wait_for_more();
  chat.terminal.type("\x03");
  chat.expect("[stopped");
  chat.expect(kReady);
  const json messages = chat.messages();
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_LT(messages[1]["content"].get<std::string>().size(), 250000u);
  chat.terminal.type("\x03");
  EXPECT_EQ(chat.terminal.wait_for_end(), 130);
}

TEST(Chat, InterruptDiscardsALineFirst) {
  Chat chat;
  chat.terminal.type("half a li\x03");
  chat.expect("half a li");
  chat.expect(kReady);
  chat.say("whole");
  EXPECT_EQ(chat.messages()[0]["content"], "whole");
}

TEST(Chat, FullDiskLeavesTheOldFile) {
  const auto folder = scratch_folder() / "full";
  std::filesystem::create_directories(folder);
  const auto path = folder / "kept.txt";
  write_whole_file(path, "what was here before");
  Chat chat({}, 16);
  chat.say("hello");
  chat.terminal.type("/save! " + path.string() + "\r");
  chat.expect("no space left");
  EXPECT_EQ(read_whole_file(path), "what was here before");
  chat.expect(kReady);
  chat.terminal.type("/save /no/such/folder/x\r");
  chat.expect("folder does not exist");
  chat.expect(kReady);
  chat.terminal.type("/exit\r");
  EXPECT_EQ(chat.terminal.wait_for_end(), 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(Chat, SaveKeepsWhatIsThere) {
  const auto path = scratch_folder() / "home" / "kept.txt";  // the program's home
  write_whole_file(path, "precious");
  Chat chat;
  chat.say("hello");
  chat.terminal.type("/save ~/kept.txt\r");
  chat.expect("the file exists (/save! ~/kept.txt replaces it)");
  chat.expect(kReady);
  EXPECT_EQ(read_whole_file(path), "precious");
  chat.say("/save! ~/kept.txt");
  EXPECT_THAT(read_whole_file(path), testing::StartsWith("## user\n\nhello\n"));
  chat.terminal.type("/help\r");
  chat.expect("/save! FILE");
  chat.expect(kReady);
}

TEST(Chat, EndOfInputEndsAMessageOfSeveralLines) {
  Chat chat;
  for (const char* begin : {"\"\"\"", "/multi", "x\\"}) {
    chat.say(begin, kContinues);
    if (*begin != 'x') chat.say("a", kContinues);
    chat.terminal.type("\x04");
    chat.expect("\n");
    chat.expect(kReady);
  }
  const json messages = chat.messages();
  ASSERT_EQ(messages.size(), 6u) << messages.dump(2);
  EXPECT_EQ(messages[0]["content"], "a");
  EXPECT_EQ(messages[2]["content"], "a");
  EXPECT_EQ(messages[4]["content"], "x\n");
}

TEST(Chat, InterruptDropsAMessageOfSeveralLines) {
  Chat chat;
  for (const char* begin : {"\"\"\"", "/multi", "x\\"}) {
    chat.say(begin, kContinues);
    chat.terminal.type("\x03");
    chat.expect("[dropped]");
    chat.expect(kReady);
  }
  EXPECT_EQ(chat.messages().size(), 0u);
}

TEST(Chat, ATruncatedModelEndsWithASentence) {
  const auto path = scratch_folder() / "shrinking.gguf";
  std::filesystem::copy_file(chat_model(), path, std::filesystem::copy_options::overwrite_existing);
  Terminal terminal({"run", path.string(), "--temp", "0", "-t", "1", "-n", "6"});
  ASSERT_TRUE(terminal.wait_for(kReady)) << terminal.screen();
  std::filesystem::resize_file(path, 4096);
  terminal.type("hello\r");
  EXPECT_TRUE(terminal.wait_for("a model file was truncated")) << terminal.screen();
  EXPECT_EQ(terminal.wait_for_end(), 4);
}

TEST(Chat, FullContextIsSaidAndTheChatGoesOn) {
  Chat chat({"-c", "64"});
  chat.say("12345678901234567890");
  chat.terminal.type("12345678901234567890\r");
  chat.expect("do not fit into the context of 64");
  chat.expect("/clear");
  chat.expect(kReady);
  chat.say("/clear");
  chat.say("hi");
  EXPECT_EQ(chat.messages().size(), 2u);
}

TEST(Chat, ThoughtsAreDimmed) {
  Chat chat({"--chat-template", "{{ messages[0].content }}<think>"});
  chat.terminal.type("hello\r");
  chat.expect("\x1b[2m");
  chat.expect("\x1b[0m");
  chat.expect(kReady);
}

}  // namespace
}  // namespace tokamak::test

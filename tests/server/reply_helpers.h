// Answers as templates write them, for tests of what reads and of what constrains them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "chat/reply_format.h"
#include "server/reply.h"
#include "tokenizer/tokenizer.h"

namespace tokamak::test {

// A template of tests/data, and what it can show.
struct ReplyFixture {
  std::string_view file;  // below tests/data
  std::string_view end;   // what ends an assistant's turn
  bool content = true, thoughts = false, two_calls = true;
};
std::vector<ReplyFixture> reply_fixtures();

ChatTemplate load_template(std::string_view file);

// An assistant's turn, cut into what the prompt ends with and what the model writes behind it.
struct Answer {
  std::string prompt, text;
};
Answer render_answer(const ChatTemplate& chat_template, const ReplyFixture& fixture, ChatMessage turn);

// Two tools: one with all sorts of parameters, one with one.
std::vector<Json> reply_tools();
ToolCall tricky_call();  // of the first
ToolCall plain_call();   // of the second

// Everything that one kind of delta brought.
struct ReadReply {
  std::string content, reasoning;
  std::vector<std::string> ids, names, arguments;
  bool operator==(const ReadReply&) const = default;
};
ReadReply read_reply(const ReplyFormat& format, const Answer& answer, const std::vector<size_t>& cuts,
                     bool wants_calls = true, int max_calls = 0);

// Bytes and the given control tokens.
Tokenizer byte_tokenizer(const std::vector<std::string>& control_tokens);

}  // namespace tokamak::test

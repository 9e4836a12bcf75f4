// Answers that consist of messages with headers: gpt-oss (harmony), functionary and Muse. Cuts the text of an answer
// into messages and says from their headers what they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/reply_format.h"
#include "engine/output/pattern_matcher.h"

namespace tokamak::server {

struct MessagePiece {
  enum class Kind : uint8_t { reasoning, content, call } kind;
  bool begins = false;  // a message begins; text is empty
  std::string name;     // kind call, where it begins
  std::string text;
};

// The same text gives the same pieces for any chunks, once neighbours are joined. Headers and end marks are dropped; a
// text that has no header is content.
class MessageSplitter {
 public:
  static constexpr size_t kMaxHeader = 4096;  // bytes; more are content

  explicit MessageSplitter(const ReplyFormat& format);  // messages != none; copied
  std::vector<MessagePiece> push(std::string_view text);
  std::vector<MessagePiece> finish();

 private:
  using Pieces = std::vector<MessagePiece>;
  void take_header(char byte, Pieces& pieces);
  void take_body(char byte, Pieces& pieces);
  bool may_be_header() const;
  void begin_message(Pieces& pieces);
  MessagePiece classify(std::string_view header) const;
  void emit(std::string_view text, Pieces& pieces) const;

  MessageFormat format_;
  std::string recipient_start_, content_recipient_, reasoning_recipient_, header_end_;
  PatternMatcher body_ends_;
  PatternMatcher::State state_ = PatternMatcher::kStart;
  bool in_body_ = false, is_first_ = true;
  std::string held_;  // of the header, or what may become an end mark of a body
  MessagePiece::Kind kind_ = MessagePiece::Kind::content;
};

}  // namespace tokamak::server

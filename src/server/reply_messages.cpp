#include "server/reply_messages.h"

#include "chat/call_parser.h"
#include "chat/format_texts.h"

namespace tokamak::server {

namespace {
std::vector<std::string> body_ends(const ReplyFormat& format) {
  if (format.messages == MessageFormat::harmony) return {"<|end|>", "<|return|>", "<|call|>", "<|start|>"};
  return {std::string(trim_space(format.calls->separator))};
}
// What stands behind the recipient; a lone line end counts as it is.
std::string header_end(const ReplyFormat& format) {
  if (format.messages == MessageFormat::harmony) return "<|message|>";
  const std::string_view core = trim_space(format.recipient_end);
  return core.empty() ? format.recipient_end : std::string(core);
}
}  // namespace

MessageSplitter::MessageSplitter(const ReplyFormat& format)
    : format_(format.messages),
      recipient_start_(trim_space(format.recipient_start)),
      content_recipient_(format.content_recipient),
      reasoning_recipient_(format.reasoning_recipient),
      header_end_(header_end(format)),
      body_ends_(body_ends(format)) {}

std::vector<MessagePiece> MessageSplitter::push(std::string_view text) {
  Pieces pieces;
  for (const char byte : text) in_body_ ? take_body(byte, pieces) : take_header(byte, pieces);
  // Only whole characters are handed on: end marks are ASCII, so that held bytes are too, or begin a character.
  return pieces;
}

std::vector<MessagePiece> MessageSplitter::finish() {
  Pieces pieces;
  if (!in_body_ && !trim_space(held_).empty() && !held_.starts_with('<')) begin_message(pieces);
  if (in_body_) emit(held_, pieces);
  held_.clear();
  return pieces;
}

void MessageSplitter::emit(std::string_view text, Pieces& pieces) const {
  if (text.empty()) return;
  if (pieces.empty() || pieces.back().begins || pieces.back().kind != kind_) pieces.push_back({.kind = kind_});
  pieces.back().text += text;
}

// Without its end mark: all of it is content.
void MessageSplitter::begin_message(Pieces& pieces) {
  kind_ = MessagePiece::Kind::content;
  in_body_ = true;
  state_ = PatternMatcher::kStart;
  pieces.push_back({.kind = kind_, .begins = true});
}

bool MessageSplitter::may_be_header() const {
  if (held_.size() > kMaxHeader) return false;
  const std::string_view header = trim_left(held_);
  if (format_ == MessageFormat::recipient) {
    const bool may_start = header.starts_with(recipient_start_) || recipient_start_.starts_with(header);
    if (is_first_ && !may_start) return false;
    return header.size() <= recipient_start_.size() + CallParser::kMaxName + header_end_.size();
  }
  for (const std::string_view start : {"<|", "to=", "assistant"})
    if (header.starts_with(start) || start.starts_with(header)) return true;
  return false;
}

void MessageSplitter::take_header(char byte, Pieces& pieces) {
  held_ += byte;
  if (held_.ends_with(header_end_)) {
    MessagePiece piece = classify(trim_space(std::string_view(held_).substr(0, held_.size() - header_end_.size())));
    held_.clear();
    kind_ = piece.kind;
    in_body_ = true;
    state_ = PatternMatcher::kStart;
    pieces.push_back(std::move(piece));
    return;
  }
  if (may_be_header()) return;
  begin_message(pieces);
  for (const char c : std::exchange(held_, {})) take_body(c, pieces);
}

void MessageSplitter::take_body(char byte, Pieces& pieces) {
  held_ += byte;
  state_ = body_ends_.step(state_, static_cast<uint8_t>(byte));
  const int match = body_ends_.match(state_);
  const size_t n_held = body_ends_.n_held(state_);
  emit(std::string_view(held_).substr(0, held_.size() - n_held), pieces);
  held_.erase(0, held_.size() - n_held);
  if (match == PatternMatcher::kNone) return;
  held_.clear();
  in_body_ = false;
  is_first_ = false;
}

MessagePiece MessageSplitter::classify(std::string_view header) const {
  using Kind = MessagePiece::Kind;
  if (format_ == MessageFormat::recipient) {
    if (header.starts_with(recipient_start_)) header = trim_space(header.substr(recipient_start_.size()));
    if (header == content_recipient_ || header.empty()) return {.kind = Kind::content, .begins = true};
    if (header == reasoning_recipient_) return {.kind = Kind::reasoning, .begins = true};
    return {.kind = Kind::call, .begins = true, .name = std::string(header)};
  }
  static constexpr std::string_view kRecipient = "to=functions.";
  if (const size_t at = header.find(kRecipient); at != std::string_view::npos) {
    std::string_view name = header.substr(at + kRecipient.size());
    name = name.substr(0, name.find_first_of(" <\n"));
    if (!name.empty()) return {.kind = Kind::call, .begins = true, .name = std::string(name)};
  }
  const bool is_thought = header.find("<|channel|>analysis") != std::string_view::npos;
  return {.kind = is_thought ? Kind::reasoning : Kind::content, .begins = true};
}

}  // namespace tokamak::server

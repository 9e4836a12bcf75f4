#include "server/reply.h"

#include <algorithm>

#include "base/check.h"
#include "chat/format_texts.h"
#include "server/context.h"
#include "server/reply_messages.h"

namespace tokamak::server {

namespace {
constexpr size_t kPieceBytes = 4096;  // bounds what is copied when a call turns out to be none

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// May an answer that begins with this byte be a call without markers?
bool may_begin_bare(const CallFormat& format, char c) {
  switch (format.syntax) {
    case CallSyntax::json:
      return c == '{' || c == '[';
    case CallSyntax::python:
      return c == '[' || (format.section_open.empty() && !is_space(c));
    default:
      return true;
  }
}

std::vector<OutputOptions::Marker> markers_of(const ReplyFormat& format) {
  std::vector<OutputOptions::Marker> markers;
  if (!format.calls || format.messages != MessageFormat::none) return markers;
  if (const std::string marker = format.calls->marker(); !marker.empty()) markers.push_back({marker, {}});
  if (!format.calls->optional_open.empty()) markers.push_back({format.calls->optional_open, {}});
  return markers;
}
// How the calls of message formats are handed to a CallParser: "call NAME|" and the body of the message.
constexpr std::string_view kCallHead = "call ", kNameEnd = "|";
CallFormat message_call(const ReplyFormat& format) {
  using Kind = CallPiece::Kind;
  CallFormat made{.syntax = CallSyntax::named_json,
                  .call = {{Kind::name, {}}, {Kind::text, ""}, {Kind::arguments, {}}}};
  if (format.calls && format.messages == MessageFormat::recipient) {
    made = *format.calls;
    made.call[1].text.erase(0, format.recipient_end.size());
    made.separator.clear();
  }
  made.call.insert(made.call.begin(), {Kind::text, std::string(kCallHead)});
  std::string behind_name(kNameEnd);
  behind_name += made.call[2].text;
  made.call[2].text = std::move(behind_name);
  return made;
}
}  // namespace

class ReplyParser::Impl {
 public:
  Impl(const ReplyFormat& format, bool wants_calls, int max_calls, const std::vector<Json>& tools)
      : format_(format), message_call_(message_call(format)), max_calls_(max_calls), types_(tools) {
    if (format.messages != MessageFormat::none) messages_.emplace(format);
    if (!wants_calls || !format.calls) return;
    wants_calls_ = true;
    if (messages_) return;
    OutputOptions options;
    set_reply_output(format_, true, {}, options);
    auto machine = OutputMachine::create(options);
    CHECK(machine.has_value());  // the format's own tags
    fresh_ = std::move(*machine);
    markers_ = std::move(options.markers);
    is_bare_ = format.calls->marker().empty();
  }

  std::vector<ReplyDelta> push(const std::vector<OutputEvent>& events) {
    for (const OutputEvent& event : events) {
      if (messages_)
        take_messages(messages_->push(event.text));
      else if (in_bare_call_)  // of which the engine's machine knows nothing: tags in it are part of its text
        take_pieces(event.text);
      else
        take(event);
    }
    return std::exchange(deltas_, {});
  }
  std::vector<ReplyDelta> finish() {
    if (messages_) {
      take_messages(messages_->finish());
      end_message();
    }
    while (parser_) {
      std::vector<CallEvent> calls;
      parser_->finish(calls);
      take_calls(calls);
      end_calls();
    }
    if (rescan_)
      for (const OutputEvent& event : std::exchange(rescan_, {})->finish()) take(event);
    if (!after_call_) emit(ReplyDelta::Kind::content, held_space_);
    held_space_.clear();
    return std::exchange(deltas_, {});
  }
  int n_calls() const { return n_calls_; }

 private:
  void take(const OutputEvent& event) {
    switch (event.kind) {
      case OutputKind::reasoning:
        stop_attempt();
        emit(ReplyDelta::Kind::reasoning, event.text);
        return;
      case OutputKind::tag:
        stop_attempt();
        if (const auto marker = marker_at_end(event.text)) begin_calls(*marker);
        return;
      case OutputKind::text:
        take_text(event.text);
        return;
      case OutputKind::payload:
        take_pieces(event.text);
    }
  }
  void take_pieces(std::string_view text) {
    while (!text.empty()) {
      size_t n = std::min(kPieceBytes, text.size());
      while (n < text.size() && (text[n] & 0xC0) == 0x80) ++n;  // whole characters
      take_payload(text.substr(0, n));
      text.remove_prefix(n);
    }
  }

  // --- formats of messages ---
  void take_messages(const std::vector<MessagePiece>& pieces) {
    for (const MessagePiece& piece : pieces) {
      if (piece.begins) {
        end_message();
        if (piece.kind == MessagePiece::Kind::content && has_content_) held_space_ += "\n\n";
        if (piece.kind == MessagePiece::Kind::call && wants_calls_) {
          parser_.emplace(message_call_, types_);
          message_head_ = std::string(kCallHead) + piece.name + std::string(kNameEnd);
          take_message_call(message_head_);
        }
      } else if (piece.kind == MessagePiece::Kind::reasoning) {
        emit(ReplyDelta::Kind::reasoning, piece.text);
      } else if (parser_) {
        take_message_call(piece.text);
      } else {
        has_content_ = true;
        add_content(piece.text);
      }
    }
  }
  void take_message_call(std::string_view text) {
    std::vector<CallEvent> calls;
    parser_->push(text, calls);
    take_calls(calls);
  }
  // What was no call is content.
  void end_message() {
    if (!parser_) return;
    const int n_before = n_calls_;
    std::vector<CallEvent> calls;
    parser_->finish(calls);
    take_calls(calls);
    std::string text = std::string(parser_->raw()) + std::string(parser_->rest());
    parser_.reset();
    if (skipping_ || trim_space(text).empty()) return;
    if (n_before == n_calls_ && text.starts_with(message_head_)) text.erase(0, message_head_.size());
    has_content_ = true;
    add_content(text);
  }

  // --- markers ---
  std::optional<std::string> marker_at_end(std::string_view tags) const {
    for (const OutputOptions::Marker& marker : markers_)
      if (wants_calls_ && tags.ends_with(marker.open)) return marker.open;
    return std::nullopt;
  }

  void take_text(std::string_view text) {
    if (parser_) return take_payload(text);  // without markers
    if (!wants_calls_) return emit(ReplyDelta::Kind::content, text);
    if (is_bare_ && !has_content_) {
      size_t n = 0;
      while (n < text.size() && is_space(text[n])) ++n;
      held_space_ += text.substr(0, n);
      text.remove_prefix(n);
      if (text.empty()) return;
      has_content_ = true;
      if (may_begin_bare(*format_.calls, text[0])) {
        begin_calls({});
        return take_payload(text);
      }
    }
    add_content(text);
  }

  // White space at the end waits for what follows it.
  void add_content(std::string_view text) {
    size_t n = text.size();
    while (n > 0 && is_space(text[n - 1])) --n;
    if (n > 0) {
      if (after_call_ && has_shown_content_ && held_space_.empty() && !is_space(text[0]))
        held_space_ = "\n";  // it went with the call
      has_shown_content_ = true;
      emit(ReplyDelta::Kind::content, held_space_);
      held_space_.clear();
      emit(ReplyDelta::Kind::content, text.substr(0, n));
      after_call_ = false;
    }
    held_space_ += text.substr(n);
  }

  void begin_calls(const std::string& marker) {
    parser_.emplace(*format_.calls, types_);
    is_attempt_ = marker.empty();
    has_content_ = true;
    take_payload(marker);
  }
  // A tag ends the attempt to read a call without markers.
  void stop_attempt() {
    if (!parser_ || !is_attempt_) return;
    std::vector<CallEvent> calls;
    parser_->finish(calls);
    take_calls(calls);
    end_calls();
  }

  void take_payload(std::string_view text) {
    if (parser_) {
      std::vector<CallEvent> calls;
      parser_->push(text, calls);
      take_calls(calls);
      if (parser_->done()) end_calls();
      return;
    }
    if (!rescan_) return add_content(text);
    // The machine stays in its payload from the next marker on: end_calls() puts a new one in its place.
    for (const OutputEvent& event : rescan_->push(text)) take(event);
  }

  // What the parser did not take is looked through for further markers.
  void end_calls() {
    const std::string raw(parser_->raw()), rest(parser_->rest());
    parser_.reset();
    skipping_ = false;
    add_content(raw);
    if (std::exchange(is_attempt_, false)) return add_content(rest);  // the engine's machine has looked through it
    rescan_ = fresh_;
    if (!rest.empty()) take_payload(rest);
  }

  void take_calls(const std::vector<CallEvent>& events) {
    for (const CallEvent& event : events) {
      if (event.begins) {
        skipping_ = max_calls_ > 0 && n_calls_ >= max_calls_;
        if (skipping_) continue;
        held_space_.clear();
        after_call_ = true;
        if (std::exchange(is_attempt_, false)) in_bare_call_ = true;
        deltas_.push_back({.kind = ReplyDelta::Kind::call,
                           .call = n_calls_++,
                           .id = id_for(event.id),
                           .name = event.name,
                           .text = {}});
      } else if (!skipping_) {
        emit(ReplyDelta::Kind::arguments, event.text);
      }
    }
  }

  std::string id_for(const std::string& written) const {
    const bool is_short =
        written.size() == 9 && std::all_of(written.begin(), written.end(), [](unsigned char c) { return isalnum(c); });
    if (format_.calls->short_ids) return is_short ? written : new_id("").substr(0, 9);
    return written.empty() ? new_id("call_") : written;
  }

  void emit(ReplyDelta::Kind kind, std::string_view text) {
    if (text.empty()) return;
    const int call = kind == ReplyDelta::Kind::arguments ? n_calls_ - 1 : -1;
    if (!deltas_.empty() && deltas_.back().kind == kind && deltas_.back().call == call)
      deltas_.back().text += text;
    else
      deltas_.push_back({.kind = kind, .call = call, .id = {}, .name = {}, .text = std::string(text)});
  }

  const ReplyFormat format_;  // parsers refer to it
  const CallFormat message_call_;
  std::string message_head_;  // of the call under way
  const int max_calls_;
  const ParameterTypes types_;
  bool wants_calls_ = false, is_bare_ = false;
  std::vector<OutputOptions::Marker> markers_;
  std::optional<OutputMachine> fresh_, rescan_;  // rescan_: for text behind the first call
  std::optional<MessageSplitter> messages_;      // formats of messages have nothing to do with the two
  std::optional<CallParser> parser_;             // a call may be under way
  std::string held_space_;
  bool has_content_ = false, has_shown_content_ = false, after_call_ = false, skipping_ = false;
  bool is_attempt_ = false;    // parser_ reads what may be a call without markers
  bool in_bare_call_ = false;  // it was one: all further text is ours
  int n_calls_ = 0;
  std::vector<ReplyDelta> deltas_;
};

ReplyParser::ReplyParser(const ReplyFormat& format, bool wants_calls, int max_calls, const std::vector<Json>& tools)
    : impl_(std::make_unique<Impl>(format, wants_calls, max_calls, tools)) {}
ReplyParser::~ReplyParser() = default;
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;
std::vector<ReplyDelta> ReplyParser::push(const std::vector<OutputEvent>& events) { return impl_->push(events); }
std::vector<ReplyDelta> ReplyParser::finish() { return impl_->finish(); }
int ReplyParser::n_calls() const { return impl_->n_calls(); }

void set_reply_output(const ReplyFormat& format, bool wants_calls, std::string_view prompt, OutputOptions& output) {
  output.reasoning_start = format.reasoning_start;
  output.reasoning_end = format.reasoning_end;
  while (!prompt.empty() && is_space(prompt.back())) prompt.remove_suffix(1);
  output.starts_in_reasoning = !format.reasoning_start.empty() && prompt.ends_with(format.reasoning_start);
  output.markers = wants_calls ? markers_of(format) : std::vector<OutputOptions::Marker>{};
}

std::vector<int32_t> reply_tokens(const ReplyFormat& format, const Tokenizer& tokenizer) {
  std::string all = format.reasoning_start + '\0' + format.reasoning_end + '\0';
  if (format.calls) {
    const CallFormat& c = *format.calls;
    for (const std::string* text :
         {&c.section_open, &c.separator, &c.section_close, &c.optional_open, &c.parameter_open, &c.parameter_middle,
          &c.json_middle, &c.parameter_close, &c.parameter_separator, &c.quote, &c.text_open, &c.text_close})
      all += *text + '\0';
    for (const CallPiece& piece : c.call) all += piece.text + '\0';
  }
  if (format.messages == MessageFormat::harmony)
    all += "<|start|>assistant<|channel|>commentary<|constrain|>json<|message|><|end|>";
  std::vector<int32_t> out;
  for (int32_t id = 0; id < tokenizer.n_vocab(); ++id) {
    if (tokenizer.type(id) != TokenType::control || tokenizer.is_eog(id)) continue;
    const std::string text = tokenizer.token_bytes(id);
    if (!text.empty() && all.find(text) != std::string::npos) out.push_back(id);
  }
  return out;
}

}  // namespace tokamak::server

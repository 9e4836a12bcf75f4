#include "chat/call_reader.h"

#include "chat/format_texts.h"

namespace tokamak {

namespace {
constexpr int kEnd = CallInput::kEnd;

bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(int c) { return c >= '0' && c <= '9'; }
// The white space that text ends with.
std::string_view tail_space(std::string_view text) {
  size_t n = text.size();
  while (n > 0 && is_space(text[n - 1])) --n;
  return text.substr(n);
}

// "functions.get_time:0" -> "get_time"
std::string name_in_id(std::string_view id) {
  if (id.starts_with("functions.")) id.remove_prefix(10);
  const size_t colon = id.rfind(':');
  if (colon != std::string_view::npos && colon + 1 < id.size() &&
      id.find_first_not_of("0123456789", colon + 1) == std::string_view::npos)
    id = id.substr(0, colon);
  return std::string(id);
}
}  // namespace

CallReader::CallReader(const CallFormat& format, const ParameterTypes& types) : format_(format), types_(types) {
  task_ = section();
  task_.start();
}

void CallReader::push(std::string_view text, std::vector<CallEvent>& events) {
  events_ = &events;
  if (done())
    rest_ += text;
  else
    in_.append(text);
  settle();
}

void CallReader::finish(std::vector<CallEvent>& events) {
  events_ = &events;
  if (!done()) in_.end();
  settle();
}

void CallReader::settle() {
  events_ = nullptr;
  if (!done() || settled_) return;
  settled_ = true;
  if (has_begun_) {  // what is not in its arguments is handed back, unless the text just ended
    if (!in_.has_ended()) rest_ += in_.behind_mark();
  } else if (n_calls_ > 0) {  // behind a call
    rest_ += in_.all();
  } else {  // what was looked at stays text, so that its marker is not taken for a call again
    in_.go_to_furthest();
    while (!in_.unread().empty() && (in_.unread()[0] & 0xC0) == 0x80) in_.skip();  // not inside a character
    raw_ = in_.read();
    rest_ += in_.unread();
  }
}

void CallReader::begin() {
  if (format_.id_is_name) name_ = name_in_id(id_);
  events_->push_back({.begins = true, .id = id_, .name = name_, .text = {}});
  has_begun_ = true;
  in_.drop();
  in_.mark();
}

void CallReader::add(std::string_view text) {
  if (text.empty()) return;
  if (events_->empty() || events_->back().begins)
    events_->push_back({.begins = false, .id = {}, .name = {}, .text = std::string(text)});
  else
    events_->back().text += text;
}

void CallReader::skip() {
  in_.skip();
  if (has_begun_ && in_.at() > 4096) in_.drop();
}

// --- pieces of text ---

CallReader::Task CallReader::space() {
  while (true) {
    const int c = co_await in_.peek();
    if (!is_space(c)) co_return true;
    in_.skip();
    if (in_.at() > CallParser::kMaxHeld) co_return false;
  }
}

// Exactly this text; otherwise nothing is read.
CallReader::Task CallReader::exactly(std::string_view text) {
  const size_t start = in_.at();
  for (const char wanted : text) {
    const int c = co_await in_.peek();
    if (c != static_cast<uint8_t>(wanted)) {
      in_.go_back(start);
      co_return false;
    }
    in_.skip();
  }
  co_return true;
}

// This text with any white space in front of it and where it has some itself; otherwise nothing is read. White space
// behind it is read too; in front of a parameter's text only as far as this text has it.
CallReader::Task CallReader::literal(std::string_view text, bool before_text) {
  const size_t start = in_.at();
  bool ok = co_await space();
  const std::string_view core = trim_space(text);
  for (size_t i = 0; ok && i < core.size(); ++i) {
    if (is_space(core[i])) {
      ok = co_await space();
      continue;
    }
    const int c = co_await in_.peek();
    ok = c == static_cast<uint8_t>(core[i]);
    if (ok) in_.skip();
  }
  if (!ok) {
    in_.go_back(start);
    co_return false;
  }
  if (before_text)
    (void)co_await exactly(tail_space(text));
  else
    ok = co_await space();
  co_return ok;
}

CallReader::Task CallReader::is_next(std::string_view text) {
  const size_t start = in_.at();
  const bool found = co_await literal(text);
  in_.go_back(start);
  co_return found;
}

CallReader::Task CallReader::digits() {
  while (true) {
    const int c = co_await in_.peek();
    if (!is_digit(c)) co_return true;
    in_.skip();
    if (in_.at() > CallParser::kMaxHeld) co_return false;
  }
}

// A name or id: up to the first byte that cannot be part of one.
CallReader::Text CallReader::word(std::string_view stops) {
  std::string out;
  while (true) {
    const int c = co_await in_.peek();
    if (c == kEnd || c <= ' ' || stops.find(static_cast<char>(c)) != std::string_view::npos) break;
    if (out.size() == CallParser::kMaxName) co_return std::nullopt;
    out += static_cast<char>(c);
    in_.skip();
  }
  if (out.empty()) co_return std::nullopt;
  co_return out;
}

// --- calls ---

CallReader::Task CallReader::section() {
  is_bare_ = format_.marker().empty();
  if (!format_.optional_open.empty()) {
    const bool opened = co_await literal(format_.optional_open);
    if (opened) is_bare_ = false;
  }
  const bool is_open = co_await literal(format_.section_open);
  if (!is_open) co_return false;
  while (true) {
    const bool is_call = co_await one_call();
    if (!is_call) co_return false;
    in_.drop();
    ++n_calls_;
    has_begun_ = false;
    const bool more = co_await goes_on();
    if (!more) break;
  }
  if (!format_.turn_end.empty()) (void)co_await literal(format_.turn_end);
  in_.drop();
  co_return true;
}

// Behind a call: does another one follow in this section?
CallReader::Task CallReader::goes_on() {
  const bool has_section = !trim_space(format_.section_open).empty() || !trim_space(format_.section_close).empty();
  if (has_section) {
    const bool closed = co_await closes_section();
    if (closed) co_return false;
  }
  if (!trim_space(format_.separator).empty()) co_return co_await literal(format_.separator);
  if (!has_section && !is_bare_) co_return false;
  const bool ok = co_await space();
  if (!ok) co_return false;
  const int c = co_await in_.peek();
  co_return c != kEnd;
}

// The close up to its first marker; what follows in the template may be an end token, which is no text.
CallReader::Task CallReader::closes_section() {
  const std::string_view close = format_.section_close;
  if (trim_space(close).empty()) co_return false;
  size_t n_needed = 0;
  for (const std::string_view atom : format_atoms(close)) {
    n_needed += atom.size();
    if (is_marker_atom(atom)) break;
  }
  const bool closed = co_await literal(close.substr(0, n_needed));
  if (!closed) co_return false;
  const auto others = format_atoms(close.substr(n_needed));
  for (const std::string_view atom : others) {
    const bool found = co_await literal(atom);
    if (!found) break;
  }
  co_return true;
}

CallReader::Task CallReader::one_call() {
  name_.clear();
  id_.clear();
  waiting_arguments_.clear();
  has_begun_ = false;
  if (format_.syntax == CallSyntax::json) co_return co_await whole_json_call();
  const auto& pieces = format_.call;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool ok = co_await one_piece(i);
    if (ok) continue;
    if (pieces[i].kind != CallPiece::Kind::text) co_return false;
    // What ends a call, and an id with its marker, may be missing.
    if (i + 1 == pieces.size() && has_begun_) continue;
    const bool before_id = i + 2 < pieces.size() && pieces[i + 1].kind == CallPiece::Kind::id;
    if (!before_id || has_begun_ || name_.empty()) co_return false;
    ++i;
  }
  co_return has_begun_;
}

CallReader::Task CallReader::one_piece(size_t piece_idx) {
  const CallPiece& piece = format_.call[piece_idx];
  switch (piece.kind) {
    case CallPiece::Kind::text:
      co_return co_await literal(piece.text);
    case CallPiece::Kind::index:
      co_return co_await digits();
    case CallPiece::Kind::arguments:
      co_return co_await arguments();
    case CallPiece::Kind::name:
    case CallPiece::Kind::id:
      break;
  }
  auto text = co_await word("\"'<>=(){}[]`|,");
  if (!text) co_return false;
  (piece.kind == CallPiece::Kind::name ? name_ : id_) = std::move(*text);
  co_return knows_name();
}

// Without markers a call is told from content by the name of a tool.
bool CallReader::knows_name() const {
  return !is_bare_ || name_.empty() || !types_.has_tools() || types_.has_tool(name_);
}

CallReader::Task CallReader::arguments() {
  switch (format_.syntax) {
    case CallSyntax::json:
    case CallSyntax::named_json:
      co_return co_await json_arguments();
    case CallSyntax::parameters:
      co_return co_await parameters();
    case CallSyntax::python:
      co_return co_await assignments('=', ')');
    case CallSyntax::loose:
      co_return co_await assignments(':', '}');
  }
  co_return false;
}

}  // namespace tokamak

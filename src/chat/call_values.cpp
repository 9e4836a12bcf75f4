// Arguments that are no JSON: parameters between markers, Python's keyword arguments, objects with bare keys.
#include "chat/call_reader.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/format_texts.h"

namespace tokamak {

namespace {
constexpr int kEnd = CallInput::kEnd;
constexpr int kMaxNesting = 64;
constexpr size_t kMaxParameter = CallParser::kMaxParameter;

std::string_view head_space(std::string_view text) { return text.substr(0, text.size() - trim_left(text).size()); }

int hex_digit(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// JSON of a list or dict as Python prints it; empty if it is none.
std::string python_json(std::string_view text) {
  static const CallFormat kCall{.syntax = CallSyntax::python,
                                .call = {{CallPiece::Kind::name, {}},
                                         {CallPiece::Kind::text, "("},
                                         {CallPiece::Kind::arguments, {}},
                                         {CallPiece::Kind::text, ")"}}};
  static const ParameterTypes kNoTypes;
  if (!text.starts_with('[') && !text.starts_with('{')) return {};
  CallParser parser(kCall, kNoTypes);
  std::vector<CallEvent> events;
  parser.push("f(v=", events);
  parser.push(text, events);
  parser.push(")", events);
  parser.finish(events);
  static constexpr std::string_view kHead = "{\"v\": ";
  std::string out;
  for (const CallEvent& event : events) out += event.text;
  const bool is_whole = parser.rest().empty() && parser.raw().empty() && is_json(out) && out.starts_with(kHead);
  return is_whole ? out.substr(kHead.size(), out.size() - kHead.size() - 1) : std::string();
}

}  // namespace

std::string bare_value(std::string_view text, bool is_value) {
  const std::string_view core = trim_space(text);
  if (is_json(core) && (is_value || !core.starts_with('"'))) return std::string(core);
  if (core == "True" || core == "False") return core == "True" ? "true" : "false";
  if (core == "None") return "null";
  if (std::string python = python_json(core); !python.empty()) return python;
  return json_text(text);
}

// --- parameters between markers ---

CallReader::Task CallReader::parameters() {
  std::string_view tail;
  if (format_.call.back().kind == CallPiece::Kind::text) tail = trim_space(format_.call.back().text);
  const std::string_view separator = trim_space(format_.parameter_separator);
  bool is_first = true;
  while (true) {
    if (!is_first && !separator.empty()) (void)co_await literal(separator);
    if (!tail.empty()) {  // it may look like the opening of a parameter
      const bool is_over = co_await is_next(tail);
      if (is_over) break;
    }
    const bool is_open = co_await literal(format_.parameter_open);
    if (!is_open) break;
    const auto key = co_await word("\"'<>=:(){}");
    if (!key) co_return false;
    const bool ok = co_await parameter(*key, is_first);
    if (!ok) co_return false;
    is_first = false;
  }
  bool is_whole = tail.empty();
  if (!is_whole) is_whole = co_await is_next(tail);
  if (is_first) {  // a call without parameters must at least end
    if (!is_whole) co_return false;
    begin();
    add("{");
  }
  const int c = co_await in_.peek();
  if (is_whole || c != kEnd) add("}");
  co_return true;
}

CallReader::Task CallReader::parameter(std::string_view key, bool is_first) {
  bool is_text = false, is_value = false;
  const bool ok = co_await parameter_middle(key, is_text, is_value);
  if (!ok) co_return false;
  if (is_first) begin();
  add(is_first ? "{" : ", ");
  add(json_text(key) + ": ");
  const std::string close = parameter_close(format_, key);
  if (!format_.text_open.empty() && !is_value) {
    const bool is_marked = co_await exactly(format_.text_open);
    if (is_marked) co_return co_await parameter_value(format_.text_close + close, true, false);
  }
  Path path{std::string(key)};
  const ParameterPlace place = types_.at(name_, path);
  const bool is_container = co_await begins_container(close, place);
  if (!is_container) co_return co_await parameter_value(close, is_text, is_value);
  std::string out;
  const bool is_whole = co_await container(out, close, path, place);
  if (is_whole) {
    add(out);
    in_.mark();
  }
  co_return is_whole;
}

CallReader::Task CallReader::parameter_middle(std::string_view key, bool& is_text, bool& is_value) {
  const ParameterType type = types_.of(name_, key);
  is_text = type == ParameterType::text;
  is_value = type == ParameterType::value;
  bool found = co_await literal(format_.parameter_middle, true);
  if (found) {
    if (!format_.json_middle.empty()) is_text = true;
    co_return true;
  }
  if (format_.json_middle.empty()) co_return false;
  found = co_await literal(format_.json_middle, true);
  is_text = false;
  is_value = true;
  co_return found;
}

// Up to the closing marker.
CallReader::Task CallReader::parameter_value(std::string_view end, bool is_text, bool is_value) {
  const std::string_view close = trim_space(end), lead = head_space(end);
  const size_t n_hold = close.size() + lead.size();
  std::string held;
  if (is_text) add("\"");
  while (!held.ends_with(close)) {
    const int c = co_await in_.peek();
    if (c == kEnd || held.size() > kMaxParameter) {
      add_cut_value(held, end, is_text);
      in_.mark();
      co_return false;
    }
    held += static_cast<char>(c);
    skip();
    if (!is_text || held.size() < n_hold + 4) continue;
    size_t n = held.size() - n_hold;
    n -= incomplete_utf8_suffix(std::string_view(held).substr(0, n));
    std::string escaped;
    append_json_text(escaped, std::string_view(held).substr(0, n));
    add(escaped);
    held.erase(0, n);
  }
  held.resize(held.size() - close.size());
  if (held.ends_with(lead)) held.resize(held.size() - lead.size());
  if (is_text) {
    std::string escaped;
    append_json_text(escaped, held);
    add(escaped + '"');
  } else {
    add(bare_value(held, is_value));
  }
  in_.mark();
  co_return true;
}

// The text ended before its closing marker, perhaps within it.
void CallReader::add_cut_value(std::string_view held, std::string_view close, bool is_text) {
  for (size_t n = std::min(close.size(), held.size()); n > 0; --n)
    if (held.ends_with(close.substr(0, n))) {
      held.remove_suffix(n);
      break;
    }
  if (!is_text && is_json(trim_space(held))) return add(trim_space(held));
  std::string text = is_text ? "" : "\"";
  append_json_text(text, held);
  add(text);
}

// --- values of Python, or with bare keys ---

// key=value, key=value or key:value, key:value up to the closing bracket.
CallReader::Task CallReader::assignments(char assign, char close) {
  bool is_first = true;
  while (true) {
    bool ok = co_await space();
    if (!ok) co_return false;
    const int c = co_await in_.peek();
    if (c == close) break;
    ok = co_await assignment(assign, is_first);
    if (!ok) co_return false;
    is_first = false;
    ok = co_await item_end(close);
    if (!ok) co_return false;
  }
  if (is_first) {
    begin();
    add("{");
  }
  add("}");
  co_return true;
}

CallReader::Task CallReader::assignment(char assign, bool is_first) {
  const auto key = co_await loose_key(assign);
  if (!key) co_return false;
  const char sign[] = {assign, '\0'};
  bool ok = co_await literal(sign);
  if (!ok) co_return false;
  if (is_first) begin();
  std::string text = (is_first ? "{" : ", ") + json_text(*key) + ": ";
  bool is_raw = false;
  if (!format_.raw_quote.empty()) is_raw = co_await exactly(format_.raw_quote);
  if (is_raw) {
    const auto raw = co_await raw_string();
    if (!raw) co_return false;
    text += json_text(*raw);
  } else {
    ok = co_await value(text, 0);
  }
  if (ok) {
    add(text);
    in_.mark();
  }
  co_return ok;
}

// Behind an item: a comma, which is read, or the closing bracket, which is not.
CallReader::Task CallReader::item_end(char close) {
  const bool ok = co_await space();
  if (!ok) co_return false;
  const int c = co_await in_.peek();
  if (c == ',') skip();
  co_return c == ',' || c == close;
}

CallReader::Text CallReader::loose_key(char assign) {
  if (!format_.quote.empty()) {
    const bool is_quoted = co_await exactly(format_.quote);
    if (is_quoted) co_return co_await quoted();
  }
  const int c = co_await in_.peek();
  if (c == '"') co_return co_await json_string(CallParser::kMaxName);
  if (c == '\'') co_return co_await python_string();
  const std::string stops = std::string("=:,(){}[]\"'") + assign;
  co_return co_await word(stops);
}

// Behind the opening quote of the format, up to the closing one.
CallReader::Text CallReader::quoted() {
  std::string out;
  while (!out.ends_with(format_.quote)) {
    const int c = co_await in_.peek();
    if (c == kEnd || out.size() > kMaxParameter) co_return std::nullopt;
    out += static_cast<char>(c);
    skip();
  }
  out.resize(out.size() - format_.quote.size());
  co_return out;
}

CallReader::Task CallReader::value(std::string& out, int depth) {
  if (depth > kMaxNesting || out.size() > kMaxParameter) co_return false;
  bool is_quoted = false;
  if (!format_.quote.empty()) is_quoted = co_await exactly(format_.quote);
  const int c = co_await in_.peek();
  std::optional<std::string> text;
  if (is_quoted)
    text = co_await quoted();
  else if (c == '"' || c == '\'')
    text = co_await python_string();
  else if (c == '[' || c == '(')
    co_return co_await list(out, c == '[' ? ']' : ')', depth);
  else if (c == '{')
    co_return co_await dict(out, depth);
  if (text) {
    out += json_text(*text);
    co_return true;
  }
  if (is_quoted || c == '"' || c == '\'') co_return false;
  text = co_await word(",)]}(){[:=\"'");
  if (!text) co_return false;
  if (*text == "True" || *text == "False" || *text == "None")
    text = *text == "None" ? "null" : *text == "True" ? "true" : "false";
  out += *text;
  co_return is_json(*text);
}

CallReader::Task CallReader::list(std::string& out, char close, int depth) {
  skip();
  out += '[';
  for (bool is_first = true;; is_first = false) {
    bool ok = co_await space();
    if (!ok) co_return false;
    const int c = co_await in_.peek();
    if (c == close) break;
    if (!is_first) out += ", ";
    ok = co_await value(out, depth + 1);
    if (!ok) co_return false;
    ok = co_await item_end(close);
    if (!ok) co_return false;
  }
  skip();
  out += ']';
  co_return true;
}

CallReader::Task CallReader::dict(std::string& out, int depth) {
  skip();
  out += '{';
  for (bool is_first = true;; is_first = false) {
    bool ok = co_await space();
    if (!ok) co_return false;
    const int c = co_await in_.peek();
    if (c == '}') break;
    const auto key = co_await loose_key(':');
    if (!key) co_return false;
    ok = co_await literal(":");
    if (!ok) co_return false;
    out += (is_first ? "" : ", ") + json_text(*key) + ": ";
    ok = co_await value(out, depth + 1);
    if (!ok) co_return false;
    ok = co_await item_end('}');
    if (!ok) co_return false;
  }
  skip();
  out += '}';
  co_return true;
}

// 'text' or "text" with Python's escapes.
CallReader::Text CallReader::python_string() {
  const int quote = co_await in_.peek();
  skip();
  std::string out;
  while (true) {
    const int c = co_await in_.peek();
    if (c == kEnd || out.size() > kMaxParameter) co_return std::nullopt;
    skip();
    if (c == quote) co_return out;
    if (c != '\\') {
      out += static_cast<char>(c);
      continue;
    }
    const auto text = co_await escape();
    if (!text) co_return std::nullopt;
    out += *text;
  }
}

// Behind a backslash.
CallReader::Text CallReader::escape() {
  static constexpr std::string_view kLetters = "nrtbf\\'\"/", kMeaning = "\n\r\t\b\f\\'\"/";
  const int letter = co_await in_.peek();
  if (letter == kEnd) co_return std::nullopt;
  skip();
  const char c = static_cast<char>(letter);
  if (const size_t at = kLetters.find(c); at != std::string_view::npos) co_return std::string(1, kMeaning[at]);
  if (c != 'u' && c != 'x') co_return std::string("\\") + c;  // as Python keeps it
  char32_t code = 0;
  for (int i = 0; i < (c == 'u' ? 4 : 2); ++i) {
    const int byte = co_await in_.peek();
    const int digit = hex_digit(byte);
    if (digit < 0) co_return std::nullopt;
    code = code * 16 + static_cast<char32_t>(digit);
    skip();
  }
  std::string out;
  append_utf8(out, code >= 0xD800 && code <= 0xDFFF ? U'\uFFFD' : code);
  co_return out;
}

}  // namespace tokamak

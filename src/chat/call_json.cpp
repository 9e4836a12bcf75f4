// Calls and arguments in JSON.
#include "chat/call_reader.h"
#include "chat/format_texts.h"
#include "chat/json_scanner.h"

namespace tokamak {

namespace {
constexpr int kEnd = CallInput::kEnd;
using Step = JsonScanner::Step;
}  // namespace

bool is_json(std::string_view text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const Step step = scanner.feed(text[i]);
    if (step == Step::done) return i + 1 == text.size();
    if (step != Step::more) return false;
  }
  return scanner.is_whole_number();
}

void append_json_text(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  static constexpr std::string_view kShort = "\"\\\n\r\t", kLetters = "\"\\nrt";
  for (const char c : text) {
    if (const size_t at = kShort.find(c); at != std::string_view::npos)
      (out += '\\') += kLetters[at];
    else if (static_cast<uint8_t>(c) < 0x20)
      ((out += "\\u00") += kHex[c >> 4]) += kHex[c & 15];
    else
      out += c;
  }
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  append_json_text(out, text);
  return out += '"';
}

// Text of a JSON string, decoded; at its quote.
CallReader::Text CallReader::json_string(size_t max_bytes) {
  std::string quoted_text;
  JsonScanner scanner;
  while (true) {
    const int c = co_await in_.peek();
    if (c == kEnd || (quoted_text.empty() && c != '"') || quoted_text.size() > max_bytes) co_return std::nullopt;
    const Step step = scanner.feed(static_cast<char>(c));
    if (step != Step::more && step != Step::done) co_return std::nullopt;
    in_.skip();
    quoted_text += static_cast<char>(c);
    if (step == Step::done) break;
  }
  const Json parsed = Json::parse(quoted_text, nullptr, false);
  if (!parsed.is_string()) co_return std::nullopt;
  co_return parsed.get<std::string>();
}

// Any JSON value. Its text goes to `out`, or to the arguments.
CallReader::Task CallReader::json_value(std::string* out, size_t max_bytes) {
  JsonScanner scanner;
  while (true) {
    const int c = co_await in_.peek();
    if (c == kEnd) co_return scanner.is_whole_number();
    const Step step = scanner.feed(static_cast<char>(c));
    if (step == Step::bad) co_return false;
    if (step == Step::done_before) co_return true;
    const char byte = static_cast<char>(c);
    if (out) {
      *out += byte;
      if (out->size() > max_bytes) co_return false;
      in_.skip();
    } else {
      add({&byte, 1});
      skip();
      in_.mark();
    }
    if (step == Step::done) co_return true;
  }
}

// The object of arguments, or a string that holds it. Waits for the name if that comes later.
CallReader::Task CallReader::json_arguments() {
  std::string text;
  if (has_begun_) co_return co_await json_value(&text, CallParser::kMaxHeld);  // a second time: ignored
  const int c = co_await in_.peek();
  const bool can_begin = !name_.empty() || format_.id_is_name;
  if (c == '{' && can_begin) {
    begin();
    co_return co_await json_value(nullptr, 0);
  }
  if (c == '"') {
    const auto decoded = co_await json_string(CallParser::kMaxParameter);
    if (!decoded) co_return false;
    text = trim_space(*decoded);
    if (text.empty()) text = "{}";
  } else {
    const bool ok = co_await json_value(&text, CallParser::kMaxHeld);
    if (!ok) co_return false;
  }
  if (text == "null") text = "{}";
  if (!text.starts_with('{') || !is_json(text)) co_return false;
  if (can_begin) {
    begin();
    add(text);
  } else {
    waiting_arguments_ = std::move(text);
  }
  co_return true;
}

// {"name": ..., "arguments": ...} at its brace.
CallReader::Task CallReader::json_call(int level) {
  in_.skip();
  bool ok = co_await space();
  if (!ok) co_return false;
  int c = co_await in_.peek();
  if (c == '}') {
    in_.skip();
    co_return true;
  }
  while (true) {
    const auto key = co_await json_string(CallParser::kMaxName);
    if (!key) co_return false;
    ok = co_await literal(":");
    if (!ok) co_return false;
    ok = co_await json_member(*key, level);
    if (!ok) co_return false;
    ok = co_await space();
    if (!ok) co_return false;
    c = co_await in_.peek();
    if (c != '}' && c != ',') co_return false;
    in_.skip();
    if (c == '}') co_return true;
    ok = co_await space();
    if (!ok) co_return false;
  }
}

CallReader::Task CallReader::json_member(std::string key, int level) {
  if (key == format_.arguments_key || key == "arguments" || key == "parameters") co_return co_await json_arguments();
  const int c = co_await in_.peek();
  if (c == '"' && (key == format_.name_key || key == "name" || key == "function")) {
    auto name = co_await json_string(CallParser::kMaxName);
    if (!name) co_return false;
    if (name->empty()) co_return false;
    name_ = std::move(*name);
    if (!waiting_arguments_.empty()) {
      begin();
      add(std::exchange(waiting_arguments_, {}));
    }
    co_return true;
  }
  if (key == "function" && level == 0 && c == '{') co_return co_await json_call(1);
  const bool is_id = !format_.id_key.empty() && key == format_.id_key;
  if (!is_id && is_bare_ && key != "type" && key != "id") co_return false;
  if (is_id && c == '"' && !has_begun_) {
    auto id = co_await json_string(CallParser::kMaxName);
    if (!id) co_return false;
    id_ = std::move(*id);
    co_return true;
  }
  std::string ignored;
  co_return co_await json_value(&ignored, CallParser::kMaxHeld);
}

CallReader::Task CallReader::whole_json_call() {
  const std::string_view open = format_.call.front().text, close = format_.call.back().text;
  const size_t end = close.rfind('}');
  bool ok = co_await literal(open.substr(0, open.find('{')));
  if (!ok) co_return false;
  const int c = co_await in_.peek();
  if (c != '{') co_return false;
  ok = co_await json_call(0);
  if (!ok) co_return false;
  if (!has_begun_) {
    if (name_.empty() || !waiting_arguments_.empty()) co_return false;
    begin();
    add("{}");
  }
  if (end != std::string_view::npos) (void)co_await literal(close.substr(end + 1));
  co_return true;
}

}  // namespace tokamak

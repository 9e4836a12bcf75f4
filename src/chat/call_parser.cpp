#include "chat/call_parser.h"

#include <algorithm>

#include "base/utf8.h"
#include "chat/call_task.h"
#include "chat/format_texts.h"
#include "chat/json_scanner.h"

namespace tokamak {

namespace {
constexpr int kEnd = CallInput::kEnd;
constexpr int kMaxNesting = 64;             // of values that are no JSON
constexpr size_t kMaxParameter = 8u << 20;  // bytes of one parameter that must be held back

bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(int c) { return c >= '0' && c <= '9'; }
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}
// The white space that text ends with.
std::string_view tail_space(std::string_view text) {
  size_t n = text.size();
  while (n > 0 && is_space(text[n - 1])) --n;
  return text.substr(n);
}
std::string_view head_space(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_space(text[n])) ++n;
  return text.substr(0, n);
}

void append_json_text(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<uint8_t>(c) < 0x20)
          (out += "\\u00") += {kHex[c >> 4], kHex[c & 15]};
        else
          out += c;
    }
  }
}
std::string json_text(std::string_view text) {
  std::string out = "\"";
  append_json_text(out, text);
  return out += '"';
}

// One whole JSON value with nothing around it?
bool is_json(std::string_view text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::Step step = scanner.feed(text[i]);
    if (step == JsonScanner::Step::done) return i + 1 == text.size();
    if (step != JsonScanner::Step::more) return false;
  }
  return scanner.is_whole_number();
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

// The parser proper. Every function returns false where the text is no call.
class CallParser::Reader {
 public:
  using Task = CallTask<bool>;
  using Text = CallTask<std::optional<std::string>>;

  Reader(const CallFormat& format, const ParameterTypes& types) : format_(format), types_(types) {
    task_ = section();
    task_.start();
  }

  void push(std::string_view text, std::vector<CallEvent>& events) {
    events_ = &events;
    if (done())
      rest_ += text;
    else
      in_.append(text);
    settle();
  }
  void finish(std::vector<CallEvent>& events) {
    events_ = &events;
    if (!done()) in_.end();
    settle();
  }
  bool done() const { return task_.is_over(); }
  std::string_view raw() const { return raw_; }
  std::string_view rest() const { return rest_; }

 private:
  void settle() {
    if (done() && !settled_) {
      settled_ = true;
      // What was read of a call that has begun is in its arguments. Behind a call all text is handed back; in front of
      // the first, what was looked at stays text, so that its marker is not taken for a call again.
      if (!has_begun_ && n_calls_ == 0) {
        in_.go_to_furthest();
        raw_ = in_.read();
        rest_ += in_.unread();
      } else {
        rest_ += has_begun_ ? in_.unread() : in_.all();
      }
    }
    events_ = nullptr;
  }

  // --- events ---
  void begin() {
    if (format_.id_is_name) name_ = name_in_id(id_);
    events_->push_back({.begins = true, .id = id_, .name = name_, .text = {}});
    has_begun_ = true;
    in_.drop();
  }
  void add(std::string_view text) {
    if (text.empty()) return;
    if (!events_->empty() && !events_->back().begins)
      events_->back().text += text;
    else
      events_->push_back({.begins = false, .id = {}, .name = {}, .text = std::string(text)});
  }
  // A byte of an argument; what was read needs not be kept.
  void skip() {
    in_.skip();
    if (has_begun_ && in_.at() > 4096) in_.drop();
  }

  // --- pieces of text ---
  Task space() {
    while (true) {
      const int c = co_await in_.peek();  // GCC 12 makes wrong code of a loop's condition that waits
      if (!is_space(c)) break;
      in_.skip();
      if (in_.at() > kMaxHeld) co_return false;
    }
    co_return true;
  }
  // Exactly this text; otherwise nothing is read.
  Task exactly(std::string_view text) {
    const size_t start = in_.at();
    for (const char c : text) {
      const int next = co_await in_.peek();
      if (next != static_cast<uint8_t>(c)) {
        in_.go_back(start);
        co_return false;
      }
      in_.skip();
    }
    co_return true;
  }
  // This text with any white space in front of it and where it has some itself; otherwise nothing is read. White space
  // behind it is read too, or only as far as the text has it.
  Task literal(std::string_view text, bool before_text = false) {
    const size_t start = in_.at();
    bool ok = co_await space();
    for (const char c : trimmed(text)) {
      if (!ok) break;
      if (is_space(c)) {
        ok = co_await space();
        continue;
      }
      const int next = co_await in_.peek();
      ok = next == static_cast<uint8_t>(c);
      if (ok) in_.skip();
    }
    if (!ok) {
      in_.go_back(start);
      co_return false;
    }
    if (!before_text) co_return co_await space();
    (void)co_await exactly(tail_space(text));
    co_return true;
  }
  // A name or id: up to the first byte that cannot be part of one.
  Text word(std::string_view stops) {
    std::string out;
    while (true) {
      const int c = co_await in_.peek();
      if (c == kEnd || c <= ' ' || stops.find(static_cast<char>(c)) != std::string_view::npos) break;
      if (out.size() == kMaxName) co_return std::nullopt;
      out += static_cast<char>(c);
      in_.skip();
    }
    if (out.empty()) co_return std::nullopt;
    co_return out;
  }

  // --- JSON ---
  // Text of a JSON string, decoded; at its quote.
  Text json_string(size_t max_bytes) {
    std::string quoted;
    JsonScanner scanner;
    while (true) {
      const int c = co_await in_.peek();
      if (c == kEnd || (quoted.empty() && c != '"') || quoted.size() > max_bytes) co_return std::nullopt;
      const JsonScanner::Step step = scanner.feed(static_cast<char>(c));
      if (step != JsonScanner::Step::more && step != JsonScanner::Step::done) co_return std::nullopt;
      in_.skip();
      quoted += static_cast<char>(c);
      if (step == JsonScanner::Step::done) break;
    }
    const Json parsed = Json::parse(quoted, nullptr, false);
    if (!parsed.is_string()) co_return std::nullopt;
    co_return parsed.get<std::string>();
  }
  // Any JSON value. Its text goes to `out`, or to the arguments.
  Task json_value(std::string* out, size_t max_bytes) {
    JsonScanner scanner;
    while (true) {
      const int c = co_await in_.peek();
      if (c == kEnd) co_return scanner.is_whole_number();
      const JsonScanner::Step step = scanner.feed(static_cast<char>(c));
      if (step == JsonScanner::Step::bad) co_return false;
      if (step == JsonScanner::Step::done_before) co_return true;
      const char byte = static_cast<char>(c);
      if (out) {
        *out += byte;
        if (out->size() > max_bytes) co_return false;
        in_.skip();
      } else {
        add({&byte, 1});
        skip();
      }
      if (step == JsonScanner::Step::done) co_return true;
    }
  }
  // The object of arguments, or a string that holds it. Waits for the name if that comes later.
  Task json_arguments() {
    if (has_begun_) {  // a second time
      std::string ignored;
      co_return co_await json_value(&ignored, kMaxHeld);
    }
    const int c = co_await in_.peek();
    const bool can_begin = !name_.empty() || format_.id_is_name;
    if (c == '{' && can_begin) {
      begin();
      co_return co_await json_value(nullptr, 0);
    }
    std::string text;
    if (c == '"') {
      const auto decoded = co_await json_string(kMaxParameter);
      if (!decoded) co_return false;
      text = trimmed(*decoded);
      if (text.empty()) text = "{}";
    } else if (!co_await json_value(&text, kMaxHeld)) {
      co_return false;
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
  Task json_call(int level) {
    in_.skip();
    if (!co_await space()) co_return false;
    if (co_await in_.peek() == '}') {
      in_.skip();
      co_return true;
    }
    while (true) {
      const auto key = co_await json_string(kMaxName);
      if (!key || !co_await literal(":")) co_return false;
      if (!co_await json_member(*key, level)) co_return false;
      if (!co_await space()) co_return false;
      const int c = co_await in_.peek();
      in_.skip();
      if (c == '}') co_return true;
      if (c != ',' || !co_await space()) co_return false;
    }
  }
  Task json_member(std::string key, int level) {
    const bool holds_text = co_await in_.peek() == '"';
    if (key == format_.arguments_key || key == "arguments" || key == "parameters") co_return co_await json_arguments();
    if (holds_text && (key == format_.name_key || key == "name" || key == "function")) {
      auto name = co_await json_string(kMaxName);
      if (!name || name->empty()) co_return false;
      name_ = std::move(*name);
      if (!waiting_arguments_.empty()) {
        begin();
        add(std::exchange(waiting_arguments_, {}));
      }
      co_return true;
    }
    if (key == "function" && level == 0 && co_await in_.peek() == '{') co_return co_await json_call(1);
    const bool is_id = !format_.id_key.empty() && key == format_.id_key;
    if (!is_id && is_bare_ && key != "type" && key != "id") co_return false;
    if (is_id && holds_text && !has_begun_) {
      auto id = co_await json_string(kMaxName);
      if (!id) co_return false;
      id_ = std::move(*id);
      co_return true;
    }
    std::string ignored;
    co_return co_await json_value(&ignored, kMaxHeld);
  }

  // --- parameters between markers ---
  Task parameters() {
    const std::string_view tail =
        trimmed(format_.call.back().kind == CallPiece::Kind::text ? std::string_view(format_.call.back().text)
                                                                  : std::string_view());
    bool first = true;
    while (true) {
      if (!first && !trimmed(format_.parameter_separator).empty()) (void)co_await literal(format_.parameter_separator);
      if (!tail.empty() && co_await is_next(tail)) break;  // it may look like the opening of a parameter
      if (!co_await literal(format_.parameter_open)) break;
      const auto key = co_await word("\"'<>=:(){}");
      if (!key) co_return false;
      bool is_text = false, is_value = false;
      if (!co_await parameter_middle(*key, is_text, is_value)) co_return false;
      if (first) begin();
      add(first ? "{" : ", ");
      add(json_text(*key) + ": ");
      first = false;
      const std::string close = parameter_close(format_, *key);
      if (!co_await parameter_value(close, is_text, is_value)) co_return false;
    }
    if (first) {  // a call without parameters must at least end
      if (!tail.empty() && !co_await is_next(tail)) co_return false;
      begin();
      add("{");
    }
    if (tail.empty() || co_await is_next(tail) || co_await in_.peek() != kEnd) add("}");
    co_return true;
  }
  Task is_next(std::string_view text) {
    const size_t start = in_.at();
    const bool found = co_await literal(text);
    in_.go_back(start);
    co_return found;
  }
  Task parameter_middle(std::string_view key, bool& is_text, bool& is_value) {
    const ParameterType type = types_.of(name_, key);
    is_text = type == ParameterType::text;
    is_value = type == ParameterType::value;
    if (co_await literal(format_.parameter_middle, true)) {
      if (!format_.json_middle.empty()) is_text = true;
      co_return true;
    }
    if (format_.json_middle.empty() || !co_await literal(format_.json_middle, true)) co_return false;
    is_text = false;
    is_value = true;
    co_return true;
  }
  // Up to the closing marker.
  Task parameter_value(std::string_view end, bool is_text, bool is_value) {
    const std::string_view close = trimmed(end), lead = head_space(end);
    const size_t n_hold = close.size() + lead.size();
    std::string held;
    if (is_text) add("\"");
    while (!held.ends_with(close)) {
      const int c = co_await in_.peek();
      if (c == kEnd || held.size() > kMaxParameter) {
        add_cut_value(held, end, is_text);
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
    co_return true;
  }
  // The text ended before its closing marker, perhaps within it.
  void add_cut_value(std::string_view held, std::string_view close, bool is_text) {
    for (size_t n = std::min(close.size(), held.size()); n > 0; --n)
      if (held.ends_with(std::string_view(close).substr(0, n))) {
        held.remove_suffix(n);
        break;
      }
    std::string text = is_text ? "" : "\"";
    append_json_text(text, held);
    if (is_text || !is_json(trimmed(held)))
      add(text);
    else
      add(trimmed(held));
  }
  // JSON of a bare text whose type is not a plain string.
  static std::string bare_value(std::string_view text, bool is_value) {
    const std::string_view core = trimmed(text);
    const bool quoted = core.starts_with('"');
    if (is_json(core) && (is_value || !quoted)) return std::string(core);
    if (core == "True" || core == "False") return core == "True" ? "true" : "false";
    if (core == "None") return "null";
    return json_text(text);
  }

  // --- values of Python, or with bare keys ---
  // key=value, key=value or key:value, key:value up to the closing bracket.
  Task assignments(char assign, char close) {
    bool first = true;
    while (true) {
      if (!co_await space()) co_return false;
      int c = co_await in_.peek();
      if (c == ',' && !first) {
        in_.skip();
        continue;
      }
      if (c == close) break;
      const auto key = co_await loose_key(assign);
      if (!key || !co_await literal({&assign, 1})) co_return false;
      if (first) begin();
      std::string text = (first ? "{" : ", ") + json_text(*key) + ": ";
      first = false;
      if (!co_await value(text, 0)) co_return false;
      add(text);
      if (!co_await space()) co_return false;
      c = co_await in_.peek();
      if (c != ',' && c != close) co_return false;
    }
    if (first) {
      begin();
      add("{");
    }
    add("}");
    co_return true;
  }
  Text loose_key(char assign) {
    if (!format_.quote.empty() && co_await exactly(format_.quote)) co_return co_await quoted();
    const int c = co_await in_.peek();
    if (c == '"') co_return co_await json_string(kMaxName);
    const char stops[] = {assign, ',', '(', ')', '{', '}', '[', ']', '"', '\'', '\0'};
    co_return co_await word(stops);
  }
  // Behind the opening quote of the format, up to the closing one.
  Text quoted() {
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
  Task value(std::string& out, int depth) {
    if (depth > kMaxNesting) co_return false;
    if (!format_.quote.empty() && co_await exactly(format_.quote)) {
      const auto text = co_await quoted();
      if (text) out += json_text(*text);
      co_return text.has_value();
    }
    const int c = co_await in_.peek();
    if (c == '"' || c == '\'') {
      const auto text = co_await python_string();
      if (text) out += json_text(*text);
      co_return text.has_value();
    }
    if (c == '[' || c == '(') co_return co_await list(out, c == '[' ? ']' : ')', depth);
    if (c == '{') co_return co_await dict(out, depth);
    const auto text = co_await word(",)]}(){[:=\"'");
    if (!text) co_return false;
    if (*text == "True" || *text == "False" || *text == "None") {
      out += *text == "None" ? "null" : *text == "True" ? "true" : "false";
      co_return true;
    }
    out += *text;
    co_return is_json(*text);
  }
  Task list(std::string& out, char close, int depth) {
    in_.skip();
    out += '[';
    bool first = true;
    while (true) {
      if (!co_await space()) co_return false;
      if (co_await in_.peek() == close) break;
      if (!first) out += ", ";
      first = false;
      if (!co_await value(out, depth + 1) || !co_await space()) co_return false;
      const int c = co_await in_.peek();
      if (c == ',')
        in_.skip();
      else if (c != close)
        co_return false;
    }
    in_.skip();
    out += ']';
    co_return true;
  }
  Task dict(std::string& out, int depth) {
    in_.skip();
    out += '{';
    bool first = true;
    while (true) {
      if (!co_await space()) co_return false;
      const int c = co_await in_.peek();
      if (c == '}') break;
      std::optional<std::string> key;
      if (c == '\'')
        key = co_await python_string();
      else
        key = co_await loose_key(':');
      if (!key || !co_await literal(":")) co_return false;
      out += (first ? "" : ", ") + json_text(*key) + ": ";
      first = false;
      if (!co_await value(out, depth + 1) || !co_await space()) co_return false;
      const int after = co_await in_.peek();
      if (after == ',')
        in_.skip();
      else if (after != '}')
        co_return false;
    }
    in_.skip();
    out += '}';
    co_return true;
  }
  // 'text' or "text" with Python's escapes.
  Text python_string() {
    const int quote = co_await in_.peek();
    in_.skip();
    std::string out;
    while (true) {
      int c = co_await in_.peek();
      if (c == kEnd || out.size() > kMaxParameter) co_return std::nullopt;
      skip();
      if (c == quote) co_return out;
      if (c != '\\') {
        out += static_cast<char>(c);
        continue;
      }
      c = co_await in_.peek();
      if (c == kEnd) co_return std::nullopt;
      skip();
      if (c == 'u' || c == 'x') {
        const auto code = co_await hex(c == 'u' ? 4 : 2);
        if (!code) co_return std::nullopt;
        append_utf8(out, *code);
        continue;
      }
      static constexpr std::string_view kLetters = "nrtbf", kMeaning = "\n\r\t\b\f";
      const size_t known = kLetters.find(static_cast<char>(c));
      if (known != std::string_view::npos) {
        out += kMeaning[known];
      } else {
        if (c != '\\' && c != '\'' && c != '"' && c != '/') out += '\\';  // as Python keeps it
        out += static_cast<char>(c);
      }
    }
  }
  CallTask<std::optional<char32_t>> hex(int n_digits) {
    char32_t code = 0;
    for (int i = 0; i < n_digits; ++i) {
      const int c = co_await in_.peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) co_return std::nullopt;
      code = code * 16 + static_cast<char32_t>(digit);
      skip();
    }
    co_return code >= 0xD800 && code <= 0xDFFF ? 0xFFFD : code;
  }

  // --- calls ---
  Task arguments() {
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
  Task one_call() {
    name_.clear();
    id_.clear();
    waiting_arguments_.clear();
    has_begun_ = false;
    if (format_.syntax == CallSyntax::json) co_return co_await whole_json_call();
    for (size_t i = 0; i < format_.call.size(); ++i) {
      const CallPiece& piece = format_.call[i];
      const bool last = i + 1 == format_.call.size();
      if (piece.kind == CallPiece::Kind::text) {
        if (co_await literal(piece.text) || (last && has_begun_)) continue;
        // An id with its marker may be missing.
        if (i + 2 < format_.call.size() && format_.call[i + 1].kind == CallPiece::Kind::id && !has_begun_ &&
            !name_.empty()) {
          ++i;
          continue;
        }
        co_return false;
      }
      if (piece.kind == CallPiece::Kind::arguments) {
        if (!co_await arguments()) co_return false;
        continue;
      }
      if (piece.kind == CallPiece::Kind::index) {
        while (is_digit(co_await in_.peek())) in_.skip();
        if (in_.at() > kMaxHeld) co_return false;
        continue;
      }
      auto text = co_await word("\"'<>=(){}[]`|,");
      if (!text) co_return false;
      (piece.kind == CallPiece::Kind::name ? name_ : id_) = std::move(*text);
      if (!knows_name()) co_return false;
    }
    co_return has_begun_;
  }
  // Without markers a call is told from content by the name of a tool.
  bool knows_name() const { return !is_bare_ || name_.empty() || !types_.has_tools() || types_.has_tool(name_); }
  Task whole_json_call() {
    const std::string_view open = format_.call.front().text, close = format_.call.back().text;
    const size_t brace = open.find('{'), end = close.rfind('}');
    if (!co_await literal(open.substr(0, brace))) co_return false;
    if (co_await in_.peek() != '{' || !co_await json_call(0)) co_return false;
    if (!has_begun_) {
      if (name_.empty() || !waiting_arguments_.empty()) co_return false;
      begin();
      add("{}");
    }
    if (end != std::string_view::npos) (void)co_await literal(close.substr(end + 1));
    co_return true;
  }

  // The close up to its first marker; what follows in the template may be an end token, which is no text.
  Task closes_section() {
    const std::string_view close = format_.section_close;
    size_t n_needed = 0;
    for (const std::string_view atom : format_atoms(close)) {
      n_needed += atom.size();
      if (is_marker_atom(atom)) break;
    }
    if (!co_await literal(close.substr(0, n_needed))) co_return false;
    for (const std::string_view atom : format_atoms(close.substr(n_needed)))
      if (!co_await literal(atom)) break;
    co_return true;
  }

  Task section() {
    is_bare_ = format_.marker().empty();
    if (!format_.optional_open.empty() && co_await literal(format_.optional_open)) is_bare_ = false;
    const bool has_section = !trimmed(format_.section_open).empty() || !trimmed(format_.section_close).empty();
    const bool has_separator = !trimmed(format_.separator).empty();
    if (has_section && !co_await literal(format_.section_open)) co_return false;
    while (true) {
      if (!co_await one_call()) co_return false;
      in_.drop();
      ++n_calls_;
      has_begun_ = false;
      if (has_section && co_await closes_section()) break;
      if (has_separator && !co_await literal(format_.separator)) break;
      if (!has_separator && (!has_section && !is_bare_)) break;
      if (!has_separator && !(co_await space() && co_await in_.peek() != kEnd)) break;
    }
    in_.drop();
    co_return true;
  }

  const CallFormat& format_;
  const ParameterTypes& types_;
  CallInput in_;
  std::vector<CallEvent>* events_ = nullptr;
  std::string raw_, rest_;
  bool settled_ = false;
  bool is_bare_ = false;  // nothing but its shape tells a call from content
  // Of the call under way.
  std::string name_, id_, waiting_arguments_;
  bool has_begun_ = false;
  int n_calls_ = 0;      // whole ones
  CallTask<bool> task_;  // last: it refers to all the others
};

CallParser::CallParser(const CallFormat& format, const ParameterTypes& types)
    : reader_(std::make_unique<Reader>(format, types)) {}
CallParser::~CallParser() = default;
CallParser::CallParser(CallParser&&) noexcept = default;
CallParser& CallParser::operator=(CallParser&&) noexcept = default;

void CallParser::push(std::string_view text, std::vector<CallEvent>& events) { reader_->push(text, events); }
void CallParser::finish(std::vector<CallEvent>& events) { reader_->finish(events); }
bool CallParser::done() const { return reader_->done(); }
std::string_view CallParser::raw() const { return reader_->raw(); }
std::string_view CallParser::rest() const { return reader_->rest(); }

}  // namespace tokamak

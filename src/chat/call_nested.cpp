// Values that a format writes in a way of its own: lists and objects as parameters inside a parameter, texts without
// escapes.
#include "chat/call_reader.h"
#include "chat/format_texts.h"

namespace tokamak {

namespace {
constexpr int kEnd = CallInput::kEnd;
constexpr size_t kMaxNesting = 64;
constexpr std::string_view kKeyStops = "\"'<>=:(){}[],";
}  // namespace

// The text up to `close`, which is read; without white space that belongs to `close`.
CallReader::Text CallReader::text_until(std::string_view close) {
  const std::string_view core = trim_space(close), lead = close.substr(0, close.size() - trim_left(close).size());
  std::string held;
  while (!held.ends_with(core)) {
    const int c = co_await in_.peek();
    if (c == kEnd || held.size() > CallParser::kMaxParameter) co_return std::nullopt;
    held += static_cast<char>(c);
    skip();
  }
  held.resize(held.size() - core.size());
  if (held.ends_with(lead)) held.resize(held.size() - lead.size());
  co_return held;
}

// Does a list or an object follow, in front of its closing marker?
CallReader::Task CallReader::begins_container(std::string_view close, const ParameterPlace& place) {
  if (format_.item_key.empty() || place.type == ParameterType::text) co_return false;
  const bool is_empty = co_await is_next(close);
  if (is_empty) co_return place.is_list || place.is_object;
  co_return co_await is_next(format_.parameter_open);
}

// A value inside the value of a parameter, as JSON; its closing marker is read.
CallReader::Task CallReader::nested_value(std::string& out, std::string close, Path& path) {
  if (path.size() > kMaxNesting || out.size() > CallParser::kMaxParameter) co_return false;
  in_.drop();
  const ParameterPlace place = types_.at(name_, path);
  const bool is_container = co_await begins_container(close, place);
  if (is_container) co_return co_await container(out, std::move(close), path, place);
  const auto text = co_await text_until(close);
  if (!text) co_return false;
  out += place.type == ParameterType::text ? json_text(*text) : bare_value(*text, place.type == ParameterType::value);
  co_return true;
}

// Elements of a list or members of an object, up to the closing marker.
CallReader::Task CallReader::container(std::string& out, std::string close, Path& path, ParameterPlace place) {
  bool is_list = place.is_list;
  for (bool is_first = true;; is_first = false) {
    const bool is_over = co_await literal(close);
    if (is_over && is_first) out += is_list ? '[' : '{';
    if (is_over) break;
    const bool is_open = co_await literal(format_.parameter_open);
    if (!is_open) co_return false;
    const auto key = co_await word(kKeyStops);
    if (!key) co_return false;
    const bool goes_on = co_await literal(format_.parameter_middle, true);
    if (!goes_on) co_return false;
    if (is_first) is_list = !place.is_object && *key == format_.item_key;
    out += is_first ? (is_list ? "[" : "{") : ", ";
    if (!is_list) out += json_text(*key) + ": ";
    path.push_back(is_list ? std::string() : *key);
    const bool ok = co_await nested_value(out, parameter_close(format_, *key), path);
    path.pop_back();
    if (!ok) co_return false;
  }
  out += is_list ? ']' : '}';
  co_return true;
}

// Behind the opening quote of a text in which nothing is escaped, so that it may hold the quote itself: it ends where
// the call can go on.
CallReader::Text CallReader::raw_string() {
  std::string out;
  while (true) {
    const int c = co_await in_.peek();
    if (c == kEnd || out.size() > CallParser::kMaxParameter) co_return std::nullopt;
    skip();
    if (c == format_.raw_quote[0]) {
      const size_t behind = in_.at();
      const bool is_over = co_await ends_raw_string();
      in_.go_back(behind);
      if (is_over) co_return out;
    }
    out += static_cast<char>(c);
  }
}

// Behind a quote: does another parameter follow, or the end of the call?
CallReader::Task CallReader::ends_raw_string() {
  bool ok = co_await space();
  if (!ok) co_return false;
  int c = co_await in_.peek();
  if (c != ',' && c != ')') co_return false;
  in_.skip();
  if (c == ',') co_return co_await is_word_before('=');
  ok = co_await space();
  if (!ok) co_return false;
  c = co_await in_.peek();
  const std::string_view close = trim_space(format_.section_close);
  if (c == kEnd || (close.empty() && c != ',')) co_return true;
  if (!close.empty() && c == static_cast<uint8_t>(close[0])) co_return true;
  const std::string_view separator = trim_space(format_.separator);
  if (separator.empty() || c != static_cast<uint8_t>(separator[0])) co_return false;
  (void)co_await literal(format_.separator);
  co_return co_await is_word_before('(');
}

CallReader::Task CallReader::is_word_before(char sign) {
  bool ok = co_await space();
  if (!ok) co_return false;
  const auto name = co_await word(kKeyStops);
  if (!name) co_return false;
  ok = co_await space();
  if (!ok) co_return false;
  const int c = co_await in_.peek();
  co_return c == sign;
}

}  // namespace tokamak

#include "chat/reply_values.h"

#include "chat/format_texts.h"

namespace tokamak {

namespace {
// The turn with one call of these arguments.
std::optional<std::string> call_body(const ReplyProbe& probe, Json arguments) {
  return probe.body({.calls = {{"zqtoola", "zqid0000a", std::move(arguments)}}});
}

// Numbers may be announced differently from texts.
void find_json_middle(const ReplyProbe& probe, CallFormat& format) {
  const auto body = call_body(probe, {{"zqkeya", 86753}});
  if (!body) return;
  const size_t key = body->find("zqkeya"), value = body->find("86753");
  if (value == std::string::npos || key > value) return;
  const std::string middle = body->substr(key + 6, value - key - 6);
  if (middle != format.parameter_middle) format.json_middle = middle;
}

// Texts that look like markup may stand between markers of their own.
void find_text_marks(const ReplyProbe& probe, CallFormat& format) {
  static constexpr std::string_view kMarkup = "zq<&\n>zq";
  const auto body = call_body(probe, {{"zqkeya", kMarkup}});
  const size_t begin = body ? body->find("zqkeya" + format.parameter_middle) : std::string::npos;
  if (begin == std::string::npos) return;
  std::string_view text = std::string_view(*body).substr(begin + 6 + format.parameter_middle.size());
  text = text.substr(0, text.find(trim_space(parameter_close(format, "zqkeya"))));
  const size_t value = text.find(kMarkup);
  if (value == std::string_view::npos) return;
  const std::string_view open = text.substr(0, value), close = text.substr(value + kMarkup.size());
  if (trim_space(open).empty() || trim_space(close).empty()) return;
  format.text_open = open;
  format.text_close = close;
}

// Lists and objects may be written as parameters inside the parameter.
void find_nested(const ReplyProbe& probe, CallFormat& format) {
  const std::string open(trim_space(format.parameter_open)), middle = format.parameter_middle;
  const auto spelled = [&](std::string_view key, std::string_view value) {
    return open + std::string(key) + middle + std::string(value) +
           std::string(trim_space(parameter_close(format, key)));
  };
  const auto body =
      call_body(probe, {{"zqkeya", {{"zqkeyc", "zqvalc"}}}, {"zqkeyb", Json::array({"zqvald", "zqvale"})}});
  if (!body || body->find(spelled("zqkeyc", "zqvalc")) == std::string::npos) return;
  const size_t value = body->find(middle + "zqvald");
  if (value == std::string::npos) return;
  const size_t begin = body->rfind(open, value);
  if (begin == std::string::npos || begin + open.size() >= value) return;
  const std::string key = body->substr(begin + open.size(), value - begin - open.size());
  if (body->find(spelled(key, "zqvale")) != std::string::npos) format.item_key = key;
}

// Python's strings may be written without escapes.
void find_raw_quote(const ReplyProbe& probe, CallFormat& format) {
  for (const std::string quote : {"'", "\""}) {
    const std::string text = "zq" + quote + "\\azq";
    const auto body = call_body(probe, {{"zqkeya", text}});
    if (body && body->find("zqkeya=" + quote + text + quote) != std::string::npos) format.raw_quote = quote;
  }
}
}  // namespace

void find_value_spelling(const ReplyProbe& probe, CallFormat& format) {
  if (format.syntax == CallSyntax::python) find_raw_quote(probe, format);
  if (format.syntax != CallSyntax::parameters) return;
  find_json_middle(probe, format);
  find_text_marks(probe, format);
  find_nested(probe, format);
}

}  // namespace tokamak

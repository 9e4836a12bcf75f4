// Text to numbers as Python's int() and float() read them.
#include <charconv>
#include <cmath>

#include "chat/jinja/filters.h"
#include "chat/jinja/unicode.h"

namespace tokamak::jinja {

namespace {
// Removes single underscores between digits; nothing when one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) return std::nullopt;
  }
  return out;
}
}  // namespace

std::optional<int64_t> parse_int(std::string_view text, int64_t base) {
  text = strip(text, Side::both);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const char letter = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : ' ';
  const int64_t prefix_base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefix_base != 0 && (base == prefix_base || base == 0)) {
    base = prefix_base;
    text.remove_prefix(2);
  } else if (base == 0) {
    base = 10;
  }
  const auto digits = without_underscores(text);
  if (!digits || digits->empty() || base < 2 || base > 36 || (*digits)[0] == '-') return std::nullopt;
  const std::string signed_digits = (negative ? "-" : "") + *digits;
  int64_t value = 0;
  const char* const end = signed_digits.data() + signed_digits.size();
  const auto parsed = std::from_chars(signed_digits.data(), end, value, static_cast<int>(base));
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text, Side::both);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const std::string small = lower(text);
  double value = 0;
  if (small == "inf" || small == "infinity") {
    value = HUGE_VAL;
  } else if (small == "nan") {
    value = std::nan("");
  } else {
    if (small.empty() || !((small[0] >= '0' && small[0] <= '9') || small[0] == '.')) return std::nullopt;
    const auto digits = without_underscores(small);
    if (!digits) return std::nullopt;
    const char* const end = digits->data() + digits->size();
    const auto parsed = std::from_chars(digits->data(), end, value);
    if (parsed.ptr != end) return std::nullopt;
    if (parsed.ec == std::errc::result_out_of_range) value = digits->find("e-") == digits->npos ? HUGE_VAL : 0.0;
  }
  return negative ? -value : value;
}

}  // namespace tokamak::jinja

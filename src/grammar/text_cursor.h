// Reading a grammar or pattern character by character.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace tokamak::grammar {

struct TextCursor {
  std::string_view text;
  size_t at = 0;

  bool done() const { return at >= text.size(); }
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  bool take(char c) {
    if (done() || text[at] != c) return false;
    ++at;
    return true;
  }
  bool take(std::string_view word) {
    if (!text.substr(at).starts_with(word)) return false;
    at += word.size();
    return true;
  }
  // The next character, undecodable bytes as U+FFFD. Not at the end.
  char32_t take_char() {
    const Utf8Char c = decode_utf8(text, at);
    at += c.n_bytes;
    return c.code_point;
  }
  // Exactly n hexadecimal digits.
  std::optional<char32_t> take_hex(size_t n) {
    char32_t value = 0;
    for (size_t i = 0; i < n; ++i) {
      const char c = peek(i);
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    at += n;
    return value;
  }
  // A decimal number; none if there is no digit. Stops growing at 2^32 - 2.
  std::optional<uint32_t> take_number() {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    uint64_t value = 0;
    while (peek() >= '0' && peek() <= '9')
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(text[at++] - '0'), UINT32_MAX - 1);
    return static_cast<uint32_t>(value);
  }
};

// A character that UTF-8 can spell.
inline bool is_scalar(char32_t c) { return c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF); }

}  // namespace tokamak::grammar

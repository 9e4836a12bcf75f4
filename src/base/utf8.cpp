#include "base/utf8.h"

namespace tokamak {

namespace {
struct Lead {
  uint8_t n_bytes;  // 0: not a lead byte
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}
}  // namespace

Utf8Char decode_utf8(std::string_view text, size_t offset) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[offset + i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.n_bytes == 1) return {byte(0), 1, true};
  if (lead.n_bytes == 0) return {0xFFFD, 1, false};
  char32_t code_point = byte(0) & (0xFFu >> (lead.n_bytes + 1));
  for (uint8_t i = 1; i < lead.n_bytes; ++i) {
    if (offset + i >= text.size()) return {0xFFFD, i, false};
    const unsigned char low = i == 1 ? lead.second_min : 0x80, high = i == 1 ? lead.second_max : 0xBF;
    if (byte(i) < low || byte(i) > high) return {0xFFFD, i, false};
    code_point = (code_point << 6) | (byte(i) & 0x3Fu);
  }
  return {code_point, lead.n_bytes, true};
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const Utf8Char c = decode_utf8(text, i);
    if (!c.valid) return i;
    i += c.n_bytes;
  }
  return i;
}

size_t incomplete_utf8_suffix(std::string_view text) {
  for (size_t n = 1; n <= 3 && n <= text.size(); ++n) {
    const Lead lead = lead_of(static_cast<unsigned char>(text[text.size() - n]));
    if (lead.n_bytes == 0) continue;
    if (lead.n_bytes <= n) return 0;
    const Utf8Char c = decode_utf8(text, text.size() - n);
    return c.n_bytes == n ? n : 0;  // a shorter step means a byte in between is already wrong
  }
  return 0;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    append_utf8(out, c.code_point);
    i += c.n_bytes;
  }
  return out;
}

}  // namespace tokamak

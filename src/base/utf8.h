// UTF-8 decoding and validation. Source: RFC 3629, Unicode 15 table 3-7 (well-formed byte sequences).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tokamak {

struct Utf8Char {
  char32_t code_point;  // U+FFFD when not valid
  uint8_t n_bytes;      // bytes to step over, >= 1; for an ill-formed sequence its maximal subpart
  bool valid;
};

// Character that starts at text[offset]; offset < text.size().
Utf8Char decode_utf8(std::string_view text, size_t offset);

void append_utf8(std::string& out, char32_t code_point);

// Length of the longest prefix of `text` that is valid UTF-8.
size_t valid_utf8_prefix(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

// Number of trailing bytes that begin a character whose rest may still come (0 to 3).
size_t incomplete_utf8_suffix(std::string_view text);

// `text` with every ill-formed maximal subpart replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace tokamak

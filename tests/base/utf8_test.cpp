#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tokamak {
namespace {

using namespace std::string_view_literals;

constexpr auto kReplacement = "\xEF\xBF\xBD"sv;

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Char decoded = decode_utf8(text, 0);
    ASSERT_TRUE(decoded.valid) << static_cast<uint32_t>(c);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.n_bytes, text.size());
    ASSERT_EQ(text.size(), c < 0x80 ? 1u : c < 0x800 ? 2u : c < 0x10000 ? 3u : 4u);
  }
}

// Unicode table 3-7, written out again: for every pair of first bytes, whether the second may follow.
TEST(Utf8, SecondByteRangesOfTable37) {
  for (int first = 0; first < 256; ++first) {
    int low = 1, high = 0, n_bytes = 0;
    if (first >= 0xC2 && first <= 0xDF) low = 0x80, high = 0xBF, n_bytes = 2;
    if (first >= 0xE0 && first <= 0xEF)
      low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF, n_bytes = 3;
    if (first >= 0xF0 && first <= 0xF4)
      low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF, n_bytes = 4;
    for (int second = 0; second < 256; ++second) {
      const std::string text{static_cast<char>(first), static_cast<char>(second), '\x80', '\x80'};
      const Utf8Char c = decode_utf8(text, 0);
      const bool valid = first < 0x80 || (n_bytes > 0 && second >= low && second <= high);
      ASSERT_EQ(c.valid, valid) << first << " " << second;
      ASSERT_EQ(c.n_bytes, valid && first >= 0x80 ? n_bytes : 1) << first << " " << second;
    }
  }
}

struct Replaced {
  std::string_view bytes, text;
};
// The examples of the Unicode standard (tables 3-8 to 3-11) and their kin: one U+FFFD per maximal subpart.
constexpr Replaced kReplaced[] = {
    {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41",
     "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\x41"},
    {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41",
     "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\x41"},
    {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42",
     "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\x41\xEF\xBF\xBD\xEF\xBF\xBD\x42"},
    {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\x41"},
    {"a\xF0\x9F\x98", "a\xEF\xBF\xBD"},
    {"\xF5\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"caf\xC3\xA9", "caf\xC3\xA9"},
    {"", ""},
};

TEST(Utf8, ReplacesMaximalSubparts) {
  for (const Replaced& row : kReplaced) {
    EXPECT_EQ(replace_invalid_utf8(row.bytes), row.text);
    EXPECT_EQ(is_valid_utf8(row.bytes), row.bytes == row.text);
    EXPECT_TRUE(is_valid_utf8(replace_invalid_utf8(row.bytes)));
  }
  EXPECT_EQ(replace_invalid_utf8("\xFF"), kReplacement);
}

TEST(Utf8, ValidPrefix) {
  EXPECT_EQ(valid_utf8_prefix("ab\xE2\x82\xAC"), 5u);
  EXPECT_EQ(valid_utf8_prefix("ab\xE2\x82"), 2u);
  EXPECT_EQ(valid_utf8_prefix("\x80"), 0u);
  EXPECT_EQ(valid_utf8_prefix("a\0b"sv), 3u);  // NUL is a character
}

struct Suffix {
  std::string_view text;
  size_t n_bytes;
};
constexpr Suffix kSuffixes[] = {
    {"", 0},
    {"abc", 0},
    {"\xC3", 1},
    {"a\xE2", 1},
    {"a\xE2\x82", 2},
    {"a\xE2\x82\xAC", 0},  // complete
    {"\xF0\x9F\x98", 3},
    {"\xF0\x9F\x98\x80", 0},
    {"\xF0\x9F", 2},
    {"\xE0\x80", 0},  // can never become valid: overlong
    {"\xED\xA0", 0},  // a surrogate
    {"\xF4\x90", 0},  // above U+10FFFF
    {"\xC1", 0},      // not a lead byte
    {"\xFF", 0},
    {"\x80\x80\x80\x80", 0},  // continuation bytes without a lead
    {"\xE2\x82\xAC\x80", 0},  // a stray continuation byte after a complete character
    {"\xC3\xC3", 1},
    {"\xE2(\x82", 0},
};

TEST(Utf8, IncompleteSuffix) {
  for (const Suffix& row : kSuffixes) EXPECT_EQ(incomplete_utf8_suffix(row.text), row.n_bytes) << row.text;
}

// However a text is cut, holding back the incomplete suffix gives the same text.
TEST(Utf8, ChunksReassemble) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z\xE4\xBD\xA0";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string_view head = std::string_view(text).substr(0, cut);
    const size_t held = incomplete_utf8_suffix(head);
    EXPECT_TRUE(is_valid_utf8(head.substr(0, head.size() - held))) << cut;
    EXPECT_TRUE(is_valid_utf8(std::string_view(text).substr(cut - held))) << cut;
  }
}

}  // namespace
}  // namespace tokamak

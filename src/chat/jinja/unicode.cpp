#include "chat/jinja/unicode.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"
#include "chat/jinja/special_case.h"

namespace tokamak::jinja {

namespace {
utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
bool is_letter(utf8proc_category_t k) { return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO; }
bool is_cased(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}
// Characters that the final-sigma rule looks through (marks, modifiers, apostrophes; Unicode 15, 3.13 D136).
bool is_case_ignorable(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
         k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == 0x2019 || c == '.' || c == ':' ||
         c == 0xB7;
}

const SpecialCase* special_case(char32_t c) {
  const auto row = std::lower_bound(kSpecialCases.begin(), kSpecialCases.end(), c,
                                    [](const SpecialCase& r, char32_t key) { return r.code_point < key; });
  return row != kSpecialCases.end() && row->code_point == c ? &*row : nullptr;
}

void append_upper(std::string& out, char32_t c) {
  if (const SpecialCase* row = c < 0x80 ? nullptr : special_case(c)) {
    for (const char32_t u : row->upper) append_utf8(out, u);
    return;
  }
  append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_title(std::string& out, char32_t c) {
  if (const SpecialCase* row = c < 0x80 ? nullptr : special_case(c)) {
    for (const char32_t u : row->title) append_utf8(out, u);
    return;
  }
  append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

std::u32string decode(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    out += c.code_point;
    i += c.n_bytes;
  }
  return out;
}

// Sigma is written ς at the end of a word.
bool is_final_sigma(const std::u32string& text, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

void append_lower(std::string& out, const std::u32string& text, size_t at) {
  const char32_t c = text[at];
  if (c == 0x130) {
    out += "i\xCC\x87";  // i with a combining dot above
  } else if (c == 0x3A3) {
    append_utf8(out, is_final_sigma(text, at) ? 0x3C2 : 0x3C3);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

bool in_class(char32_t c, CharClass what) {
  const auto k = category(c);
  switch (what) {
    case CharClass::alpha:
      return is_letter(k);
    case CharClass::decimal:
      return k == UTF8PROC_CATEGORY_ND;
    case CharClass::digit:  // superscripts and circled digits have a digit value
      return k == UTF8PROC_CATEGORY_ND || c == 0xB2 || c == 0xB3 || c == 0xB9 ||
             (c >= 0x2070 && c <= 0x2079 && k == UTF8PROC_CATEGORY_NO) || (c >= 0x2080 && c <= 0x2089) ||
             (c >= 0x2460 && c <= 0x2468);
    case CharClass::numeric:
      return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
    case CharClass::alnum:
      return is_letter(k) || in_class(c, CharClass::numeric);
    case CharClass::space:
      return is_space(c);
    case CharClass::ascii:
      return c < 0x80;
    case CharClass::printable:
      return is_printable(c);
    default:
      return false;
  }
}

bool all_cased_are(std::string_view text, utf8proc_category_t wanted) {
  bool any = false;
  for (const char32_t c : decode(text)) {
    if (!is_cased(c)) continue;
    if (category(c) != wanted) return false;
    any = true;
  }
  return any;
}

bool is_titled(std::string_view text) {
  bool any = false;
  bool inside = false;
  for (const char32_t c : decode(text)) {
    const auto k = category(c);
    if (k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LT) {
      if (inside) return false;
      inside = any = true;
    } else if (k == UTF8PROC_CATEGORY_LL) {
      if (!inside) return false;
    } else {
      inside = false;
    }
  }
  return any;
}
}  // namespace

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

size_t count_chars(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t at = 0;
  while (index > 0 && at < text.size()) {
    at += decode_utf8(text, at).n_bytes;
    --index;
  }
  return at;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t i = 0; i < text.size();) {
    const size_t n_bytes = decode_utf8(text, i).n_bytes;
    out.push_back(text.substr(i, n_bytes));
    i += n_bytes;
  }
  return out;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_word(char32_t c) { return c == '_' || in_class(c, CharClass::alnum); }

namespace {
template <class Match>
std::string_view strip_if(std::string_view text, Side side, Match match) {
  size_t begin = 0;
  size_t end = text.size();
  if (side != Side::right)
    while (begin < end) {
      const Utf8Char c = decode_utf8(text, begin);
      if (!match(c.code_point)) break;
      begin += c.n_bytes;
    }
  if (side != Side::left)
    while (end > begin) {
      size_t last = end - 1;
      while (last > begin && (text[last] & 0xC0) == 0x80) --last;
      if (!match(decode_utf8(text, last).code_point)) break;
      end = last;
    }
  return text.substr(begin, end - begin);
}
}  // namespace

std::string_view strip(std::string_view text, Side side) { return strip_if(text, side, is_space); }
std::string_view strip(std::string_view text, Side side, std::string_view chars) {
  const std::u32string set = decode(chars);
  return strip_if(text, side, [&](char32_t c) { return set.find(c) != set.npos; });
}

std::string lower(std::string_view text) {
  const std::u32string chars = decode(text);
  std::string out;
  for (size_t i = 0; i < chars.size(); ++i) append_lower(out, chars, i);
  return out;
}

std::string upper(std::string_view text) {
  std::string out;
  for (const char32_t c : decode(text)) append_upper(out, c);
  return out;
}

std::string capitalize(std::string_view text) {
  const std::u32string chars = decode(text);
  std::string out;
  for (size_t i = 0; i < chars.size(); ++i) i == 0 ? append_title(out, chars[0]) : append_lower(out, chars, i);
  return out;
}

std::string title(std::string_view text) {
  const std::u32string chars = decode(text);
  std::string out;
  bool inside = false;
  for (size_t i = 0; i < chars.size(); ++i) {
    inside ? append_lower(out, chars, i) : append_title(out, chars[i]);
    inside = is_cased(chars[i]);
  }
  return out;
}

std::string swapcase(std::string_view text) {
  const std::u32string chars = decode(text);
  std::string out;
  for (size_t i = 0; i < chars.size(); ++i) {
    const auto k = category(chars[i]);
    if (k == UTF8PROC_CATEGORY_LL)
      append_upper(out, chars[i]);
    else if (k == UTF8PROC_CATEGORY_LU)
      append_lower(out, chars, i);
    else
      append_utf8(out, chars[i]);
  }
  return out;
}

bool all_of_class(std::string_view text, CharClass what) {
  switch (what) {
    case CharClass::lower:
      return all_cased_are(text, UTF8PROC_CATEGORY_LL);
    case CharClass::upper:
      return all_cased_are(text, UTF8PROC_CATEGORY_LU);
    case CharClass::title:
      return is_titled(text);
    default:
      break;
  }
  const bool if_empty = what == CharClass::ascii || what == CharClass::printable;
  if (text.empty()) return if_empty;
  const std::u32string chars = decode(text);
  return std::all_of(chars.begin(), chars.end(), [what](char32_t c) { return in_class(c, what); });
}

std::string repr_string(std::string_view text) {
  const bool double_quoted = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = double_quoted ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    const uint32_t code = c.code_point;
    if (code == '\\' || code == static_cast<uint32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      out += code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
    } else if (is_printable(code)) {
      out.append(text.substr(i, c.n_bytes));
    } else if (code < 0x100) {
      out += fmt::format("\\x{:02x}", code);
    } else {
      out += code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
    }
    i += c.n_bytes;
  }
  return out + quote;
}

}  // namespace tokamak::jinja

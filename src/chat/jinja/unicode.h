// Python's string operations on UTF-8 text. Positions and lengths are in code points unless a name says bytes.
// All inputs are valid UTF-8. Sources: Python 3.11 library reference, "Text Sequence Type"; Unicode 15 (utf8proc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tokamak::jinja {

bool is_ascii(std::string_view text);
size_t count_chars(std::string_view text);
// Byte offset of code point `index`; text.size() when there are fewer.
size_t byte_offset(std::string_view text, size_t index);
// One view per code point.
std::vector<std::string_view> characters(std::string_view text);

bool is_space(char32_t c);      // str.isspace of one character
bool is_printable(char32_t c);  // repr leaves it as it is
bool is_word(char32_t c);       // \w of Python's re

enum class Side : uint8_t { left = 1, right = 2, both = 3 };
std::string_view strip(std::string_view text, Side side);
std::string_view strip(std::string_view text, Side side, std::string_view chars);

std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);
std::string swapcase(std::string_view text);

enum class CharClass : uint8_t { alpha, digit, decimal, numeric, alnum, space, lower, upper, title, ascii, printable };
// str.isalpha and its siblings.
bool all_of_class(std::string_view text, CharClass what);

// max_splits < 0: no limit.
std::vector<std::string> split_space(std::string_view text, int64_t max_splits);
std::vector<std::string> rsplit_space(std::string_view text, int64_t max_splits);
std::vector<std::string> split_on(std::string_view text, std::string_view separator, int64_t max_splits);
std::vector<std::string> rsplit_on(std::string_view text, std::string_view separator, int64_t max_splits);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);
size_t count_of(std::string_view text, std::string_view part);  // not overlapping; an empty part counts chars + 1
// max_count < 0: all.
std::string replace(std::string_view text, std::string_view from, std::string_view to, int64_t max_count);

// Spaces (or `fill`) around text up to `width` code points. align is one of < > ^; ^ puts the odd one right unless
// python_center is set (str.center has a rule of its own).
std::string pad(std::string_view text, int64_t width, char align, std::string_view fill, bool python_center = false);

std::string repr_string(std::string_view text);

}  // namespace tokamak::jinja

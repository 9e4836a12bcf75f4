// Splitting, replacing and padding (declared in unicode.h).
#include <algorithm>

#include "base/utf8.h"
#include "chat/jinja/unicode.h"

namespace tokamak::jinja {

namespace {
bool ends_line(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

size_t first_space(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    if (is_space(c.code_point)) return i;
    i += c.n_bytes;
  }
  return text.size();
}

// Offset just after the last space, 0 when there is none.
size_t after_last_space(std::string_view text) {
  for (size_t end = text.size(); end > 0;) {
    size_t last = end - 1;
    while (last > 0 && (text[last] & 0xC0) == 0x80) --last;
    if (is_space(decode_utf8(text, last).code_point)) return end;
    end = last;
  }
  return 0;
}
}  // namespace

std::vector<std::string> split_space(std::string_view text, int64_t max_splits) {
  std::vector<std::string> out;
  text = strip(text, Side::left);
  while (!text.empty()) {
    if (max_splits >= 0 && static_cast<int64_t>(out.size()) == max_splits) {
      out.emplace_back(text);  // the rest keeps its trailing blanks
      return out;
    }
    const size_t end = first_space(text);
    out.emplace_back(text.substr(0, end));
    text = strip(text.substr(end), Side::left);
  }
  return out;
}

std::vector<std::string> rsplit_space(std::string_view text, int64_t max_splits) {
  std::vector<std::string> out;
  text = strip(text, Side::right);
  while (!text.empty()) {
    if (max_splits >= 0 && static_cast<int64_t>(out.size()) == max_splits) {
      out.emplace_back(text);
      break;
    }
    const size_t begin = after_last_space(text);
    out.emplace_back(text.substr(begin));
    text = strip(text.substr(0, begin), Side::right);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string> split_on(std::string_view text, std::string_view separator, int64_t max_splits) {
  std::vector<std::string> out;
  for (size_t at = 0;;) {
    const bool full = max_splits >= 0 && static_cast<int64_t>(out.size()) == max_splits;
    const size_t hit = full ? text.npos : text.find(separator, at);
    if (hit == text.npos) {
      out.emplace_back(text.substr(at));
      return out;
    }
    out.emplace_back(text.substr(at, hit - at));
    at = hit + separator.size();
  }
}

std::vector<std::string> rsplit_on(std::string_view text, std::string_view separator, int64_t max_splits) {
  std::vector<std::string> out;
  for (;;) {
    const bool full = max_splits >= 0 && static_cast<int64_t>(out.size()) == max_splits;
    const size_t hit = full ? text.npos : text.rfind(separator);
    if (hit == text.npos) break;
    out.emplace_back(text.substr(hit + separator.size()));
    text = text.substr(0, hit);
  }
  out.emplace_back(text);
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    const size_t end = i;
    i += c.n_bytes;
    if (!ends_line(c.code_point)) continue;
    if (c.code_point == '\r' && i < text.size() && text[i] == '\n') ++i;
    out.emplace_back(text.substr(begin, (keep_ends ? i : end) - begin));
    begin = i;
  }
  if (begin < text.size()) out.emplace_back(text.substr(begin));
  return out;
}

size_t count_of(std::string_view text, std::string_view part) {
  if (part.empty()) return count_chars(text) + 1;
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to, int64_t max_count) {
  std::string out;
  int64_t left = max_count < 0 ? INT64_MAX : max_count;
  if (from.empty()) {  // before every character, and at the end
    for (const std::string_view c : characters(text)) {
      if (left > 0) {
        --left;
        out += to;
      }
      out += c;
    }
    if (left > 0) out += to;
    return out;
  }
  size_t at = 0;
  for (; left > 0; --left) {
    const size_t hit = text.find(from, at);
    if (hit == text.npos) break;
    out.append(text.substr(at, hit - at)).append(to);
    at = hit + from.size();
  }
  return out.append(text.substr(at));
}

std::string pad(std::string_view text, int64_t width, char align, std::string_view fill, bool python_center) {
  const int64_t n_chars = static_cast<int64_t>(count_chars(text));
  if (width <= n_chars) return std::string(text);
  const int64_t missing = width - n_chars;
  int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  if (python_center) left = missing / 2 + (missing & width & 1);  // CPython's str.center
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < missing; ++i) out += fill;
  return out;
}

}  // namespace tokamak::jinja

// Request targets: paths and queries.
#include "base/utf8.h"
#include "server/http.h"

namespace tokamak::server {

namespace {
int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool is_query) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && is_query) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      if (text.size() - i < 3) return {};
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0 || (high == 0 && low == 0)) return {};
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  if (!is_valid_utf8(out)) return {};
  return out;
}

bool split_target(std::string_view target, std::string& path, std::map<std::string, std::string>& query) {
  const size_t mark = target.find('?');
  const auto decoded = percent_decode(target.substr(0, mark), false);
  if (!decoded || !decoded->starts_with('/')) return false;
  path = *decoded;
  if (mark == target.npos) return true;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    const auto name = percent_decode(pair.substr(0, equals), true);
    const auto value = percent_decode(equals == pair.npos ? std::string_view() : pair.substr(equals + 1), true);
    if (!name || !value) return false;
    query[*name] = *value;
  }
  return true;
}

}  // namespace tokamak::server

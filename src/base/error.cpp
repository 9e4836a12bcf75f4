#include "base/error.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace tokamak {

namespace {
constexpr size_t kMaxPartBytes = 400;

// Foreign bytes (keys, names, flags) reach error texts, so nothing unprintable passes.
std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (out.size() >= kMaxPartBytes) return out + "...";
    const Utf8Char c = decode_utf8(text, i);
    const bool control = c.code_point < 0x20 || (c.code_point >= 0x7F && c.code_point < 0xA0);
    if (!c.valid || control) {
      for (size_t k = 0; k < c.n_bytes; ++k) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i + k]));
    } else {
      out.append(text.substr(i, c.n_bytes));
    }
    i += c.n_bytes;
  }
  return out;
}
}  // namespace

std::string Error::message() const {
  std::string out;
  if (!where.empty()) out = printable(where) + ": ";
  out += printable(what);
  if (!hint.empty()) out += " (" + printable(hint) + ")";
  return out;
}

}  // namespace tokamak

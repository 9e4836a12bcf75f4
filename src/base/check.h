// CHECK(condition, values...): our own invariants only. Stays on in release builds; prints the values and aborts.
// The sole place below server/ and cli/ that may print or abort.
#pragma once

#include <fmt/format.h>

#include <string>

namespace tokamak::detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& values);

template <class... Values>
std::string check_values(const Values&... values) {
  std::string out;
  ((out += fmt::format(" {}", values)), ...);
  return out;
}
}  // namespace tokamak::detail

#define CHECK(condition, ...)                                                                                        \
  do {                                                                                                               \
    if (!(condition)) [[unlikely]]                                                                                   \
      ::tokamak::detail::check_failed(#condition, __FILE__, __LINE__, ::tokamak::detail::check_values(__VA_ARGS__)); \
  } while (0)

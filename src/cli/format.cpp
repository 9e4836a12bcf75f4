#include "cli/format.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace tokamak::cli {

namespace {
std::string scaled(uint64_t n, std::string_view unit) {
  constexpr std::string_view kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  auto value = static_cast<double>(n);
  size_t power = 0;
  for (; value >= 999.95; value /= 1000) ++power;
  if (power == 0) return fmt::format("{}{}{}", n, unit.empty() ? "" : " ", unit);
  return fmt::format("{:.1f} {}{}", value, kPrefixes[power], unit);
}

size_t n_characters(std::string_view text) {
  size_t n = 0;
  for (size_t i = 0; i < text.size(); i += decode_utf8(text, i).n_bytes) ++n;
  return n;
}
}  // namespace

std::string human_bytes(uint64_t n_bytes) { return scaled(n_bytes, "B"); }
std::string human_count(uint64_t n) { return scaled(n, ""); }

std::string text_table(const std::vector<std::vector<std::string>>& rows, std::string_view alignment) {
  std::vector<size_t> widths(alignment.size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], n_characters(row[i]));
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - n_characters(row[i]), ' ');
      line += "  " + (alignment[i] == '>' ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace tokamak::cli

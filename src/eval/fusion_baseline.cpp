#include "eval/fusion_baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <tuple>

namespace tokamak {

namespace {
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

constexpr size_t kColumns = 5;

// Too many columns are counted too, so that they are refused.
std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> columns;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    columns.push_back(trimmed(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  return columns;
}

bool is_mode(std::string_view mode) {
  return mode == "any" || std::ranges::find(kFusionModes, mode) != kFusionModes.end();
}

// Null: no row.
std::optional<FusionRow> parse_row(const std::vector<std::string_view>& columns) {
  if (columns.size() != kColumns || columns[0].empty() || columns[3].empty()) return std::nullopt;
  if ((columns[1] != "0" && columns[1] != "1") || !is_mode(columns[2])) return std::nullopt;
  FusionRow row{std::string(columns[0]), columns[1] == "1", std::string(columns[2]), std::string(columns[3]), 0};
  const auto [end, error] = std::from_chars(columns[4].data(), columns[4].data() + columns[4].size(), row.count);
  if (error != std::errc() || end != columns[4].data() + columns[4].size()) return std::nullopt;
  return row;
}

using Key = std::tuple<std::string, bool, std::string, std::string>;
Key key_of(const FusionRow& row) { return {row.model, row.has_experts, row.mode, row.label}; }

std::string text_of(const FusionRow& row) {
  return fmt::format("{} (moe {}), {}, {}", row.model, row.has_experts ? 1 : 0, row.mode, row.label);
}
}  // namespace

std::string fusion_csv(std::string_view device, std::vector<FusionRow> rows) {
  std::ranges::sort(rows);
  std::string out = fmt::format(
      "# Fused groups per graph on device {}, printed by `tokamak fusion --models DIR --record FILE`.\n"
      "# mode: prefill of {} tokens, decode of one, any: the same in both. A row missing here or in a run fails.\n"
      "# {:<18}, {:<4}, {:<8}, {:<28}, {:>7}\n",
      device, kFusionPrefill, "model", "moe", "mode", "label", "count");
  for (const FusionRow& row : rows)
    out += fmt::format("{:<20}, {:<4}, {:<8}, {:<28}, {:>7}\n", row.model, row.has_experts ? 1 : 0, row.mode, row.label,
                       row.count);
  return out;
}

Result<std::vector<FusionRow>> parse_fusion_csv(std::string_view text, std::string_view name) {
  std::vector<FusionRow> rows;
  std::map<Key, size_t> lines;
  size_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    ++line_number;
    if (line.empty() || line.starts_with('#')) continue;
    const auto bad = [&](std::string what) {
      return Error{.code = ErrorCode::bad_file,
                   .what = std::move(what),
                   .where = fmt::format("{}, line {}", name, line_number),
                   .hint = "record the baseline again"};
    };
    const auto row = parse_row(columns_of(line));
    if (!row) return bad("needs the columns model, moe (0 or 1), mode (any, prefill, decode), label and count");
    if (const auto [first, is_new] = lines.try_emplace(key_of(*row), line_number); !is_new)
      return bad(fmt::format("has the key of line {} again", first->second));
    rows.push_back(*row);
  }
  return rows;
}

std::vector<std::string> differences(const std::vector<FusionRow>& baseline, const std::vector<FusionRow>& run) {
  std::map<Key, const FusionRow*> expected;
  for (const FusionRow& row : baseline) expected[key_of(row)] = &row;
  std::vector<std::string> out;
  for (const FusionRow& row : run) {
    const auto found = expected.find(key_of(row));
    if (found == expected.end()) {
      out.push_back(fmt::format("{}: {} per graph, the baseline has no such row", text_of(row), row.count));
      continue;
    }
    if (found->second->count != row.count)
      out.push_back(
          fmt::format("{}: {} per graph, the baseline has {}", text_of(row), row.count, found->second->count));
    expected.erase(found);
  }
  for (const auto& [key, row] : expected)
    out.push_back(fmt::format("{}: did not fire, the baseline has {} per graph", text_of(*row), row->count));
  return out;
}

}  // namespace tokamak

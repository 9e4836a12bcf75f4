#include "base/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/check.h"

namespace tokamak {

namespace {

Error bad_value(const Setting& setting, std::string_view where, std::string what) {
  return Error{ErrorCode::bad_argument, std::move(what), std::string(where), allowed_values(setting)};
}

// In place, since gcc 12 warns (under sanitizers) about moving a variant.
template <class T>
Result<SettingValue> valued(T&& value) {
  return Result<SettingValue>(tl::in_place, std::forward<T>(value));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// \n \t \r \\ \" \xHH; any other backslash stands for itself, so that Windows paths and regexes survive.
std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
    static constexpr std::string_view kLetters = "ntr\\\"", kMeanings = "\n\t\r\\\"";
    const size_t letter = kLetters.find(next);
    if (next != '\0' && letter != std::string_view::npos) {
      out += kMeanings[letter];
      ++i;
    } else if (next == 'x' && i + 3 < text.size() && hex_digit(text[i + 2]) >= 0 && hex_digit(text[i + 3]) >= 0) {
      out += static_cast<char>(hex_digit(text[i + 2]) * 16 + hex_digit(text[i + 3]));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

Result<SettingValue> parse_switch(const Setting& setting, std::string_view text, std::string_view where) {
  for (std::string_view yes : {"", "1", "on", "true", "yes"})
    if (text == yes) return valued(true);
  for (std::string_view no : {"0", "off", "false", "no"})
    if (text == no) return valued(false);
  return bad_value(setting, where, fmt::format("'{}' is neither on nor off", text));
}

template <class Number>
Result<SettingValue> parse_number(const Setting& setting, std::string_view text, std::string_view where) {
  constexpr bool kInteger = std::is_same_v<Number, int64_t>;
  std::string_view digits = text;
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
  Number number = 0;
  const auto [end, errc] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (end != digits.data() + digits.size() || errc == std::errc::invalid_argument || std::isnan(double(number)))
    return bad_value(setting, where, fmt::format("'{}' is not a {}number", text, kInteger ? "whole " : ""));
  if (errc == std::errc::result_out_of_range || double(number) < setting.min || double(number) > setting.max)
    return bad_value(setting, where, fmt::format("'{}' is out of range", text));
  return valued(number);
}

Result<SettingValue> parse_choice(const Setting& setting, std::string_view text, std::string_view where) {
  const auto names = split(setting.choices, ' ');
  if (std::find(names.begin(), names.end(), text) != names.end()) return valued(std::string(text));
  const std::string_view near = nearest_name(text, names);
  return bad_value(
      setting, where,
      fmt::format("'{}' is not a choice{}", text, near.empty() ? "" : fmt::format(", did you mean {}?", near)));
}

SettingValue default_value(const Setting& setting) {
  if (setting.type == SettingType::list) {
    std::vector<std::string> items;
    for (std::string_view item : split(setting.default_text, ' ')) items.push_back(unescape(item));
    return items;
  }
  auto value = parse_setting(setting, setting.default_text, setting.flag);
  CHECK(value.has_value(), setting.flag, setting.default_text);
  return *std::move(value);
}

size_t row_of(const Setting& setting) { return static_cast<size_t>(&setting - settings().data()); }

Error unknown_flag(std::string_view name, uint32_t scopes) {
  if (const Setting* elsewhere = find_setting(name); elsewhere != nullptr && name.starts_with("--")) {
    std::string commands;
    for (const ScopeRow& row : tokamak::scopes())
      if ((row.scope & elsewhere->scopes) != 0) commands += (commands.empty() ? "" : ", ") + std::string(row.command);
    return Error{ErrorCode::bad_argument, "this command has no such flag", std::string(name),
                 "it belongs to: " + commands + "; --help lists the flags of this one"};
  }
  std::vector<std::string_view> known;
  for (const Setting& s : settings()) {
    if ((s.scopes & scopes) == 0) continue;
    known.push_back(s.flag);
    if (!s.alias.empty()) known.push_back(s.alias);
  }
  const std::string_view near = nearest_name(name, known);
  return Error{ErrorCode::bad_argument, "unknown flag", std::string(name),
               near.empty() ? "--help lists the flags" : fmt::format("did you mean {}?", near)};
}

}  // namespace

const Setting* find_setting(std::string_view name, uint32_t scopes) {
  if (name.empty()) return nullptr;
  for (const Setting& s : settings())
    if ((s.scopes & scopes) != 0 && (name == s.flag || name == s.short_flag || name == s.alias)) return &s;
  return nullptr;
}

const Setting* find_setting_by_json(std::string_view field) {
  if (field.empty()) return nullptr;
  const auto row =
      std::find_if(settings().begin(), settings().end(), [&](const Setting& s) { return s.json == field; });
  return row == settings().end() ? nullptr : &*row;
}

Result<SettingValue> parse_setting(const Setting& setting, std::string_view text, std::string_view where) {
  switch (setting.type) {
    case SettingType::flag:
      return parse_switch(setting, text, where);
    case SettingType::integer:
      return parse_number<int64_t>(setting, text, where);
    case SettingType::number:
      return parse_number<double>(setting, text, where);
    case SettingType::choice:
      return parse_choice(setting, text, where);
    case SettingType::text:
      return valued(std::string(text));
    case SettingType::list:
      return valued(std::vector<std::string>{unescape(text)});
  }
  CHECK(false, static_cast<int>(setting.type));
  return valued(false);
}

Result<void> check_setting_range(const Setting& setting, double value, std::string_view where) {
  if (std::isnan(value) || value < setting.min || value > setting.max)
    return bad_value(setting, where, fmt::format("{} is out of range", value));
  return {};
}

SettingValues::SettingValues() {
  slots_.reserve(settings().size());
  for (const Setting& s : settings()) slots_.push_back({default_value(s), Source::built_in});
}

Result<void> SettingValues::set(const Setting& setting, std::string_view text, Source source, std::string_view where) {
  Slot& slot = slots_[row_of(setting)];
  SettingValue value = TRY(parse_setting(setting, text, where));
  if (source < slot.source) return {};
  if (setting.type == SettingType::list && source == slot.source) {
    std::get<std::vector<std::string>>(slot.value).push_back(std::get<std::vector<std::string>>(value).front());
    return {};
  }
  slot = {std::move(value), source};
  return {};
}

Error SettingValues::in_given_names(Error error) const {
  for (const Setting& s : settings()) {
    if (slots_[row_of(s)].source != Source::environment) continue;
    const size_t at = error.where.find(s.flag), end = at + s.flag.size();
    if (at == std::string::npos) continue;
    const bool goes_on = end < error.where.size() &&
                         (error.where[end] == '-' || std::isalnum(static_cast<unsigned char>(error.where[end])));
    if (!goes_on) error.where.replace(at, s.flag.size(), environment_name(s));
  }
  return error;
}

Result<void> SettingValues::read_environment(uint32_t scopes, const std::function<const char*(const char*)>& lookup) {
  for (const Setting& s : settings()) {
    if ((s.scopes & scopes) == 0) continue;
    const std::string name = environment_name(s);
    const char* text = lookup ? lookup(name.c_str()) : std::getenv(name.c_str());
    if (text != nullptr) TRY(set(s, text, Source::environment, name));
  }
  return {};
}

Result<std::vector<std::string>> SettingValues::read_arguments(uint32_t scopes,
                                                               std::span<const std::string_view> words) {
  std::vector<std::string> others;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--") {
      others.insert(others.end(), words.begin() + static_cast<ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      others.emplace_back(word);
      continue;
    }
    const size_t equals = word.starts_with("--") ? word.find('=') : std::string_view::npos;
    const std::string_view name = word.substr(0, equals);
    const Setting* setting = find_setting(name, scopes);
    if (setting == nullptr) return unknown_flag(name, scopes);
    std::string_view text;
    if (equals != std::string_view::npos)
      text = word.substr(equals + 1);
    else if (setting->type != SettingType::flag) {
      if (i + 1 == words.size()) return bad_value(*setting, name, "a value must follow");
      text = words[++i];
    }
    TRY(set(*setting, text, Source::flag, name));
  }
  return others;
}

const SettingValues::Slot& SettingValues::slot(std::string_view flag) const {
  const Setting* setting = find_setting(flag);
  CHECK(setting != nullptr && setting->flag == flag, flag);
  return slots_[row_of(*setting)];
}

namespace {
template <class T>
const T& typed(const SettingValue& value, std::string_view flag) {
  const T* typed_value = std::get_if<T>(&value);
  CHECK(typed_value != nullptr, flag, value.index());
  return *typed_value;
}
}  // namespace

bool SettingValues::flag(std::string_view flag) const { return typed<bool>(slot(flag).value, flag); }
int64_t SettingValues::integer(std::string_view flag) const { return typed<int64_t>(slot(flag).value, flag); }
double SettingValues::number(std::string_view flag) const { return typed<double>(slot(flag).value, flag); }
const std::string& SettingValues::text(std::string_view flag) const {
  return typed<std::string>(slot(flag).value, flag);
}
const std::vector<std::string>& SettingValues::list(std::string_view flag) const {
  return typed<std::vector<std::string>>(slot(flag).value, flag);
}
SettingValues::Source SettingValues::source(std::string_view flag) const { return slot(flag).source; }
const SettingValue& SettingValues::value(const Setting& setting) const { return slots_[row_of(setting)].value; }

std::string_view nearest_name(std::string_view wrong, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t best_edits = wrong.size() / 3 + 1;
  // Rows of the optimal-string-alignment table; the distance of prefixes, two rows back for swapped neighbours.
  std::vector<size_t> before, last, row;
  if (wrong.size() > 64) return best;
  for (std::string_view name : candidates) {
    last.assign(name.size() + 1, 0);
    for (size_t k = 0; k <= name.size(); ++k) last[k] = k;
    for (size_t i = 1; i <= wrong.size(); ++i) {
      row.assign(name.size() + 1, i);
      for (size_t k = 1; k <= name.size(); ++k) {
        row[k] = std::min({last[k] + 1, row[k - 1] + 1, last[k - 1] + (wrong[i - 1] != name[k - 1])});
        if (i > 1 && k > 1 && wrong[i - 1] == name[k - 2] && wrong[i - 2] == name[k - 1])
          row[k] = std::min(row[k], before[k - 2] + 1);
      }
      before.swap(last);
      last.swap(row);
    }
    if (last.back() < best_edits) {
      best_edits = last.back();
      best = name;
    }
  }
  return best;
}

}  // namespace tokamak

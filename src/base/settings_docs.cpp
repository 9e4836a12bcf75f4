// Text made from the settings table: allowed values, help pages, the reference page.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/settings.h"

namespace tokamak {

namespace {

std::string spaced_list(std::string_view names) {
  std::string out;
  for (char c : names) out += c == ' ' ? std::string(", ") : std::string(1, c);
  return out;
}

// Integers print without exponent however large.
std::string number_text(const Setting& s, double number) {
  return s.type == SettingType::integer ? fmt::format("{}", static_cast<int64_t>(number)) : fmt::format("{}", number);
}

std::string values_text(const Setting& s) {
  switch (s.type) {
    case SettingType::flag:
      return "on or off";
    case SettingType::integer:
    case SettingType::number:
      return fmt::format("a {}number from {} to {}", s.type == SettingType::integer ? "whole " : "",
                         number_text(s, s.min), number_text(s, s.max));
    case SettingType::choice:
      return "one of " + spaced_list(s.choices);
    case SettingType::text:
      return "text";
    case SettingType::list:
      return "text, may be repeated";
  }
  return {};
}

std::string_view placeholder(const Setting& s) {
  switch (s.type) {
    case SettingType::flag:
      return "";
    case SettingType::integer:
      return " N";
    case SettingType::number:
      return " X";
    case SettingType::choice:
      return " NAME";
    case SettingType::text:
    case SettingType::list:
      return " TEXT";
  }
  return {};
}

std::string commands_text(uint32_t set) {
  if (set == kScopeAll) return "all";
  std::string out;
  for (const ScopeRow& row : scopes())
    if ((set & row.scope) != 0) out += fmt::format("{}{}", out.empty() ? "" : ", ", row.command);
  return out;
}

// Within a Markdown table a bar ends the cell, even inside backticks.
std::string code(std::string_view text) {
  if (text.empty()) return "";
  std::string out = "`";
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out + "`";
}

}  // namespace

std::string environment_name(const Setting& setting) {
  std::string out = "TOKAMAK_";
  for (char c : setting.flag.substr(2))
    out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string allowed_values(const Setting& setting) {
  std::string out = values_text(setting);
  if (!setting.default_text.empty()) out += fmt::format(", default {}", setting.default_text);
  return out;
}

std::string settings_help(Scope scope, bool all) {
  std::string out;
  std::string_view group;
  for (const Setting& s : settings()) {
    if ((s.scopes & scope) == 0 || (!all && !s.common)) continue;
    if (s.group != group) {
      group = s.group;
      out += fmt::format("{}{}:\n", out.empty() ? "" : "\n", group);
    }
    const std::string names = s.short_flag.empty() ? std::string(s.flag) : fmt::format("{}, {}", s.short_flag, s.flag);
    const bool show_default = s.type != SettingType::flag && !s.default_text.empty();
    out += fmt::format("  {:<27} {}{}\n", names + std::string(placeholder(s)), s.help,
                       show_default ? fmt::format(" [{}]", s.default_text) : "");
  }
  return out;
}

std::string settings_markdown() {
  std::string out =
      "# Settings\n\n"
      "Printed by the program from its settings table. A flag wins over the environment, the environment over the\n"
      "default. In lists `\\n \\t \\r \\\\ \\\" \\xHH` are understood.\n";
  std::string_view group;
  for (const Setting& s : settings()) {
    if (s.group != group) {
      group = s.group;
      out += fmt::format(
          "\n## {}\n\n| flag | environment | JSON field | values | default | commands | meaning |\n"
          "|---|---|---|---|---|---|---|\n",
          group);
    }
    std::string names = code(s.flag);
    if (!s.short_flag.empty()) names += fmt::format(" {}", code(s.short_flag));
    if (!s.alias.empty()) names += fmt::format(" {}", code(s.alias));
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", names, code(environment_name(s)), code(s.json),
                       values_text(s), code(s.default_text), commands_text(s.scopes), s.help);
  }
  return out;
}

}  // namespace tokamak

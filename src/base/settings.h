// The settings table: one row per flag. Command line, environment, --help, docs and server requests are read from it.
// Non-goal: what a setting does. Each folder turns the values it owns into its own struct of named fields.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace tokamak {

enum class SettingType : uint8_t { flag, integer, number, choice, text, list };

// The commands that know a setting, as a bit set.
enum Scope : uint32_t {
  kScopeRun = 1,
  kScopeServe = 2,
  kScopeBench = 4,
  kScopeTokenize = 8,
  kScopeInspect = 16,
  kScopeExplain = 32,
  kScopeSelftest = 64,
  kScopeDocs = 128,
  kScopeConvert = 256,
  kScopeQuantize = 512,
  kScopeSplit = 1024,
  kScopeMerge = 2048,
  kScopeImatrix = 4096,
  kScopeEval = 8192,
  kScopeCheckOps = 16384,
  kScopeSynth = 32768,
  kScopeFusion = 65536,
  kScopePlan = 131072,
  kScopeAll = 262143,
};
struct ScopeRow {
  Scope scope;
  std::string_view command;
};
std::span<const ScopeRow> scopes();

struct Setting {
  std::string_view flag;        // "--temp"; unique in the whole table
  std::string_view short_flag;  // "-n" or empty; unique per command
  std::string_view alias;       // a second long form or empty; unique per command
  std::string_view json;        // request field or empty
  SettingType type;
  double min, max;                // integer and number only; inclusive
  std::string_view choices;       // choice only: names separated by spaces
  std::string_view default_text;  // as a user would type it; a list: items separated by spaces, escapes as below
  uint32_t scopes;                // Scope bits
  std::string_view group;         // heading in --help and docs
  bool common;                    // shown in the one-screen help
  std::string_view help;          // one sentence
};

// All rows, grouped. The span lives for ever.
std::span<const Setting> settings();

// The row whose flag, short flag or alias is `name`, among the rows of any command in `scopes`; nullptr if none.
const Setting* find_setting(std::string_view name, uint32_t scopes = kScopeAll);
const Setting* find_setting_by_json(std::string_view field);

// "TOKAMAK_CTX_SIZE" for --ctx-size.
std::string environment_name(const Setting& setting);
// What may be given and what holds otherwise: "a number from 0 to 100, default 0.8".
std::string allowed_values(const Setting& setting);

// flag -> bool, integer -> int64_t, number -> double, choice and text -> string, list -> strings.
using SettingValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;

// Errors: bad_argument, `where` is the given name. A list yields its one item, with \n \t \r \\ \" and \xHH unescaped.
Result<SettingValue> parse_setting(const Setting& setting, std::string_view text, std::string_view where);
// For values that arrive typed (JSON, C++): the range of an integer or number row. NaN is out of every range.
Result<void> check_setting_range(const Setting& setting, double value, std::string_view where);

// One value per row: default, then environment, then flags; a later source replaces an earlier one.
class SettingValues {
 public:
  enum class Source : uint8_t { built_in, environment, flag };

  SettingValues();  // every row at its default

  // A repeated list setting of the same source appends, anything else replaces.
  Result<void> set(const Setting& setting, std::string_view text, Source source, std::string_view where);
  // Reads TOKAMAK_* of the rows of these commands. `lookup` returns nullptr for an unset name (default: getenv).
  Result<void> read_environment(uint32_t scopes, const std::function<const char*(const char*)>& lookup = {});
  // Reads the words after the command: "--flag value", "--flag=value", "-f value", flags without value; "--" ends
  // flags. Returns the other words in order. Errors name the flag and, when unknown, the nearest known one.
  Result<std::vector<std::string>> read_arguments(uint32_t scopes, std::span<const std::string_view> words);

  // `flag` is the long form of a row of that type (CHECKed).
  bool flag(std::string_view flag) const;
  int64_t integer(std::string_view flag) const;
  double number(std::string_view flag) const;
  const std::string& text(std::string_view flag) const;  // text or choice
  const std::vector<std::string>& list(std::string_view flag) const;
  Source source(std::string_view flag) const;
  bool is_set(std::string_view flag) const { return source(flag) != Source::built_in; }
  const SettingValue& value(const Setting& setting) const;
  // The error with the names under which values were given: flags in `where` that the environment has set become its
  // variables.
  Error in_given_names(Error error) const;

 private:
  struct Slot {
    SettingValue value;
    Source source = Source::built_in;
  };
  const Slot& slot(std::string_view flag) const;
  std::vector<Slot> slots_;  // by row
};

// Help of one command: a line per setting, grouped. `all` adds the settings that are not common.
std::string settings_help(Scope scope, bool all);
// docs/reference/settings.md.
std::string settings_markdown();

// The candidate with the fewest edits (insert, delete, replace, swap neighbours) from `wrong`; empty when even that
// one needs more than a third of the letters changed.
std::string_view nearest_name(std::string_view wrong, std::span<const std::string_view> candidates);

}  // namespace tokamak

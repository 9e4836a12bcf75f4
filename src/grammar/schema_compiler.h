// JSON Schema to rules. Internal to the folder; from_json_schema() is the way in.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/utf8.h"

#include "grammar/grammar.h"
#include "grammar/rules.h"

namespace tokamak::grammar {

// A schema with its references, allOf, anyOf and oneOf resolved: any of the alternatives. Each is an object of
// keywords that speak of the value itself, with `pattern`, `format` as arrays and `const` as a one-element enum.
using Alternatives = std::vector<Json>;

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, const GrammarOptions& options, Rules& rules)
      : root_(root), options_(options), rules_(rules) {}

  // A value of the schema, or of the part of it at `pointer`.
  Result<ExprId> compile(const std::string& pointer = "#");
  ExprId any_object();
  std::vector<SchemaNote> take_notes() { return std::move(notes_); }

 private:
  using Path = std::string;

  struct Pending {
    RuleId rule;
    const Json* schema;
    Path path;
    bool combined;  // from later(): resolve it now
  };

  // schema_compiler.cpp: structure
  Result<ExprId> value(const Json& schema, const Path& path, uint32_t depth);
  Result<ExprId> as_rule(Result<ExprId> value, const Path& path);
  Result<ExprId> any_of(const Json& branches, const char* keyword, const Path& path, uint32_t depth);
  Result<ExprId> later(const Json& schema, const Path& path);
  Result<ExprId> typed(const Json& plain, const Path& path, uint32_t depth);
  Result<ExprId> one_type(std::string_view type, const Json& plain, const Path& path, uint32_t depth);
  Result<ExprId> enumeration(const Json& plain, const Path& path);
  Result<bool> allows(const Json& plain, const Json& value, const Path& path);
  Result<const Json*> resolve(const Json& ref, const Path& path) const;
  Result<void> work_off();
  void note(const Path& path, std::string_view keyword, std::string reason);

  // schema_merge.cpp: references and combinations
  Result<Alternatives> alternatives(const Json& schema, const Path& path, uint32_t depth);
  Result<Json> plain_keywords(const Json& schema, const Path& path);
  Result<Alternatives> cross(const Alternatives& x, const Alternatives& y, const Path& path);
  Result<std::optional<Json>> merge(const Json& x, const Json& y, const Path& path);

  // schema_containers.cpp
  Result<ExprId> object(const Json& plain, const Path& path, uint32_t depth);
  Result<ExprId> more_properties(const Json& plain, const std::vector<std::string>& names, const Path& path,
                                 uint32_t depth);
  Result<ExprId> pattern_properties(const Json& patterns, const std::vector<std::string>& names, const Path& path,
                                    uint32_t depth);
  Result<Json> property_schema(const Json& plain, const std::string& name, const Path& path);
  Result<ExprId> array(const Json& plain, const Path& path, uint32_t depth);
  ExprId member(ExprId key, ExprId member_value);
  ExprId space();
  ExprId separator();
  RuleId any_value();
  ExprId any_array();

  // schema_scalars.cpp
  Result<ExprId> string(const Json& plain, const Path& path);
  Result<CharNfa> string_nfa(const Json& patterns, const Json& formats, const Path& path);
  Result<CharNfa> pattern_nfa(std::string_view pattern, bool contains, const Path& path);
  Result<ExprId> number(const Json& plain, bool integer, const Path& path);
  ExprId any_string(uint32_t min, uint32_t max);
  RuleId chars_rule(const std::string& name, CharNfa nfa, StringForm form, bool bounds);
  struct Bounds {
    uint32_t min = 0, max = kUnbounded;
    bool trivial() const { return min == 0 && max == kUnbounded; }
  };
  Result<Bounds> bounds(const Json& plain, const char* min_key, const char* max_key, const Path& path) const;

  const Json& root_;
  const GrammarOptions& options_;
  Rules& rules_;
  std::vector<SchemaNote> notes_;
  std::deque<Pending> pending_;
  std::deque<Json> owned_;                                // merged schemas
  std::unordered_map<const Json*, RuleId> ref_rules_;     // by target
  std::unordered_map<std::string, RuleId> merged_rules_;  // by text
  std::unordered_map<std::string, RuleId> named_rules_;   // strings and numbers
  std::optional<RuleId> any_value_, space_;
};

// Error of one place of a schema.
inline Error schema_error(const std::string& path, std::string what, std::string hint = {}) {
  return refusal(std::move(what), "schema " + path, std::move(hint));
}

// Keywords that say nothing about the value.
bool is_annotation(std::string_view keyword);

// `name` as a step of a JSON pointer.
std::string pointer_step(std::string_view name);
// The value as JSON text; never throws.
std::string json_text(const Json& value);

struct Format {
  std::string_view name, pattern;
  uint32_t max_chars = kUnbounded;  // where the pattern itself has loops
};
// Null for a format that is not enforced.
const Format* find_format(std::string_view format);

// Texts of the numbers within bounds: see schema_numbers.cpp.
Result<CharNfa> number_nfa(const Json& plain, bool integer, const std::string& path, std::string* note);

inline constexpr size_t kMaxPatternStates = 4000;

}  // namespace tokamak::grammar

// Strings: lengths, patterns, formats; numbers by schema_numbers.cpp.
#include <algorithm>
#include <cmath>

#include "grammar/regex.h"
#include "grammar/schema_compiler.h"

namespace tokamak::grammar {

Result<SchemaCompiler::Bounds> SchemaCompiler::bounds(const Json& plain, const char* min_key, const char* max_key,
                                                      const Path& path) const {
  Bounds out;
  if (const auto min = plain.find(min_key); min != plain.end()) {
    const double value = min->get<double>();
    if (value > kMaxCount) return schema_error(path, "'" + std::string(min_key) + "' is too large");
    out.min = value > 0 ? static_cast<uint32_t>(std::ceil(value)) : 0;
  }
  if (const auto max = plain.find(max_key); max != plain.end()) {
    const double value = max->get<double>();
    if (value < 0) return schema_error(path, "'" + std::string(max_key) + "' must not be negative");
    out.max = value > kMaxCount ? kUnbounded : static_cast<uint32_t>(std::floor(value));
  }
  return out;
}

RuleId SchemaCompiler::chars_rule(const std::string& name, CharNfa nfa, StringForm form, bool has_bounds) {
  const auto [place, added] = named_rules_.try_emplace(name, 0);
  if (added) place->second = rules_.define_chars(name, std::move(nfa), form, has_bounds);
  return place->second;
}

// All strings without a pattern share one rule, and so one mask for all grammars of a model.
ExprId SchemaCompiler::any_string(uint32_t min, uint32_t max) {
  return rules_.call(chars_rule("string", any_chars(), StringForm::json_escapes, true), min, max);
}

Result<CharNfa> SchemaCompiler::pattern_nfa(std::string_view pattern, bool contains, const Path& path) {
  const ExprId expr = TRY(parse_regex(rules_, pattern, contains, false, "schema " + path));
  return char_nfa_of(rules_, expr, kMaxPatternStates, rules_.budget());
}

Result<CharNfa> SchemaCompiler::string_nfa(const Json& patterns, const Json& formats, const Path& path) {
  CharNfa all = any_chars();
  bool first = true;
  const auto add = [&](std::string_view pattern, const Path& at) -> Result<void> {
    CharNfa one = TRY(pattern_nfa(pattern, true, at));
    all = first ? std::move(one) : TRY(intersect(all, one, kMaxPatternStates, rules_.budget()));
    first = false;
    return {};
  };
  for (const Json& pattern : patterns) TRY(add(pattern.get_ref<const std::string&>(), path + "/pattern"));
  for (const Json& format : formats) {
    if (const Format* known = find_format(format.get_ref<const std::string&>()))
      TRY(add(known->pattern, path + "/format"));
    else
      note(path, "format", "format '" + format.get<std::string>() + "' is not enforced");
  }
  return all;
}

Result<ExprId> SchemaCompiler::string(const Json& plain, const Path& path) {
  Bounds n = TRY(bounds(plain, "minLength", "maxLength", path));
  const Json patterns = plain.value("pattern", Json::array()), formats = plain.value("format", Json::array());
  bool has_format = false;
  for (const Json& format : formats)
    if (const Format* known = find_format(format.get_ref<const std::string&>())) {
      has_format = true;
      n.max = std::min(n.max, known->max_chars);
    }
  if (n.min > n.max) return rules_.never();
  if (patterns.empty() && !has_format) {
    for (const Json& format : formats)
      note(path, "format", "format '" + format.get<std::string>() + "' is not enforced");
    return any_string(n.min, n.max);
  }
  if (patterns.size() == 1 && formats.empty()) {
    // Large bounds inside the pattern: counted on the way, at the price of the length.
    const ExprId expr =
        TRY(parse_regex(rules_, patterns[0].get_ref<const std::string&>(), true, true, "schema " + path + "/pattern"));
    const Expr e = rules_.expr(expr);
    const bool is_run = e.kind == ExprKind::repeat && rules_.expr(e.index).kind == ExprKind::chars;
    if (is_run) {  // one class, so many times: a matter of length alone
      CharNfa run;
      run.states.push_back({.edges = {{rules_.set(rules_.expr(e.index)), 0}}, .accepts = true});
      trim(run);
      const uint32_t min = std::max(n.min, e.min), max = std::min(n.max, e.max);
      if (min > max) return rules_.never();
      const std::string name = "run " + patterns[0].get<std::string>();
      return rules_.call(chars_rule(name, std::move(run), StringForm::json, true), min, max);
    }
    auto nfa = pattern_nfa(patterns[0].get_ref<const std::string&>(), true, path + "/pattern");
    if (!nfa && rules_.budget().ok()) {
      if (!n.trivial()) note(path, "maxLength", "not enforced beside a pattern with large repetitions");
      return rules_.sequence({rules_.bytes("\""), expr, rules_.bytes("\"")});
    }
  }
  CharNfa nfa = TRY(string_nfa(patterns, formats, path));
  if (nfa.states.empty()) return rules_.never();
  if (nfa.states[0].shortest > n.max || nfa.states[0].longest < n.min) return rules_.never();
  const std::string name = json_text(patterns) + json_text(formats) + (n.trivial() ? "" : " counted");
  return rules_.call(chars_rule(name, std::move(nfa), StringForm::json, !n.trivial()), n.min, n.max);
}

Result<ExprId> SchemaCompiler::number(const Json& plain, bool integer, const Path& path) {
  std::string name = integer ? "integer" : "number";
  for (const char* key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
    if (plain.contains(key)) name += std::string(" ") + key + json_text(plain[key]);
  std::string reason;
  CharNfa nfa = TRY(number_nfa(plain, integer, path, &reason));
  if (!reason.empty()) note(path, "multipleOf", reason);
  if (nfa.states.empty()) return rules_.never();
  return rules_.call(chars_rule(name, std::move(nfa), StringForm::plain, false));
}

}  // namespace tokamak::grammar

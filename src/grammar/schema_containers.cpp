// Objects, arrays and white space.
#include <algorithm>

#include "grammar/schema_compiler.h"

namespace tokamak::grammar {

namespace {
constexpr uint32_t kMaxIndent = 16;  // spaces and tabs behind a newline
}

ExprId SchemaCompiler::space() {
  if (options_.compact) return rules_.empty();
  if (!space_) {
    const ExprId indent = rules_.repeat(rules_.chars(CharSet{{' ', ' '}, {'\t', '\t'}}), 0, kMaxIndent);
    space_ = rules_.declare("white space");
    rules_.define(*space_,
                  rules_.optional(rules_.choice({rules_.bytes(" "), rules_.sequence({rules_.bytes("\n"), indent})})));
  }
  return rules_.call(*space_);
}

ExprId SchemaCompiler::separator() { return rules_.sequence({rules_.bytes(","), space()}); }

ExprId SchemaCompiler::member(ExprId key, ExprId member_value) {
  const ExprId after_colon = options_.compact ? rules_.empty() : rules_.optional(rules_.bytes(" "));
  return rules_.sequence({key, rules_.bytes(":"), after_colon, member_value});
}

ExprId SchemaCompiler::any_object() {
  const ExprId pair = member(any_string(0, kUnbounded), rules_.call(any_value()));
  const ExprId members = rules_.chain({}, {}, separator(), pair, 0, kUnbounded);
  return rules_.sequence({rules_.bytes("{"), space(), members, space(), rules_.bytes("}")});
}

ExprId SchemaCompiler::any_array() {
  const ExprId item = rules_.call(any_value());
  const ExprId rest = rules_.repeat(rules_.sequence({separator(), item}), 0, kUnbounded);
  const ExprId items = rules_.optional(rules_.sequence({item, rest}));
  return rules_.sequence({rules_.bytes("["), space(), items, space(), rules_.bytes("]")});
}

RuleId SchemaCompiler::any_value() {
  if (any_value_) return *any_value_;
  any_value_ = rules_.declare("any value");
  const auto rule = [&](const char* name, ExprId body) {
    const RuleId id = rules_.declare(name);
    rules_.define(id, body);
    return rules_.call(id);
  };
  const auto any_number = number(Json::object(), false, "#");
  rules_.define(*any_value_, rules_.choice({rule("any object", any_object()), rule("any array", any_array()),
                                            any_string(0, kUnbounded), any_number ? *any_number : rules_.never(),
                                            rules_.bytes("true"), rules_.bytes("false"), rules_.bytes("null")}));
  return *any_value_;
}

// What the schema says about the property `name`: by its own name, and by the patterns that it matches.
Result<Json> SchemaCompiler::property_schema(const Json& plain, const std::string& name, const Path& path) {
  std::vector<Json> parts;
  if (const auto properties = plain.find("properties"); properties != plain.end())
    if (const auto own = properties->find(name); own != properties->end()) parts.push_back(*own);
  if (const auto patterns = plain.find("patternProperties"); patterns != plain.end()) {
    std::u32string text;
    for (size_t i = 0; i < name.size();) {
      const Utf8Char c = decode_utf8(name, i);
      text += c.code_point;
      i += c.n_bytes;
    }
    for (const auto& [pattern, schema] : patterns->items())
      if (TRY(pattern_nfa(pattern, true, path)).matches(text)) parts.push_back(schema);
  }
  if (parts.empty()) return plain.value("additionalProperties", Json(true));
  if (parts.size() == 1) return parts[0];
  Json all = Json::object();
  all["allOf"] = parts;
  return all;
}

// Members whose keys match a pattern and are none of `names`.
Result<ExprId> SchemaCompiler::pattern_properties(const Json& patterns, const std::vector<std::string>& names,
                                                  const Path& path, uint32_t depth) {
  const CharNfa others = all_but(names);
  std::vector<ExprId> parts;
  if (patterns.size() > 1)
    note(path, "patternProperties", "a key that matches several patterns is held to one of them");
  for (const auto& [pattern, schema] : patterns.items()) {
    const Path at = path + "/patternProperties" + pointer_step(pattern);
    CharNfa keys = TRY(intersect(TRY(pattern_nfa(pattern, true, at)), others, kMaxPatternStates, rules_.budget()));
    if (keys.states.empty()) continue;
    const RuleId key = rules_.define_chars(at, std::move(keys), StringForm::json, false);
    parts.push_back(member(rules_.call(key), TRY(as_rule(value(schema, at, depth + 1), at))));
  }
  return rules_.choice(parts);
}

Result<ExprId> SchemaCompiler::more_properties(const Json& plain, const std::vector<std::string>& names,
                                               const Path& path, uint32_t depth) {
  const auto more = plain.find("additionalProperties");
  if (const auto patterns = plain.find("patternProperties"); patterns != plain.end() && !patterns->empty()) {
    if (more != plain.end() && *more != false)
      note(path, "additionalProperties", "only keys that match patternProperties are made");
    return pattern_properties(*patterns, names, path, depth);
  }
  const bool is_open = more != plain.end() || !plain.contains("properties") || plain["properties"].empty();
  if (!is_open || (more != plain.end() && *more == false)) return rules_.never();
  CharNfa keys = all_but(names);
  if (const auto key_schema = plain.find("propertyNames"); key_schema != plain.end()) {
    const Alternatives parts = TRY(alternatives(*key_schema, path + "/propertyNames", depth + 1));
    const bool simple = parts.size() == 1 && (parts[0].contains("pattern") || parts[0].contains("format"));
    if (simple)
      keys = TRY(intersect(
          keys,
          TRY(string_nfa(parts[0].value("pattern", Json::array()), parts[0].value("format", Json::array()), path)),
          kMaxPatternStates, rules_.budget()));
    else
      note(path, "propertyNames", "only a pattern or a format is enforced");
  }
  const Path at = path + "/additionalProperties";
  const ExprId values = more == plain.end() ? rules_.call(any_value()) : TRY(as_rule(value(*more, at, depth + 1), at));
  if (keys.states.empty()) return rules_.never();
  const ExprId key = names.empty() && !plain.contains("propertyNames")
                         ? any_string(0, kUnbounded)
                         : rules_.call(rules_.define_chars(at, std::move(keys), StringForm::json, false));
  return member(key, values);
}

Result<ExprId> SchemaCompiler::object(const Json& plain, const Path& path, uint32_t depth) {
  std::vector<std::string> names, required_names;
  if (const auto properties = plain.find("properties"); properties != plain.end())
    for (const auto& [name, schema] : properties->items()) names.push_back(name);
  if (const auto list = plain.find("required"); list != plain.end())
    for (const Json& name : *list) required_names.push_back(name.get<std::string>());
  const size_t n_named = names.size();
  for (const std::string& name : required_names)
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);

  std::vector<ExprId> items;
  std::vector<bool> required;
  for (size_t i = 0; i < names.size(); ++i) {
    const Path at = i < n_named ? path + "/properties" + pointer_step(names[i]) : path + "/required";
    const Json schema = TRY(property_schema(plain, names[i], path));
    const bool is_required = std::find(required_names.begin(), required_names.end(), names[i]) != required_names.end();
    const ExprId one = TRY(as_rule(value(schema, at, depth + 1), at));
    if (is_required && rules_.expr(one).kind == ExprKind::never)
      return schema_error(at, "the required property '" + names[i] + "' can have no value");
    items.push_back(member(rules_.bytes(json_text(names[i])), one));
    required.push_back(is_required);
  }
  const ExprId more = TRY(more_properties(plain, names, path, depth));
  const Bounds n = TRY(bounds(plain, "minProperties", "maxProperties", path));
  if (n.min > names.size() && rules_.expr(more).kind != ExprKind::never)
    note(path, "minProperties", "keys that are not named in the schema may repeat");
  if (n.max < required_names.size() || (n.min > names.size() && rules_.expr(more).kind == ExprKind::never))
    return schema_error(path, "the numbers of properties and the required ones contradict each other");
  const ExprId members = rules_.chain(items, required, separator(), more, n.min, n.max);
  return rules_.sequence({rules_.bytes("{"), space(), members, space(), rules_.bytes("}")});
}

Result<ExprId> SchemaCompiler::array(const Json& plain, const Path& path, uint32_t depth) {
  Bounds n = TRY(bounds(plain, "minItems", "maxItems", path));
  if (n.min > n.max) return rules_.never();
  std::vector<ExprId> prefix;
  if (const auto list = plain.find("prefixItems"); list != plain.end())
    for (size_t i = 0; i < list->size() && i < n.max; ++i) {
      const Path at = path + "/prefixItems/" + std::to_string(i);
      prefix.push_back(TRY(as_rule(value((*list)[i], at, depth + 1), at)));
    }
  const Json rest_schema = plain.value("items", Json(true));
  const ExprId item = TRY(as_rule(value(rest_schema, path + "/items", depth + 1), path + "/items"));
  const auto n_prefix = static_cast<uint32_t>(prefix.size());
  const uint32_t rest_max = n.max == kUnbounded ? kUnbounded : n.max - n_prefix;
  const uint32_t rest_min = n.min > n_prefix ? n.min - n_prefix : 0;
  ExprId tail = rules_.empty();
  if (rest_max > 0 && n_prefix == 0) {
    const uint32_t after = rest_max == kUnbounded ? kUnbounded : rest_max - 1;
    const ExprId others = rules_.repeat(rules_.sequence({separator(), item}), std::max(rest_min, 1u) - 1, after);
    tail = rules_.sequence({item, others});
    if (rest_min == 0) tail = rules_.optional(tail);
  } else if (rest_max > 0) {
    tail = rules_.repeat(rules_.sequence({separator(), item}), rest_min, rest_max);
  }
  // From the back: each item of the prefix that may be missing takes what follows with it.
  for (uint32_t i = n_prefix; i-- > 0;) {
    tail = rules_.sequence({i > 0 ? separator() : rules_.empty(), prefix[i], tail});
    if (i >= n.min) tail = rules_.optional(tail);
    if (i % 16 == 0) tail = TRY(as_rule(tail, path));  // keeps expressions shallow
  }
  return rules_.sequence({rules_.bytes("["), space(), tail, space(), rules_.bytes("]")});
}

}  // namespace tokamak::grammar

#include "grammar/schema_compiler.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/utf8.h"
#include "grammar/build.h"
#include "grammar/regex.h"

namespace tokamak {

namespace grammar {

namespace {

bool is_type(const Json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return value.is_number_integer() ||
         (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
}

// Types that the keywords of a schema without `type` speak of.
struct TypeHint {
  std::string_view keyword, type;
};
constexpr auto kHints = std::to_array<TypeHint>({
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"patternProperties", "object"},
    {"minProperties", "object"},
    {"maxProperties", "object"},
    {"propertyNames", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"pattern", "string"},
    {"format", "string"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
    {"multipleOf", "number"},
});

bool has_constraints_besides(const Json& schema, std::string_view keyword) {
  for (const auto& [key, value] : schema.items())
    if (key != keyword && !is_annotation(key)) return true;
  return false;
}

const Json* find_anchor(const Json& root, std::string_view name) {
  std::vector<const Json*> stack{&root};
  while (!stack.empty()) {
    const Json* at = stack.back();
    stack.pop_back();
    if (at->is_object())
      if (const auto anchor = at->find("$anchor"); anchor != at->end() && anchor->is_string() && *anchor == name)
        return at;
    if (at->is_structured())
      for (const Json& child : *at) stack.push_back(&child);
  }
  return nullptr;
}

// Step of a JSON pointer: percent codes of the URI fragment, then ~1 and ~0.
std::string decode_step(std::string_view step) {
  std::string bytes, out;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '%' && i + 2 < step.size() && digit(step[i + 1]) >= 0 && digit(step[i + 2]) >= 0) {
      bytes += static_cast<char>(digit(step[i + 1]) * 16 + digit(step[i + 2]));
      i += 2;
    } else {
      bytes += step[i];
    }
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool escaped = bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1');
    out += escaped ? (bytes[++i] == '1' ? '/' : '~') : bytes[i];
  }
  return out;
}

std::optional<size_t> index_of(std::string_view step) {
  if (step.empty() || step.size() > 9 || (step.size() > 1 && step[0] == '0')) return std::nullopt;
  size_t index = 0;
  for (const char c : step) {
    if (c < '0' || c > '9') return std::nullopt;
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  return index;
}

// Depth of a schema, without recursion; stops above `limit`.
bool deeper_than(const Json& root, size_t limit) {
  std::vector<std::pair<const Json*, size_t>> stack{{&root, 1}};
  while (!stack.empty()) {
    const auto [at, depth] = stack.back();
    stack.pop_back();
    if (depth > limit) return true;
    if (at->is_structured())
      for (const Json& child : *at) stack.emplace_back(&child, depth + 1);
  }
  return false;
}

}  // namespace

std::string pointer_step(std::string_view name) {
  std::string out = "/";
  for (const char c : name) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

std::string json_text(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

void SchemaCompiler::note(const Path& path, std::string_view keyword, std::string reason) {
  for (const SchemaNote& n : notes_)
    if (n.path == path && n.keyword == keyword) return;
  notes_.push_back({path, std::string(keyword), std::move(reason)});
}

Result<const Json*> SchemaCompiler::resolve(const Json& ref, const Path& path) const {
  if (!ref.is_string()) return schema_error(path, "'$ref' must be a string");
  std::string text = ref.get<std::string>();
  if (root_.is_object())
    if (const auto id = root_.find("$id"); id != root_.end() && id->is_string()) {
      const std::string base = id->get<std::string>();
      if (!base.empty() && text.starts_with(base)) text.erase(0, base.size());
    }
  if (text.empty() || text == "#") return &root_;
  if (text[0] != '#')
    return schema_error(path, "reference '" + text + "' leads outside of this schema", "put it into $defs");
  const auto missing = [&] { return schema_error(path, "reference '" + text + "' leads nowhere"); };
  if (text[1] != '/') {
    const Json* found = find_anchor(root_, std::string_view(text).substr(1));
    return found ? Result<const Json*>(found) : missing();
  }
  const Json* at = &root_;
  for (size_t start = 2; start <= text.size();) {
    const size_t end = std::min(text.find('/', start), text.size());
    const std::string step = decode_step(std::string_view(text).substr(start, end - start));
    start = end + 1;
    if (at->is_object()) {
      const auto child = at->find(step);
      if (child == at->end()) return missing();
      at = &*child;
    } else if (at->is_array()) {
      const auto index = index_of(step);
      if (!index || *index >= at->size()) return missing();
      at = &(*at)[*index];
    } else {
      return missing();
    }
  }
  return at;
}

Result<ExprId> SchemaCompiler::as_rule(Result<ExprId> made, const Path& path) {
  const ExprId expr = TRY(std::move(made));
  const ExprKind kind = rules_.expr(expr).kind;
  if (kind == ExprKind::call || kind == ExprKind::never) return expr;
  const RuleId rule = rules_.declare(path);
  rules_.define(rule, expr);
  return rules_.call(rule);
}

// A combined schema becomes a rule of its own, known by its text: so combinations of recursive schemas end.
Result<ExprId> SchemaCompiler::later(const Json& schema, const Path& path) {
  std::string text = json_text(schema);
  if (!rules_.budget().spend(text.size() * 8)) return rules_.budget().error();
  const auto [place, added] = merged_rules_.try_emplace(std::move(text), 0);
  if (added) {
    place->second = rules_.declare(path);
    owned_.push_back(schema);
    pending_.push_back({place->second, &owned_.back(), path, true});
  }
  return rules_.call(place->second);
}

Result<ExprId> SchemaCompiler::any_of(const Json& branches, const char* keyword, const Path& path, uint32_t depth) {
  if (!branches.is_array() || branches.empty())
    return schema_error(path, "'" + std::string(keyword) + "' must be an array that is not empty");
  std::vector<ExprId> parts;
  for (size_t i = 0; i < branches.size(); ++i) {
    const Path at = path + "/" + keyword + "/" + std::to_string(i);
    parts.push_back(TRY(as_rule(value(branches[i], at, depth + 1), at)));
  }
  return rules_.choice(parts);
}

Result<ExprId> SchemaCompiler::value(const Json& schema, const Path& path, uint32_t depth) {
  if (depth > options_.limits.max_depth)
    return schema_error(path.substr(0, 200),
                        "the schema is too deep (more than " + std::to_string(options_.limits.max_depth) + " levels)");
  if (!rules_.budget().spend(path.size() + 64)) return rules_.budget().error();
  if (schema.is_boolean()) return schema.get<bool>() ? rules_.call(any_value()) : rules_.never();
  if (!schema.is_object()) return schema_error(path, "a schema must be an object or a boolean");
  for (const char* keyword : {"$dynamicRef", "$recursiveRef"})
    if (schema.contains(keyword)) return schema_error(path, "'" + std::string(keyword) + "' is not supported");
  if (schema.contains("oneOf")) note(path, "oneOf", "at least one branch holds; that no other does is not enforced");
  if (schema.contains("$ref") && !has_constraints_besides(schema, "$ref")) {
    const Json* target = TRY(resolve(schema["$ref"], path));
    const auto [place, added] = ref_rules_.try_emplace(target, 0);
    if (added) {
      const std::string name = schema["$ref"].get<std::string>();
      place->second = rules_.declare(name);
      pending_.push_back({place->second, target, name.starts_with('#') ? name : path, false});
    }
    return rules_.call(place->second);
  }
  for (const char* keyword : {"anyOf", "oneOf"})
    if (schema.contains(keyword) && !has_constraints_besides(schema, keyword))
      return any_of(schema[keyword], keyword, path, depth);
  for (const char* keyword : {"$ref", "allOf", "anyOf", "oneOf"})
    if (schema.contains(keyword)) {
      if (path != "#" || depth > 0) return later(schema, path);
      break;
    }
  const Alternatives parts = TRY(alternatives(schema, path, depth));
  std::vector<ExprId> exprs;
  for (const Json& plain : parts) {
    const ExprId one = TRY(typed(plain, path, depth));
    exprs.push_back(parts.size() == 1 ? one : TRY(as_rule(one, path)));
  }
  return rules_.choice(exprs);
}

Result<ExprId> SchemaCompiler::typed(const Json& plain, const Path& path, uint32_t depth) {
  if (plain.contains("enum")) return enumeration(plain, path);
  std::vector<std::string_view> types;
  if (const auto type = plain.find("type"); type != plain.end()) {
    for (const Json& name : *type) types.push_back(name.get_ref<const std::string&>());
  } else {
    for (const TypeHint& hint : kHints)
      if (plain.contains(hint.keyword) && std::find(types.begin(), types.end(), hint.type) == types.end())
        types.push_back(hint.type);
    if (types.empty()) return rules_.call(any_value());
  }
  std::vector<ExprId> parts;
  for (const std::string_view type : types) {
    const ExprId one = TRY(one_type(type, plain, path, depth));
    parts.push_back(types.size() == 1 ? one : TRY(as_rule(one, path)));
  }
  return rules_.choice(parts);
}

Result<ExprId> SchemaCompiler::one_type(std::string_view type, const Json& plain, const Path& path, uint32_t depth) {
  if (type == "object") return object(plain, path, depth);
  if (type == "array") return array(plain, path, depth);
  if (type == "string") return string(plain, path);
  if (type == "number" || type == "integer") return number(plain, type == "integer", path);
  if (type == "boolean") return rules_.choice({rules_.bytes("true"), rules_.bytes("false")});
  if (type == "null") return rules_.bytes("null");
  return schema_error(path, "unknown type '" + std::string(type) + "'");
}

// The small validator for values of an enum: what else the schema says about scalars.
Result<bool> SchemaCompiler::allows(const Json& plain, const Json& candidate, const Path& path) {
  if (const auto types = plain.find("type"); types != plain.end()) {
    bool any = false;
    for (const Json& type : *types) any = any || is_type(candidate, type.get_ref<const std::string&>());
    if (!any) return false;
  }
  const auto limit = [&](const char* key) { return plain.contains(key) ? plain[key].get<double>() : NAN; };
  if (candidate.is_number()) {
    const double x = candidate.get<double>();
    return !(x < limit("minimum") || x > limit("maximum") || x <= limit("exclusiveMinimum") ||
             x >= limit("exclusiveMaximum"));
  }
  if (candidate.is_array()) {
    const auto n = static_cast<double>(candidate.size());
    return !(n < limit("minItems") || n > limit("maxItems"));
  }
  if (candidate.is_object()) {
    for (const Json& name : plain.value("required", Json::array()))
      if (!candidate.contains(name.get_ref<const std::string&>())) return false;
    return true;
  }
  if (!candidate.is_string()) return true;
  std::u32string text;
  const std::string& bytes = candidate.get_ref<const std::string&>();
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, i);
    text += c.code_point;
    i += c.n_bytes;
  }
  const auto n = static_cast<double>(text.size());
  if (n < limit("minLength") || n > limit("maxLength")) return false;
  for (const Json& pattern : plain.value("pattern", Json::array()))
    if (!TRY(pattern_nfa(pattern.get_ref<const std::string&>(), true, path)).matches(text)) return false;
  return true;
}

Result<ExprId> SchemaCompiler::enumeration(const Json& plain, const Path& path) {
  const Json& values = plain["enum"];
  std::vector<ExprId> parts;
  for (const Json& one : values) {
    if (!TRY(allows(plain, one, path))) continue;
    parts.push_back(rules_.bytes(json_text(one)));
    if (!rules_.budget().ok()) return rules_.budget().error();
  }
  for (const char* keyword : {"properties", "items", "additionalProperties", "multipleOf", "format"})
    if (plain.contains(keyword)) note(path, keyword, "not checked against the values of 'enum'");
  return rules_.choice(parts);
}

Result<void> SchemaCompiler::work_off() {
  while (!pending_.empty()) {
    const Pending next = pending_.front();
    pending_.pop_front();
    if (!next.combined) {
      rules_.define(next.rule, TRY(value(*next.schema, next.path, 1)));
      continue;
    }
    const Alternatives parts = TRY(alternatives(*next.schema, next.path, 1));
    std::vector<ExprId> exprs;
    for (const Json& plain : parts) exprs.push_back(TRY(as_rule(typed(plain, next.path, 1), next.path)));
    rules_.define(next.rule, rules_.choice(exprs));
  }
  return {};
}

Result<ExprId> SchemaCompiler::compile(const std::string& pointer) {
  // A schema is nested in two levels of JSON: a keyword and a name.
  const uint32_t limit = options_.limits.max_depth;
  if (deeper_than(root_, size_t{limit} * 2))
    return schema_error("#", "the schema is too deep (more than " + std::to_string(limit) + " levels)");
  const Json* schema = pointer == "#" ? &root_ : TRY(resolve(pointer, pointer));
  const RuleId rule = rules_.declare(pointer);
  rules_.define(rule, TRY(value(*schema, pointer, 0)));
  TRY(work_off());
  return rules_.call(rule);
}

}  // namespace grammar

using namespace grammar;

Result<Grammar::Ptr> Grammar::from_json_schema(const Json& schema, const GrammarOptions& options) {
  return from_sequences({{GrammarPart{.schema = &schema}}}, 1, 1, {}, options);
}

Result<Grammar::Ptr> Grammar::any_json_object(const GrammarOptions& options) {
  const Json none;
  Rules rules(options.limits);
  SchemaCompiler compiler(none, options, rules);
  rules.root = rules.declare("any JSON object");
  rules.define(rules.root, compiler.any_object());
  return Ptr(std::make_shared<const Grammar>(TRY(build_program(rules)), std::vector<SchemaNote>{}));
}

namespace {

// Parts, sequences and groups to expressions.
class PartCompiler {
 public:
  PartCompiler(Rules& rules, const GrammarOptions& options) : rules_(rules), options_(options) {}

  Result<ExprId> sequence(const GrammarSequence& parts) {
    std::vector<ExprId> exprs;
    for (const GrammarPart& part : parts) exprs.push_back(TRY(one(part)));
    return rules_.sequence(exprs);
  }
  std::vector<SchemaNote> take_notes() { return std::move(notes_); }

 private:
  Result<ExprId> one(const GrammarPart& part) {
    if (part.group) return group(*part.group);
    if (part.token >= 0) return rules_.token(static_cast<uint32_t>(part.token), false);
    if (!part.pattern.empty()) return parse_regex(rules_, part.pattern, false, false, "pattern");
    if (!part.without.empty())
      return rules_.call(rules_.define_chars("text", text_without(part.without), StringForm::plain, false));
    return part.schema ? schema(part) : rules_.bytes(part.text);
  }

  Result<ExprId> schema(const GrammarPart& part) {
    SchemaCompiler compiler(*part.schema, options_, rules_);
    const std::string prefix = part.label.empty() ? "" : part.label + " ";
    auto made = compiler.compile(part.pointer.empty() ? "#" : part.pointer);
    if (!made) {
      made.error().where = prefix + made.error().where;
      return made;
    }
    for (SchemaNote& note : compiler.take_notes()) {
      note.path = prefix + note.path;
      notes_.push_back(std::move(note));
    }
    return made;
  }

  Result<ExprId> group(const GrammarGroup& group) {
    if (++depth_ > options_.limits.max_depth) return refusal("groups are nested too deeply", "grammar");
    notes_.insert(notes_.end(), group.notes.begin(), group.notes.end());
    std::vector<ExprId> items;
    for (const GrammarSequence& item : group.items) items.push_back(as_rule(TRY(sequence(item))));
    const ExprId separator = TRY(sequence(group.separator));
    --depth_;
    if (!group.required.empty()) return rules_.chain(items, group.required, separator, rules_.never(), 0, kUnbounded);
    const ExprId call = as_rule(rules_.choice(items));
    if (group.max == 0) return rules_.empty();
    const ExprId more = rules_.repeat(rules_.sequence({separator, call}), std::max(group.min, 1u) - 1,
                                      group.max == kUnbounded ? group.max : group.max - 1);
    const ExprId all = rules_.sequence({call, more});
    return group.min == 0 ? rules_.optional(all) : all;
  }
  ExprId as_rule(ExprId body) {
    const RuleId rule = rules_.declare("#");
    rules_.define(rule, body);
    return rules_.call(rule);
  }

  Rules& rules_;
  const GrammarOptions& options_;
  std::vector<SchemaNote> notes_;
  uint32_t depth_ = 0;
};

}  // namespace

Result<Grammar::Ptr> Grammar::from_parts(const GrammarSequence& parts, const GrammarOptions& options) {
  Rules rules(options.limits);
  PartCompiler compiler(rules, options);
  const ExprId all = TRY(compiler.sequence(parts));
  rules.root = rules.declare("#");
  rules.define(rules.root, all);
  auto program = build_program(rules);
  if (!program) {
    Error error = std::move(program.error());
    if (error.where.starts_with("rule '")) error.where = "schema " + error.where.substr(6, error.where.size() - 7);
    return error;
  }
  return Ptr(std::make_shared<const Grammar>(std::move(*program), compiler.take_notes()));
}

Result<Grammar::Ptr> Grammar::from_sequences(const std::vector<GrammarSequence>& alternatives, uint32_t min,
                                             uint32_t max, std::string_view separator, const GrammarOptions& options) {
  if (min > max || min > kMaxCount) return refusal("the least number of sequences is larger than the most", "grammar");
  const auto group = std::make_shared<GrammarGroup>(
      GrammarGroup{.items = alternatives, .separator = {{.text = std::string(separator)}}, .min = min, .max = max});
  return from_parts({{.group = group}}, options);
}

}  // namespace tokamak

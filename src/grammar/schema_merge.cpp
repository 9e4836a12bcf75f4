// References and combinations of schemas, resolved on the level of JSON.
#include <algorithm>
#include <array>
#include <numeric>

#include "grammar/schema_compiler.h"

namespace tokamak::grammar {

namespace {

enum class Treatment : uint8_t {
  handled,     // by alternatives()
  annotation,  // says nothing about the value
  not_enforced,
  types,
  values,
  larger,   // the larger of two numbers
  smaller,  // the smaller
  list,     // a string; all must hold
  names,    // array of strings; union
  schemas,  // object of schemas; both must hold
  schema,
  prefix,  // array of schemas
  multiple,
};

struct Keyword {
  std::string_view name;
  Treatment rule;
  std::string_view reason = {};  // not_enforced
};

// Every keyword that is known, and how two of them hold together.
constexpr auto kKeywords = std::to_array<Keyword>({
    {"$ref", Treatment::handled},
    {"allOf", Treatment::handled},
    {"anyOf", Treatment::handled},
    {"oneOf", Treatment::handled},
    {"$schema", Treatment::annotation},
    {"$id", Treatment::annotation},
    {"id", Treatment::annotation},
    {"$anchor", Treatment::annotation},
    {"$comment", Treatment::annotation},
    {"$defs", Treatment::annotation},
    {"definitions", Treatment::annotation},
    {"title", Treatment::annotation},
    {"description", Treatment::annotation},
    {"default", Treatment::annotation},
    {"examples", Treatment::annotation},
    {"example", Treatment::annotation},
    {"deprecated", Treatment::annotation},
    {"readOnly", Treatment::annotation},
    {"writeOnly", Treatment::annotation},
    {"$vocabulary", Treatment::annotation},
    {"discriminator", Treatment::annotation},
    {"contentEncoding", Treatment::annotation},
    {"contentMediaType", Treatment::annotation},
    {"contentSchema", Treatment::annotation},
    {"type", Treatment::types},
    {"nullable", Treatment::types},
    {"enum", Treatment::values},
    {"const", Treatment::values},
    {"minimum", Treatment::larger},
    {"exclusiveMinimum", Treatment::larger},
    {"minLength", Treatment::larger},
    {"minItems", Treatment::larger},
    {"minProperties", Treatment::larger},
    {"maximum", Treatment::smaller},
    {"exclusiveMaximum", Treatment::smaller},
    {"maxLength", Treatment::smaller},
    {"maxItems", Treatment::smaller},
    {"maxProperties", Treatment::smaller},
    {"multipleOf", Treatment::multiple},
    {"pattern", Treatment::list},
    {"format", Treatment::list},
    {"required", Treatment::names},
    {"properties", Treatment::schemas},
    {"patternProperties", Treatment::schemas},
    {"additionalProperties", Treatment::schema},
    {"propertyNames", Treatment::schema},
    {"items", Treatment::schema},
    {"additionalItems", Treatment::schema},
    {"prefixItems", Treatment::prefix},
    {"uniqueItems", Treatment::not_enforced, "items may repeat"},
    {"contains", Treatment::not_enforced, "no item is made to match"},
    {"minContains", Treatment::not_enforced, "items are not counted by kind"},
    {"maxContains", Treatment::not_enforced, "items are not counted by kind"},
    {"not", Treatment::not_enforced, "the complement of a schema is no automaton here"},
    {"if", Treatment::not_enforced, "conditions are not followed"},
    {"then", Treatment::not_enforced, "conditions are not followed"},
    {"else", Treatment::not_enforced, "conditions are not followed"},
    {"dependentRequired", Treatment::not_enforced, "conditions are not followed"},
    {"dependentSchemas", Treatment::not_enforced, "conditions are not followed"},
    {"dependencies", Treatment::not_enforced, "conditions are not followed"},
    {"unevaluatedProperties", Treatment::not_enforced, "use additionalProperties"},
    {"unevaluatedItems", Treatment::not_enforced, "use items"},
});

const Keyword* find_keyword(std::string_view name) {
  for (const Keyword& keyword : kKeywords)
    if (keyword.name == name) return &keyword;
  return nullptr;
}

Json all_of(const Json& x, const Json& y) {
  if (x == y || (y.is_boolean() && y.get<bool>())) return x;
  if (x.is_boolean()) return x.get<bool>() ? y : x;
  if (y.is_boolean()) return y;
  Json both = Json::object();
  both["allOf"] = Json::array({x, y});
  return both;
}

bool names_property(const Json& schema, const std::string& name) {
  const auto properties = schema.find("properties");
  return properties != schema.end() && properties->contains(name);
}

// Properties of x under what y says about properties it does not name.
void close_properties(Json& merged, const Json& x, const Json& y) {
  const auto more = y.find("additionalProperties");
  const auto named = x.find("properties");
  if (more == y.end() || named == x.end() || y.contains("patternProperties")) return;
  for (const auto& [name, schema] : named->items())
    if (!names_property(y, name)) merged["properties"][name] = all_of(schema, *more);
}

Json common_types(const Json& x, const Json& y) {
  const auto holds = [](const Json& list, const char* name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  Json out = Json::array();
  for (const Json& type : x)
    if (std::find(y.begin(), y.end(), type) != y.end() || (type == "integer" && holds(y, "number")))
      out.push_back(type);
  for (const Json& type : y)
    if (type == "integer" && holds(x, "number") && !holds(out, "integer")) out.push_back(type);
  return out;
}

}  // namespace

bool is_annotation(std::string_view name) {
  const Keyword* keyword = find_keyword(name);
  return keyword && keyword->rule == Treatment::annotation;
}

// One level of a schema in the form that the compiler reads: only keywords that are enforced, checked, normalised.
Result<Json> SchemaCompiler::plain_keywords(const Json& schema, const Path& path) {
  Json out = Json::object();
  for (const auto& [name, value] : schema.items()) {
    const auto wrong = [&](const char* expected) { return schema_error(path, "'" + name + "' must be " + expected); };
    const Keyword* keyword = find_keyword(name);
    if (!keyword) {
      note(path, name, "unknown keyword");
      continue;
    }
    switch (keyword->rule) {
      case Treatment::handled:
      case Treatment::annotation:
        continue;
      case Treatment::not_enforced:
        if (!(value.is_boolean() && !value.get<bool>() && name == "uniqueItems"))
          note(path, name, std::string(keyword->reason));
        continue;
      case Treatment::types: {
        if (name == "nullable") continue;
        Json list = value.is_string() ? Json::array({value}) : value;
        if (!list.is_array() || list.empty()) return wrong("a type or an array of types");
        for (const Json& type : list)
          if (!type.is_string()) return wrong("a type or an array of types");
        out["type"] = std::move(list);
        continue;
      }
      case Treatment::values:
        if (name == "enum" && (!value.is_array() || value.empty())) return wrong("an array that is not empty");
        if (name == "const" || !out.contains("enum")) out["enum"] = name == "enum" ? value : Json::array({value});
        continue;
      case Treatment::larger:
      case Treatment::smaller:
        // Draft 4: exclusive bounds were flags.
        if (value.is_boolean() && name.starts_with("exclusive")) continue;
        if (!value.is_number()) return wrong("a number");
        break;
      case Treatment::multiple:
        if (!value.is_number() || !(value.get<double>() > 0)) return wrong("a number above 0");
        break;
      case Treatment::list:
        if (!value.is_string()) return wrong("a string");
        out[name] = Json::array({value});
        continue;
      case Treatment::names:
        if (value.is_boolean()) continue;  // draft 3
        if (!value.is_array()) return wrong("an array of names");
        for (const Json& one : value)
          if (!one.is_string()) return wrong("an array of names");
        break;
      case Treatment::schemas:
        if (!value.is_object()) return wrong("an object of schemas");
        break;
      case Treatment::schema:
        if (name == "items" && value.is_array()) {  // before draft 2020
          out["prefixItems"] = value;
          if (const auto rest = schema.find("additionalItems"); rest != schema.end()) out["items"] = *rest;
          continue;
        }
        if (name == "additionalItems") continue;
        if (!value.is_object() && !value.is_boolean()) return wrong("a schema");
        break;
      case Treatment::prefix:
        if (!value.is_array()) return wrong("an array of schemas");
        break;
    }
    out[name] = value;
  }
  for (const auto& [flag, bound] : {std::pair{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}}) {
    const auto set = schema.find(flag);
    if (set == schema.end() || !set->is_boolean() || !set->get<bool>() || !out.contains(bound)) continue;
    out[flag] = out[bound];
    out.erase(bound);
  }
  if (const auto nullable = schema.find("nullable");
      nullable != schema.end() && *nullable == true && out.contains("type"))
    out["type"].push_back("null");
  return out;
}

// Both at once; none if they contradict each other.
Result<std::optional<Json>> SchemaCompiler::merge(const Json& x, const Json& y, const Path& path) {
  if (!rules_.budget().spend((n_merged_bytes_ += 1024) / 16)) return rules_.budget().error();
  Json out = x;
  for (const auto& [name, value] : y.items()) {
    const auto mine = out.find(name);
    if (mine == out.end()) {
      out[name] = value;
      continue;
    }
    if (*mine == value) continue;
    switch (find_keyword(name)->rule) {
      case Treatment::types:
        *mine = common_types(*mine, value);
        if (mine->empty()) return std::optional<Json>();
        break;
      case Treatment::values: {
        Json both = Json::array();
        for (const Json& one : *mine)
          if (std::find(value.begin(), value.end(), one) != value.end()) both.push_back(one);
        if (both.empty()) return std::optional<Json>();
        *mine = std::move(both);
        break;
      }
      case Treatment::larger:
        if (value.get<double>() > mine->get<double>()) *mine = value;
        break;
      case Treatment::smaller:
        if (value.get<double>() < mine->get<double>()) *mine = value;
        break;
      case Treatment::multiple:
        if (mine->is_number_integer() && value.is_number_integer() && mine->get<double>() < 1e6 &&
            value.get<double>() < 1e6)
          *mine = std::lcm(mine->get<int64_t>(), value.get<int64_t>());
        else
          note(path, name, "of several divisors only one is enforced");
        break;
      case Treatment::list:
        for (const Json& one : value)
          if (std::find(mine->begin(), mine->end(), one) == mine->end()) mine->push_back(one);
        break;
      case Treatment::names:
        for (const Json& one : value)
          if (std::find(mine->begin(), mine->end(), one) == mine->end()) mine->push_back(one);
        break;
      case Treatment::schemas:
        for (const auto& [key, schema] : value.items())
          (*mine)[key] = mine->contains(key) ? all_of((*mine)[key], schema) : schema;
        break;
      case Treatment::schema:
        *mine = all_of(*mine, value);
        break;
      case Treatment::prefix: {
        const Json rest_x = x.value("items", Json(true)), rest_y = y.value("items", Json(true));
        Json list = Json::array();
        for (size_t i = 0; i < std::max(mine->size(), value.size()); ++i)
          list.push_back(all_of(i < mine->size() ? (*mine)[i] : rest_x, i < value.size() ? value[i] : rest_y));
        *mine = std::move(list);
        break;
      }
      default:
        break;
    }
  }
  close_properties(out, x, y);
  close_properties(out, y, x);
  return std::optional<Json>(std::move(out));
}

Result<Alternatives> SchemaCompiler::cross(const Alternatives& x, const Alternatives& y, const Path& path) {
  constexpr size_t kMaxAlternatives = 256;
  if (x.size() * y.size() > kMaxAlternatives)
    return schema_error(path, "the combination has more than " + std::to_string(kMaxAlternatives) + " alternatives");
  Alternatives out;
  for (const Json& a : x)
    for (const Json& b : y)
      if (auto both = TRY(merge(a, b, path))) out.push_back(std::move(*both));
  return out;
}

Result<Alternatives> SchemaCompiler::alternatives(const Json& schema, const Path& path, uint32_t depth) {
  if (depth > options_.limits.max_depth)
    return schema_error(path.substr(0, 200), "references and combinations are nested too deep, or in a circle");
  if (schema.is_boolean()) return schema.get<bool>() ? Alternatives{Json::object()} : Alternatives{};
  if (!schema.is_object()) return schema_error(path, "a schema must be an object or a boolean");
  Alternatives out{TRY(plain_keywords(schema, path))};
  if (const auto ref = schema.find("$ref"); ref != schema.end()) {
    const Json* target = TRY(resolve(*ref, path));
    out = TRY(cross(TRY(alternatives(*target, ref->get<std::string>(), depth + 1)), out, path));
  }
  for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
    const auto list = schema.find(keyword);
    if (list == schema.end()) continue;
    if (!list->is_array() || list->empty())
      return schema_error(path, "'" + std::string(keyword) + "' must be an array that is not empty");
    Alternatives any;
    for (size_t i = 0; i < list->size(); ++i) {
      Alternatives one = TRY(alternatives((*list)[i], path + "/" + keyword + "/" + std::to_string(i), depth + 1));
      if (keyword == std::string_view("allOf"))
        out = TRY(cross(out, one, path));
      else
        any.insert(any.end(), std::make_move_iterator(one.begin()), std::make_move_iterator(one.end()));
    }
    if (keyword == std::string_view("oneOf"))
      note(path, "oneOf", "at least one branch holds; that no other does is not enforced");
    if (keyword != std::string_view("allOf")) out = TRY(cross(out, any, path));
  }
  return out;
}

}  // namespace tokamak::grammar

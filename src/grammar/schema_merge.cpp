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

namespace {

bool all_strings(const Json& list) {
  return list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& one) { return one.is_string(); });
}

// What a value of a keyword must be, or null if it is that.
const char* misfit(const Keyword& keyword, const Json& value) {
  const bool is_schema = value.is_object() || value.is_boolean();
  // Draft 4: exclusive bounds were flags. Draft 3: so was required.
  const bool is_flag = value.is_boolean() && (keyword.name.starts_with("exclusive") || keyword.name == "required");
  switch (keyword.rule) {
    case Treatment::types:
      if (keyword.name == "nullable" || value.is_string() || (all_strings(value) && !value.empty())) return nullptr;
      return "a type or an array of types";
    case Treatment::values:
      return keyword.name == "enum" && (!value.is_array() || value.empty()) ? "an array that is not empty" : nullptr;
    case Treatment::larger:
    case Treatment::smaller:
      return value.is_number() || is_flag ? nullptr : "a number";
    case Treatment::multiple:
      return value.is_number() && value.get<double>() > 0 ? nullptr : "a number above 0";
    case Treatment::list:
      return value.is_string() ? nullptr : "a string";
    case Treatment::names:
      return all_strings(value) || is_flag ? nullptr : "an array of names";
    case Treatment::schemas:
      return value.is_object() ? nullptr : "an object of schemas";
    case Treatment::schema:
      return is_schema || (keyword.name == "items" && value.is_array()) ? nullptr : "a schema";
    case Treatment::prefix:
      return value.is_array() ? nullptr : "an array of schemas";
    default:
      return nullptr;
  }
}

// Older spellings: flags of draft 4, tuples before draft 2020, OpenAPI's nullable.
void modernise(Json& out, const Json& schema) {
  for (const auto& [flag, bound] : {std::pair{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}}) {
    const auto set = schema.find(flag);
    if (set == schema.end() || !set->is_boolean()) continue;
    out.erase(flag);
    if (!set->get<bool>() || !out.contains(bound)) continue;
    out[flag] = out[bound];
    out.erase(bound);
  }
  if (const auto items = schema.find("items"); items != schema.end() && items->is_array()) {
    out["prefixItems"] = *items;
    out.erase("items");
    if (const auto rest = schema.find("additionalItems"); rest != schema.end()) out["items"] = *rest;
  }
  out.erase("additionalItems");
  if (const auto flag = out.find("required"); flag != out.end() && flag->is_boolean()) out.erase("required");
  if (out.value("nullable", Json()) == true && out.contains("type")) out["type"].push_back("null");
  out.erase("nullable");
}

}  // namespace

// One level of a schema in the form that the compiler reads: only keywords that are enforced, checked, normalised.
Result<Json> SchemaCompiler::plain_keywords(const Json& schema, const Path& path) {
  Json out = Json::object();
  for (const auto& [name, value] : schema.items()) {
    const Keyword* keyword = find_keyword(name);
    if (!keyword) {
      note(path, name, "unknown keyword");
      continue;
    }
    if (const char* expected = misfit(*keyword, value)) return schema_error(path, "'" + name + "' must be " + expected);
    switch (keyword->rule) {
      case Treatment::handled:
      case Treatment::annotation:
        break;
      case Treatment::not_enforced:
        if (value != false || name != "uniqueItems") note(path, name, std::string(keyword->reason));
        break;
      case Treatment::values:
        if (name == "const" || !out.contains("enum")) out["enum"] = name == "enum" ? value : Json::array({value});
        break;
      case Treatment::list:
        out[name] = Json::array({value});
        break;
      case Treatment::types:
        out[name] = value.is_string() ? Json::array({value}) : value;
        break;
      default:
        out[name] = value;
    }
  }
  modernise(out, schema);
  return out;
}

namespace {

Json common_values(const Json& x, const Json& y) {
  Json both = Json::array();
  for (const Json& one : x)
    if (std::find(y.begin(), y.end(), one) != y.end()) both.push_back(one);
  return both;
}

void add_missing(Json& list, const Json& more) {
  for (const Json& one : more)
    if (std::find(list.begin(), list.end(), one) == list.end()) list.push_back(one);
}

// Each place of a tuple: what both say about it, by its own schema or by that of the rest.
void merge_prefix(Json& merged, const Json& x, const Json& y) {
  const Json none = Json::array(), any = true;
  const Json prefix_x = x.value("prefixItems", none), prefix_y = y.value("prefixItems", none);
  if (prefix_x.empty() && prefix_y.empty()) return;
  const Json rest_x = x.value("items", any), rest_y = y.value("items", any);
  Json list = Json::array();
  for (size_t i = 0; i < std::max(prefix_x.size(), prefix_y.size()); ++i)
    list.push_back(all_of(i < prefix_x.size() ? prefix_x[i] : rest_x, i < prefix_y.size() ? prefix_y[i] : rest_y));
  merged["prefixItems"] = std::move(list);
}

}  // namespace

// Both at once; none if they contradict each other.
Result<std::optional<Json>> SchemaCompiler::merge(const Json& x, const Json& y, const Path& path) {
  if (!rules_.budget().spend(256 + 64 * (x.size() + y.size()))) return rules_.budget().error();
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
      case Treatment::values:
        *mine = name == "type" ? common_types(*mine, value) : common_values(*mine, value);
        if (mine->empty()) return std::optional<Json>();
        break;
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
      case Treatment::names:
        add_missing(*mine, value);
        break;
      case Treatment::schemas:
        for (const auto& [key, schema] : value.items())
          (*mine)[key] = mine->contains(key) ? all_of((*mine)[key], schema) : schema;
        break;
      case Treatment::schema:
        *mine = all_of(*mine, value);
        break;
      default:
        break;
    }
  }
  merge_prefix(out, x, y);
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

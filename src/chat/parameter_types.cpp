#include "chat/parameter_types.h"

#include <optional>

namespace tokamak {

namespace {
constexpr int kMaxSchemas = 256;  // looked at for one parameter: references may fan out, level by level

// Whether a value of the schema may be a text, and whether it may be something else. Nothing: the schema does not say.
struct Kinds {
  bool text = false, other = false;
  void add(const Json& type) {
    if (type.is_string()) (type == "string" ? text : other) = true;
  }
  void add(Kinds more) {
    text |= more.text;
    other |= more.other;
  }
};

Kinds kinds_of(const Json& schema, const Json& root, int& n_left) {
  Kinds kinds;
  if (!schema.is_object() || --n_left < 0) return {.text = true, .other = true};
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_array())
      for (const Json& one : *type) kinds.add(one);
    else
      kinds.add(*type);
    return kinds;
  }
  if (const auto fixed = schema.find("const"); fixed != schema.end())
    return {.text = fixed->is_string(), .other = !fixed->is_string()};
  if (const auto list = schema.find("enum"); list != schema.end() && list->is_array()) {
    for (const Json& one : *list) (one.is_string() ? kinds.text : kinds.other) = true;
    return kinds;
  }
  if (const auto ref = schema.find("$ref"); ref != schema.end() && ref->is_string()) {
    const auto& text = ref->get_ref<const std::string&>();
    if (!text.starts_with("#/")) return {.text = true, .other = true};
    const Json* target = &root;
    size_t at = 1;
    while (at != std::string::npos) {  // plain steps only: others are left open
      const size_t end = text.find('/', at + 1);
      const std::string step = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
      if (!target->is_object() || !target->contains(step)) return {.text = true, .other = true};
      target = &(*target)[step];
      at = end;
    }
    return kinds_of(*target, root, n_left);
  }
  for (const char* keyword : {"anyOf", "oneOf"})
    if (const auto list = schema.find(keyword); list != schema.end() && list->is_array())
      for (const Json& one : *list) {
        if (kinds.text && kinds.other) return kinds;
        kinds.add(kinds_of(one, root, n_left));
      }
  if (schema.contains("properties") || schema.contains("items")) kinds.other = true;
  if (schema.contains("pattern") || schema.contains("maxLength") || schema.contains("minLength")) kinds.text = true;
  return kinds;
}
}  // namespace

ParameterType parameter_type(const Json& schema, const Json& root) {
  int n_left = kMaxSchemas;
  const Kinds kinds = kinds_of(schema, root, n_left);
  if (kinds.text == kinds.other) return ParameterType::either;
  return kinds.text ? ParameterType::text : ParameterType::value;
}

ParameterTypes::ParameterTypes(const std::vector<Json>& tools) {
  for (const Json& tool : tools) {
    if (!tool.is_object()) continue;
    const auto inner = tool.find("function");
    const Json& function = inner != tool.end() ? *inner : tool;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) continue;
    auto& types = tools_[function["name"].get<std::string>()];
    const auto parameters = function.find("parameters");
    if (parameters == function.end() || !parameters->is_object()) continue;
    const auto properties = parameters->find("properties");
    if (properties == parameters->end() || !properties->is_object()) continue;
    for (const auto& [name, schema] : properties->items()) types.emplace(name, parameter_type(schema, *parameters));
  }
}

ParameterType ParameterTypes::of(std::string_view tool, std::string_view parameter) const {
  const auto types = tools_.find(std::string(tool));
  if (types == tools_.end()) return ParameterType::either;
  const auto type = types->second.find(std::string(parameter));
  return type == types->second.end() ? ParameterType::either : type->second;
}

}  // namespace tokamak

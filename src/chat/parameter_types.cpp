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

// What a reference of plain steps stands for; null where it leads nowhere.
const Json* referred(const std::string& ref, const Json& root) {
  if (!ref.starts_with("#/")) return nullptr;
  const Json* target = &root;
  for (size_t at = 1; at != std::string::npos;) {
    const size_t end = ref.find('/', at + 1);
    const auto step = target->find(ref.substr(at + 1, end == std::string::npos ? end : end - at - 1));
    if (!target->is_object() || step == target->end()) return nullptr;
    target = &*step;
    at = end;
  }
  return target;
}

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
    const Json* target = referred(ref->get_ref<const std::string&>(), root);
    return target ? kinds_of(*target, root, n_left) : Kinds{.text = true, .other = true};
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

namespace {
const Json* member(const Json& object, const std::string& key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? nullptr : &*found;
}
// The schema behind its references.
const Json* resolved(const Json* schema, const Json& root) {
  for (int n_left = kMaxSchemas; schema && n_left > 0; --n_left) {
    const Json* ref = member(*schema, "$ref");
    if (!ref || !ref->is_string()) return schema->is_object() ? schema : nullptr;
    schema = referred(ref->get_ref<const std::string&>(), root);
  }
  return nullptr;
}
}  // namespace

ParameterTypes::ParameterTypes(const std::vector<Json>& tools) {
  for (const Json& tool : tools) {
    if (!tool.is_object()) continue;
    const auto inner = tool.find("function");
    const Json& function = inner != tool.end() ? *inner : tool;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) continue;
    Tool& known = tools_[function["name"].get<std::string>()];
    const auto parameters = function.find("parameters");
    if (parameters == function.end() || !parameters->is_object()) continue;
    known.parameters = *parameters;
    const auto properties = parameters->find("properties");
    if (properties == parameters->end() || !properties->is_object()) continue;
    for (const auto& [name, schema] : properties->items())
      known.types.emplace(name, parameter_type(schema, *parameters));
  }
}

ParameterType ParameterTypes::of(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(std::string(tool));
  if (found == tools_.end()) return ParameterType::either;
  const auto type = found->second.types.find(std::string(parameter));
  return type == found->second.types.end() ? ParameterType::either : type->second;
}

ParameterPlace ParameterTypes::at(std::string_view tool, std::span<const std::string> path) const {
  const auto found = tools_.find(std::string(tool));
  if (found == tools_.end()) return {};
  const Json& root = found->second.parameters;
  const Json* schema = resolved(&root, root);
  for (const std::string& step : path) {
    const Json* inner = schema ? member(*schema, step.empty() ? "items" : "properties") : nullptr;
    if (inner && !step.empty()) inner = member(*inner, step);
    schema = resolved(inner, root);
  }
  if (!schema) return {};
  const Json* type = member(*schema, "type");
  return {.type = parameter_type(*schema, root),
          .is_list = type ? *type == "array" : schema->contains("items"),
          .is_object = type ? *type == "object" : schema->contains("properties")};
}

}  // namespace tokamak

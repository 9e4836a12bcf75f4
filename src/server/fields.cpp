#include "server/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/settings.h"

namespace tokamak::server {

namespace {
using enum FieldType;

const FieldRow* find_row(std::string_view name, Api api) {
  for (const FieldRow& row : field_table())
    if (row.name == name && (row.apis & api) != 0) return &row;
  return nullptr;
}

// 3.0 counts as an integer, as clients of dynamic languages send it.
bool is_integer(const Json& value) {
  if (value.is_number_integer()) return true;
  return value.is_number_float() && std::nearbyint(value.get<double>()) == value.get<double>() &&
         std::abs(value.get<double>()) < 9e15;
}

bool has_type(const Json& value, FieldType type) {
  switch (type) {
    case boolean:
      return value.is_boolean();
    case integer:
      return is_integer(value);
    case number:
      return value.is_number();
    case text:
      return value.is_string();
    case list:
      return value.is_array();
    case object:
      return value.is_object();
    case any:
      break;
  }
  return true;
}

Result<void> check_row(const FieldRow& row, const Json& value) {
  if (row.treatment == Treatment::ignored) return {};
  if (row.treatment == Treatment::refused_unless) {
    if (value == Json::parse(row.only)) return {};
    return bad_field(row.name, fmt::format("only {} is accepted: {}", row.only, row.meaning));
  }
  if (!has_type(value, row.type)) return bad_field(row.name, fmt::format("must be {}", type_name(row.type)));
  if (row.min == row.max) return {};
  if (!value.is_number() || (value.get<double>() >= row.min && value.get<double>() <= row.max)) return {};
  return bad_field(row.name, fmt::format("{} is outside {} to {}", value.dump(), row.min, row.max));
}

// A field that is a setting: its row says type and range.
Result<void> check_setting(const Setting& setting, const Json& value) {
  switch (setting.type) {
    case SettingType::flag:
      if (value.is_boolean()) return {};
      return bad_field(setting.json, "must be true or false");
    case SettingType::integer:
      if (!is_integer(value)) return bad_field(setting.json, "must be an integer");
      return check_setting_range(setting, value.get<double>(), setting.json);
    case SettingType::number:
      if (!value.is_number()) return bad_field(setting.json, "must be a number");
      return check_setting_range(setting, value.get<double>(), setting.json);
    case SettingType::choice:
    case SettingType::text:
    case SettingType::list:
      break;
  }
  return {};
}

bool is_of(const Setting& setting) { return (setting.scopes & kScopeServe) != 0; }
}  // namespace

Error bad_field(std::string_view name, std::string what) {
  return Error{.code = ErrorCode::bad_argument, .what = std::move(what), .where = std::string(name)};
}

Result<Fields> Fields::parse(std::string_view body, Api api) {
  Fields fields;
  fields.api_ = api;
  fields.json_ = TRY(parse_json(body, "body"));
  if (!fields.json_.is_object()) return bad_field("body", "must be a JSON object");
  TRY(fields.check());
  return fields;
}

Result<void> Fields::check() {
  for (const auto& [name, value] : json_.items()) {
    if (value.is_null()) continue;
    if (const FieldRow* row = find_row(name, api_)) {
      TRY(check_row(*row, value));
    } else if (const Setting* setting = find_setting_by_json(name); setting && is_of(*setting)) {
      TRY(check_setting(*setting, value));
    } else {
      unknown_.push_back(name);
    }
  }
  return {};
}

const Json* Fields::find(std::string_view name) const {
  const auto found = json_.find(name);
  if (found == json_.end() || found->is_null()) return nullptr;
  // Not of this endpoint: ignored, and so of any type.
  return std::ranges::find(unknown_, name) == unknown_.end() ? &*found : nullptr;
}
bool Fields::flag(std::string_view name, bool fallback) const {
  const Json* value = find(name);
  return value ? value->get<bool>() : fallback;
}
int64_t Fields::integer(std::string_view name, int64_t fallback) const {
  const Json* value = find(name);
  if (!value) return fallback;
  return value->is_number_float() ? static_cast<int64_t>(value->get<double>()) : value->get<int64_t>();
}
double Fields::number(std::string_view name, double fallback) const {
  const Json* value = find(name);
  return value ? value->get<double>() : fallback;
}
std::string Fields::text(std::string_view name, std::string_view fallback) const {
  const Json* value = find(name);
  return value ? value->get<std::string>() : std::string(fallback);
}

}  // namespace tokamak::server

#include "convert/config_reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace tokamak::convert {

std::string_view ConfigReader::spelled(std::string_view field) const {
  for (const arch::FieldName& name : own_names_)
    if (name.field == field) return name.spelled;
  if (!object_->is_object() || object_->contains(field)) return field;
  for (const arch::FieldName& name : arch::field_names())
    if (name.field == field && object_->contains(name.spelled)) return name.spelled;
  return field;
}

const Json* ConfigReader::find(std::string_view field) const {
  if (!object_->is_object()) return nullptr;
  const auto at = object_->find(std::string(spelled(field)));
  return at == object_->end() || at->is_null() ? nullptr : &*at;
}

bool ConfigReader::is_null(std::string_view field) const {
  const std::string name(spelled(field));
  return object_->is_object() && object_->contains(name) && (*object_)[name].is_null();
}

Error ConfigReader::error(std::string_view field, std::string what, std::string hint) const {
  return {.code = ErrorCode::bad_metadata, .what = std::move(what), .where = where(field), .hint = std::move(hint)};
}

Result<std::optional<int64_t>> ConfigReader::integer(std::string_view field, int64_t min, int64_t max) const {
  const Json* value = find(field);
  if (!value) return std::optional<int64_t>();
  if (value->is_array() && !value->empty() &&
      std::ranges::all_of(*value, [&](const Json& item) { return item == value->front(); }))
    value = &value->front();
  // Some writers store whole numbers as 4096.0.
  const bool is_whole = value->is_number_integer() ||
                        (value->is_number_float() && std::abs(value->get<double>()) < 1e15 &&
                         value->get<double>() == static_cast<double>(static_cast<int64_t>(value->get<double>())));
  const bool fits = is_whole && !(value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX});
  if (!fits || value->get<int64_t>() < min || value->get<int64_t>() > max)
    return error(field, fmt::format("must be a whole number from {} to {}", min, max));
  return std::optional(value->get<int64_t>());
}

Result<std::optional<double>> ConfigReader::number(std::string_view field, double min, double max) const {
  const Json* value = find(field);
  if (!value) return std::optional<double>();
  const double number = value->is_number() ? value->get<double>() : min - 1;
  if (!value->is_number() || !(number >= min && number <= max))
    return error(field, fmt::format("must be a number from {} to {}", min, max));
  return std::optional(number);
}

Result<std::optional<bool>> ConfigReader::boolean(std::string_view field) const {
  const Json* value = find(field);
  if (!value) return std::optional<bool>();
  if (!value->is_boolean()) return error(field, "must be true or false");
  return std::optional(value->get<bool>());
}

Result<std::optional<std::string>> ConfigReader::text(std::string_view field) const {
  const Json* value = find(field);
  if (!value) return std::optional<std::string>();
  if (!value->is_string()) return error(field, "must be a text");
  return std::optional(value->get<std::string>());
}

Result<ConfigReader> ConfigReader::section(std::string_view field) const {
  static const Json empty = Json::object();
  const Json* value = find(field);
  if (!value) return ConfigReader(empty, where(field));
  if (!value->is_object()) return error(field, "must be an object");
  return ConfigReader(*value, where(field));
}

}  // namespace tokamak::convert

// Checked access to one JSON object of a checkpoint folder; every complaint names the file and the field.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "arch/checkpoint_names.h"
#include "base/result.h"
#include "safetensors/json_text.h"

namespace tokamak::convert {

// A view: the object must outlive it. null counts as absent but for is_null(). Errors: bad_metadata.
// Fields go by one name each; arch::field_names() and the class's own names say how a file may spell them.
class ConfigReader {
 public:
  // `where`: "config.json", or "config.json: text_config".
  // own_names: of the class, in place of the usual names; they must outlive the reader.
  ConfigReader(const Json& object, std::string where, std::span<const arch::FieldName> own_names = {})
      : object_(&object), where_(std::move(where)), own_names_(own_names) {}
  ConfigReader with_names(std::span<const arch::FieldName> own_names) const { return {*object_, where_, own_names}; }

  const Json* find(std::string_view field) const;  // null: absent
  bool has(std::string_view field) const { return find(field) != nullptr; }
  bool is_null(std::string_view field) const;  // there, as null: where that says more than absence

  // One number, or a list of equal ones (a number per layer).
  Result<std::optional<int64_t>> integer(std::string_view field, int64_t min, int64_t max) const;
  Result<std::optional<double>> number(std::string_view field, double min, double max) const;
  Result<std::optional<bool>> boolean(std::string_view field) const;
  Result<std::optional<std::string>> text(std::string_view field) const;

  // An object's reader; absent: one of an empty object.
  Result<ConfigReader> section(std::string_view field) const;

  std::string where(std::string_view field) const { return where_ + ": " + std::string(spelled(field)); }
  Error error(std::string_view field, std::string what, std::string hint = "") const;

 private:
  std::string_view spelled(std::string_view field) const;  // as this file spells it

  const Json* object_;
  std::string where_;
  std::span<const arch::FieldName> own_names_;
};

}  // namespace tokamak::convert

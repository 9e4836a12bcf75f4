// The table of request fields: what each endpoint honours, ignores by rule, or refuses. Endpoints read bodies through
// Fields only, so a field is never dropped unnoticed and every error names it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/message.h"

namespace tokamak::server {

// Endpoints, as a bit set.
enum Api : uint32_t {
  kChat = 1,
  kCompletions = 2,
  kNative = 4,
  kTokens = 8,
  kResponses = 16,
  kMessages = 32,
  kEmbeddings = 64,
  kRerank = 128,
  kInfill = 256,
  kSlots = 512,
  kControl = 1024,
  kAnyChat = kChat | kResponses | kMessages,
  kAnyText = kCompletions | kNative | kInfill,
  kAnyGeneration = kAnyChat | kAnyText,
};

enum class FieldType : uint8_t { boolean, integer, number, text, list, object, any };
std::string_view type_name(FieldType type);  // "an integer"
enum class Treatment : uint8_t {
  honoured,
  ignored,         // has no effect here; accepted so that clients need not care
  refused_unless,  // only the value in `only` is accepted
};

struct FieldRow {
  std::string_view name;
  uint32_t apis;
  FieldType type;
  double min = 0, max = 0;  // integer, number: inclusive; equal: no range
  Treatment treatment = Treatment::honoured;
  std::string_view only = {};  // JSON text
  std::string_view meaning;
};

// Rows that are no settings; sampling fields are the rows of base/settings_table.cpp that have a JSON name.
std::span<const FieldRow> field_table();
std::string fields_markdown();

// A request body. Null counts as absent. All errors: bad_argument, `where` is the field.
class Fields {
 public:
  // Parses and checks every field that the table knows for this endpoint: type, range, refused values. Unknown fields
  // are ignored and counted.
  static Result<Fields> parse(std::string_view body, Api api);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Json* find(std::string_view name) const;  // null: absent or null
  bool flag(std::string_view name, bool fallback) const;
  int64_t integer(std::string_view name, int64_t fallback) const;
  double number(std::string_view name, double fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  const Json& json() const { return json_; }
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  Result<void> check();

  Json json_;
  Api api_{};
  std::vector<std::string> unknown_;
};

Error bad_field(std::string_view name, std::string what);

}  // namespace tokamak::server

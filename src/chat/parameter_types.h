// What tools' schemas say about parameters that a format writes as bare text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "chat/message.h"

namespace tokamak {

enum class ParameterType : uint8_t {
  text,    // a string
  value,   // anything else: the text is JSON
  either,  // unknown, or both
};

// What a schema says of a value at some place.
struct ParameterPlace {
  ParameterType type = ParameterType::either;
  bool is_list = false, is_object = false;
};

class ParameterTypes {
 public:
  ParameterTypes() = default;
  // Tools of the OpenAI form; what is malformed is skipped.
  explicit ParameterTypes(const std::vector<Json>& tools);

  ParameterType of(std::string_view tool, std::string_view parameter) const;
  // Of a value inside: `path` leads there from the tool's parameters on, "" being any element of a list.
  ParameterPlace at(std::string_view tool, std::span<const std::string> path) const;
  bool has_tool(std::string_view name) const { return tools_.contains(std::string(name)); }
  bool has_tools() const { return !tools_.empty(); }

 private:
  struct Tool {
    Json parameters;
    std::unordered_map<std::string, ParameterType> types;
  };
  std::unordered_map<std::string, Tool> tools_;
};

// Of one schema; references are looked up in `root` (the tool's `parameters`).
ParameterType parameter_type(const Json& schema, const Json& root);

}  // namespace tokamak

#include "chat/parameter_types.h"

#include <gtest/gtest.h>

namespace tokamak {
namespace {

TEST(ParameterTypes, ReferencesAndAlternativesAreFollowed) {
  const Json root = {{"$defs",
                      {{"mood", {{"enum", {"calm", "storm"}}}},
                       {"text", {{"anyOf", {{{"$ref", "#/$defs/mood"}}, {{"type", "string"}}}}}},
                       {"mixed", {{"anyOf", {{{"$ref", "#/$defs/mood"}}, {{"type", "integer"}}}}}}}}};
  EXPECT_EQ(parameter_type({{"$ref", "#/$defs/text"}}, root), ParameterType::text);
  EXPECT_EQ(parameter_type({{"$ref", "#/$defs/mixed"}}, root), ParameterType::either);
  EXPECT_EQ(parameter_type({{"type", "integer"}}, root), ParameterType::value);
  EXPECT_EQ(parameter_type({{"$ref", "#/$defs/nowhere"}}, root), ParameterType::either);
}

// A schema of a few hundred bytes that stands for 100^8 alternatives, with a cycle and without.
TEST(ParameterTypes, ReferencesThatFanOutCostLittle) {
  Json root = Json::object();
  for (int level = 0; level < 8; ++level) {
    const Json next = {{"$ref", "#/$defs/" + std::to_string(level + 1)}};
    root["$defs"][std::to_string(level)]["anyOf"] = std::vector<Json>(100, next);
  }
  root["$defs"]["8"] = {{"type", "string"}};
  EXPECT_EQ(parameter_type({{"$ref", "#/$defs/0"}}, root), ParameterType::either);
  root["$defs"]["8"] = {{"$ref", "#/$defs/0"}};
  EXPECT_EQ(parameter_type({{"$ref", "#/$defs/0"}}, root), ParameterType::either);
}

}  // namespace
}  // namespace tokamak

#include "server/fields.h"

#include <gtest/gtest.h>

namespace tokamak::server {
namespace {

TEST(FieldsTest, AFieldOfAnotherEndpointIsNotSeenWhateverItsType) {
  const auto fields = Fields::parse(R"({"prompt": "a", "t_max_predict_ms": [[]], "nobody_knows": {}})", kCompletions);
  ASSERT_TRUE(fields.has_value());
  EXPECT_FALSE(fields->has("t_max_predict_ms"));
  EXPECT_EQ(fields->number("t_max_predict_ms", 7), 7);
  EXPECT_EQ(fields->unknown(), (std::vector<std::string>{"t_max_predict_ms", "nobody_knows"}));
  EXPECT_FALSE(Fields::parse(R"({"prompt": "a", "t_max_predict_ms": [[]]})", kNative).has_value());
}

}  // namespace
}  // namespace tokamak::server

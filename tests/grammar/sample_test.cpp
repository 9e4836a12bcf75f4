// Outputs made token by token from the masks: complete, valid JSON, and accepted again as text.
#include <gtest/gtest.h>

#include "grammar/grammar_helpers.h"
#include "grammar/sample_helpers.h"

namespace tokamak {
namespace {

const char* const kSchemas[] = {
    "{}",
    R"({"type":"object","properties":{"a":{"type":"string","maxLength":12},"b":{"type":"integer","minimum":-3,"maximum":4000}},"required":["b"]})",
    R"({"type":"array","items":{"type":"string","pattern":"^\\d{2}-[^a-f]"},"minItems":2,"maxItems":80})",
    R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"v":{"enum":["x",null]},"k":{"type":"array","items":{"$ref":"#/$defs/t"}}},"required":["v"]}}})",
    R"({"type":"object","additionalProperties":{"type":"number","exclusiveMinimum":0,"maximum":2.5},"minProperties":1,"maxProperties":4})",
    R"({"anyOf":[{"type":"string","format":"date-time"},{"type":"string","format":"email"},{"type":"string","format":"ipv6"}]})",
    R"({"type":"object","properties":{"p":{"type":"object","patternProperties":{"^x_":{"type":"boolean"}},"additionalProperties":false}},"required":["p"]})",
    R"({"type":"string","minLength":30,"maxLength":33})",
};

TEST(Sample, RandomOutputsAreValid) {
  const uint32_t seed = 11;
  std::mt19937 random(seed);
  const auto trie = test::json_trie();
  for (const char* text : kSchemas) {
    const auto grammar = test::schema(text);
    int n_finished = 0;
    for (int i = 0; i < 20; ++i) {
      const test::Sample one = test::sample(grammar, trie, random, 400);
      ASSERT_EQ(one.error, "") << text << "\n" << one.text << "\nseed " << seed;
      if (!one.finished) continue;
      ++n_finished;
      EXPECT_TRUE(parse_json(one.text, "output")) << text << "\n" << one.text;
      EXPECT_TRUE(test::accepts(grammar, one.text)) << text << "\n" << one.text;
    }
    EXPECT_GE(n_finished, 15) << text;
  }
}

}  // namespace
}  // namespace tokamak

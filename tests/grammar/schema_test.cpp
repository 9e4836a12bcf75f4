#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "grammar/grammar_helpers.h"

namespace tokamak {
namespace {

using test::accepts;
using test::schema;
using test::schema_refusal;
using testing::HasSubstr;

struct Case {
  const char* schema;
  std::vector<std::string> yes, no;
};

void check(std::initializer_list<Case> cases) {
  for (const Case& c : cases) {
    const auto grammar = schema(c.schema);
    for (const std::string& text : c.yes) EXPECT_TRUE(accepts(grammar, text)) << c.schema << "\n" << text;
    for (const std::string& text : c.no) EXPECT_FALSE(accepts(grammar, text)) << c.schema << "\n" << text;
  }
}

// "path keyword" of each note.
std::vector<std::string> notes_of(const char* text) {
  std::vector<std::string> out;
  const auto grammar = schema(text);
  for (const SchemaNote& note : grammar->notes()) out.push_back(note.path + " " + note.keyword);
  return out;
}

TEST(Schema, AnyValue) {
  check({
      {"{}",
       {"1", "-0.5e3", "\"a\\n\\u00e9\\ud83d\\ude00\"", "[]", "[1,[2, {}]]", "{\"a\": {\"b\":null}}", "true"},
       {"", "nul", "[1,]", "{\"a\"}", "\"\\ud83d\"", "\"\n\"", "01", "+1", "1.", "\"\\x\""}},
      {"true", {"1"}, {""}},
  });
  EXPECT_TRUE(accepts(*Grammar::any_json_object(), "{\n \"a\": [1, 2] }"));
  EXPECT_FALSE(accepts(*Grammar::any_json_object(), "[]"));
}

TEST(Schema, Types) {
  check({
      {R"({"type":"string"})", {R"("")", R"("a\"b\/")"}, {"1", "\""}},
      {R"({"type":"integer"})", {"0", "-12", "123456789012345"}, {"1.5", "-0", "1234567890123456", "1e2"}},
      {R"({"type":"number"})", {"0", "-0.25", "12e5", "1.5E-2"}, {"\"1\"", ".5", "1e", "1e100"}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null"}},
      {R"({"type":["string","null"]})", {"null", R"("x")"}, {"1"}},
      {R"({"type":"string","nullable":true})", {"null", R"("x")"}, {"1"}},
      {R"({"type":"array"})", {"[]", "[1,\"a\"]"}, {"{}"}},
      {R"({"type":"object"})", {"{}", R"({"a":1})"}, {"[]"}},
      {R"({"enum":["a",1,null,{"x":[1]}]})", {R"("a")", "1", "null", R"({"x":[1]})"}, {R"("b")", "2", "{}"}},
      {R"({"const":"\u00e9\n"})", {"\"\u00e9\\n\""}, {R"("e")"}},
      {R"({"type":"integer","enum":["a",1,2.5]})", {"1"}, {R"("a")", "2.5"}},
      {R"({"type":"string","enum":["a","bb","ccc"],"minLength":2,"pattern":"^b|c"})",
       {R"("bb")", R"("ccc")"},
       {R"("a")"}},
  });
}

TEST(Schema, Strings) {
  check({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("abc")", "\"\u00e9\U0001F994\"", R"("\n\u00e9")", R"("\ud83d\ude00x")"},
       {R"("a")", R"("abcd")", R"("\ud83d\ude00")"}},
      {R"({"type":"string","pattern":"\\d{3}-\\d{4}"})",
       {R"("123-4567")", R"("call \"123-4567\" now")"},
       {R"("123-456")"}},
      {R"({"type":"string","pattern":"\\S"})", {R"("a")", R"("  a")"}, {R"("")", R"("  ")"}},
      {R"({"type":"string","pattern":"^[a-z_]+$"})", {R"("a_b")"}, {R"("")", R"("A")"}},
      {R"({"type":"string","pattern":"^[a-z]+$","minLength":3,"maxLength":4})",
       {R"("abc")", R"("abcd")"},
       {R"("ab")", R"("abcde")"}},
      {R"({"type":"string","pattern":"^(ab|cde)*$","minLength":3,"maxLength":5})",
       {R"("cde")", R"("abab")", R"("abcde")"},
       {R"("ab")", R"("ababab")"}},
      {R"({"type":"string","pattern":"^a{2,500}$","maxLength":3})", {R"("aa")", R"("aaa")"}, {R"("a")", R"("aaaa")"}},
      {R"({"type":"string","pattern":"^x[\"\\\\\\n]$"})", {R"("x\"")", R"("x\\")", R"("x\n")"}, {"\"x\"\"", R"("xn")"}},
      {R"({"allOf":[{"pattern":"^a"},{"type":"string","pattern":"b$"}]})",
       {R"("ab")", R"("axb")"},
       {R"("a")", R"("b")"}},
  });
}

TEST(Schema, LargeBoundsAreCounted) {
  const auto grammar = schema(R"({"type":"array","maxItems":1000,"items":{"type":"string","maxLength":6000}})");
  EXPECT_LT(grammar->n_states(), 200u);
  const std::string full = "\"" + std::string(6000, 'x') + "\"";
  EXPECT_TRUE(accepts(grammar, "[" + full + "]"));
  EXPECT_FALSE(accepts(grammar, "[\"x" + full.substr(1) + "]"));
  std::string items = "1";
  const auto numbers = schema(R"({"type":"array","minItems":500,"maxItems":1000,"items":{"const":1}})");
  for (int i = 0; i < 499; ++i) items += ",1";
  EXPECT_TRUE(accepts(numbers, "[" + items + "]"));
  EXPECT_FALSE(accepts(numbers, "[" + items.substr(2) + "]"));
  EXPECT_TRUE(accepts(numbers, "[" + items + "," + items + "]"));
  EXPECT_FALSE(accepts(numbers, "[" + items + "," + items + ",1]"));
  const auto pattern = schema(R"({"type":"string","pattern":"^[a-z]([a-z0-9]{1,9000}-){2,900}$"})");
  EXPECT_LT(pattern->n_states(), 200u);
  EXPECT_TRUE(accepts(pattern, R"("ab-c-")"));
  EXPECT_FALSE(accepts(pattern, R"("ab-")"));
}

TEST(Schema, Formats) {
  check({
      {R"({"format":"date"})",
       {R"("2024-02-29")", R"("2023-12-31")"},
       {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("0000-01-01")"}},
      {R"({"format":"time"})", {R"("23:59:59Z")", R"("00:00:00.123+01:30")"}, {R"("24:00:00Z")", R"("12:00")"}},
      {R"({"format":"date-time"})", {R"("2024-02-29T12:00:00Z")"}, {R"("2024-02-29 12:00:00Z")"}},
      {R"({"format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"}},
      {R"({"format":"email"})", {R"("a.b@c.org")"}, {R"("a@b")", R"(".a@b.c")"}},
      {R"({"format":"ipv4"})", {R"("255.0.10.1")"}, {R"("256.0.0.1")", R"("01.2.3.4")"}},
      {R"({"format":"ipv6"})",
       {R"("::")", R"("::1")", R"("1:2:3:4:5:6:7:8")", R"("fe80::a:b")"},
       {R"("1:2")", R"("1::2::3")"}},
      {R"({"format":"uri"})", {R"("https://a.b/c?d=e#f")"}, {R"("a.b")", R"("http://")"}},
  });
  EXPECT_EQ(notes_of(R"({"type":"string","format":"madeup"})"), std::vector<std::string>{"# format"});
}

TEST(Schema, Numbers) {
  check({
      {R"({"type":"integer","minimum":7,"maximum":123})", {"7", "10", "99", "123"}, {"6", "124", "-7", "07", "200"}},
      {R"({"type":"integer","minimum":-15,"maximum":3})", {"-15", "-1", "0", "3"}, {"-16", "4", "-0"}},
      {R"({"type":"integer","exclusiveMinimum":-3,"exclusiveMaximum":0})", {"-2", "-1"}, {"-3", "0"}},
      {R"({"type":"integer","minimum":1.5,"maximum":3.9})", {"2", "3"}, {"1", "4"}},
      {R"({"type":"integer","minimum":998})", {"998", "1000", "123456"}, {"997", "99", "-999"}},
      {R"({"type":"integer","maximum":-998})", {"-998", "-1000"}, {"-997", "0", "998"}},
      {R"({"type":"integer","multipleOf":7,"minimum":0,"maximum":50})", {"0", "7", "49"}, {"8", "56"}},
      {R"({"type":"integer","minimum":5,"exclusiveMinimum":true,"maximum":6})", {"6"}, {"5"}},
      {R"({"type":"number","minimum":0.25,"maximum":12.5})",
       {"0.25", "0.250", "1", "12.5", "12.49", "9.99"},
       {"0.2", "0.249", "12.51", "13", "-1", "1e0"}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})", {"0.5", "0.01"}, {"0", "0.0", "1", "1.0"}},
      {R"({"type":"number","minimum":-1.5,"maximum":-0.5})",
       {"-1.5", "-1", "-0.5", "-0.75"},
       {"-0.4", "-1.51", "0", "1"}},
      {R"({"type":"number","minimum":-1,"maximum":1})", {"-1", "-0.5", "0", "1", "1.0"}, {"1.1", "-1.1"}},
  });
  EXPECT_EQ(notes_of(R"({"type":"number","multipleOf":0.01})"), std::vector<std::string>{"# multipleOf"});
  EXPECT_THAT(schema_refusal(R"({"type":"integer","minimum":5,"maximum":4})"), HasSubstr("nothing can ever match"));
}

TEST(Schema, Objects) {
  check({
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"const":1},"c":{"const":2}},"required":["b"]})",
       {R"({"b":1})", R"({"a":5,"b":1})", R"({ "a": 5, "b": 1, "c": 2 })", "{\n  \"b\": 1,\n  \"c\": 2\n}"},
       {"{}", R"({"a":5})", R"({"b":1,"a":5})", R"({"b":1,})", R"({,"b":1})", R"({"b":1,"d":1})", R"({"b" :1})"}},
      {R"({"type":"object","properties":{"a":{},"b":{}}})", {"{}", R"({"b":[1]})"}, {R"({"c":1})"}},
      {R"({"type":"object","properties":{"a":{"const":1},"ab":{"const":2}},"additionalProperties":{"const":3}})",
       {"{}", R"({"a":1,"b":3})", R"({"b":3,"abc":3,"":3})"},
       {R"({"a":3})", R"({"ab":3})", R"({"b":1})"}},
      {R"({"additionalProperties":{"type":"integer"}})", {"{}", R"({"x":1,"y":2})"}, {R"({"x":"1"})"}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"patternProperties":{"^n_":{"type":"integer"}},"properties":{"n_1":{"minimum":5},"s":{"const":0}},"additionalProperties":false})",
       {R"({"n_1":7,"s":0,"n_x":1})", "{}"},
       {R"({"n_1":4})", R"({"n_1":5.5})", R"({"x":1})", R"({"n_x":"a"})"}},
      {R"({"type":"object","additionalProperties":{"const":1},"minProperties":2,"maxProperties":3})",
       {R"({"a":1,"b":1})", R"({"a":1,"b":1,"c":1})"},
       {"{}", R"({"a":1})", R"({"a":1,"b":1,"c":1,"d":1})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":1},"c":{"const":1}},"minProperties":2})",
       {R"({"a":1,"b":1})", R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"},
       {"{}", R"({"c":1})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":1},"c":{"const":1}},"maxProperties":1,"required":["b"]})",
       {R"({"b":1})"},
       {R"({"a":1,"b":1})", "{}"}},
      {R"({"type":"object","required":["x"],"additionalProperties":{"const":1}})",
       {R"({"x":1})", R"({"x":1,"y":1})"},
       {"{}", R"({"y":1})"}},
      {R"({"type":"object","propertyNames":{"pattern":"^[a-z]+$"}})", {R"({"ab":1})"}, {R"({"A":1})"}},
      {R"({"properties":{"a\"\u00e9":{"const":1}}})", {"{\"a\\\"\u00e9\":1}"}, {R"({"a":1})"}},
      {R"({"properties":{"a":false,"b":true}})", {R"({"b":1})"}, {R"({"a":1})"}},
  });
}

TEST(Schema, Arrays) {
  check({
      {R"({"type":"array","items":{"const":1},"minItems":1,"maxItems":3})",
       {"[1]", "[1, 1,1]", "[\n 1\n]"},
       {"[]", "[1,1,1,1]", "[1,]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}],"items":false})", {"[]", "[1]", "[1,2]"}, {"[2]", "[1,2,3]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":2,"maxItems":4})",
       {"[1,2]", "[1,2,3,3]"},
       {"[1]", "[1,2,3,3,3]", "[1,3]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":3})",
       {"[1,2,3]", "[1,2,3,3]"},
       {"[1,2]"}},
      {R"({"items":[{"const":1}],"additionalItems":{"const":2}})", {"[1,2,2]", "[]"}, {"[2]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","items":{"type":"array","items":{"type":"integer"},"maxItems":100},"minItems":2,"maxItems":100})",
       {"[[1],[]]"},
       {"[[1]]"}},
  });
}

TEST(Schema, Combinations) {
  check({
      {R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", {"1", "null"}, {"\"a\""}},
      {R"({"oneOf":[{"const":"a"},{"const":"b"}]})", {"\"a\"", "\"b\""}, {"\"c\""}},
      {R"({"type":"integer","anyOf":[{"minimum":10},{"maximum":3}]})", {"2", "11"}, {"5", "null"}},
      {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"const":1},"a":{"minimum":3}}}]})",
       {R"({"a":3,"b":1})", R"({"a":4})"},
       {R"({"a":2})", R"({"b":1})"}},
      {R"({"allOf":[{"type":["integer","null"]},{"type":["number","string"]}]})", {"1"}, {"null", "1.5", "\"a\""}},
      {R"({"allOf":[{"enum":[1,2,3]},{"enum":[2,3,4]}],"not":{}})", {"2", "3"}, {"1", "4"}},
      {R"({"allOf":[{"properties":{"a":{"const":1}},"additionalProperties":false},{"properties":{"b":{"const":1}}}]})",
       {"{}", R"({"a":1})"},
       {R"({"b":1})"}},
      {R"({"allOf":[{"prefixItems":[{"type":"integer"},{"type":"integer"}]},{"items":{"maximum":5}}],"maxItems":3})",
       {"[]", "[5,4]", "[1,2,3]"},
       {"[6]", "[1,6]", "[1,2,6]", "[1.5]"}},
      {R"({"properties":{"k":{"anyOf":[{"properties":{"t":{"const":"x"}},"required":["t"]},{"type":"string"}]}},"required":["k"]})",
       {R"({"k":{"t":"x"}})", R"({"k":"s"})"},
       {R"({"k":{}})", R"({"k":1})"}},
  });
}

// hard_cases.md 23
TEST(Schema, References) {
  check({
      {R"({"type":"array","minItems":4,"maxItems":4,"items":{"type":"object","properties":{"mood":{"$ref":"#/definitions/m"}},"required":["mood"]},
          "definitions":{"m":{"enum":["calm","storm"]}}})",
       {R"([{"mood":"calm"},{"mood":"storm"},{"mood":"calm"},{"mood":"calm"}])"},
       {R"([{"mood":"calm"}])", R"([{"mood":"x"},{"mood":"storm"},{"mood":"calm"},{"mood":"calm"}])",
        R"([{"mood":{}},{"mood":"storm"},{"mood":"calm"},{"mood":"calm"}])"}},
      {R"({"properties":{"tree":{"anyOf":[{"type":"null"},{"type":"integer"}]},"x":{"$ref":"#/properties/tree/anyOf/1"}},"required":["x"]})",
       {R"({"x":1})", R"({"tree":null,"x":1})"},
       {R"({"x":null})"}},
      {R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"l":{"$ref":"#/$defs/node"},"r":{"$ref":"#/$defs/node"}},"required":["v"]}}})",
       {R"({"v":1})", R"({"v":1,"l":{"v":2,"r":{"v":3}},"r":{"v":4}})"},
       {R"({"v":1,"l":{}})", R"({"l":{"v":1}})"}},
      {R"({"$ref":"#/$defs/a~1b~0c%20d","$defs":{"a/b~c d":{"const":7}}})", {"7"}, {"8"}},
      {R"({"type":"array","items":{"anyOf":[{"type":"integer"},{"$ref":"#"}]}})", {"[]", "[1,[2,[]]]"}, {"[null]"}},
      {R"({"$id":"http://x.y/s","items":{"$ref":"http://x.y/s#/$defs/i"},"$defs":{"i":{"const":1}}})",
       {"[1]"},
       {"[2]"}},
      {R"({"items":{"$ref":"#here"},"$defs":{"i":{"$anchor":"here","const":1}}})", {"[1]"}, {"[2]"}},
      {R"({"$defs":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s","maxLength":2,"description":"x"}}})",
       {R"({"a":"bc"})"},
       {R"({"a":"bcd"})"}},
      // Combined and recursive at once.
      {R"({"$defs":{"b":{"properties":{"n":{"type":"integer"}}},"t":{"allOf":[{"$ref":"#/$defs/b"},{"properties":{"k":{"$ref":"#/$defs/t"}}}]}},"$ref":"#/$defs/t"})",
       {"{}", R"({"n":1,"k":{"n":2,"k":{}}})"},
       {R"({"k":1})"}},
  });
  EXPECT_THAT(schema_refusal(R"({"properties":{"a":{"$ref":"#/$defs/gone"}}})"),
              HasSubstr("schema #/properties/a: reference '#/$defs/gone' leads nowhere"));
  EXPECT_THAT(schema_refusal(R"({"$ref":"http://other/x"})"), HasSubstr("outside"));
  EXPECT_THAT(schema_refusal(R"({"$ref":"#"})"), HasSubstr("nothing can ever match"));
  EXPECT_THAT(schema_refusal(R"({"allOf":[{"$ref":"#"}]})"), HasSubstr("circle"));
  EXPECT_THAT(schema_refusal(R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})"),
              HasSubstr("nothing can ever match"));
}

// hard_cases.md 19
TEST(Schema, WhatCannotBeCompiledIsRefusedWithItsPath) {
  const auto with_pattern = [](const std::string& pattern) {
    return R"({"type":"object","properties":{"p":{"type":"string","pattern":)" + Json(pattern).dump() + "}}}";
  };
  EXPECT_THAT(schema_refusal(with_pattern(R"(^ready\~go$)")),
              HasSubstr("schema #/properties/p/pattern, offset 7 of the pattern: unknown escape"));
  for (const char* pattern : {"^[a-$", "^[a", "a(?=b)", R"((a)\1)", R"(\bx)"})
    EXPECT_THAT(schema_refusal(with_pattern(pattern)), HasSubstr("schema #/properties/p/pattern"));
  EXPECT_THAT(schema_refusal("3"), HasSubstr("object or a boolean"));
  EXPECT_THAT(schema_refusal("false"), HasSubstr("nothing can ever match"));
  EXPECT_THAT(schema_refusal(R"({"type":"strin"})"), HasSubstr("unknown type 'strin'"));
  EXPECT_THAT(schema_refusal(R"({"properties":[]})"), HasSubstr("'properties' must be"));
  EXPECT_THAT(schema_refusal(R"({"items":{"required":"a"}})"), HasSubstr("schema #/items: 'required' must be"));
  EXPECT_THAT(schema_refusal(R"({"minLength":"x"})"), HasSubstr("'minLength' must be a number"));
  EXPECT_THAT(schema_refusal(R"({"enum":[]})"), HasSubstr("'enum'"));
  EXPECT_THAT(schema_refusal(R"({"properties":{"a":false},"required":["a"]})"), HasSubstr("'a' can have no value"));
  EXPECT_THAT(schema_refusal(R"({"$dynamicRef":"#x"})"), HasSubstr("not supported"));
}

// hard_cases.md 20
TEST(Schema, OrdinaryToolSchemasCompileAndListWhatIsNotEnforced) {
  EXPECT_EQ(notes_of(R"({"type":"object","properties":{
      "phone":{"type":"string","pattern":"\\d{3}-\\d{4}"},"any":{"type":"string","pattern":"\\S"},
      "nested":{"type":"object","properties":{"id":{"type":"string","pattern":"^[a-z_]+$"},"text":{"type":"string","maxLength":6000}}},
      "at":{"type":"string","format":"date-time"},"link":{"type":"string","format":"uri"},
      "mail":{"type":"string","format":"email"},"uid":{"type":"string","format":"uuid"},
      "map":{"type":"object","minProperties":1},"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true},
      "free":{},"maybe":{"type":["string","null"]}},"required":["phone"]})"),
            (std::vector<std::string>{"#/properties/map minProperties", "#/properties/tags uniqueItems"}));
  EXPECT_EQ(notes_of(R"({"type":"integer","not":{"const":3},"x-mine":1,"title":"t"})"),
            (std::vector<std::string>{"# not", "# x-mine"}));
}

// hard_cases.md 21
TEST(Schema, DepthIsBounded) {
  Json deep = Json::object();
  for (int i = 0; i < 20000; ++i) {
    Json outer = Json::object();
    outer["properties"]["a"] = std::move(deep);
    deep = std::move(outer);
  }
  const auto made = Grammar::from_json_schema(deep);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), HasSubstr("too deep"));
  Json pattern = Json::object();
  pattern["pattern"] = std::string(20000, '(') + "a" + std::string(20000, ')');
  EXPECT_THAT(Grammar::from_json_schema(pattern).error().message(), HasSubstr("too deep"));
}

// hard_cases.md 25
TEST(Schema, WhiteSpaceIsBounded) {
  const char* text =
      R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array"}},"required":["a","b"]})";
  const auto grammar = schema(text);
  EXPECT_TRUE(accepts(grammar, "{\n    \"a\": \"\",\n    \"b\": [\n        1\n    ]\n}"));
  EXPECT_FALSE(test::begins(grammar, "{\n\n"));
  EXPECT_FALSE(test::begins(grammar, "{  "));
  EXPECT_FALSE(test::begins(grammar, "{\n" + std::string(18, ' ') + "\n"));
  EXPECT_FALSE(test::begins(grammar, " "));
  EXPECT_FALSE(test::begins(grammar, "{\"a\":  "));
  const auto compact = schema(text, {.compact = true});
  EXPECT_TRUE(accepts(compact, R"({"a":"","b":[1,{"c":2}]})"));
  EXPECT_FALSE(test::begins(compact, "{ "));
  EXPECT_FALSE(test::begins(compact, R"({"a": )"));
}

TEST(Schema, NoSeparatorWhereNothingMayFollow) {
  const auto grammar = schema(R"({"properties":{"a":{"const":1},"b":{"const":1}},"maxProperties":1})");
  EXPECT_TRUE(accepts(grammar, R"({"a":1})"));
  EXPECT_FALSE(test::begins(grammar, R"({"a":1,)"));
  EXPECT_FALSE(test::begins(schema(R"({"prefixItems":[{"const":1}],"items":false})"), "[1,"));
  EXPECT_FALSE(test::begins(schema(R"({"items":{"const":1},"maxItems":2})"), "[1,1,"));
}

TEST(Schema, KeysComeInTheOrderOfTheSchema) {
  const auto grammar = schema(R"({"properties":{"z":{"const":1},"a":{"const":2}},"required":["a","z"]})");
  EXPECT_TRUE(accepts(grammar, R"({"z":1,"a":2})"));
  EXPECT_FALSE(accepts(grammar, R"({"a":2,"z":1})"));
}

}  // namespace
}  // namespace tokamak

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "grammar/grammar_helpers.h"

namespace tokamak {
namespace {

using test::accepts;
using test::begins;
using test::gbnf;
using test::gbnf_refusal;
using testing::HasSubstr;

struct Case {
  const char* grammar;
  std::vector<std::string> yes, no;
};

TEST(Gbnf, AcceptsExactlyItsLanguage) {
  const Case cases[] = {
      {R"g(root ::= "a" | "bc")g", {"a", "bc"}, {"", "b", "ab", "abc"}},
      {R"g(root ::= "a"*)g", {"", "a", "aaaa"}, {"b"}},
      {R"g(root ::= "ab"+)g", {"ab", "abab"}, {"", "aba"}},
      {R"g(root ::= "a"? "b")g", {"b", "ab"}, {"", "a", "aab"}},
      {R"g(root ::= [a-c]{2,3})g", {"ab", "abc"}, {"a", "abca", "ad"}},
      {R"g(root ::= [a-c]{2})g", {"ab"}, {"a", "abc"}},
      {R"g(root ::= ("a" | "b" "c"){2,} "d")g", {"aad", "bcad", "bcbcbcd"}, {"ad", "bcd", "aa"}},
      {R"g(root ::= [^a-z"\n])g", {"A", "\u00e9", "\U0001F994", "]"}, {"a", "\"", "\n", ""}},
      {R"g(root ::= . .)g", {"ab", "\u00e9\n"}, {"a", "abc"}},
      {R"g(root ::= "\x41\u00e9\U0001F994\n\"\\")g", {"A\u00e9\U0001F994\n\"\\"}, {"A"}},
      {R"g(root ::= [\x61-\x63\u00e9\]\-])g", {"b", "\u00e9", "]", "-"}, {"d", "\\"}},
      {R"g(root ::= [a-] [-a])g", {"a-", "-a"}, {"b"}},
      {R"g(root ::= a b  # comment
# another
a ::= "x" |
  "y"
b ::= (
  "1" |
  "2" )
)g",
       {"x1", "y2"},
       {"x", "1"}},
      {"root ::= \"a\"\n  | \"b\"\n", {"a", "b"}, {"ab"}},
      {R"g(root ::= "(" root ")" | "")g", {"", "()", "((()))"}, {"(", "())"}},
      {R"g(root ::= root "+" t | t
t ::= [0-9]+)g",
       {"1", "1+22+3"},
       {"+", "1+", "1++2"}},
      {R"g(root ::= a
a ::= b "x" | "y"
b ::= a "z" | "w")g",
       {"y", "wx", "yzx", "wxzx"},
       {"", "x", "yz"}},
      {R"g(root ::= e root "a" | "b"
e ::= "" | "-")g",
       {"b", "ba", "-ba", "-baa"},
       {"-b", "a"}},
      {R"g(root ::= ("a"?){3,5} "b")g", {"b", "aaab", "aaaaab"}, {"aaaaaab"}},
      {R"g(root ::= ("a" | "aa"){0,1000} "b")g", {"b", "aaab"}, {"a"}},
      {R"g(root ::= ([a-c]{2,60} "."){3,50})g", {"ab.abc.ab.", "ab.ab.ab.ab."}, {"ab.ab.", "a.ab.ab."}},
      {R"g(root ::= "" )g", {""}, {"a"}},
      {R"g(root ::= ("ab" | "abc" | "a") "!")g", {"a!", "ab!", "abc!"}, {"!", "abcd!"}},
  };
  for (const Case& c : cases) {
    const auto grammar = gbnf(c.grammar);
    for (const std::string& text : c.yes) EXPECT_TRUE(accepts(grammar, text)) << c.grammar << "\n" << text;
    for (const std::string& text : c.no) EXPECT_FALSE(accepts(grammar, text)) << c.grammar << "\n" << text;
  }
}

TEST(Gbnf, LargeBoundsAreCounted) {
  const auto grammar = gbnf(R"g(root ::= "<" ([a-z] [0-9]){1000,60000} ">")g");
  EXPECT_LT(grammar->n_states(), 50u);
  std::string pairs;
  for (int i = 0; i < 999; ++i) pairs += "a1";
  EXPECT_FALSE(accepts(grammar, "<" + pairs + ">"));
  EXPECT_TRUE(accepts(grammar, "<" + pairs + "b2>"));
  for (int i = 0; i < 6; ++i) pairs += pairs;
  EXPECT_FALSE(begins(grammar, "<" + pairs));
}

TEST(Gbnf, RefusalsNameThePlace) {
  EXPECT_THAT(gbnf_refusal(""), HasSubstr("empty"));
  EXPECT_THAT(gbnf_refusal("a ::= \"x\""), HasSubstr("no rule 'root'"));
  EXPECT_THAT(gbnf_refusal("root ::= b"), HasSubstr("rule 'b' is used but not defined"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\"\nroot ::= \"b\""), HasSubstr("defined twice"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a"), HasSubstr("not closed"));
  EXPECT_THAT(gbnf_refusal("root ::= [a"), HasSubstr("not closed"));
  EXPECT_THAT(gbnf_refusal("root ::= []"), HasSubstr("empty"));
  EXPECT_THAT(gbnf_refusal("root ::= [z-a]"), HasSubstr("backwards"));
  EXPECT_THAT(gbnf_refusal("root ::= (\"a\""), HasSubstr("'(' is not closed"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\")"), HasSubstr("')' closes nothing"));
  EXPECT_THAT(gbnf_refusal("root ::= *"), HasSubstr("must follow something"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\"{3,2}"), HasSubstr("larger than its maximum"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\"{x}"), HasSubstr("number"));
  EXPECT_THAT(gbnf_refusal("root ::= \"\\q\""), HasSubstr("line 1, column 12"));
  EXPECT_THAT(gbnf_refusal("root ::= \"\\ud800\""), HasSubstr("no character"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\"\n\n  = b"), HasSubstr("line 3"));
  EXPECT_THAT(gbnf_refusal("root ::= <think>"), HasSubstr("without a model"));
  EXPECT_THAT(gbnf_refusal("root ::= \"\xff\""), HasSubstr("UTF-8"));
}

TEST(Gbnf, WhatCanNeverEndIsRefused) {
  EXPECT_THAT(gbnf_refusal("root ::= \"a\" root"), HasSubstr("nothing can ever match"));
  EXPECT_THAT(gbnf_refusal("root ::= root"), HasSubstr("nothing can ever match"));
  // A dead alternative is left out, so that it cannot be entered.
  const auto grammar = gbnf("root ::= \"a\" | \"b\" dead\ndead ::= \"c\" dead");
  EXPECT_TRUE(accepts(grammar, "a"));
  EXPECT_FALSE(begins(grammar, "b"));
}

// hard_cases.md 21
TEST(Gbnf, DepthIsBounded) {
  std::string deep = "root ::= ";
  deep.append(80000, '(').append("\"a\"").append(80000, ')');
  EXPECT_THAT(gbnf_refusal(deep), HasSubstr("too deep"));
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 6000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  chain += "r6000 ::= \"a\"\n";
  EXPECT_THAT(gbnf_refusal(chain), HasSubstr("too deep"));
  std::string left = "root ::= \"a\"";
  for (int i = 0; i < 80000; ++i) left += "?";
  EXPECT_THAT(gbnf_refusal(left), HasSubstr("too deep"));
}

TEST(Gbnf, TimeAndMemoryAreBounded) {
  GrammarOptions options;
  options.limits.max_bytes = 100000;
  std::string big = "root ::= \"a\"";
  for (int i = 0; i < 5000; ++i) big += " | \"word" + std::to_string(i) + "\" [a-z]";
  EXPECT_THAT(gbnf_refusal(big, options), HasSubstr("MiB"));
  options.limits.max_text_bytes = 10;
  EXPECT_THAT(gbnf_refusal("root ::= \"abc\"", options), HasSubstr("limit of 10"));
}

TEST(Gbnf, NestedTextOfAnyDepthIsFollowed) {
  const auto grammar = gbnf("root ::= \"(\" root \")\" | \"x\"");
  const std::string open(100000, '('), closed(100000, ')');
  EXPECT_TRUE(accepts(grammar, open + "x" + closed));
  EXPECT_FALSE(accepts(grammar, open + "x" + closed + ")"));
}

}  // namespace
}  // namespace tokamak

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "grammar/grammar_helpers.h"

namespace tokamak {
namespace {

using test::accepts;
using test::regex;
using test::regex_refusal;
using testing::HasSubstr;

struct Case {
  const char* pattern;
  std::vector<std::string> yes, no;
};

TEST(Regex, AcceptsExactlyItsLanguage) {
  const Case cases[] = {
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
      {"^a+b*?$", {"a", "aab"}, {"b", ""}},
      {"(?:ab|c){2,3}", {"abab", "cc", "cabc"}, {"c", "cccc"}},
      {"(?<name>x)y", {"xy"}, {"x"}},
      {R"(\d{3}-\d{4})", {"123-4567"}, {"123-456", "12-4567"}},
      {R"(\w\W\s\S\D)", {"a- xx", "_.\tyy"}, {"-- xx", "a-xxx"}},
      {R"([^\d\s])", {"a", "\u00e9"}, {"1", " "}},
      {R"([\w.+-]+@[a-z]+\.[a-z]{2,})", {"a.b+c-d@host.org"}, {"@host.org", "a@host.o"}},
      {R"(\x41\u00e9\u{1F994}\uD83E\uDD94\t\/)", {"A\u00e9\U0001F994\U0001F994\t/"}, {"A"}},
      {R"([\u0400-\u04ff]+)", {"\u0449\u0451"}, {"a"}},
      {".", {"a", "\u00e9"}, {"\n", "", "ab"}},
      {"[^]", {"a", "\n"}, {""}},
      {"(a|b(c|d(e|f)))*", {"", "abcbdf"}, {"b", "bd"}},
      {"a{0}b", {"b"}, {"ab"}},
      {"x{500,1000}", {std::string(500, 'x'), std::string(1000, 'x')}, {std::string(499, 'x'), std::string(1001, 'x')}},
      {"(^a|b)$|c", {"a", "b", "c"}, {"ab"}},
  };
  for (const Case& c : cases) {
    const auto grammar = regex(c.pattern);
    for (const std::string& text : c.yes) EXPECT_TRUE(accepts(grammar, text)) << c.pattern << "\n" << text;
    for (const std::string& text : c.no) EXPECT_FALSE(accepts(grammar, text)) << c.pattern << "\n" << text;
  }
}

// hard_cases.md 19 and 21
TEST(Regex, RefusalsSayWhy) {
  EXPECT_THAT(regex_refusal("a(?=b)"), HasSubstr("look-ahead"));
  EXPECT_THAT(regex_refusal("(?<!a)b"), HasSubstr("look-behind"));
  EXPECT_THAT(regex_refusal(R"((a)\1)"), HasSubstr("back-references"));
  EXPECT_THAT(regex_refusal(R"((?<n>a)\k<n>)"), HasSubstr("back-references"));
  EXPECT_THAT(regex_refusal(R"(\bword\b)"), HasSubstr("word boundaries"));
  EXPECT_THAT(regex_refusal(R"(\p{L})"), HasSubstr("\\p"));
  EXPECT_THAT(regex_refusal(R"(^ready\~go$)"), HasSubstr("unknown escape"));
  EXPECT_THAT(regex_refusal("^[a-$"), HasSubstr("backwards"));
  EXPECT_THAT(regex_refusal("[z-a]"), HasSubstr("backwards"));
  EXPECT_THAT(regex_refusal("(a"), HasSubstr("not closed"));
  EXPECT_THAT(regex_refusal("a)"), HasSubstr("closes nothing"));
  EXPECT_THAT(regex_refusal("+a"), HasSubstr("must follow something"));
  EXPECT_THAT(regex_refusal("a{2,1}"), HasSubstr("larger than its maximum"));
  EXPECT_THAT(regex_refusal("a^b"), HasSubstr("anchor"));
  EXPECT_THAT(regex_refusal("(a$)b"), HasSubstr("anchor"));
  EXPECT_THAT(regex_refusal("(?i)a"), HasSubstr("not supported"));
  EXPECT_THAT(regex_refusal("a\\"), HasSubstr("backslash"));
  EXPECT_THAT(regex_refusal(R"(\ud800)"), HasSubstr("no character"));
  EXPECT_THAT(regex_refusal(std::string(20000, '(') + "a" + std::string(20000, ')')), HasSubstr("too deep"));
  EXPECT_THAT(regex_refusal("[^\\d\\D]"), HasSubstr("nothing can ever match"));
}

}  // namespace
}  // namespace tokamak

#include <gtest/gtest.h>

#include "grammar/grammar_helpers.h"

namespace tokamak {
namespace {

using test::allowed;
using test::gbnf;
using test::regex;

constexpr const char* kCall = R"g(root ::= "<call>" [a-z]+ "</call>")g";

TEST(Trigger, EverythingIsAllowedUntilTheWord) {
  const auto trie = test::byte_trie({"xx<ca", "ll>ab", "hello"});
  GrammarState state(gbnf(kCall), trie, {.words = {"<call>"}});
  EXPECT_FALSE(state.is_active());
  EXPECT_TRUE(state.can_end());
  EXPECT_EQ(allowed(state, *trie).size(), static_cast<size_t>(trie->n_vocab()));
  for (const int32_t token : {258, 256, 258, 256}) ASSERT_TRUE(state.accept(token));
  EXPECT_FALSE(state.is_active());
  ASSERT_TRUE(state.accept(257));
  EXPECT_TRUE(state.is_active());
  EXPECT_FALSE(state.can_end());
  EXPECT_FALSE(state.accept('1'));
  ASSERT_TRUE(state.accept_bytes("c</call>"));
  EXPECT_TRUE(state.is_finished());
}

TEST(Trigger, TextBehindTheWordThatDoesNotFitIsNoTrigger) {
  const auto trie = test::byte_trie({"<call>123", "<call>abc"});
  GrammarState state(gbnf(kCall), trie, {.words = {"<call>"}});
  ASSERT_TRUE(state.accept(256));
  EXPECT_FALSE(state.is_active());
  ASSERT_TRUE(state.accept(257));
  EXPECT_TRUE(state.is_active());
}

TEST(Trigger, Tokens) {
  const auto trie = test::byte_trie({"<call>"});
  GrammarState by_bytes(gbnf(kCall), trie, {.tokens = {256}});
  ASSERT_TRUE(by_bytes.accept_bytes("<call>"));  // text, not the token
  EXPECT_FALSE(by_bytes.is_active());
  ASSERT_TRUE(by_bytes.accept(256));
  EXPECT_TRUE(by_bytes.is_active());
  GrammarState skipped(gbnf(R"g(root ::= [a-z]+)g"), trie, {.tokens = {256}, .skip_trigger = true});
  ASSERT_TRUE(skipped.accept(256));
  EXPECT_TRUE(skipped.is_active());
  EXPECT_FALSE(skipped.can_end());
  GrammarState literal(gbnf(R"g(root ::= <[256]> "x")g"), trie, {.tokens = {256}});
  ASSERT_TRUE(literal.accept(256));
  EXPECT_EQ(allowed(literal, *trie), std::vector<int32_t>{'x'});
}

TEST(Trigger, PatternsBeginTheGrammarAtTheirStart) {
  const auto trie = test::byte_trie();
  const auto grammar = gbnf(R"g(root ::= "f" [0-9]+ "(" [a-z]* ")")g");
  GrammarTriggers triggers;
  triggers.patterns = {regex(R"(f\d+\()")};
  GrammarState state(grammar, trie, triggers);
  ASSERT_TRUE(state.accept_bytes("ff1 f12"));
  EXPECT_FALSE(state.is_active());
  GrammarState copy(state);
  ASSERT_TRUE(state.accept_bytes("("));
  EXPECT_TRUE(state.is_active());
  EXPECT_FALSE(state.accept('1'));
  ASSERT_TRUE(state.accept_bytes("ab)"));
  EXPECT_TRUE(state.is_finished());
  ASSERT_TRUE(copy.accept_bytes("x("));
  EXPECT_FALSE(copy.is_active());
}

TEST(Trigger, ManyThreadsOfAPatternAreBounded) {
  const auto trie = test::byte_trie();
  GrammarTriggers triggers;
  triggers.patterns = {regex(R"([ab]*x)")};
  GrammarState state(gbnf(R"g(root ::= [ab]* "x" "y")g"), trie, triggers);
  ASSERT_TRUE(state.accept_bytes(std::string(5000, 'a')));
  ASSERT_TRUE(state.accept_bytes("bx"));
  EXPECT_TRUE(state.is_active());
  EXPECT_EQ(allowed(state, *trie), std::vector<int32_t>{'y'});
}

TEST(Trigger, AnEndBeforeTheTriggerEnds) {
  const auto trie = test::byte_trie();
  GrammarState state(gbnf(kCall), trie, {.words = {"<call>"}});
  ASSERT_TRUE(state.accept(trie->end_tokens()[0]));
  EXPECT_TRUE(state.is_finished());
}

}  // namespace
}  // namespace tokamak

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "grammar/grammar_helpers.h"

namespace tokamak {
namespace {

using test::allowed;
using test::allowed_slowly;
using test::gbnf;

constexpr const char* kJson = R"g(
root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? ws "}"
array ::= "[" ws (value ("," ws value)*)? ws "]"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
ws ::= [ \n\t]{0,20}
)g";

// Grammars whose masks go through every path: ends of rules inside tokens, counts within and below the current rule,
// ambiguity, left recursion, characters split between tokens.
const char* const kGrammars[] = {
    kJson,
    R"g(root ::= "a"{2,90} "b"{3,70} "a"{0,60})g",
    R"g(root ::= ("a"{1,50} | "ab"{1,50}){2,80})g",
    R"g(root ::= ([ab]{2,40} [,:]){3,50} "a"*)g",
    R"g(root ::= root "," t | t
t ::= [ab]+ | "(" root ")")g",
    R"g(root ::= x "a" | y "b"
x ::= "a" | "ab" x
y ::= "a" | "ab" y)g",
    R"g(root ::= [\u00e0-\u4fff]{1,100} "a")g",
    R"g(root ::= ("a" | "aa" | "aaa"){40,100} "b")g",
    R"g(root ::= item{55}
item ::= ([ab]{0,60} ",")+ ":")g",
    R"g(root ::= ("" | "a" | "b")* "," ("a"?)* ":")g",
};

std::vector<std::string> random_pieces(std::mt19937& random) {
  static const std::string kAlphabet = "aaaabbb,,::\"{}[]\n 01-.\\ue\xc3\xa9\xe4\xb8\x80()";
  std::vector<std::string> pieces;
  for (int i = 0; i < 120; ++i) {
    std::string piece;
    const size_t n = 1 + random() % 8;
    while (piece.size() < n) piece += kAlphabet[random() % kAlphabet.size()];
    pieces.push_back(piece);
  }
  for (int n = 2; n < 40; n += 3) pieces.emplace_back(static_cast<size_t>(n), 'a');
  for (const char* piece : {"\":", "\", \"", "\"}", "\"},\n", "{\"", "[{\"", "\u00e9", "true", ": true,", "}]}", "]]"})
    pieces.emplace_back(piece);
  return pieces;
}

// The mask is what accept() takes, at every step of random walks.
TEST(Mask, IsExactlyWhatIsAccepted) {
  const uint32_t seed = 7;
  std::mt19937 random(seed);
  for (const char* text : kGrammars) {
    const auto grammar = gbnf(text);
    const auto trie = test::byte_trie(random_pieces(random));
    for (int walk = 0; walk < 2; ++walk) {
      GrammarState state(grammar, trie);
      for (int step = 0; step < 14 && !state.is_finished(); ++step) {
        const auto mask = allowed(state, *trie);
        ASSERT_EQ(mask, allowed_slowly(state, *trie)) << text << "\nseed " << seed << ", step " << step;
        ASSERT_FALSE(mask.empty()) << text;
        // Prefer long pieces, so that tokens cross the ends of rules.
        int32_t token = mask[random() % mask.size()];
        for (int tries = 0; tries < 3; ++tries) {
          const int32_t other = mask[random() % mask.size()];
          if (trie->piece(other).size() > trie->piece(token).size()) token = other;
        }
        ASSERT_TRUE(state.accept(token));
      }
    }
  }
}

TEST(Mask, EndTokensAreAllowedExactlyWhereTheOutputIsComplete) {
  const auto trie = test::byte_trie();
  const int32_t end = trie->end_tokens()[0];
  GrammarState state(gbnf(R"g(root ::= "ab"?)g"), trie);
  EXPECT_EQ(allowed(state, *trie), (std::vector<int32_t>{'a', end}));
  ASSERT_TRUE(state.accept('a'));
  EXPECT_FALSE(state.can_end());
  EXPECT_FALSE(state.accept(end));
  EXPECT_EQ(allowed(state, *trie), std::vector<int32_t>{'b'});
  ASSERT_TRUE(state.accept('b'));
  EXPECT_TRUE(state.is_finished());
  EXPECT_EQ(allowed(state, *trie), std::vector<int32_t>{end});
  ASSERT_TRUE(state.accept(end));
  EXPECT_TRUE(allowed(state, *trie).empty());
  EXPECT_FALSE(state.accept('a'));
}

TEST(Mask, ARefusedTokenChangesNothing) {
  const auto trie = test::byte_trie({"ab", "ax"});
  GrammarState state(gbnf(R"g(root ::= "abc")g"), trie);
  EXPECT_FALSE(state.accept(257));  // "ax"
  EXPECT_FALSE(state.accept_bytes("abd"));
  EXPECT_FALSE(state.accept(-1));
  EXPECT_FALSE(state.accept(trie->n_vocab()));
  EXPECT_EQ(allowed(state, *trie), (std::vector<int32_t>{'a', 256}));
  EXPECT_TRUE(state.accept_bytes("abc"));
  EXPECT_TRUE(state.can_end());
}

TEST(Mask, CopiesAreIndependent) {
  const auto trie = test::byte_trie();
  GrammarState first(gbnf(R"g(root ::= "(" root ")" | "x")g"), trie);
  ASSERT_TRUE(first.accept_bytes("((("));
  GrammarState second(first);
  ASSERT_TRUE(second.accept_bytes("x)))"));
  EXPECT_TRUE(second.is_finished());
  EXPECT_EQ(allowed(first, *trie), (std::vector<int32_t>{'(', 'x'}));
  first = second;
  EXPECT_TRUE(first.is_finished());
}

TEST(Mask, TokenLiterals) {
  const auto trie = test::byte_trie({"think", "ab"});
  const auto grammar = gbnf(R"g(root ::= <[256]> !<[97]> "x"* <[256]>)g");
  GrammarState state(grammar, trie);
  EXPECT_EQ(allowed(state, *trie), std::vector<int32_t>{256});
  EXPECT_FALSE(state.accept_bytes("think"));
  ASSERT_TRUE(state.accept(256));
  const auto any = allowed(state, *trie);
  EXPECT_EQ(any, allowed_slowly(state, *trie));
  EXPECT_EQ(any.size(), 257u);  // all but 'a' and the end
  ASSERT_TRUE(state.accept('b'));
  EXPECT_EQ(allowed(state, *trie), (std::vector<int32_t>{'x', 256}));
  ASSERT_TRUE(state.accept('x'));
  ASSERT_TRUE(state.accept(256));
  EXPECT_TRUE(state.is_finished());
}

TEST(Mask, EqualRulesOfDifferentGrammarsShareMasks) {
  const auto trie = test::byte_trie({"ab", "abc"});
  const auto first = gbnf(R"g(root ::= "1" r "2" r | [xy] r
r ::= "(" ([a-c] | "d" r)* ")")g");
  const auto second = gbnf(R"g(root ::= "3" r
r ::= "(" ([a-c] | "d" r)* ")")g");
  EXPECT_GT(prepare_masks(first, *trie, std::chrono::seconds(10)), 0u);
  EXPECT_GT(prepare_masks(second, *trie, std::chrono::seconds(10)), 0u);
  GrammarState state(second, trie);
  ASSERT_TRUE(state.accept_bytes("3("));
  EXPECT_EQ(allowed(state, *trie), (std::vector<int32_t>{')', 'a', 'b', 'c', 'd', 256, 257}));
}

TEST(Mask, ACacheOfAnySizeGivesTheSame) {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  pieces.emplace_back("\"a\": ");
  pieces.emplace_back();
  for (const size_t n_bytes : {size_t{0}, size_t{1000}, size_t{1} << 20}) {
    const auto trie = VocabTrie::create(pieces, {257}, n_bytes);
    GrammarState state(gbnf(kJson), trie);
    for (const int32_t token : {int32_t{'{'}, int32_t{256}, int32_t{'['}, int32_t{'1'}, int32_t{','}}) {
      EXPECT_EQ(allowed(state, *trie), allowed_slowly(state, *trie));
      ASSERT_TRUE(state.accept(token));
    }
  }
}

TEST(Mask, AmbiguityIsBounded) {
  const auto trie = test::byte_trie({"aaaaaaaa"});
  GrammarState state(gbnf(R"g(root ::= x*
x ::= "a" | "a" x | x "a" | x x | "a" x "a")g"),
                     trie);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(allowed(state, *trie).front(), 'a');
    ASSERT_TRUE(state.accept(256));
  }
  // Far more readings than the limit: refused, not followed for ever.
  while (state.accept(256)) ASSERT_LT(state.n_readings(), 100000u);
  EXPECT_TRUE(state.can_end());
}

TEST(ApplyMask, ForbidsWhatIsNotSet) {
  std::vector<float> logits(70, 1.0f);
  const std::vector<uint64_t> bits{uint64_t{1} << 3, uint64_t{1} << 1};
  apply_mask(bits, logits);
  for (size_t i = 0; i < logits.size(); ++i)
    EXPECT_EQ(logits[i], i == 3 || i == 65 ? 1.0f : -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace tokamak

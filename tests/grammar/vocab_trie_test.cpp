#include "grammar/vocab_trie.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "grammar/grammar_helpers.h"
#include "grammar/sample_helpers.h"

namespace tokamak {
namespace {

using test::allowed;
using testing::HasSubstr;

// SentencePiece kind: unknown, bos, eos, 256 bytes, then the given tokens with their types.
Tokenizer make_tokenizer(const std::vector<std::pair<std::string, TokenType>>& tokens) {
  VocabSource source{.model = "llama"};
  const auto add = [&](std::string text, TokenType type) {
    source.tokens.push_back(std::move(text));
    source.types.push_back(static_cast<int32_t>(type));
    source.scores.push_back(0);
  };
  add("<unk>", TokenType::unknown);
  add("<s>", TokenType::control);
  add("</s>", TokenType::control);
  for (unsigned byte = 0; byte < 256; ++byte) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    add({'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'}, TokenType::byte);
  }
  for (const auto& [text, type] : tokens) add(text, type);
  source.ids = {.bos = 1, .eos = 2, .unk = 0};
  auto made = Tokenizer::create(std::move(source));
  EXPECT_TRUE(made) << (made ? "" : made.error().message());
  return std::move(*made);
}

constexpr int32_t kFirst = 259;
int32_t byte_id(char c) { return 3 + static_cast<unsigned char>(c); }

TEST(VocabTrie, HoldsTextTokensAlone) {
  const Tokenizer tokenizer = make_tokenizer({{"ab", TokenType::normal},
                                              {"<think>", TokenType::user_defined},
                                              {"<call>", TokenType::control},
                                              {"ab\u2581", TokenType::normal},
                                              {"abx", TokenType::unused}});
  const auto trie = VocabTrie::create(tokenizer);
  EXPECT_TRUE(trie->in_tree(kFirst));
  EXPECT_TRUE(trie->in_tree(kFirst + 1));
  EXPECT_FALSE(trie->in_tree(kFirst + 2));
  EXPECT_FALSE(trie->in_tree(kFirst + 4));
  EXPECT_FALSE(trie->in_tree(0));
  EXPECT_FALSE(trie->in_tree(2));
  EXPECT_FALSE(trie->in_tree(-1));
  EXPECT_EQ(trie->piece(kFirst + 3), "ab ");
  EXPECT_EQ(std::vector<int32_t>(trie->end_tokens().begin(), trie->end_tokens().end()), std::vector<int32_t>{2});
  GrammarState state(test::gbnf("root ::= \"ab \" | \"<call>\" | \"<think>\""), trie);
  EXPECT_EQ(allowed(state, *trie), (std::vector<int32_t>{byte_id('<'), byte_id('a'), kFirst, kFirst + 1, kFirst + 3}));
}

TEST(VocabTrie, NamedTokensOfAModel) {
  const Tokenizer tokenizer = make_tokenizer({{"<think>", TokenType::control}, {"</think>", TokenType::user_defined}});
  const GrammarOptions options{.tokenizer = &tokenizer};
  const auto trie = VocabTrie::create(tokenizer);
  GrammarState state(test::gbnf("root ::= <think> \"x\" !</think> </think> <[1]>", options), trie);
  EXPECT_EQ(allowed(state, *trie), std::vector<int32_t>{kFirst});
  EXPECT_FALSE(state.accept_bytes("<think>"));
  ASSERT_TRUE(state.accept(kFirst));
  ASSERT_TRUE(state.accept(byte_id('x')));
  EXPECT_EQ(allowed(state, *trie), test::allowed_slowly(state, *trie));
  EXPECT_FALSE(state.accept(kFirst + 1));
  ASSERT_TRUE(state.accept(byte_id('y')));
  ASSERT_TRUE(state.accept(kFirst + 1));
  ASSERT_TRUE(state.accept(1));
  EXPECT_EQ(allowed(state, *trie), std::vector<int32_t>{2});
  EXPECT_THAT(test::gbnf_refusal("root ::= <gone>", options), HasSubstr("no single token <gone>"));
  EXPECT_THAT(test::gbnf_refusal("root ::= <[100000]>", options), HasSubstr("no token <[100000]>"));
}

TEST(VocabTrie, AnEndTokenMayBeNamed) {
  const auto trie = test::byte_trie();
  const int32_t end = trie->end_tokens()[0];
  GrammarState state(test::gbnf("root ::= \"a\" <[" + std::to_string(end) + "]> \"b\""), trie);
  EXPECT_FALSE(state.accept(end));
  ASSERT_TRUE(state.accept('a'));
  EXPECT_EQ(allowed(state, *trie), std::vector<int32_t>{end});
  ASSERT_TRUE(state.accept(end));
  EXPECT_FALSE(state.can_end());
  ASSERT_TRUE(state.accept('b'));
  EXPECT_TRUE(state.is_finished());
}

TEST(VocabTrie, ThreadsShareGrammarAndCache) {
  const auto trie = test::json_trie();
  const auto grammar =
      test::schema(R"({"type":"array","items":{"type":"object","properties":{"a":{"type":"string","maxLength":9},
      "b":{"pattern":"^[a-f]{2,90}$"}},"required":["a","b"]},"minItems":1,"maxItems":5})");
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& text : texts)
    threads.emplace_back([&] {
      std::mt19937 random(3);
      for (int i = 0; i < 5; ++i) text += test::sample(grammar, trie, random, 200).text;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(texts[0].empty());
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
}

TEST(Sequences, TextAroundValues) {
  const auto trie = test::byte_trie({"<call>"});
  const Json add =
      Json::parse(R"({"properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false})");
  const Json say = Json::parse(R"({"properties":{"s":{"type":"string"}},"uniqueItems":true})");
  const std::vector<GrammarSequence> calls{{{.token = 256},
                                            {.text = "{\"name\": \"add\", \"arguments\": "},
                                            {.schema = &add, .label = "tools[0]"},
                                            {.text = "}"}},
                                           {{.token = 256},
                                            {.text = "{\"name\": \"say\", \"arguments\": "},
                                            {.schema = &say, .label = "tools[1]"},
                                            {.text = "}"}}};
  const auto grammar = Grammar::from_sequences(calls, 1, 2, "\n");
  ASSERT_TRUE(grammar) << grammar.error().message();
  ASSERT_EQ((*grammar)->notes().size(), 1u);
  EXPECT_EQ((*grammar)->notes()[0].path, "tools[1] #");
  GrammarState state(*grammar, trie);
  ASSERT_TRUE(state.accept(256));
  ASSERT_TRUE(state.accept_bytes("{\"name\": \"add\", \"arguments\": {\"a\": 1}}"));
  EXPECT_TRUE(state.can_end());
  ASSERT_TRUE(state.accept_bytes("\n"));
  ASSERT_TRUE(state.accept(256));
  EXPECT_FALSE(state.accept_bytes("{\"name\": \"say\", \"arguments\": {\"a\""));
  ASSERT_TRUE(state.accept_bytes("{\"name\": \"say\", \"arguments\": {}}"));
  EXPECT_TRUE(state.is_finished());
  const Json bad = Json::parse(R"({"properties":{"p":{"pattern":"("}}})");
  const auto refused = Grammar::from_sequences({{{.schema = &bad, .label = "tools[7]"}}}, 1, 1, "");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("tools[7] schema #/properties/p/pattern"));
}

}  // namespace
}  // namespace tokamak

#include "tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "tokenizer/vocab_helpers.h"

namespace tokamak {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Lines that the library logged while `action` ran.
template <class Action>
std::vector<std::string> logged(const Action& action) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  action();
  set_log_sink(nullptr);
  return lines;
}

Error refusal(VocabSource source) {
  const auto tokenizer = Tokenizer::create(std::move(source));
  EXPECT_FALSE(tokenizer);
  return tokenizer ? Error{} : tokenizer.error();
}

TEST(TokenizerCreate, UnknownKindsAndPreTokenizersAreNamed) {
  for (const char* kind : {"bert", "t5", "rwkv", "plamo2", "hybriddna", "", "llama "}) {
    const Error error = refusal(VocabSource{.model = kind, .tokens = {"a"}});
    EXPECT_EQ(error.code, ErrorCode::unsupported);
    EXPECT_THAT(error.message(), HasSubstr(fmt::format("'{}'", kind)));
  }
  const Error error = refusal(test::golden_bpe("llama9"));
  EXPECT_EQ(error.code, ErrorCode::unsupported);
  EXPECT_THAT(error.message(), HasSubstr("unknown pre-tokenizer 'llama9'"));
}

TEST(TokenizerCreate, AMissingPreTokenizerIsDefaultWithAWarning) {
  VocabSource source = test::golden_bpe("gpt-2");
  source.pre.reset();
  const auto lines = logged([&] { EXPECT_EQ(test::make_tokenizer(source).pre_tokenizer(), "default"); });
  EXPECT_THAT(lines, Contains(HasSubstr("tokenizer.ggml.pre")));
}

TEST(TokenizerCreate, ArraysMustAgree) {
  VocabSource scores = test::small_spm({"a"});
  scores.scores.pop_back();
  EXPECT_THAT(refusal(scores).message(), HasSubstr("259 scores for 260 tokens"));
  VocabSource types = test::small_spm({"a"});
  types.types.push_back(1);
  EXPECT_THAT(refusal(types).message(), HasSubstr("261 types for 260 tokens"));
  VocabSource type = test::small_spm({"a"});
  type.types[259] = 7;
  EXPECT_THAT(refusal(type).message(), HasSubstr("unknown token type 7"));
  VocabSource no_scores = test::small_spm({"a"});
  no_scores.scores.clear();
  EXPECT_THAT(refusal(no_scores).message(), HasSubstr("scores"));
  EXPECT_THAT(refusal(test::small_spm({std::string(65537, 'a')})).message(), HasSubstr("a token of 65537 bytes"));
  VocabSource no_merges = test::golden_bpe("gpt-2");
  no_merges.merges.clear();
  EXPECT_THAT(refusal(no_merges).message(), HasSubstr("merges"));
  EXPECT_EQ(refusal(VocabSource{.model = "llama"}).code, ErrorCode::bad_vocab);
  EXPECT_THAT(refusal(test::small_spm({"a", "b", "a"})).message(),
              HasSubstr("token 261 'a': the same text as token 259"));
}

TEST(TokenizerCreate, EmptyTextsGetNames) {
  const Tokenizer tokenizer = test::make_tokenizer(test::small_spm({"a", "", ""}));
  EXPECT_EQ(tokenizer.token_text(260), "[EMPTY_260]");
  EXPECT_EQ(tokenizer.token_text(261), "[EMPTY_261]");
}

TEST(TokenizerCreate, IdsOutsideTheVocabularyAreIgnoredWithAWarning) {
  VocabSource source = test::small_spm({"a"});
  source.ids.bos = 260, source.ids.eos = -5, source.ids.pad = int64_t{1} << 40;
  source.suppress_tokens = {3, 9999};
  const auto lines = logged([&] {
    const Tokenizer tokenizer = test::make_tokenizer(source);
    EXPECT_EQ(tokenizer.roles().bos, kNoToken);
    EXPECT_EQ(tokenizer.roles().eos, kNoToken);
    EXPECT_EQ(tokenizer.roles().pad, kNoToken);
    EXPECT_THAT(tokenizer.suppress_tokens(), ElementsAre(3));
    EXPECT_THAT(tokenizer.encode("a"), testing::Not(Contains(1)));
  });
  EXPECT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines, Contains(HasSubstr("bos_token_id is 260")));
}

TEST(TokenizerRoles, DefaultsOfTheKindsAndWellKnownTexts) {
  VocabSource source = test::small_spm({"a", "<end_of_turn>", "<|im_end|>", "<fim_prefix>"});
  source.types[260] = source.types[262] = static_cast<int32_t>(TokenType::control);
  const Tokenizer tokenizer = test::make_tokenizer(source);
  EXPECT_EQ(tokenizer.roles().bos, 1);
  EXPECT_EQ(tokenizer.roles().eos, 2);
  EXPECT_EQ(tokenizer.roles().unk, 0);
  EXPECT_EQ(tokenizer.roles().eot, 260);
  EXPECT_EQ(tokenizer.roles().fim_pre, 262);
  EXPECT_THAT(tokenizer.eog_tokens(), ElementsAre(2, 260));  // <|im_end|> is a normal token here: plain text
  EXPECT_TRUE(tokenizer.is_eog(260));
  EXPECT_FALSE(tokenizer.is_eog(261));
  EXPECT_FALSE(tokenizer.is_eog(-1));
  EXPECT_TRUE(tokenizer.is_control(260));
  EXPECT_FALSE(tokenizer.is_control(1 << 20));
}

TEST(TokenizerRoles, MessageEndOfTheHarmonyFormatDoesNotEndTheTurn) {
  VocabSource source = test::small_spm({"<|end|>", "<|return|>", "<|call|>"});
  for (size_t id = 259; id < 262; ++id) source.types[id] = static_cast<int32_t>(TokenType::control);
  EXPECT_THAT(test::make_tokenizer(source).eog_tokens(), ElementsAre(2, 260, 261));
}

TEST(TokenizerEncode, SpecialTokensAtTheEnds) {
  VocabSource source = test::small_spm({"\u2581", "a", "\u2581a"});
  source.add_eos = true;
  const Tokenizer tokenizer = test::make_tokenizer(source);
  EXPECT_THAT(tokenizer.encode("a"), ElementsAre(1, 261, 2));
  EXPECT_THAT(tokenizer.encode("a", {.add_special = false}), ElementsAre(261));
  EXPECT_THAT(tokenizer.encode(""), ElementsAre(1, 2));
}

TEST(TokenizerEncode, AddBosFollowsTheFileThenTheTable) {
  EXPECT_TRUE(test::make_tokenizer(test::golden_bpe("llama-bpe")).adds_bos());
  EXPECT_FALSE(test::make_tokenizer(test::golden_bpe("gpt-2")).adds_bos());
  VocabSource source = test::golden_bpe("llama-bpe");
  source.add_bos = false;
  EXPECT_FALSE(test::make_tokenizer(source).adds_bos());
  source.model = "gemma4";
  EXPECT_TRUE(test::make_tokenizer(source).adds_bos());
}

TEST(TokenizerEncode, ControlTextIsPlainTextUnlessParsed) {
  const Tokenizer tokenizer = test::make_tokenizer(test::golden_bpe("gpt-2"));
  const int32_t eot = tokenizer.find("<|eot_id|>"), tool = tokenizer.find("<tool>");
  EXPECT_THAT(tokenizer.encode("<|eot_id|>", {.parse_special = true}), ElementsAre(eot));
  const auto plain = tokenizer.encode("<|eot_id|><tool>");
  EXPECT_THAT(plain, testing::Not(Contains(eot)));
  EXPECT_EQ(plain.back(), tool);  // user-defined tokens are text and always found
  EXPECT_EQ(tokenizer.decode(plain), "<|eot_id|><tool>");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{eot, tool}), "<tool>");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{eot, tool}, {.keep_special = true}), "<|eot_id|><tool>");
}

TEST(TokenizerEncode, LongestAddedTokenFromTheLeftWins) {
  VocabSource source = test::small_spm({"<a>", "<a><b>", "<b>c", "<a", "\u2581", "c"});
  for (size_t id = 259; id < 263; ++id) source.types[id] = static_cast<int32_t>(TokenType::user_defined);
  source.add_space_prefix = false;
  const Tokenizer tokenizer = test::make_tokenizer(source);
  EXPECT_THAT(tokenizer.encode("<a><b>c", {.add_special = false}), ElementsAre(260, 264));
  EXPECT_THAT(tokenizer.encode("<a<b>c<a>", {.add_special = false}), ElementsAre(262, 261, 259));
}

TEST(TokenizerEncode, UnknownCharactersWithoutByteTokensAreOneUnk) {
  VocabSource source{
      .model = "llama", .tokens = {"<unk>", "<s>", "</s>", "a"}, .scores = {0, 0, 0, 0}, .types = {2, 3, 3, 1}};
  source.add_space_prefix = false;
  const Tokenizer tokenizer = test::make_tokenizer(source);
  EXPECT_THAT(tokenizer.encode("éé漢aé\xFF", {.add_special = false}), ElementsAre(0, 3, 0));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{0, 3}), "a");
}

TEST(TokenizerEncode, BytesWithoutALetterAreDroppedWithAWarningAtLoad) {
  VocabSource source{.model = "gpt2", .pre = "gpt-2", .tokens = {"a", "b", "ab"}, .merges = {"a b", "a z"}};
  const auto lines = logged([&] { EXPECT_THAT(test::make_tokenizer(source).encode("a-b"), ElementsAre(0, 1)); });
  EXPECT_THAT(lines, Contains(HasSubstr("254 byte values have no token")));
  EXPECT_THAT(lines, Contains(HasSubstr("1 merges name no token")));
}

TEST(TokenizerEncode, LostBytesAreCounted) {
  const auto n_lost = [](const VocabSource& source, std::string_view text) {
    size_t n = 77;
    test::make_tokenizer(source).encode(text, {}, &n);
    return n;
  };
  const VocabSource letters{.model = "gpt2", .pre = "gpt-2", .tokens = {"a", "b", "ab"}, .merges = {"a b"}};
  EXPECT_EQ(n_lost(letters, "ab"), 0u);
  EXPECT_EQ(n_lost(letters, "a-b\xFFé"), 4u);
  const VocabSource pieces{.model = "llama",
                           .tokens = {"<unk>", "<s>", "</s>", "a"},
                           .scores = {0, 0, 0, 0},
                           .types = {2, 3, 3, 1},
                           .add_space_prefix = false};
  EXPECT_EQ(n_lost(pieces, "aéa漢"), 5u);
  EXPECT_EQ(n_lost(test::small_spm({"a"}), "aé\xFF"), 0u);
  EXPECT_EQ(n_lost({.model = "no_vocab"}, "abc"), 3u);
}

TEST(TokenizerEncode, InvalidUtf8KeepsItsBytes) {
  for (const char* pre : {"gpt-2", "qwen2", "deepseek-v3", "tiny_aya"}) {
    const Tokenizer tokenizer = test::make_tokenizer(test::golden_bpe(pre));
    const std::string text = "ab\xFF\xFE \xE2\x82 x\xF0\x9F\xA6";
    EXPECT_EQ(tokenizer.decode_bytes(tokenizer.encode(text, {.add_special = false})), text) << pre;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, {.add_special = false})), "ab\uFFFD\uFFFD \uFFFD x\uFFFD") << pre;
  }
}

TEST(TokenizerEncode, KimiMergesByTheRankOfTheJoinedToken) {
  VocabSource source{.model = "gpt2", .pre = "kimi-k2", .tokens = {"a", "b", "c", "bc", "ab", "abc"}};
  const Tokenizer tokenizer = test::make_tokenizer(source);
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(5));  // b+c (3) before a+b (4), then a+bc
  EXPECT_THAT(tokenizer.encode("bcab"), ElementsAre(3, 4));
}

TEST(TokenizerEncode, Gemma4MergesCharactersAndFallsBackToBytes) {
  VocabSource source = test::small_spm({"\u2581", "a", "b", "\u2581a", "\n", "\u2581ab"});
  source.model = "gemma4";
  source.scores.clear();
  source.merges = {"\u2581 a", "\u2581a b"};
  source.ids.bos = 1;
  const Tokenizer tokenizer = test::make_tokenizer(source);
  EXPECT_THAT(tokenizer.encode(" ab\nb\t"), ElementsAre(1, 264, 263, 261, tokenizer.find("<0x09>")));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(" ab\nbé")), " ab\nbé");
}

TEST(TokenizerEncode, WhitespaceKindDropsTheWhiteSpace) {
  VocabSource source{.model = "whitespace", .tokens = {"ab", "c", "[UNK]"}};
  source.ids.unk = 2;
  source.merges = {"a b"};
  source.tokens.insert(source.tokens.end(), {"a", "b"});
  EXPECT_THAT(test::make_tokenizer(source).encode(" ab\t c \n"), ElementsAre(0, 1));
}

TEST(TokenizerEncode, MegabytesInOnePieceStayFeasible) {
  // Quadratic merging or splitting would not end within the time limit of the test program.
  const size_t n = 1 << 17;
  for (const char* pre :
       {"gpt-2", "llama-bpe", "gpt-4o", "kimi-k2", "afmoe", "tiny_aya", "superbpe", "exaone-moe", "jais-2"}) {
    const Tokenizer tokenizer = test::make_tokenizer(test::golden_bpe(pre));
    for (const std::string& text : {std::string(n, 'a'), std::string(n, 'A'), std::string(n, ' '), std::string(n, '7'),
                                    std::string(n, '\n'), std::string(n, '!')}) {
      const auto ids = tokenizer.encode(text, {.add_special = false});
      EXPECT_TRUE(tokenizer.decode_bytes(ids) == text) << pre << " " << text[0];
    }
  }
  const Tokenizer spm = test::make_tokenizer(test::golden_spm(true));
  for (const char c : {'e', ' ', '\t', '\xFF'}) {
    const std::string text(8 * n, c);
    EXPECT_TRUE(spm.decode_bytes(spm.encode(text, {.add_special = false})) == text) << c;
  }
}

TEST(TokenizerEncode, ThreadsShareOneTokenizer) {
  const Tokenizer tokenizer = test::make_tokenizer(test::golden_bpe("llama-bpe"));
  const std::string text = "Hello, World! 1234567 漢字 'tis\n\n";
  const auto expected = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::vector<int> n_wrong(4);
  for (int& wrong : n_wrong)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) wrong += tokenizer.encode(text) != expected;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(n_wrong, ElementsAre(0, 0, 0, 0));
}

TEST(TokenizerDecode, CleanSpacesIsTheOldDefault) {
  const Tokenizer tokenizer = test::make_tokenizer(test::golden_bpe("gpt-2"));
  const auto ids = tokenizer.encode("do n't you 're . yes , no ? it 's ! a ' b");
  EXPECT_EQ(tokenizer.decode(ids, {.clean_spaces = true}), "don't you're. yes, no? it's! a'b");
  EXPECT_EQ(tokenizer.decode(ids), "do n't you 're . yes , no ? it 's ! a ' b");
}

TEST(TokenizerDecode, IdsOutsideAddNothing) {
  const Tokenizer tokenizer = test::make_tokenizer(test::small_spm({"a"}));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{-1, 259, 260, INT32_MAX, INT32_MIN}), "a");
  EXPECT_THAT(tokenizer.token_bytes(-1), IsEmpty());
  EXPECT_THAT(tokenizer.token_bytes(260), IsEmpty());
}

TEST(TokenizerNone, HasIdsOnly) {
  const Tokenizer tokenizer = test::make_tokenizer(VocabSource{.model = "no_vocab", .n_dummy_tokens = 32000});
  EXPECT_EQ(tokenizer.n_vocab(), 32000);
  EXPECT_THAT(tokenizer.encode("text"), IsEmpty());
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{1, 2}), "");
  EXPECT_EQ(tokenizer.find("a"), kNoToken);
  EXPECT_FALSE(tokenizer.is_eog(1));
}

}  // namespace
}  // namespace tokamak

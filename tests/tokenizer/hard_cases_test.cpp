// Inputs that broke other engines (hard cases 04, 07, 08, 10, 36), on tiny vocabularies.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "tokenizer/vocab_helpers.h"

namespace tokamak {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(VocabSource source) {
  const auto tokenizer = Tokenizer::create(std::move(source));
  if (tokenizer) return "accepted";
  EXPECT_EQ(tokenizer.error().code, ErrorCode::bad_vocab);
  return tokenizer.error().message();
}

TEST(HardCase04, ByteTokensWhoseHexIsNotHexAreRefusedByName) {
  for (const char* text : {"<0x-7>", "<0xQQ>", "<0x4>", "<0x100>", "<0x>", "<0x+1>", "<0x 1>", "0x41", "<0x4G>"}) {
    VocabSource source = test::small_spm({"a"});
    source.tokens[3] = text;
    EXPECT_THAT(refusal(std::move(source)), HasSubstr(fmt::format("token 3 '{}'", text))) << text;
  }
}

TEST(HardCase04, TwoTokensForOneByteAreRefused) {
  VocabSource same_text = test::small_spm({"a"});
  same_text.tokens[3] = "<0x41>";
  EXPECT_THAT(refusal(std::move(same_text)), HasSubstr("the same text as token 3"));
  VocabSource same_byte = test::small_spm({"a"});
  same_byte.tokens[3] = "<0x4a>";  // 0x4A is token 3 + 0x4A
  EXPECT_THAT(refusal(std::move(same_byte)), HasSubstr("the same byte as token 3"));
}

TEST(HardCase04, TextThatLooksLikeAByteTokenIsNotOne) {
  VocabSource source = test::small_spm({"<0xQQ>", "a"});  // a normal token: plain text
  const Tokenizer tokenizer = test::make_tokenizer(std::move(source));
  EXPECT_EQ(tokenizer.token_bytes(tokenizer.find("<0xQQ>")), "<0xQQ>");
}

// The ids below are fixed by the golden file as well; here the rule is spelled out.
TEST(HardCase07, LegacyVocabulariesPutASpaceAfterEverySpecialToken) {
  const Tokenizer tokenizer = test::make_tokenizer([] {
    VocabSource source = test::small_spm({"\u2581", "H", "y", "Hy", "\u2581Hy", "\u2581\u2581"});
    source.tokens.push_back("<|end_of_turn|>");
    source.types.push_back(static_cast<int32_t>(TokenType::control));
    source.scores.push_back(0);
    return source;
  }());
  const int32_t turn = tokenizer.find("<|end_of_turn|>"), with_space = tokenizer.find("\u2581Hy");
  const EncodeOptions options{.add_special = false, .parse_special = true};
  EXPECT_THAT(tokenizer.encode("<s>Hy", options), ElementsAre(1, with_space));
  EXPECT_THAT(tokenizer.encode("<|end_of_turn|>Hy", options), ElementsAre(turn, with_space));
  EXPECT_THAT(tokenizer.encode("<s> Hy", options), ElementsAre(1, tokenizer.find("\u2581"), with_space));
  EXPECT_THAT(tokenizer.encode("<|end_of_turn|> Hy", options), ElementsAre(turn, tokenizer.find("\u2581"), with_space));
}

TEST(HardCase08, NoInventedSpaceWithoutThePrefixRule) {
  VocabSource source = test::small_spm({"\u2581", "lantern", "\u2581lantern", "l", "a", "n", "t", "e", "r"});
  for (const char* piece : {"la", "lan", "te", "rn", "tern"}) {
    source.tokens.push_back(piece);
    source.types.push_back(1);
    source.scores.push_back(-1);
  }
  source.add_space_prefix = false;
  const Tokenizer tokenizer = test::make_tokenizer(std::move(source));
  const EncodeOptions options{.add_special = false, .parse_special = true};
  const int32_t word = tokenizer.find("lantern");
  EXPECT_THAT(tokenizer.encode("<s>lantern</s>", options), ElementsAre(1, word, 2));
  EXPECT_THAT(tokenizer.encode("<s> lantern</s>", options), ElementsAre(1, tokenizer.find("\u2581lantern"), 2));
  EXPECT_THAT(tokenizer.encode("<s>\tlantern</s>", options), ElementsAre(1, tokenizer.find("<0x09>"), word, 2));
  EXPECT_THAT(tokenizer.encode("<s></s>", options), ElementsAre(1, 2));
  EXPECT_THAT(tokenizer.encode("", options), ElementsAre());
}

std::string random_text(std::mt19937& random, bool only_valid) {
  static constexpr char32_t kChars[] = {U' ', U'\n', U'\t', U'a', U'b',  U'e',    U'h',
                                        U't', U'.',  U'1',  U'é', U'漢', U'🦔', U'\0'};
  std::string text;
  for (size_t n = random() % 24; n > 0; --n) {
    if (!only_valid && random() % 5 == 0)
      text += static_cast<char>(random() % 256);
    else
      append_utf8(text, kChars[random() % std::size(kChars)]);
  }
  return text;
}

TEST(HardCase08, TenThousandRandomStringsRoundTrip) {
  std::mt19937 random(20260801);
  const Tokenizer plain = test::make_tokenizer(test::golden_spm(false));
  const Tokenizer prefixed = test::make_tokenizer(test::golden_spm(true));
  const Tokenizer bytes = test::make_tokenizer(test::golden_bpe("llama-bpe"));
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = random_text(random, i % 2 == 0);
    for (const Tokenizer* tokenizer : {&plain, &bytes}) {
      const auto ids = tokenizer->encode(text, {.add_special = false});
      ASSERT_EQ(tokenizer->decode_bytes(ids), text);
      ASSERT_EQ(tokenizer->decode(ids), replace_invalid_utf8(text));
    }
    // One segment only: after a user-defined token the prefix rule adds a space that no decoder takes back.
    if (text.find("\t\t") == std::string::npos && text.find("\n\n") == std::string::npos) {
      ASSERT_EQ(prefixed.decode_bytes(prefixed.encode(text, {.add_special = false})), text);
    }
  }
}

TEST(HardCase10, NewlinesAfterAHeaderMergeAsEverywhere) {
  const Tokenizer tokenizer = test::make_tokenizer(test::golden_bpe("llama-bpe"));
  const int32_t header = tokenizer.find("<|end_header_id|>");
  const std::string nl = "\u010A";  // a newline in byte letters
  ASSERT_NE(tokenizer.find(nl + nl), kNoToken);
  ASSERT_NE(tokenizer.find(nl + nl + nl + nl), kNoToken);
  const EncodeOptions options{.add_special = false, .parse_special = true};
  EXPECT_THAT(tokenizer.encode("<|end_header_id|>\n\n", options), ElementsAre(header, tokenizer.find(nl + nl)));
  EXPECT_THAT(tokenizer.encode("<|end_header_id|>\n\n\n\n", options),
              ElementsAre(header, tokenizer.find(nl + nl + nl + nl)));
}

// Streams hand the bytes of each token to the output machine (tests/engine/output), which holds back half characters.
TEST(HardCase36, BytesOfTheTokensAreTheTextHoweverCharactersAreSplit) {
  const std::string text = "🦔👩‍🚀щё한글";
  const Tokenizer tokenizer = test::make_tokenizer(test::small_spm({"\u2581", "a"}));
  const auto ids = tokenizer.encode(text, {.add_special = false});
  ASSERT_GT(ids.size(), text.size());  // one token per byte, and the space prefix
  std::string bytes;
  for (size_t cut = 1; cut <= ids.size(); ++cut) {
    bytes += tokenizer.token_bytes(ids[cut - 1]);
    EXPECT_EQ(replace_invalid_utf8(bytes.substr(1)), tokenizer.decode(std::span(ids).first(cut)));
  }
  EXPECT_EQ(bytes, " " + text);
  EXPECT_EQ(tokenizer.token_bytes(ids[1]), "\xF0");
}

TEST(HardCase36, AnyIdsDecodeToTheBytesOfTheirTokens) {
  std::mt19937 random(36);
  const Tokenizer tokenizer = test::make_tokenizer(test::golden_spm(true));
  for (const bool keep_special : {false, true}) {
    for (int round = 0; round < 500; ++round) {
      std::vector<int32_t> ids(random() % 20);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % 300) - 2;  // mostly byte tokens, some outside
      std::string bytes;
      for (const int32_t id : ids) {
        const TokenType type = tokenizer.type(id);
        if (keep_special || (type != TokenType::control && type != TokenType::unknown))
          bytes += tokenizer.token_bytes(id);
      }
      const DecodeOptions options{.keep_special = keep_special, .at_text_start = false};
      ASSERT_EQ(bytes, tokenizer.decode_bytes(ids, options)) << test::join(ids);
      ASSERT_EQ(replace_invalid_utf8(bytes), tokenizer.decode(ids, options));
    }
  }
}

}  // namespace
}  // namespace tokamak

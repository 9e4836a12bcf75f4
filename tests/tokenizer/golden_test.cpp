// Ids and cuts equal to those of the `tokenizers` package over tiny vocabularies (tools/tokenizer_oracle.py golden).
#include <gtest/gtest.h>

#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/splitter.h"
#include "tokenizer/vocab_helpers.h"

namespace tokamak {
namespace {

using test::golden;

TEST(TokenizerGolden, SplitRulesCutAsThePackageDoes) {
  ASSERT_GE(golden()["splits"].size(), 24u);
  for (const auto& [name, expected] : golden()["splits"].items()) {
    const PreTokenizer* pre = find_pre_tokenizer(name);
    ASSERT_NE(pre, nullptr) << name;
    const auto splitter = Splitter::create(*pre->rules);
    ASSERT_TRUE(splitter) << splitter.error().message();
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string text = golden()["documents"][i];
      std::string lengths;
      for (const std::string_view piece : splitter->split(text)) (lengths += ' ') += std::to_string(piece.size());
      EXPECT_EQ(lengths, expected[i] == "" ? "" : " " + expected[i].get<std::string>())
          << name << ": " << golden()["documents"][i];
    }
  }
}

TEST(TokenizerGolden, ByteLevelIds) {
  ASSERT_GE(golden()["bpe"].size(), 12u);
  for (const auto& [name, expected] : golden()["bpe"].items()) {
    const Tokenizer tokenizer = test::make_tokenizer(test::golden_bpe(name));
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string text = golden()["documents"][i];
      const auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = true});
      EXPECT_EQ(test::join(ids), expected[i].get<std::string>()) << name << ": " << golden()["documents"][i];
      if (!find_pre_tokenizer(name)->nfc) {
        EXPECT_EQ(tokenizer.decode_bytes(ids, {.keep_special = true}), text) << name;
      }
    }
  }
}

TEST(TokenizerGolden, SentencePieceIds) {
  for (const bool prefix : {false, true}) {
    const Tokenizer tokenizer = test::make_tokenizer(test::golden_spm(prefix));
    const auto& expected = golden()[prefix ? "spm_prefix" : "spm_plain"];
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string text = golden()["spm_documents"][i];
      const auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = true});
      EXPECT_EQ(test::join(ids), expected[i].get<std::string>())
          << (prefix ? "prefix: " : "plain: ") << golden()["spm_documents"][i];
    }
  }
}

TEST(TokenizerGolden, EveryRowOfTheTableCompilesAndLosesNothing) {
  EXPECT_GE(pre_tokenizers().size(), 88u);
  for (const PreTokenizer& pre : pre_tokenizers()) {
    const auto splitter = Splitter::create(*pre.rules);
    ASSERT_TRUE(splitter) << pre.name << ": " << splitter.error().message();
    if (pre.rules->name == "words") continue;  // drops the white space between words
    for (const std::string text : golden()["documents"]) {
      std::string joined;
      for (const std::string_view piece : splitter->split(text)) joined += piece;
      EXPECT_EQ(joined, text) << pre.name;
    }
  }
}

}  // namespace
}  // namespace tokamak

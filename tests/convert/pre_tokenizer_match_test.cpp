// tokenizer.json of known models' structure -> tokenizer.ggml.pre.
#include "convert/pre_tokenizer_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tokenizer/pre_tokenizers.h"

namespace tokamak::test {
namespace {

using convert::match_pre_tokenizer;

const Json kByteLevel = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
const Json kByteLevelGpt2 = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};

Json split(const std::string& pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json tokenizer(const Json& steps, bool ignore_merges = false, const Json& normalizer = nullptr) {
  return {{"model", {{"type", "BPE"}, {"ignore_merges", ignore_merges}}},
          {"normalizer", normalizer},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}}};
}

std::string name_of(const Json& json, std::string_view preferred = "") {
  const auto match = match_pre_tokenizer(json, preferred, "tokenizer.json");
  return match ? match->name : "refused: " + match.error().message();
}

const std::string kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

TEST(PreTokenizerMatch, KnownModels) {
  const Json nfc = {{"type", "NFC"}}, digits = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(name_of(tokenizer({split(kLlama3), kByteLevel}, true), "llama-bpe"), "llama-bpe");
  EXPECT_EQ(name_of(tokenizer({split(kLlama3), kByteLevel}, false), "smaug-bpe"), "smaug-bpe");
  EXPECT_EQ(name_of(tokenizer({split(kQwen2), kByteLevel}, false, nfc)), "qwen2");
  EXPECT_EQ(name_of(tokenizer({split(kQwen2), kByteLevel})), "deepseek-r1-qwen");
  EXPECT_EQ(name_of(tokenizer({digits, kByteLevelGpt2}), "llama-bpe smollm"), "smollm");
  EXPECT_EQ(name_of(tokenizer(Json::array({kByteLevelGpt2}))), "gpt-2");
}

// The same effect in other words: GPT-2's own spelling, and a Split that keeps what it matches.
TEST(PreTokenizerMatch, OtherSpellingsAreRecognisedByTheirEffect) {
  const std::string gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  EXPECT_EQ(name_of(tokenizer({split(gpt2), kByteLevel})), "gpt-2");
  const std::string gpt4 =  // cl100k, written possessively
      R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
  Json removed = split(kLlama3);
  removed["behavior"] = "Removed";
  removed["invert"] = true;
  EXPECT_EQ(name_of(tokenizer({removed, kByteLevel}, true), "llama-bpe"), "llama-bpe");
  EXPECT_EQ(name_of(tokenizer({split(gpt4), kByteLevel})), "dbrx");
  const auto by_effect = match_pre_tokenizer(tokenizer({split(gpt2), kByteLevel}), "", "x");
  ASSERT_TRUE(by_effect.has_value());
  ASSERT_EQ(by_effect->notes.size(), 1u);
  EXPECT_THAT(by_effect->notes[0], testing::HasSubstr("'gpt-2' and cuts a probe text the same way"));
  const auto by_text = match_pre_tokenizer(tokenizer({split(kLlama3), kByteLevel}, true), "llama-bpe", "x");
  ASSERT_TRUE(by_text.has_value());
  EXPECT_THAT(by_text->notes, testing::IsEmpty());
}

// Every row whose steps a tokenizer.json can spell finds its own rules.
TEST(PreTokenizerMatch, EveryRowFindsItsRules) {
  for (const PreTokenizer& row : pre_tokenizers()) {
    if (row.characters) continue;
    Json steps = Json::array();
    bool is_spelled = true;
    for (const SplitStep& step : row.rules->steps) {
      if (step.kind == SplitKind::none) break;
      is_spelled &= step.kind == SplitKind::regex;
      steps.push_back(split(std::string(step.pattern)));
    }
    if (!is_spelled) continue;
    steps.push_back(kByteLevel);
    const auto match = match_pre_tokenizer(
        tokenizer(steps, row.ignore_merges, row.nfc ? Json{{"type", "NFC"}} : Json(nullptr)), row.name, "x");
    ASSERT_TRUE(match.has_value()) << row.name << match.error().message();
    EXPECT_EQ(find_pre_tokenizer(match->name)->rules, row.rules) << row.name;
    if (row.add_sep) continue;  // never the first choice
    EXPECT_EQ(match->name, row.name);
  }
}

TEST(PreTokenizerMatch, DifferencesInFlagsAreSaid) {
  const auto match = match_pre_tokenizer(tokenizer({split(kLlama3), kByteLevel}, true, {{"type", "NFC"}}), "", "x");
  ASSERT_TRUE(match.has_value());
  ASSERT_EQ(match->notes.size(), 1u);
  EXPECT_THAT(match->notes[0], testing::HasSubstr("NFC"));
}

TEST(PreTokenizerMatch, UnknownOnesAreRefused) {
  for (const Json& steps : {Json{split("[a"), kByteLevel}, Json{split("x"), kByteLevel}, Json{{{"type", "Whitespace"}}},
                            Json{{{"type", "ByteLevel"}, {"add_prefix_space", true}}}, Json{5}, Json{nullptr, "x"}}) {
    const auto match = match_pre_tokenizer(tokenizer(steps), "", "tokenizer.json");
    ASSERT_FALSE(match.has_value());
    EXPECT_EQ(match.error().code, ErrorCode::unsupported);
    EXPECT_THAT(match.error().message(), testing::HasSubstr("--pre"));
  }
  EXPECT_THAT(name_of(tokenizer({split(kQwen2), kByteLevel}, false, {{"type", "Lowercase"}})),
              testing::HasSubstr("Lowercase"));
}

}  // namespace
}  // namespace tokamak::test

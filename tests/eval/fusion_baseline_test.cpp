#include "eval/fusion_baseline.h"

#include <gtest/gtest.h>

namespace tokamak {
namespace {

const std::vector<FusionRow> kRows = {{"llama-dense", false, "any", "RMS_NORM+MUL", 5},
                                      {"llama-moe", true, "any", "RMS_NORM+MUL", 5},
                                      {"llama-moe", true, "prefill", "ADD+ADD", 2}};

TEST(FusionBaseline, ReadsWhatItWrites) {
  const auto rows = parse_fusion_csv(fusion_csv("cpu", kRows), "memory");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ(*rows, kRows);
  EXPECT_TRUE(differences(kRows, *rows).empty());
}

TEST(FusionBaseline, ColumnsStandWherePublishedOnesDo) {
  const std::string text = fusion_csv("cpu", {kRows[0]});
  EXPECT_NE(text.find("\nllama-dense         , 0   , any     , RMS_NORM+MUL                ,       5\n"),
            std::string::npos)
      << text;
}

TEST(FusionBaseline, DenseAndExpertVariantsAreTwoKeys) {
  std::vector<FusionRow> other = kRows;
  other[1].count = 4;
  const auto found = differences(kRows, other);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("llama-moe (moe 1), any, RMS_NORM+MUL: 4 per graph, the baseline has 5"), std::string::npos)
      << found[0];
}

TEST(FusionBaseline, ARuleThatNeverFiresAnyMoreIsADifference) {
  const auto found = differences(kRows, {kRows[0], kRows[1]});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("ADD+ADD: did not fire"), std::string::npos) << found[0];
}

TEST(FusionBaseline, ANewRowIsADifference) {
  std::vector<FusionRow> more = kRows;
  more.push_back({"llama-moe", true, "decode", "SILU+MUL", 1});
  const auto found = differences(kRows, more);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("SILU+MUL: 1 per graph, the baseline has no such row"), std::string::npos) << found[0];
}

TEST(FusionBaseline, TheFlagOfExpertsAndTheModeArePartOfTheKey) {
  std::vector<FusionRow> other = kRows;
  other[0].has_experts = true;
  EXPECT_EQ(differences(kRows, other).size(), 2u);
  other = kRows;
  other[2].mode = "decode";
  EXPECT_EQ(differences(kRows, other).size(), 2u);
}

TEST(FusionBaseline, BadLinesAreNamed) {
  for (const char* text :
       {"llama-dense, 0, any, ADD+ADD\n", "llama-dense, 0, any, ADD+ADD, 1, 2\n", "llama-dense, 2, any, ADD+ADD, 1\n",
        "llama-dense, 0, all, ADD+ADD, 1\n", "llama-dense, 0, any, ADD+ADD, x\n", "llama-dense, 0, any, ADD+ADD, -1\n",
        ", 0, any, ADD+ADD, 1\n", "llama-dense, 0, any, , 1\n",
        "llama-dense, 0, any, ADD+ADD, 1\nllama-dense, 0, any, ADD+ADD, 2\n"}) {
    const auto rows = parse_fusion_csv(std::string("# heading\n") + text, "file.csv");
    ASSERT_FALSE(rows) << text;
    EXPECT_EQ(rows.error().code, ErrorCode::bad_file) << text;
    EXPECT_NE(rows.error().message().find("file.csv, line "), std::string::npos) << rows.error().message();
  }
}

TEST(FusionBaseline, EmptyLinesAndCommentsAreNoRows) {
  const auto rows = parse_fusion_csv("# a\n\n  # b\r\nm,0,decode,X,3", "memory");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ(*rows, (std::vector<FusionRow>{{"m", false, "decode", "X", 3}}));
}

}  // namespace
}  // namespace tokamak

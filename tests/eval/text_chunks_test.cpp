#include "eval/text_chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace tokamak {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> counting(size_t n) {
  std::vector<int32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

TEST(TextChunks, TheRestIsLeftOutAndBosReplacesFirstTokens) {
  auto chunks = divide_tokens(counting(27), 8, 1);
  ASSERT_TRUE(chunks) << chunks.error().message();
  EXPECT_EQ(chunks->n_chunks(), 3);
  EXPECT_THAT(chunks->chunk(0), ElementsAre(1, 101, 102, 103, 104, 105, 106, 107));
  EXPECT_THAT(chunks->chunk(2), ElementsAre(1, 117, 118, 119, 120, 121, 122, 123));
  chunks->keep(5);
  EXPECT_EQ(chunks->n_chunks(), 3);
  chunks->keep(2);
  EXPECT_EQ(chunks->n_chunks(), 2);
}

TEST(TextChunks, WithoutBosTheTextStays) {
  const auto chunks = divide_tokens(counting(16), 8, kNoToken);
  ASSERT_TRUE(chunks);
  EXPECT_EQ(chunks->tokens, counting(16));
}

TEST(TextChunks, RefusesShortTextsAndShortChunks) {
  const auto short_text = divide_tokens(counting(15), 16, kNoToken);
  ASSERT_FALSE(short_text);
  EXPECT_EQ(short_text.error().code, ErrorCode::bad_argument);
  EXPECT_THAT(short_text.error().message(), HasSubstr("the text has 15 tokens, and one chunk takes 16"));
  const auto short_chunks = divide_tokens(counting(15), 7, kNoToken);
  ASSERT_FALSE(short_chunks);
  EXPECT_THAT(short_chunks.error().message(), HasSubstr("at least 8"));
}

TEST(TextChunks, RefusesAModelWithoutVocabulary) {
  const auto tokenizer = Tokenizer::create({.model = "no_vocab"});
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  const auto chunks = divide_text(*tokenizer, "some text", 8);
  ASSERT_FALSE(chunks);
  EXPECT_EQ(chunks.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace tokamak

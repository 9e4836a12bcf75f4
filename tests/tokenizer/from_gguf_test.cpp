#include "tokenizer/from_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "gguf/writer.h"

namespace tokamak {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kTokens = {"<unk>", "<s>", "</s>", "a", "<fim>"};

GgufWriter small_file() {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("tokenizer.ggml.model", "llama");
  writer.add_array("tokenizer.ggml.tokens", std::span(kTokens));
  writer.add_array("tokenizer.ggml.scores", std::span<const float>(std::array<float, 5>{0, 0, 0, -1, -2}));
  writer.add_array("tokenizer.ggml.token_type", std::span<const int32_t>(std::array{2, 3, 3, 1, 3}));
  return writer;
}

Result<Tokenizer> load(const GgufWriter& writer) {
  const auto bytes = TRY(writer.to_bytes());
  return load_tokenizer(TRY(GgufFile::parse(bytes)));
}

TEST(TokenizerFromGguf, ReadsTablesIdsAndFlags) {
  GgufWriter writer = small_file();
  writer.add("tokenizer.ggml.bos_token_id", uint32_t{2});
  writer.add("tokenizer.ggml.prefix_token_id", uint32_t{3});  // deprecated name, overruled by the next
  writer.add("tokenizer.ggml.fim_pre_token_id", uint32_t{4});
  writer.add("tokenizer.ggml.add_space_prefix", false);
  writer.add("tokenizer.ggml.add_eos_token", true);
  writer.add_array("tokenizer.ggml.suppress_tokens", std::span<const int32_t>(std::array{1}));
  const auto tokenizer = load(writer);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ(tokenizer->n_vocab(), 5);
  EXPECT_THAT(tokenizer->encode("aa"), ElementsAre(2, 3, 3, 2));
  EXPECT_EQ(tokenizer->roles().fim_pre, 4);
  EXPECT_THAT(tokenizer->suppress_tokens(), ElementsAre(1));
}

TEST(TokenizerFromGguf, WrongTypesNameTheKey) {
  GgufWriter text_id = small_file();
  text_id.add("tokenizer.ggml.bos_token_id", "one");
  const auto refused = load(text_id);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::bad_metadata);
  EXPECT_THAT(refused.error().message(), HasSubstr("tokenizer.ggml.bos_token_id"));

  GgufWriter no_model;
  no_model.add("general.architecture", "llama");
  const auto missing = load(no_model);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message(), HasSubstr("tokenizer.ggml.model"));
}

TEST(TokenizerFromGguf, KindWithoutAVocabularyTakesItsSizeFromTheArchitecture) {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("tokenizer.ggml.model", "no_vocab");
  writer.add("llama.vocab_size", uint32_t{512});
  const auto tokenizer = load(writer);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ(tokenizer->n_vocab(), 512);
}

}  // namespace
}  // namespace tokamak

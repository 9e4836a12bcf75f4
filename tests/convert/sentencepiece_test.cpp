// SentencePiece models, written here field by field.
#include "convert/sentencepiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "convert/convert.h"
#include "convert/folder_helpers.h"
#include "convert/tokenizer_json.h"
#include "tokenizer/tokenizer.h"

namespace tokamak::test {
namespace {

using convert::parse_sentencepiece;

std::string varint(uint64_t n) {
  std::string out;
  for (; n >= 0x80; n >>= 7) out += static_cast<char>(n | 0x80);
  return out + static_cast<char>(n);
}
std::string bytes_field(unsigned number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string varint_field(unsigned number, uint64_t value) { return varint(number << 3) + varint(value); }

std::string piece(const std::string& text, float score, int type = 1) {
  std::string fields = bytes_field(1, text) + varint(2 << 3 | 5) + std::string(4, '\0');
  std::memcpy(fields.data() + fields.size() - 4, &score, 4);
  if (type != 1) fields += varint_field(3, static_cast<uint64_t>(type));
  return bytes_field(1, fields);
}

std::string model(bool add_dummy_prefix = true, int kind = 2, const std::string& charsmap = "") {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("\u2581", -3) + piece("a", -4) +
         piece("b", -5) + piece("ab", -1) + piece("\u2581ab", -2) + piece("<0x21>", 0, 6) +
         bytes_field(2, varint_field(3, static_cast<uint64_t>(kind)) + varint_field(4, 9)) +
         bytes_field(3, bytes_field(1, "identity") + bytes_field(2, charsmap) + varint_field(3, add_dummy_prefix));
}

auto parse(const std::string& bytes) { return parse_sentencepiece(std::as_bytes(std::span(bytes)), "tokenizer.model"); }

TEST(SentencePiece, PiecesAndFlags) {
  const auto read = parse(model(false));
  ASSERT_TRUE(read.has_value()) << read.error().message();
  ASSERT_EQ(read->pieces.size(), 9u);
  EXPECT_EQ(read->pieces[7].text, "\u2581ab");
  EXPECT_EQ(read->pieces[7].score, -2.0f);
  EXPECT_EQ(read->pieces[8].type, 6);
  EXPECT_TRUE(read->is_bpe);
  EXPECT_FALSE(read->add_dummy_prefix);
  EXPECT_TRUE(parse(model())->add_dummy_prefix);
  EXPECT_FALSE(read->has_charsmap);
  EXPECT_TRUE(parse(model(true, 2, "table"))->has_charsmap);
}

TEST(SentencePiece, VocabularyEncodesByScore) {
  const auto vocab = convert::vocab_of_pieces(*parse(model()), "x");
  ASSERT_TRUE(vocab.has_value());
  const auto tokenizer = Tokenizer::create(*vocab);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message();
  EXPECT_THAT(tokenizer->encode("ab b!", {.add_special = false}), testing::ElementsAre(7, 3, 5, 8));
}

TEST(SentencePiece, DamagedModelsAreRefused) {
  const std::string whole = model();
  size_t n_refused = 0;
  for (size_t n = 0; n < whole.size(); ++n) n_refused += !parse(whole.substr(0, n)).has_value();
  EXPECT_GT(n_refused, whole.size() / 2);  // cuts between fields leave whole messages
  EXPECT_FALSE(parse("").has_value());
  EXPECT_FALSE(parse(std::string(20, '\xFF')).has_value());
  EXPECT_FALSE(parse(bytes_field(1, bytes_field(1, "\xFF\xFE"))).has_value());
  EXPECT_FALSE(parse(piece("a", 0, 7)).has_value());
  EXPECT_FALSE(parse(varint(1 << 3 | 2) + varint(UINT64_MAX)).has_value());
  const auto unigram = convert::vocab_of_pieces(*parse(model(true, 1)), "tokenizer.model");
  ASSERT_FALSE(unigram.has_value());
  EXPECT_EQ(unigram.error().code, ErrorCode::unsupported);
}

// tokenizer.model beside or without a tokenizer.json.
TEST(SentencePiece, FolderWithOnlyAModelFile) {
  const auto folder = llama_folder();
  std::filesystem::remove(folder / "tokenizer.json");
  write_file(folder / "tokenizer.model", model());
  write_file(folder / "tokenizer_config.json",
             R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "added_tokens_decoder":
             {"9": {"content": "<|x|>", "special": true}, "10": {"content": "\u2581\u2581", "special": false}}})");
  const auto conversion = convert::Conversion::plan(folder, {});
  ASSERT_TRUE(conversion.has_value()) << conversion.error().message();
  const VocabSource& vocab = (*conversion)->tokenizer().vocab;
  EXPECT_EQ(vocab.model, "llama");
  ASSERT_EQ(vocab.tokens.size(), static_cast<size_t>(kVocab));
  EXPECT_EQ(vocab.tokens[9], "<|x|>");
  EXPECT_EQ(vocab.types[9], 3);
  EXPECT_EQ(vocab.tokens[10], "  ");
  EXPECT_EQ(vocab.types[10], 4);
  EXPECT_EQ(vocab.types[11], 5);
  EXPECT_EQ(vocab.ids.bos, 1);
  EXPECT_EQ(vocab.ids.eos, 2);
  EXPECT_EQ(vocab.add_bos, true);
  EXPECT_EQ(vocab.add_eos, false);
  EXPECT_THAT((*conversion)->notes(), testing::IsEmpty());
  write_file(folder / "tokenizer.model", model(true, 2, "table"));
  const auto rewritten = convert::Conversion::plan(folder, {});
  ASSERT_TRUE(rewritten.has_value()) << rewritten.error().message();
  EXPECT_THAT((*rewritten)->notes(), testing::ElementsAre(testing::HasSubstr("rewrites texts by a table")));
}

}  // namespace
}  // namespace tokamak::test

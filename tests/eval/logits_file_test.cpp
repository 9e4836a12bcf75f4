#include "eval/logits_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <random>

#include "eval/eval_helpers.h"
#include "support/tiny_model.h"

namespace tokamak {
namespace {

using testing::HasSubstr;
constexpr int64_t kVocab = 37, kCtx = 9, kChunks = 2, kRows = kChunks * n_scored(kCtx);
constexpr uint64_t kFirstRow = 40 + kChunks * kCtx * 4;

Tokenizer dummy_tokenizer(int64_t n_vocab) {
  auto tokenizer = Tokenizer::create({.model = "no_vocab", .n_dummy_tokens = n_vocab});
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(*tokenizer);
}

LogitsHeader header_of(LogitsType type) {
  return {.type = type,
          .n_vocab = kVocab,
          .vocab_hash = hash_vocabulary(dummy_tokenizer(kVocab)),
          .chunks = {.n_ctx = kCtx, .tokens = test::random_tokens(kChunks * kCtx, kVocab, 3)}};
}

std::vector<float> logits_of(int64_t row) {
  std::mt19937 random(static_cast<uint32_t>(row));
  std::vector<float> logits(kVocab);
  for (float& x : logits) x = static_cast<float>(random()) * 0x1p-32f * 60 - 30;
  return logits;
}

std::filesystem::path write_file(const LogitsHeader& header, std::string_view name) {
  const auto path = test::scratch_file(name);
  auto writer = LogitsWriter::create(path, header);
  EXPECT_TRUE(writer) << writer.error().message();
  std::vector<std::byte> bytes(header.row_bytes());
  for (int64_t row = 0; row < kRows; ++row) {
    encode_logits(header, {.nll = 0.1 * static_cast<double>(row), .top = static_cast<int32_t>(row)}, logits_of(row),
                  bytes.data());
    EXPECT_TRUE(writer->write(bytes));
  }
  EXPECT_TRUE(writer->commit());
  return path;
}

void expect_bad(const std::string& bytes, const std::string& part) {
  const auto path = test::scratch_file("bad.logits");
  test::write_bytes(path, bytes);
  const auto file = LogitsFile::open(path);
  ASSERT_FALSE(file) << part;
  EXPECT_EQ(file.error().code, ErrorCode::bad_file);
  EXPECT_THAT(file.error().message(), HasSubstr(part));
  EXPECT_THAT(file.error().message(), HasSubstr("bad.logits"));
}

std::string patched(std::string bytes, size_t offset, uint32_t value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

TEST(LogitsFile, F32ComesBackExactly) {
  const LogitsHeader header = header_of(LogitsType::f32);
  const auto file = LogitsFile::open(write_file(header, "f32.logits"));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->header().chunks.tokens, header.chunks.tokens);
  EXPECT_EQ(file->header().chunks.n_ctx, kCtx);
  std::vector<float> got(kVocab);
  for (int64_t row = 0; row < kRows; ++row) {
    const auto read = file->read(row / n_scored(kCtx), row % n_scored(kCtx), got);
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(read->nll, 0.1 * static_cast<double>(row));
    EXPECT_EQ(read->top, row);
    EXPECT_EQ(got, logits_of(row));
  }
  file->forget(0);
}

TEST(LogitsFile, U16IsWithinHalfAStep) {
  const auto path = write_file(header_of(LogitsType::u16), "u16.logits");
  EXPECT_EQ(test::read_bytes(path).size(), kFirstRow + kRows * (24 + kVocab * 2));
  const auto file = LogitsFile::open(path);
  ASSERT_TRUE(file) << file.error().message();
  std::vector<float> got(kVocab);
  for (int64_t row = 0; row < kRows; ++row) {
    ASSERT_TRUE(file->read(row / n_scored(kCtx), row % n_scored(kCtx), got));
    const std::vector<float> wanted = logits_of(row);
    // Half a step of a span below 60, and the rounding of a few f32 operations on numbers below 60.
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 0.5 * 60 / 65535 + 60 * 0x1p-21);
  }
}

TEST(LogitsFile, EqualLogitsSurviveU16) {
  const LogitsHeader header = header_of(LogitsType::u16);
  std::vector<std::byte> bytes(header.row_bytes());
  encode_logits(header, {}, std::vector<float>(kVocab, 2.5f), bytes.data());
  uint16_t code = 1;
  std::memcpy(&code, bytes.data() + 24, sizeof code);
  EXPECT_EQ(code, 0);
}

TEST(LogitsFile, DamageIsOneSentence) {
  const std::string good = test::read_bytes(write_file(header_of(LogitsType::u16), "good.logits"));
  for (size_t n : {size_t{0}, size_t{7}, size_t{39}}) expect_bad(good.substr(0, n), "no file of saved logits");
  expect_bad("GGUF" + good.substr(4), "no file of saved logits");
  for (size_t n : {size_t{40}, size_t{kFirstRow - 1}}) expect_bad(good.substr(0, n), "truncated");
  for (size_t n : {size_t{kFirstRow}, size_t{kFirstRow + 5}, good.size() - 1})
    expect_bad(good.substr(0, n), "truncated");
  expect_bad(good + "x", "damaged");
  expect_bad(patched(good, 8, 2), "version 2");
  for (size_t offset : {size_t{12}, size_t{16}, size_t{20}, size_t{24}}) {
    expect_bad(patched(good, offset, UINT32_MAX), "impossible");
    if (offset > 12) expect_bad(patched(good, offset, 0), "impossible");
  }
  expect_bad(patched(good, 24, 1 << 24), "truncated");
  expect_bad(patched(good, 40, kVocab), "token 37 is impossible");
}

TEST(LogitsFile, DamagedRowsAreFoundWhenRead) {
  const std::string good = test::read_bytes(write_file(header_of(LogitsType::f32), "good.logits"));
  const uint32_t nan = 0x7fc00000;
  for (const auto& [offset, value] : std::vector<std::pair<size_t, uint32_t>>{{kFirstRow + 4, 0x7ff00000},
                                                                              {kFirstRow + 4, 0xc0900000},
                                                                              {kFirstRow + 8, nan},
                                                                              {kFirstRow + 16, kVocab},
                                                                              {kFirstRow + 24, nan}}) {
    const auto path = test::scratch_file("bad_row.logits");
    test::write_bytes(path, patched(good, offset, value));
    const auto file = LogitsFile::open(path);
    ASSERT_TRUE(file) << file.error().message();
    std::vector<float> logits(kVocab);
    const auto row = file->read(0, 0, logits);
    ASSERT_FALSE(row) << offset;
    EXPECT_EQ(row.error().code, ErrorCode::bad_file);
    EXPECT_TRUE(file->read(0, 1, logits));
  }
}

TEST(LogitsFile, RefusesOtherVocabulariesAndTexts) {
  LogitsHeader header = header_of(LogitsType::u16);
  const auto file = LogitsFile::open(write_file(header, "mine.logits"));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->check_vocabulary(dummy_tokenizer(kVocab), kVocab));
  const auto size = file->check_vocabulary(dummy_tokenizer(kVocab + 1), kVocab + 1);
  ASSERT_FALSE(size);
  EXPECT_THAT(size.error().message(), HasSubstr("a model with 37 tokens; this one has 38"));
  ++header.vocab_hash;
  const auto words =
      LogitsFile::open(write_file(header, "other.logits"))->check_vocabulary(dummy_tokenizer(kVocab), kVocab);
  ASSERT_FALSE(words);
  EXPECT_THAT(words.error().message(), HasSubstr("another vocabulary"));

  TextChunks text = header.chunks;
  EXPECT_TRUE(file->check_text(text));
  text.tokens.resize(3 * kCtx);  // more chunks are no harm
  EXPECT_TRUE(file->check_text(text));
  text.tokens[kCtx + 2] ^= 1;
  EXPECT_THAT(file->check_text(text).error().message(), HasSubstr("it differs in token 2 of chunk 1"));
  text.keep(1);
  EXPECT_THAT(file->check_text(text).error().message(), HasSubstr("longer text"));
  text.n_ctx = 8;
  EXPECT_THAT(file->check_text(text).error().message(), HasSubstr("chunks of 9 tokens, not 8"));
}

TEST(LogitsFile, AFullDiskLeavesNothing) {
  const auto path = test::scratch_file("full.logits");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  Result<void> written;
  {
    const LogitsHeader header = header_of(LogitsType::f32);
    auto writer = LogitsWriter::create(path, header);
    ASSERT_TRUE(writer);
    const std::vector<std::byte> rows(100 * header.row_bytes());
    written = writer->write(rows);
    if (written) written = writer->commit();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::no_space);
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace tokamak

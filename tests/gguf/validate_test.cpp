// Every message of the validator, with the smallest input that provokes it.
#include "gguf/validate.h"

#include <gtest/gtest.h>

#include "gguf/raw_gguf_helpers.h"

namespace tokamak {
namespace {

using testing::RawGguf;
using testing::verdict;

struct Case {
  std::string name;
  std::vector<std::byte> bytes;
  ErrorCode code;
  std::string message;
};

constexpr uint32_t kF32 = 0, kQ4_0 = 2, kF64 = 28;
constexpr std::string_view kTruncated = " (the file is damaged or its download incomplete)";
constexpr std::string_view kDamaged = " (the file is damaged or was written by a broken tool)";

RawGguf start(std::string_view text) { return RawGguf().text(text); }
RawGguf one_key(std::string_view key) { return RawGguf::header(0, 1).string(key); }

std::vector<Case> header_cases() {
  using enum ErrorCode;
  return {
      {"Empty", {}, bad_file, "f: byte 0: the file is empty" + std::string(kTruncated)},
      {"NotGguf", start("abcdefgh").bytes(), bad_file,
       "f: byte 0: the file starts with \"abcd...\", not with \"GGUF\" (this is no GGUF model)"},
      {"WebPage", start("<html>").bytes(), bad_file,
       "f: byte 0: the file starts with \"<htm...\", not with \"GGUF\" (this looks like a web page: the download "
       "failed)"},
      {"LfsPointer", start("version https://git-lfs.github.com/spec/v1").bytes(), bad_file,
       "f: byte 0: the file starts with \"vers...\", not with \"GGUF\" (this is a Git LFS pointer: fetch the file "
       "itself "
       "with `git lfs pull`)"},
      {"PyTorch", start("PK\x03\x04").bytes(), bad_file,
       "f: byte 0: the file starts with \"PK\\x03\\x04\", not with \"GGUF\" (this looks like a PyTorch checkpoint: "
       "convert it to GGUF first)"},
      {"Ggml", start("tjgg").bytes(), bad_file,
       "f: byte 0: the file starts with \"tjgg\", not with \"GGUF\" (this is a GGML file of 2023: convert the original "
       "model to GGUF)"},
      {"OnlyMagic", start("GGUF").bytes(), bad_file,
       "f: byte 4: the file ends inside the header" + std::string(kTruncated)},
      {"NoCounts", start("GGUF").number(3u).number(uint64_t{0}).bytes(), bad_file,
       "f: byte 16: the file ends inside the header" + std::string(kTruncated)},
      {"Version0", start("GGUF").number(0u).bytes(), unsupported,
       "f: byte 4: GGUF version 0, supported are 2 and 3 (the file is damaged or newer than this program)"},
      {"Version1", start("GGUF").number(1u).bytes(), unsupported,
       "f: byte 4: GGUF version 1, supported are 2 and 3 (version 1 is of 2023: convert the original model again)"},
      {"Version4", start("GGUF").number(4u).bytes(), unsupported,
       "f: byte 4: GGUF version 4, supported are 2 and 3 (the file is damaged or newer than this program)"},
      {"BigEndian", start("GGUF").number(3u << 24).bytes(), unsupported,
       "f: byte 4: the file is big-endian (convert the original model to a little-endian GGUF file)"},
      {"TensorCount", RawGguf::header(1, 0).bytes(), bad_file,
       "f: byte 24: declares 1 tensors, but the 0 bytes left hold at most 0" + std::string(kTruncated)},
      {"EntryCount", RawGguf::header(0, 2).zeros(14).bytes(), bad_file,
       "f: byte 24: declares 2 metadata entries, but the 14 bytes left hold at most 1" + std::string(kTruncated)},
  };
}

std::vector<Case> metadata_cases() {
  using enum ErrorCode;
  const std::string long_key(65535, 'k');
  return {
      {"KeyLength", RawGguf::header(0, 1).number(uint64_t{99}).zeros(6).bytes(), bad_file,
       "f: metadata entry 0, byte 32: the key declares 99 bytes, but the file has 6 left" + std::string(kTruncated)},
      {"KeyLengthCut", RawGguf::header(0, 2).entry("a", GgufType::u64, uint64_t{0}).zeros(7).bytes(), bad_file,
       "f: metadata entry 1, byte 45: the file ends inside the key" + std::string(kTruncated)},
      {"EmptyKey", one_key("").type(GgufType::u8).zeros(9).bytes(), bad_metadata,
       "f: metadata entry 0, byte 24: the key is empty" + std::string(kDamaged)},
      {"LongKey", one_key(long_key).type(GgufType::u8).zeros(9).bytes(), bad_metadata,
       "f: key \"" + std::string(80, 'k') + "...\", byte 24: the key has 65535 bytes, allowed are at most 65534" +
           std::string(kDamaged)},
      {"NulKey", one_key(std::string_view("a\0b", 3)).entry("", GgufType::u8, uint8_t{0}).bytes(), bad_metadata,
       "f: key \"a\\x00b\", byte 24: the key holds a NUL byte" + std::string(kDamaged)},
      {"Utf8Key", one_key("a\xff").entry("", GgufType::u8, uint8_t{0}).bytes(), bad_metadata,
       "f: key \"a\\xff\", byte 24: the key is not valid UTF-8" + std::string(kDamaged)},
      {"DuplicateKey", RawGguf::header(0, 2).entry("k", GgufType::u8, uint8_t{0}).entry("k", GgufType::u32, 0u).bytes(),
       bad_metadata, "f: key \"k\", byte 47: the key appears twice" + std::string(kDamaged)},
      {"ValueType", RawGguf::header(0, 1).string("k").number(13u).zeros(1).bytes(), bad_metadata,
       "f: key \"k\", byte 33: value type 13 is unknown, known are 0 to 12" + std::string(kDamaged)},
      {"ValueTypeCut", one_key("long").zeros(2).bytes(), bad_file,
       "f: key \"long\", byte 36: the file ends inside a value's type" + std::string(kTruncated)},
      {"ValueCut", RawGguf::header(0, 1).entry("k", GgufType::u64, 0u).bytes(), bad_file,
       "f: key \"k\", byte 37: the file ends inside the value" + std::string(kTruncated)},
      {"StringLength", RawGguf::header(0, 1).entry("k", GgufType::string, uint64_t{5}).bytes(), bad_file,
       "f: key \"k\", byte 45: the string declares 5 bytes, but the file has 0 left" + std::string(kTruncated)},
      {"StringCut", RawGguf::header(0, 1).entry("k", GgufType::string, 5u).bytes(), bad_file,
       "f: key \"k\", byte 37: the file ends inside the string" + std::string(kTruncated)},
      {"Bool", RawGguf::header(0, 1).entry("k", GgufType::boolean, uint8_t{2}).bytes(), bad_metadata,
       "f: key \"k\", byte 37: a bool is 2, must be 0 or 1" + std::string(kDamaged)},
      {"NestedArray", one_key("k").type(GgufType::array).type(GgufType::array).bytes(), unsupported,
       "f: key \"k\", byte 37: arrays of arrays are not supported" + std::string(kDamaged)},
      {"ElementType", one_key("k").type(GgufType::array).number(77u).bytes(), bad_metadata,
       "f: key \"k\", byte 37: value type 77 is unknown, known are 0 to 12" + std::string(kDamaged)},
      {"ArrayLengthCut", one_key("k").type(GgufType::array).type(GgufType::u8).bytes(), bad_file,
       "f: key \"k\", byte 41: the file ends inside an array's length" + std::string(kTruncated)},
      {"ArrayLength", one_key("k").type(GgufType::array).type(GgufType::u16).number(uint64_t{2}).zeros(3).bytes(),
       bad_file,
       "f: key \"k\", byte 49: the array declares 2 elements, but the 3 bytes left hold at most 1" +
           std::string(kTruncated)},
      {"ArrayString",
       one_key("k").type(GgufType::array).type(GgufType::string).number(uint64_t{1}).number(uint64_t{3}).bytes(),
       bad_file,
       "f: key \"k\", byte 57: a string of the array declares 3 bytes, but the file has 0 left" +
           std::string(kTruncated)},
      {"AlignmentType", RawGguf::header(0, 1).entry("general.alignment", GgufType::i32, 32).bytes(), bad_metadata,
       "f: key \"general.alignment\", byte 49: has type i32, must be u32"},
      {"Alignment", RawGguf::header(0, 1).entry("general.alignment", GgufType::u32, 48u).bytes(), bad_metadata,
       "f: key \"general.alignment\", byte 49: is 48, must be a power of two from 8 to 16777216"},
  };
}

std::vector<Case> tensor_cases() {
  using enum ErrorCode;
  const auto one = [](auto... arguments) { return RawGguf::header(1, 0).tensor(arguments...); };
  using Dims = std::vector<int64_t>;
  const std::string long_name(64, 't');
  return {
      {"NameLength", RawGguf::header(1, 0).number(uint64_t{1} << 62).zeros(17).bytes(), bad_file,
       "f: tensor 0, byte 32: the name declares 4611686018427387904 bytes, but the file has 17 left" +
           std::string(kTruncated)},
      {"EmptyName", one("", Dims{1}, kF32, 0).bytes(), bad_tensor,
       "f: tensor 0, byte 24: the name is empty" + std::string(kDamaged)},
      {"LongName", one(long_name, Dims{1}, kF32, 0).bytes(), bad_tensor,
       "f: tensor \"" + long_name + "\", byte 24: the name has 64 bytes, allowed are at most 63" +
           std::string(kDamaged)},
      {"NulName", one(std::string_view("a\0", 2), Dims{1}, kF32, 0).bytes(), bad_tensor,
       "f: tensor \"a\\x00\", byte 24: the name holds a NUL byte" + std::string(kDamaged)},
      {"Utf8Name", one("\xc3", Dims{1}, kF32, 0).bytes(), bad_tensor,
       "f: tensor \"\\xc3\", byte 24: the name is not valid UTF-8" + std::string(kDamaged)},
      {"DuplicateName", RawGguf::header(2, 0).tensor("w", {1}, kF32, 0).tensor("w", {2}, kF32, 32).bytes(), bad_tensor,
       "f: tensor \"w\", byte 57: the name appears twice" + std::string(kDamaged)},
      {"FiveDims", one("w", Dims{1, 1, 1, 1, 1}, kF32, 0).bytes(), bad_tensor,
       "f: tensor \"w\", byte 33: has 5 dimensions, allowed are at most 4" + std::string(kDamaged)},
      {"ZeroDim", RawGguf::header(1, 0).string("w").number(4u).zeros(12).bytes(), bad_tensor,
       "f: tensor \"w\", byte 37: dimension 0 is 0, must be at least 1" + std::string(kDamaged)},
      {"DimsEnd", RawGguf::header(1, 0).string("w").number(2u).number(int64_t{1}).zeros(5).bytes(), bad_file,
       "f: tensor \"w\", byte 45: the file ends inside the dimensions" + std::string(kTruncated)},
      {"RankEnd", RawGguf::header(1, 0).string("0123456789abcdef").zeros(1).bytes(), bad_file,
       "f: tensor \"0123456789abcdef\", byte 48: the file ends inside the number of dimensions" +
           std::string(kTruncated)},
      {"TypeEnd", RawGguf::header(1, 0).string("ww").number(1u).number(int64_t{1}).zeros(3).bytes(), bad_file,
       "f: tensor \"ww\", byte 46: the file ends inside the tensor type" + std::string(kTruncated)},
      {"OffsetEnd", RawGguf::header(1, 0).string("w").number(1u).number(int64_t{1}).number(kF32).zeros(7).bytes(),
       bad_file, "f: tensor \"w\", byte 49: the file ends inside the offset" + std::string(kTruncated)},
      {"NegativeDim", one("w", Dims{2, -3}, kF32, 0).bytes(), bad_tensor,
       "f: tensor \"w\", byte 45: dimension 1 is -3, must be at least 1" + std::string(kDamaged)},
      {"TooManyElements", one("w", Dims{int64_t{1} << 32, int64_t{1} << 31}, kF32, 0).bytes(), bad_tensor,
       "f: tensor \"w\", byte 45: dimension 1 is 2147483648: too many elements" + std::string(kDamaged)},
      {"TooManyBytes", one("w", Dims{int64_t{1} << 62}, kF64, 0).bytes(), bad_tensor,
       "f: tensor \"w\", byte 45: the tensor has more than 2^64 bytes" + std::string(kDamaged)},
      {"UnknownType", one("w", Dims{1}, 99u, 0).bytes(), unsupported,
       "f: tensor \"w\", byte 45: tensor type 99 is unknown (the file is damaged or newer than this program)"},
      {"BlockSize", one("w", Dims{33, 2}, kQ4_0, 0).bytes(), bad_tensor,
       "f: tensor \"w\", byte 53: dimension 0 is 33, must be a multiple of 32 for type Q4_0" + std::string(kDamaged)},
      {"Offset", one("w", Dims{1}, kF32, 32).pad().zeros(64).bytes(), bad_tensor,
       "f: tensor \"w\", byte 24: data offset is 32, must be 0: tensors follow each other without gaps" +
           std::string(kDamaged)},
      {"OffsetGap", RawGguf::header(2, 0).tensor("a", {1}, kF32, 0).tensor("b", {1}, kF32, 64).pad().zeros(96).bytes(),
       bad_tensor,
       "f: tensor \"b\", byte 57: data offset is 64, must be 32: tensors follow each other without gaps" +
           std::string(kDamaged)},
      {"DataPastEnd", one("w", Dims{2}, kF32, 0).pad().zeros(7).bytes(), bad_tensor,
       "f: tensor \"w\", byte 64: needs 8 bytes, but the file has 7 left" + std::string(kTruncated)},
      {"NoData", one("w", Dims{2}, kF32, 0).bytes(), bad_tensor,
       "f: tensor \"w\", byte 64: needs 8 bytes, but the file has 0 left" + std::string(kTruncated)},
      {"SecondPastEnd",
       RawGguf::header(2, 0).tensor("a", {1}, kF32, 0).tensor("b", {1}, kF32, 32).pad().zeros(4).bytes(), bad_tensor,
       "f: tensor \"b\", byte 128: needs 4 bytes, but the file has 0 left" + std::string(kTruncated)},
  };
}

class GgufMessages : public ::testing::TestWithParam<Case> {};

TEST_P(GgufMessages, AreExact) {
  const auto part = validate_gguf(GetParam().bytes, "f");
  ASSERT_FALSE(part.has_value());
  EXPECT_EQ(part.error().message(), GetParam().message);
  EXPECT_EQ(error_row(part.error().code).name, error_row(GetParam().code).name);
}

const auto case_name = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Header, GgufMessages, ::testing::ValuesIn(header_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Metadata, GgufMessages, ::testing::ValuesIn(metadata_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Tensor, GgufMessages, ::testing::ValuesIn(tensor_cases()), case_name);

// No row of the table above, which every run of a single test builds: 26 MB.
TEST(GgufValidate, TooManyTensors) {
  const auto part = validate_gguf(RawGguf::header(1048577, 0).zeros(25 * 1048577).bytes(), "f");
  ASSERT_FALSE(part.has_value());
  EXPECT_EQ(part.error().code, ErrorCode::bad_file);
  EXPECT_EQ(part.error().message(),
            "f: byte 24: declares 1048577 tensors, allowed are at most 1048576" + std::string(kDamaged));
}

TEST(GgufValidate, RemovedTensorTypesComeWithAdvice) {
  for (const RemovedDType& removed : kRemovedDTypes) {
    const std::string text = verdict(RawGguf::header(1, 0).tensor("w", {32}, removed.id, 0).bytes());
    EXPECT_NE(text.find(std::string(removed.name) + " (" + std::to_string(removed.id) + ") was removed"), text.npos)
        << text;
    EXPECT_NE(text.find(removed.advice), text.npos) << text;
  }
}

TEST(GgufValidate, LimitsThemselvesAreAccepted) {
  EXPECT_EQ(verdict(one_key(std::string(65534, 'k')).type(GgufType::u8).zeros(1).bytes()), "ok");
  EXPECT_EQ(verdict(RawGguf::header(1, 0).tensor(std::string(63, 't'), {1, 1, 1, 1}, kF32, 0).pad().zeros(4).bytes()),
            "ok");
  for (const uint32_t alignment : {8u, 32u, 16u << 20})
    EXPECT_EQ(verdict(RawGguf::header(0, 1).entry("general.alignment", GgufType::u32, alignment).bytes()), "ok");
  EXPECT_EQ(verdict(RawGguf::header(0, 0).bytes()), "ok");
}

// Every file that ends early is refused, wherever it ends; what follows the last tensor does not matter.
TEST(GgufValidate, NoPrefixOfAFileIsAccepted) {
  RawGguf file = RawGguf::header(2, 2);
  file.string_entry("general.architecture", "llama").entry("general.alignment", GgufType::u32, 64u);
  file.tensor("a", {3}, kF32, 0).tensor("b", {32, 2}, kQ4_0, 64).pad(64).zeros(64 + 36);
  for (size_t n = 0; n < file.bytes().size(); ++n)
    EXPECT_NE(verdict(std::span(file.bytes()).first(n)), "ok") << n << " bytes";
  EXPECT_EQ(verdict(file.bytes()), "ok");
  EXPECT_EQ(verdict(file.zeros(5).bytes()), "ok");
}

TEST(GgufValidate, ShapesAreReversedAndDataIsPlaced) {
  const RawGguf raw =
      RawGguf::header(2, 0, 2).tensor("a", {3, 2}, kF32, 0).tensor("b", {}, kF64, 32).pad().number(1.0f).zeros(36);
  const auto part = validate_gguf(raw.bytes(), "f", 7);
  ASSERT_TRUE(part.has_value()) << part.error().message();
  EXPECT_EQ(part->version, 2u);
  const GgufTensor &a = part->tensors[0], &b = part->tensors[1];
  EXPECT_EQ(a.shape, (Shape{2, 3}));
  EXPECT_EQ(a.offset, 96u);
  EXPECT_EQ(a.n_bytes, 24u);
  EXPECT_EQ(a.data.data(), raw.bytes().data() + 96);
  EXPECT_EQ(b.shape.rank(), 0);
  EXPECT_EQ(b.offset, 128u);
  EXPECT_EQ(b.n_bytes, 8u);
  EXPECT_EQ(b.part, 7u);
}

}  // namespace
}  // namespace tokamak

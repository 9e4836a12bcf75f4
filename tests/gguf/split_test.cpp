#include "gguf/split.h"

#include <gtest/gtest.h>

#include "gguf/gguf.h"
#include "gguf/raw_gguf_helpers.h"
#include "gguf/writer.h"

namespace tokamak {
namespace {

using testing::TemporaryFolder;

struct PartKeys {
  uint16_t no, count;
  int32_t n_tensors;
};

// One part with its split keys, metadata in the first, and one i8 tensor of four times `value` per name.
void write_part(const std::filesystem::path& path, PartKeys keys, const std::vector<std::string>& names, char value) {
  GgufWriter writer;
  if (keys.no == 0) writer.add("general.architecture", "llama");
  writer.add("split.no", keys.no);
  writer.add("split.count", keys.count);
  writer.add("split.tensors.count", keys.n_tensors);
  const std::vector<std::byte> data(4, static_cast<std::byte>(value));
  for (const std::string& name : names) writer.add_tensor(name, DType::i8, {4}, data);
  ASSERT_TRUE(writer.write(path).has_value());
}

class GgufSplit : public ::testing::Test {
 protected:
  // m-00001-of-00003.gguf holds metadata only.
  void SetUp() override {
    write_part(part(0), {0, 3, 3}, {}, 0);
    write_part(part(1), {1, 3, 3}, {"b", "a"}, 1);
    write_part(part(2), {2, 3, 3}, {"c"}, 2);
  }
  std::filesystem::path part(uint32_t part_idx) const { return split_part_path((folder_ / "m").string(), part_idx, 3); }
  std::string refusal(uint32_t part_idx = 0) const {
    const auto file = GgufFile::open(part(part_idx));
    if (file) return "ok";
    std::string text = file.error().message();
    const std::string prefix = (folder_ / "").string();
    for (size_t at; (at = text.find(prefix)) != text.npos;) text.erase(at, prefix.size());
    return text;
  }

  TemporaryFolder folder_;
};

TEST_F(GgufSplit, NamesCountFromOneWithFiveDigits) {
  EXPECT_EQ(part(0).filename(), "m-00001-of-00003.gguf");
  EXPECT_EQ(split_part_path("a/b", 11, 12345).string(), "a/b-00012-of-12345.gguf");
}

TEST_F(GgufSplit, AnyPartFindsTheOthers) {
  for (uint32_t given = 0; given < 3; ++given) {
    const auto file = GgufFile::open(part(given));
    ASSERT_TRUE(file.has_value()) << file.error().message();
    EXPECT_EQ(file->n_parts(), 3u);
    EXPECT_EQ(*file->architecture(), "llama");
    ASSERT_EQ(file->tensors().size(), 3u);
    EXPECT_EQ(file->tensors()[0].name, "b");
    EXPECT_EQ(file->find_tensor("c")->part, 2u);
    EXPECT_EQ(file->find_tensor("c")->data[0], std::byte{2});
    EXPECT_EQ(file->find_tensor("a")->data[3], std::byte{1});
    file->forget(*file->find_tensor("c"));
    EXPECT_EQ(file->n_bytes(), file->part_n_bytes(0) + file->part_n_bytes(1) + file->part_n_bytes(2));
    EXPECT_EQ(file->part_name(1), part(1).string());
  }
}

TEST_F(GgufSplit, OnePartAloneOnRequest) {
  const auto file = GgufFile::open(part(1), {.find_split_parts = false});
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->n_parts(), 1u);
  EXPECT_EQ(file->tensors().size(), 2u);
}

TEST_F(GgufSplit, AMissingPartIsOneSentence) {
  std::filesystem::remove(part(2));
  EXPECT_EQ(refusal(), "m-00003-of-00003.gguf: part 3 of 3 of the model is missing (put all parts into one folder)");
}

TEST_F(GgufSplit, ARenamedPartIsExplained) {
  std::filesystem::rename(part(1), folder_ / "x.gguf");
  const std::string text = GgufFile::open(folder_ / "x.gguf").error().message();
  EXPECT_NE(text.find("this is part 2 of 3, but the name does not end in \"-00002-of-00003.gguf\""), text.npos) << text;
}

TEST_F(GgufSplit, SwappedPartsAreSeen) {
  std::filesystem::rename(part(1), folder_ / "t");
  std::filesystem::rename(part(2), part(1));
  std::filesystem::rename(folder_ / "t", part(2));
  EXPECT_EQ(
      refusal(),
      "m-00002-of-00003.gguf: split.no is 2, but by its name this is part 2 (split.no 1) (the parts do not belong "
      "together)");
}

TEST_F(GgufSplit, CountsMustAgree) {
  write_part(part(1), {1, 4, 3}, {"b", "a"}, 1);
  EXPECT_EQ(refusal(),
            "m-00002-of-00003.gguf: split.count is 4, the other parts say 3 (the parts do not belong together)");
  write_part(part(1), {1, 3, 9}, {"b", "a"}, 1);
  EXPECT_EQ(refusal(),
            "m-00002-of-00003.gguf: split.tensors.count is 9, the first part says 3 (the parts do not belong "
            "together)");
  write_part(part(1), {1, 3, 3}, {"b"}, 1);
  EXPECT_EQ(refusal(),
            "m-00001-of-00003.gguf: split.tensors.count is 3, but the parts hold 2 tensors (the parts do not "
            "belong together)");
}

TEST_F(GgufSplit, TheSameTensorInTwoPartsIsRefused) {
  write_part(part(2), {2, 3, 3}, {"a"}, 2);
  const std::string text = refusal();
  EXPECT_NE(text.find("m-00003-of-00003.gguf: tensor \"a\""), text.npos) << text;
  EXPECT_NE(text.find("another part of the model holds a tensor of the same name"), text.npos) << text;
}

TEST_F(GgufSplit, KeysOfAPartAreRequired) {
  GgufWriter writer;
  writer.add("split.count", uint16_t{3});
  writer.add("split.no", uint16_t{1});
  ASSERT_TRUE(writer.write(part(1)).has_value());
  EXPECT_EQ(refusal(),
            "m-00002-of-00003.gguf: key \"split.tensors.count\": the key is missing in a part of a split model "
            "(split the model again)");
  GgufWriter wrong;
  wrong.add("split.count", int32_t{-3});
  ASSERT_TRUE(wrong.write(part(0)).has_value());
  EXPECT_EQ(refusal(), "m-00001-of-00003.gguf: key \"split.count\", byte 43: is -3, must be from 0 to 65535");
}

TEST_F(GgufSplit, ADamagedPartIsNamed) {
  std::filesystem::resize_file(part(2), std::filesystem::file_size(part(2)) - 32);
  const std::string text = refusal();
  EXPECT_NE(text.find("m-00003-of-00003.gguf: tensor \"c\""), text.npos) << text;
}

}  // namespace
}  // namespace tokamak

#include "engine/check_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/tiny_model.h"

namespace tokamak {
namespace {

// Overwrites the binary16 scale of one block.
void set_scale(const std::filesystem::path& path, uint64_t at, uint16_t code) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(reinterpret_cast<const char*>(&code), sizeof code);
}

TEST(CheckTensors, ABadScaleIsNamedWithTensorRowAndBlock) {
  const auto path = test::write_tiny_model({.types = {DType::q8_0}});
  auto file = GgufFile::open(path);
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_TRUE(check_tensors(*file));
  const GgufTensor* tensor = file->find_tensor("blk.1.ffn_down.weight");
  ASSERT_NE(tensor, nullptr);
  ASSERT_EQ(tensor->type, DType::q8_0);
  const auto row_bytes = dtype_bytes(DType::q8_0, static_cast<uint64_t>(tensor->shape.row_elems()));
  for (const uint16_t code : {0x7E00, 0x7C00, 0xFC00}) {  // NaN, infinities
    set_scale(path, tensor->offset + 3 * row_bytes + 34, code);
    const auto bad = check_tensors(*GgufFile::open(path));
    ASSERT_FALSE(bad);
    EXPECT_EQ(bad.error().code, ErrorCode::bad_tensor);
    EXPECT_THAT(bad.error().message(), testing::HasSubstr("blk.1.ffn_down.weight"));
    EXPECT_THAT(bad.error().message(), testing::AllOf(testing::HasSubstr("row 3"), testing::HasSubstr("block 1")));
  }
}

TEST(CheckTensors, CanBeCancelled) {
  const auto file = GgufFile::open(test::write_tiny_model({}));
  ASSERT_TRUE(file);
  const auto stopped = check_tensors(*file, [](double) { return false; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
}

}  // namespace
}  // namespace tokamak

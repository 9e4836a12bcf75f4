// Folders: single files, shards, and the ways an index can lie.
#include "safetensors/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "safetensors/json_text.h"
#include "safetensors/raw_safetensors_helpers.h"

namespace tokamak::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kA = safetensors_file({{"a", "F32", {1}, bytes_of<float>({1})}});
const std::string kB = safetensors_file({{"b", "F32", {1}, bytes_of<float>({2})}});
constexpr const char* kIndex = R"({"metadata":{},"weight_map":{"a":"s-1.safetensors","b":"s-2.safetensors"}})";

fs::path sharded(const std::string& first, const std::string& second, const std::string& index) {
  const fs::path folder = new_folder();
  if (!first.empty()) write_file(folder / "s-1.safetensors", first);
  if (!second.empty()) write_file(folder / "s-2.safetensors", second);
  write_file(folder / "model.safetensors.index.json", index);
  return folder;
}

void expect_refusal(const fs::path& folder, ErrorCode code, const std::string& part) {
  const auto result = Checkpoint::open(folder);
  ASSERT_FALSE(result.has_value()) << part;
  EXPECT_EQ(result.error().code, code) << result.error().message();
  EXPECT_THAT(result.error().message(), HasSubstr(part));
}

TEST(Checkpoint, SingleFile) {
  const fs::path folder = new_folder();
  write_file(folder / "model.safetensors", kA);
  const auto checkpoint = Checkpoint::open(folder);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  ASSERT_NE(checkpoint->find("a"), nullptr);
  EXPECT_EQ(checkpoint->find("b"), nullptr);
  EXPECT_EQ(checkpoint->where(*checkpoint->find("a")), "model.safetensors: tensor 'a'");
}

TEST(Checkpoint, Shards) {
  const auto checkpoint = Checkpoint::open(sharded(kA, kB, kIndex));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_EQ(checkpoint->where(*checkpoint->find("b")), "s-2.safetensors: tensor 'b'");
  EXPECT_EQ(checkpoint->n_bytes(), kA.size() + kB.size());
}

TEST(Checkpoint, Refusals) {
  expect_refusal(sharded(kA, "", kIndex), ErrorCode::not_found, "s-2.safetensors");
  expect_refusal(sharded(kA, kB.substr(0, kB.size() - 2), kIndex), ErrorCode::bad_file, "s-2.safetensors: tensor 'b'");
  expect_refusal(sharded(kA, kA, kIndex), ErrorCode::bad_tensor, "tensor 'a'");
  expect_refusal(sharded(kB, kA, kIndex), ErrorCode::bad_tensor, "does not");
  expect_refusal(sharded(kA, kB, R"({"weight_map":{"a":"s-1.safetensors","c":"s-2.safetensors"}})"),
                 ErrorCode::bad_tensor, "s-2.safetensors: tensor 'c'");
  for (const char* shard : {"../s.safetensors", "/etc/passwd", "s-1.bin"})
    expect_refusal(sharded(kA, kB, std::string(R"({"weight_map":{"a":")") + shard + "\"}}"), ErrorCode::bad_file,
                   "tensor 'a'");
  for (const char* index : {"", "[]", "{}", R"({"weight_map":{}})", R"({"weight_map":{"a":1}})"})
    expect_refusal(sharded(kA, kB, index), ErrorCode::bad_file, "index");
  expect_refusal(new_folder(), ErrorCode::not_found, "no model.safetensors");
  const fs::path pickled = new_folder();
  write_file(pickled / "pytorch_model.bin", "x");
  expect_refusal(pickled, ErrorCode::not_found, "safetensors form");
}

TEST(JsonText, DepthAndSizeAreBounded) {
  EXPECT_TRUE(parse_json(std::string(60, '[') + std::string(60, ']'), "x").has_value());
  for (const size_t depth : {size_t{70}, size_t{1} << 20}) {
    const auto deep = parse_json(std::string(depth, '[') + std::string(depth, ']'), "x");
    ASSERT_FALSE(deep.has_value());
    EXPECT_THAT(deep.error().message(), HasSubstr("nested deeper"));
  }
  const auto invalid = parse_json("{\"a\": 1, !}", "x");
  ASSERT_FALSE(invalid.has_value());
  EXPECT_THAT(invalid.error().message(), HasSubstr("not valid JSON at byte 10"));
  EXPECT_FALSE(parse_json("{\"a\":", "x").has_value());
  EXPECT_FALSE(parse_json("1e999", "x").has_value());
  EXPECT_FALSE(parse_json("\"\xFF\"", "x").has_value());
  const fs::path huge = new_folder() / "huge.json";
  write_file(huge, "{}");
  fs::resize_file(huge, kMaxJsonBytes + 1);
  EXPECT_EQ(read_json_file(huge).error().code, ErrorCode::bad_file);
  EXPECT_TRUE(read_json_file_or_null("/no/such/file")->is_null());
}

}  // namespace
}  // namespace tokamak::test

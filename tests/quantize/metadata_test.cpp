#include "quantize/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "quantize/model_helpers.h"

namespace tokamak {
namespace {
using testing::ElementsAre;

template <class T>
void expect_pruned(GgufType type, std::vector<T> values) {
  GgufWriter in;
  in.add("general.architecture", "llama");
  in.add("llama.block_count", uint32_t{4});
  in.add_array("llama.per_layer", std::span<const T>(values));
  in.add_array("llama.rope.dimension_sections", std::span<const T>(values));
  const auto in_path = test::scratch() / "layers.gguf", out_path = test::scratch() / "layers_out.gguf";
  ASSERT_TRUE(in.write(in_path));
  const GgufFile file = *GgufFile::open(in_path);
  QuantizeOptions options;
  options.prune_layers = {1};
  GgufWriter writer;
  ASSERT_TRUE(add_metadata(writer, file, options, {}));
  ASSERT_TRUE(writer.write(out_path));
  const GgufFile out = *GgufFile::open(out_path);
  EXPECT_EQ(*out.get_u64("llama.block_count"), 3u);
  const auto bytes_of = [&](std::string_view key) {
    const GgufValue* value = out.find(key);
    EXPECT_EQ(value->element_type(), type);
    return std::vector<std::byte>(value->raw().begin(), value->raw().end());
  };
  const auto as_bytes = [](const std::vector<T>& x) {
    const auto bytes = std::as_bytes(std::span(x));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(bytes_of("llama.rope.dimension_sections"), as_bytes(values)) << "no list of layers";
  values.erase(values.begin() + 1);
  EXPECT_EQ(bytes_of("llama.per_layer"), as_bytes(values));
}

TEST(Metadata, PrunedArraysKeepTypeAndValues) {
  expect_pruned<uint8_t>(GgufType::u8, {1, 2, 255, 4});
  expect_pruned<int16_t>(GgufType::i16, {1, 2, -300, 4});
  expect_pruned<uint32_t>(GgufType::u32, {1, 2, UINT32_MAX, 4});
  expect_pruned<int32_t>(GgufType::i32, {1, 2, INT32_MIN, 4});
  expect_pruned<uint64_t>(GgufType::u64, {1, 2, UINT64_MAX, 4});
  expect_pruned<int64_t>(GgufType::i64, {1, 2, int64_t{1} << 40, 4});
  expect_pruned<float>(GgufType::f32, {1, 2, 0.1f, std::numeric_limits<float>::infinity()});
  expect_pruned<double>(GgufType::f64, {1, 2, 0.1, 4});
}

TEST(Metadata, PrunedFlagsStayFlags) {
  GgufWriter in;
  in.add("general.architecture", "llama");
  in.add("llama.block_count", uint32_t{3});
  const bool flags[] = {true, true, false};
  in.add_array("llama.is_wide", std::span<const bool>(flags));
  const auto path = test::scratch() / "flags.gguf";
  ASSERT_TRUE(in.write(path));
  QuantizeOptions options;
  options.prune_layers = {0};
  GgufWriter writer;
  ASSERT_TRUE(add_metadata(writer, *GgufFile::open(path), options, {}));
  ASSERT_TRUE(writer.write(path));
  const GgufFile out = *GgufFile::open(path);
  EXPECT_EQ(out.find("llama.is_wide")->element_type(), GgufType::boolean);
  EXPECT_THAT(*out.get_ints("llama.is_wide"), ElementsAre(1, 0));
}

}  // namespace
}  // namespace tokamak

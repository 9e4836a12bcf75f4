#include "quantize/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "quantize/model_helpers.h"

namespace tokamak {
namespace {
using test::leftovers;
using test::scratch;
using test::write_model;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<GgufTensor> of_sizes(std::vector<uint64_t> sizes) {
  std::vector<GgufTensor> out(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) out[i].n_bytes = sizes[i];
  return out;
}

TEST(Divide, FillsPartsInOrder) {
  const auto five = of_sizes({10, 10, 10, 10, 10});
  EXPECT_THAT(divide(five, {.max_tensors = 2}), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(divide(five, {.max_tensors = 0, .max_bytes = 30}), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4)));
  EXPECT_THAT(divide(five, {.max_tensors = 2, .max_bytes = 10}).size(), 5u);
  EXPECT_THAT(divide(five, {.no_tensor_first = true}), ElementsAre(IsEmpty(), ElementsAre(0, 1, 2, 3, 4)));
  EXPECT_THAT(divide(of_sizes({50, 1, 1}), {.max_bytes = 20}), ElementsAre(ElementsAre(0), ElementsAre(1, 2)));
  EXPECT_THAT(divide({}, {}), ElementsAre(IsEmpty()));
}

void expect_equal(const GgufFile& a, const GgufFile& b) {
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (size_t i = 0; i < a.tensors().size(); ++i) {
    const GgufTensor &x = a.tensors()[i], &y = b.tensors()[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.type, y.type);
    EXPECT_EQ(x.shape, y.shape);
    EXPECT_TRUE(std::ranges::equal(x.data, y.data)) << x.name;
  }
  ASSERT_EQ(a.values().size(), b.values().size());
  for (size_t i = 0; i < a.values().size(); ++i) {
    EXPECT_EQ(a.values()[i].key(), b.values()[i].key());
    EXPECT_TRUE(std::ranges::equal(a.values()[i].raw(), b.values()[i].raw())) << a.values()[i].key();
  }
}

TEST(Parts, SplitAndMergedIsTheSame) {
  const auto in = write_model("round.gguf");
  const GgufFile original = *GgufFile::open(in);
  for (const SplitLimits& limits : {SplitLimits{.max_tensors = 3}, SplitLimits{.max_tensors = 0, .max_bytes = 200000},
                                    SplitLimits{.max_tensors = 1, .no_tensor_first = true}}) {
    const std::string prefix = (scratch() / "round").string();
    const auto parts = divide(original.tensors(), limits);
    const auto split = split_model(original, parts, prefix, {});
    ASSERT_TRUE(split) << split.error().message();
    const auto part_path = [&](size_t p) {
      char text[64];
      std::snprintf(text, sizeof text, "-%05zu-of-%05zu.gguf", p + 1, parts.size());
      return prefix + text;
    };
    for (size_t named : {size_t{0}, parts.size() - 1}) {  // any part may be named
      const auto opened = GgufFile::open(part_path(named));
      ASSERT_TRUE(opened) << opened.error().message();
      EXPECT_EQ(opened->n_parts(), parts.size());
      const auto merged = scratch() / "merged.gguf";
      ASSERT_TRUE(merge_model(*opened, merged, {}));
      expect_equal(*GgufFile::open(merged), original);
      EXPECT_EQ(std::filesystem::file_size(merged), std::filesystem::file_size(in));
    }
    for (size_t p = 0; p < parts.size(); ++p) std::filesystem::remove(part_path(p));
  }
}

TEST(Parts, CancellingLeavesNothing) {
  const GgufFile file = *GgufFile::open(write_model("stop.gguf"));
  const auto parts = divide(file.tensors(), {.max_tensors = 2});
  const auto stopped =
      split_model(file, parts, (scratch() / "stopped").string(), [](double fraction) { return fraction < 0.7; });
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
  EXPECT_THAT(leftovers(scratch() / "stopped"), IsEmpty());
}

// Each part writes `n_bytes` more than the last: a file size limit hits the later ones.
std::vector<PartFile> growing_parts(size_t n_parts, const std::string& prefix, std::span<const std::byte> bytes) {
  std::vector<PartFile> parts(n_parts);
  for (size_t p = 0; p < n_parts; ++p) {
    parts[p].path = scratch() / (prefix + std::to_string(p));
    parts[p].writer.add("general.architecture", "llama");
    parts[p].writer.add_tensor("x", DType::f32, Shape{static_cast<int64_t>((p + 1) * 1000)},
                               bytes.first((p + 1) * 4000));
  }
  return parts;
}

TEST(Parts, AFullDiskAtALaterPartLeavesTheOldSet) {
  const std::vector<std::byte> bytes(12000);
  for (size_t p = 0; p < 3; ++p) std::ofstream(scratch() / ("set" + std::to_string(p))) << "old";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10000, before.rlim_max};  // the third part does not fit
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto refused = write_together(growing_parts(3, "set", bytes));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_space);
  EXPECT_EQ(leftovers(scratch() / "set").size(), 3u);
  for (size_t p = 0; p < 3; ++p) EXPECT_EQ(std::filesystem::file_size(scratch() / ("set" + std::to_string(p))), 3u);
}

TEST(Parts, MoreThanFilesMayBeOpen) {
  const std::vector<std::byte> bytes(160000);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{24, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto written = write_together(growing_parts(40, "open", bytes));
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(leftovers(scratch() / "open").size(), 40u);
}

TEST(Parts, TooManyAreRefused) {
  const GgufFile file = *GgufFile::open(write_model("many.gguf"));
  const auto refused = split_model(file, std::vector<std::vector<size_t>>(70000), (scratch() / "many").string(), {});
  EXPECT_EQ(refused.error().code, ErrorCode::bad_argument);
}

TEST(Parts, PrefixIsTheNameWithoutItsEnd) {
  EXPECT_EQ(part_prefix("a/b.gguf"), "a/b");
  EXPECT_EQ(part_prefix("a/b"), "a/b");
}

}  // namespace
}  // namespace tokamak

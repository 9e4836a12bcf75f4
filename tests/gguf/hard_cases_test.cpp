// Inputs that broke other engines: cases 01, 02 and 05 of the project's list, and their kin.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include "gguf/raw_gguf_helpers.h"

namespace {
std::atomic<size_t> g_n_allocated = 0;  // bytes ever asked of operator new, by the whole program
}

[[gnu::noinline]] void* operator new(size_t n_bytes) {
  g_n_allocated += n_bytes;
  if (void* p = std::malloc(n_bytes ? n_bytes : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t n_bytes, const std::nothrow_t&) noexcept {
  g_n_allocated += n_bytes;
  return std::malloc(n_bytes ? n_bytes : 1);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace tokamak {
namespace {

using testing::RawGguf;
using ::testing::Test;
using testing::verdict;

constexpr uint64_t k2To63 = uint64_t{1} << 63;

void expect_refused(const RawGguf& file, std::string_view must_name) {
  const size_t before = g_n_allocated;
  const std::string text = verdict(file.bytes());
  EXPECT_LT(g_n_allocated - before, size_t{64} << 10) << text;
  EXPECT_NE(text, "ok");
  EXPECT_NE(text.find(must_name), text.npos) << text << " must name " << must_name;
}

TEST(HardCase01, ZeroInATensorShapeNamesTensorAndDimension) {
  const std::vector<std::vector<int64_t>> shapes = {{0, 8}, {8, 0}, {8, 1, 0}, {8, 1, 1, 0}};
  for (size_t dim_idx = 0; dim_idx < shapes.size(); ++dim_idx) {
    RawGguf file = RawGguf::header(1, 0).tensor("w", shapes[dim_idx], 0, 0);
    ASSERT_LT(file.bytes().size(), 120u);
    expect_refused(file, "tensor \"w\"");
    expect_refused(file, "dimension " + std::to_string(dim_idx) + " is 0");
  }
}

TEST(HardCase02, BadAlignmentNamesTheKey) {
  const std::string key = "general.alignment";
  expect_refused(RawGguf::header(0, 1).entry(key, GgufType::i32, 32), key);
  expect_refused(RawGguf::header(0, 1).string_entry(key, "32"), key);
  for (const uint32_t alignment : {0u, 1u, 4u, 48u, 32u << 20, 0x80000000u})
    expect_refused(RawGguf::header(0, 1).entry(key, GgufType::u32, alignment), key);
}

TEST(HardCase02, BadKeysAreNamed) {
  const auto with_key = [](std::string_view key) { return RawGguf::header(0, 1).entry(key, GgufType::u32, 1u); };
  expect_refused(with_key(""), "metadata entry 0");
  expect_refused(with_key(std::string(65535, 'k')), "key \"kkkk");
  expect_refused(with_key(std::string_view("na\0me", 5)), "key \"na\\x00me\"");
  expect_refused(with_key("na\xf0me"), "key \"na\\xf0me\"");
  expect_refused(RawGguf::header(0, 2).entry("twin", GgufType::u32, 1u).string_entry("twin", "x"), "key \"twin\"");
}

TEST(HardCase02, ArchitectureKeysOfWrongTypeOrRangeAreNamed) {
  RawGguf raw = RawGguf::header(0, 3);
  raw.string_entry("llama.block_count", "two").entry("llama.attention.head_count", GgufType::u32, 0u);
  raw.entry("llama.context_length", GgufType::i32, -4096);
  const auto file = GgufFile::parse(raw.bytes(), "f");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->get_u64("llama.block_count", 1, 512).error().message(),
            "f: key \"llama.block_count\", byte 49: has type string, must be an integer");
  EXPECT_EQ(file->get_u64("llama.attention.head_count", 1, 1024).error().message(),
            "f: key \"llama.attention.head_count\", byte 98: is 0, must be from 1 to 1024");
  EXPECT_EQ(file->get_u64("llama.context_length").error().message(),
            "f: key \"llama.context_length\", byte 134: is -4096, must be at least 0");
}

TEST(HardCase05, HugeCountsAreRefusedBeforeAnythingIsReserved) {
  const auto array = [](GgufType type, uint64_t n) {
    return RawGguf::header(0, 1).string("a").type(GgufType::array).type(type).number(n);
  };
  expect_refused(array(GgufType::u8, k2To63), "key \"a\"");
  expect_refused(array(GgufType::string, k2To63), "key \"a\"");
  expect_refused(array(GgufType::f64, std::numeric_limits<uint64_t>::max() / 8 + 2), "key \"a\"");
  expect_refused(array(GgufType::u8, 1000).zeros(999), "1000 elements");
  expect_refused(RawGguf::header(0, 1).entry("s", GgufType::string, k2To63), "key \"s\"");
  expect_refused(RawGguf::header(0, 1).number(k2To63).zeros(16), "metadata entry 0");
  expect_refused(RawGguf::header(k2To63, 0).zeros(16), "9223372036854775808 tensors");
  expect_refused(RawGguf::header(0, k2To63).zeros(16), "9223372036854775808 metadata entries");
  expect_refused(RawGguf::header(1, 0).tensor("w", {std::numeric_limits<int64_t>::max()}, 0, 0), "tensor \"w\"");
}

TEST(HardCase05, DeeplyNestedArraysAreRefusedAtTheFirstLevel) {
  RawGguf file = RawGguf::header(0, 1).string("a").type(GgufType::array);
  for (int depth = 0; depth < 50000; ++depth) file.type(GgufType::array).number(uint64_t{1});
  expect_refused(file.type(GgufType::u8).zeros(9), "arrays of arrays");
}

// Memory follows the bytes that are there, even when every one of them is a whole entry.
TEST(HardCase05, MemoryIsBoundedByTheFile) {
  constexpr size_t kStrings = 100000;
  const RawGguf file = RawGguf::header(0, 1)
                           .string("a")
                           .type(GgufType::array)
                           .type(GgufType::string)
                           .number(uint64_t{kStrings})
                           .zeros(8 * kStrings);
  const size_t before = g_n_allocated;
  EXPECT_EQ(verdict(file.bytes()), "ok");
  EXPECT_LT(g_n_allocated - before, 10 * file.bytes().size());
}

}  // namespace
}  // namespace tokamak

#include "base/buffer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace tokamak {
namespace {

TEST(Buffer, EmptyByDefaultAndForZeroBytes) {
  Buffer none;
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.data(), nullptr);
  const auto zero = Buffer::allocate(0);
  ASSERT_TRUE(zero);
  EXPECT_EQ(zero->size(), 0u);
  EXPECT_TRUE(zero->bytes().empty());
}

TEST(Buffer, IsZeroPageAlignedAndWritableToItsEnd) {
  for (size_t n_bytes : {size_t{1}, size_t{4096}, size_t{100'001}, (size_t{4} << 20) + 3}) {
    auto buffer = Buffer::allocate(n_bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->size(), n_bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), 0u);
    EXPECT_TRUE(std::ranges::all_of(buffer->bytes(), [](std::byte b) { return b == std::byte{0}; }));
    std::ranges::fill(buffer->bytes(), std::byte{0xAB});
    EXPECT_EQ(buffer->as<uint8_t>()[n_bytes - 1], 0xAB);
  }
}

TEST(Buffer, MovesItsMemory) {
  Buffer first = *Buffer::allocate(64);
  first.as<int>()[3] = 7;
  const std::byte* address = first.data();
  Buffer second = std::move(first);
  EXPECT_EQ(second.data(), address);
  EXPECT_EQ(second.size(), 64u);
  EXPECT_EQ(first.data(), nullptr);
  second = *Buffer::allocate(8);
  EXPECT_EQ(second.size(), 8u);
}

TEST(Buffer, SaysWhenThereIsNotEnoughMemory) {
  const auto huge = Buffer::allocate(std::numeric_limits<size_t>::max() / 2);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, ErrorCode::out_of_memory);
  EXPECT_FALSE(huge.error().hint.empty());
}

}  // namespace
}  // namespace tokamak

#include "backend/cpu/touch_ahead.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>

namespace tokamak::cpu {
namespace {

// Is the memory of this page of the cache there, as far as the system's pages inside it tell?
bool is_there(const KvPlane& plane, int64_t page) {
  const auto address = reinterpret_cast<uintptr_t>(plane.pages + page * plane.layout.page_bytes);
  unsigned char state = 0;
  EXPECT_EQ(mincore(reinterpret_cast<void*>((address + 4095) / 4096 * 4096), 1, &state), 0);
  return (state & 1) != 0;
}

TEST(TouchAhead, KeepsAHugePagePerPlaneAheadOfUse) {
  const std::array<KvLayerDims, 3> layers = {{{2, 128, 128}, {0, 0, 0}, {2, 128, 128}}};
  constexpr int64_t kPageSize = 64, kPages = 1024;  // 32 KB a page and plane: 64 make a huge page
  auto storage = KvStorage::create(layers, kPages, kPageSize, DType::f16);
  ASSERT_TRUE(storage);
  const KvPlane& last = storage->values(2);
  const auto written = storage->keys(0).pages + 40 * storage->keys(0).layout.page_bytes;
  *written = std::byte{7};
  TouchAhead ahead(*storage);
  ahead.wait();
  if (!is_there(last, 0)) GTEST_SKIP() << "the system cannot do it";
  EXPECT_TRUE(is_there(last, 63));
  EXPECT_FALSE(is_there(last, 256));
  EXPECT_EQ(*written, std::byte{7});
  ahead.use(200);
  ahead.wait();
  EXPECT_TRUE(is_there(last, 256));
  EXPECT_TRUE(is_there(storage->keys(0), 256));
  EXPECT_FALSE(is_there(last, 512));
  ahead.use(kPages - 1);
  ahead.wait();
  EXPECT_TRUE(is_there(last, kPages - 1));
  EXPECT_EQ(*written, std::byte{7});
}

TEST(TouchAhead, EndsInTheMiddle) {
  const std::array<KvLayerDims, 1> layers = {{{8, 128, 128}}};
  auto storage = KvStorage::create(layers, 4096, 64, DType::f16);
  ASSERT_TRUE(storage);
  TouchAhead ahead(*storage);
  ahead.use(4095);
}

}  // namespace
}  // namespace tokamak::cpu

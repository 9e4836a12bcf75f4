#include "engine/kv_pages.h"

#include <gtest/gtest.h>

#include <set>

namespace tokamak {
namespace {

TEST(KvPagesTest, PagesOfSequencesNeverOverlap) {
  KvPages pages(100, 16);
  const int32_t a = pages.add_sequence(), b = pages.add_sequence();
  ASSERT_TRUE(pages.extend(a, 20));
  ASSERT_TRUE(pages.extend(b, 33));
  ASSERT_TRUE(pages.extend(a, 30));
  std::set<int64_t> slots;
  for (int32_t seq_id : {a, b})
    for (int64_t p = 0; p < pages.n_tokens(seq_id); ++p) EXPECT_TRUE(slots.insert(pages.slot(seq_id, p)).second);
  EXPECT_EQ(slots.size(), 83u);
}

TEST(KvPagesTest, FullCacheIsRefusedAndUnchanged) {
  KvPages pages(100, 16);
  const int32_t a = pages.add_sequence();
  ASSERT_TRUE(pages.extend(a, 90));
  const auto refused = pages.extend(a, 11);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::context_full);
  EXPECT_EQ(pages.n_tokens(a), 90);
  EXPECT_TRUE(pages.extend(a, 10));
}

TEST(KvPagesTest, TruncatedPagesAreUsedAgain) {
  KvPages pages(64, 16);
  const int32_t a = pages.add_sequence();
  ASSERT_TRUE(pages.extend(a, 64));
  pages.truncate(a, 17);
  EXPECT_EQ(pages.pages(a).size(), 2u);
  EXPECT_EQ(pages.n_free_tokens(), 47);
  const int32_t b = pages.add_sequence();
  EXPECT_TRUE(pages.extend(b, 32));
  pages.free_sequence(a);
  EXPECT_EQ(pages.add_sequence(), a);
  EXPECT_EQ(pages.n_tokens(a), 0);
}

}  // namespace
}  // namespace tokamak

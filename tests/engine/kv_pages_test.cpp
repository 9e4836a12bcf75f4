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

TEST(KvPagesTest, SharedPagesAreFreeWhenTheLastHolderLetsGo) {
  KvPages pages(64, 16);
  const int32_t a = pages.add_sequence(), b = pages.add_sequence();
  ASSERT_TRUE(pages.extend(a, 40));
  const std::vector<int32_t> held(pages.pages(a).begin(), pages.pages(a).end());
  pages.retain(held[0]);
  pages.attach(b, std::span(held).first(2), 20);
  EXPECT_EQ(pages.n_tokens(b), 20);
  EXPECT_EQ(pages.n_free_pages(), 1);
  pages.free_sequence(a);
  EXPECT_EQ(pages.n_free_pages(), 2);
  EXPECT_EQ(pages.n_holders(held[0]), 2);
  pages.free_sequence(b);
  EXPECT_EQ(pages.n_free_pages(), 3);
  pages.release(held[0]);
  EXPECT_EQ(pages.n_free_pages(), 4);
  EXPECT_EQ(pages.n_free_tokens(), 64);
}

TEST(KvPagesTest, WhoWritesBehindASharedTokenGetsAPageOfItsOwn) {
  KvPages pages(64, 16);
  const int32_t a = pages.add_sequence(), b = pages.add_sequence();
  ASSERT_TRUE(pages.extend(a, 20));
  pages.attach(b, pages.pages(a), 20);
  EXPECT_EQ(pages.n_missing(b, 12), 1);
  EXPECT_EQ(pages.n_missing(b, 13), 2);
  const auto copy = pages.own_tail(b);
  ASSERT_TRUE(copy && *copy);
  EXPECT_EQ((*copy)->from, pages.pages(a)[1]);
  EXPECT_EQ((*copy)->to, pages.pages(b)[1]);
  EXPECT_NE((*copy)->to, (*copy)->from);
  EXPECT_EQ(pages.pages(a)[0], pages.pages(b)[0]);
  EXPECT_FALSE(*pages.own_tail(a)) << "nobody else reads it any more";
  EXPECT_EQ(pages.n_missing(b, 12), 0);
  // A whole page is never written to again.
  ASSERT_TRUE(pages.extend(a, 12));
  const int32_t c = pages.add_sequence();
  pages.attach(c, pages.pages(a), 32);
  EXPECT_FALSE(*pages.own_tail(c));
  EXPECT_EQ(pages.n_missing(c, 1), 1);
}

TEST(KvPagesTest, AFullCacheHasNoPageForACopy) {
  KvPages pages(32, 16);
  const int32_t a = pages.add_sequence(), b = pages.add_sequence();
  ASSERT_TRUE(pages.extend(a, 20));
  pages.attach(b, pages.pages(a), 20);
  const auto copy = pages.own_tail(b);
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code, ErrorCode::context_full);
  EXPECT_EQ(pages.pages(b)[1], pages.pages(a)[1]);
}

}  // namespace
}  // namespace tokamak

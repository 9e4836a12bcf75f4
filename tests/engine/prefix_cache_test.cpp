#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "support/tiny_model.h"

namespace tokamak {
namespace {

constexpr int64_t kPageSize = 16;
constexpr uint64_t kPageBytes = 1000;

// Memory of snapshots: counts, and fails the test when more is taken than allowed at any instant.
class LimitedMemory : public std::pmr::memory_resource {
 public:
  std::function<uint64_t()> allowed;
  uint64_t n_bytes = 0, n_allocations = 0;

 private:
  void* do_allocate(size_t n, size_t alignment) override {
    n_bytes += n;
    ++n_allocations;
    EXPECT_LE(n_bytes, allowed()) << "more snapshots than the cache may hold";
    return std::pmr::new_delete_resource()->allocate(n, alignment);
  }
  void do_deallocate(void* p, size_t n, size_t alignment) override {
    n_bytes -= n;
    std::pmr::new_delete_resource()->deallocate(p, n, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

class PrefixCacheTest : public testing::Test {
 protected:
  // n_pages in the KV cache; the prefix cache may hold as much as `max_pages` whole pages.
  void open(int64_t n_pages, double max_pages, int64_t max_tokens = 0, int64_t state_floats = 0) {
    pages_.emplace(n_pages * kPageSize, kPageSize);
    const auto max_bytes = static_cast<uint64_t>(max_pages * static_cast<double>(kPageBytes + kPageSize * 4));
    memory_.allowed = [this] { return cache_->max_bytes() - held_page_bytes(); };
    cache_.emplace(*pages_, PrefixCacheOptions{.max_bytes = max_bytes,
                                               .max_tokens = max_tokens,
                                               .page_bytes = kPageBytes,
                                               .state_floats = state_floats,
                                               .memory = &memory_});
  }
  // Pages that only the cache holds now, counted from outside.
  int64_t held_pages() const {
    int64_t n = 0;
    for (int32_t page = 0; page < n_pages(); ++page) n += pages_->n_holders(page) > 0 ? 1 : 0;
    for (const auto& [seq_id, mine] : sequences_) n -= static_cast<int64_t>(mine);
    return n;
  }
  uint64_t held_page_bytes() const { return static_cast<uint64_t>(held_pages()) * kPageBytes; }
  int32_t n_pages() const { return static_cast<int32_t>(n_pages_); }

  // A request from start to end: what is found is attached, the rest is "computed", and all is saved.
  PrefixCache::Match serve(const std::vector<int32_t>& tokens, PrefixCache::Saved expected = PrefixCache::Saved::saved,
                           const PrefixKey& key = {}) {
    const int32_t seq_id = pages_->add_sequence();
    PrefixCache::Match match = cache_->find(key, tokens, static_cast<int64_t>(tokens.size()) - 1);
    pages_->attach(seq_id, match.pages, match.n_tokens);
    const int64_t n_new = static_cast<int64_t>(tokens.size()) - match.n_tokens;
    cache_->reclaim(pages_->n_missing(seq_id, n_new));
    EXPECT_TRUE(pages_->own_tail(seq_id));
    EXPECT_TRUE(pages_->extend(seq_id, n_new));
    EXPECT_EQ(cache_->insert(key, tokens, pages_->pages(seq_id), state_of(tokens)), expected);
    pages_->free_sequence(seq_id);
    EXPECT_LE(cache_->n_bytes(), cache_->max_bytes());
    EXPECT_EQ(n_pages_ - pages_->n_free_pages(), count_pages()) << "a page is lost or held twice";
    return match;
  }
  int64_t count_pages() const {
    int64_t n = 0;
    for (int32_t page = 0; page < n_pages(); ++page) n += pages_->n_holders(page) > 0 ? 1 : 0;
    return n;
  }
  // A state that tells which tokens it stands for.
  static PrefixCache::ReadState state_of(const std::vector<int32_t>& tokens) {
    return [&tokens](std::span<float> out) {
      std::ranges::fill(out, 0.0f);
      for (size_t i = 0; i < tokens.size(); ++i)
        out[i % out.size()] += static_cast<float>((tokens[i] + 1) * static_cast<int32_t>(i + 1));
    };
  }

  int64_t n_pages_ = 64;
  std::optional<KvPages> pages_;
  LimitedMemory memory_;
  std::optional<PrefixCache> cache_;
  std::map<int32_t, size_t> sequences_;
};

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(PrefixCacheTest, WhatPromptsHaveInCommonIsFoundToTheToken) {
  open(64, 64);
  const auto common = test::random_tokens(40, 90, 1);
  const auto first = joined(common, {91, 1, 2, 3}), second = joined(common, {92, 1, 2, 3});
  EXPECT_EQ(serve(first).n_tokens, 0);
  const auto match = serve(second);
  EXPECT_EQ(match.n_tokens, 40);
  EXPECT_EQ(match.first_difference, 40);
  EXPECT_EQ(match.pages.size(), 3u);
  EXPECT_EQ(cache_->n_entries(), 2u);
  // Two whole pages in common, and an own third page each.
  EXPECT_EQ(n_pages_ - pages_->n_free_pages(), 4);
  const auto again = serve(second, PrefixCache::Saved::contained);
  EXPECT_EQ(again.n_tokens, 43) << "one token is always computed";
  EXPECT_EQ(again.first_difference, 44);
}

TEST_F(PrefixCacheTest, EntriesOfOtherTenantsAdaptersAndModelsAreNotSeen) {
  open(64, 64);
  const auto tokens = test::random_tokens(40, 90, 1);
  serve(tokens, PrefixCache::Saved::saved, {.tenant = "a"});
  for (const PrefixKey& key : {PrefixKey{}, PrefixKey{.tenant = "b"}, PrefixKey{.adapter = "x", .tenant = "a"},
                               PrefixKey{.model = "m", .tenant = "a"}})
    EXPECT_EQ(cache_->find(key, tokens, 39).first_difference, 0);
  EXPECT_EQ(cache_->find({.tenant = "a"}, tokens, 39).n_tokens, 39);
}

TEST_F(PrefixCacheTest, AnEntryLargerThanTheLimitDisturbsNothing) {
  open(64, 4);
  const auto small = test::random_tokens(30, 90, 1), large = test::random_tokens(70, 90, 2);
  serve(small);
  const uint64_t n_bytes = cache_->n_bytes();
  serve(large, PrefixCache::Saved::too_large);
  EXPECT_EQ(cache_->n_bytes(), n_bytes);
  EXPECT_EQ(cache_->find({}, small, 29).n_tokens, 29);
  // A longer prompt that begins with an entry, too.
  serve(joined(small, large), PrefixCache::Saved::too_large);
  EXPECT_EQ(cache_->n_bytes(), n_bytes);
}

TEST_F(PrefixCacheTest, TheLeastRecentlyUsedLeavesFirstAndTheCacheMayBecomeEmpty) {
  open(64, 6);
  const auto a = test::random_tokens(32, 90, 1), b = test::random_tokens(32, 90, 2), c = test::random_tokens(32, 90, 3);
  serve(a), serve(b), serve(c);
  cache_->find({}, a, 31);
  serve(test::random_tokens(32, 90, 4));
  EXPECT_EQ(cache_->find({}, b, 31).n_tokens, 0);
  EXPECT_EQ(cache_->find({}, a, 31).n_tokens, 31);
  EXPECT_EQ(cache_->find({}, c, 31).n_tokens, 31);
  serve(test::random_tokens(96, 90, 5));  // as large as the limit: all others leave
  EXPECT_EQ(cache_->n_entries(), 1u);
  EXPECT_TRUE(cache_->reclaim(n_pages_));
  EXPECT_EQ(cache_->n_bytes(), 0u);
  EXPECT_EQ(cache_->n_entries(), 0u);
}

TEST_F(PrefixCacheTest, AShorterEntryGivesWayToTheOneThatContainsIt) {
  open(64, 64);
  const auto tokens = test::random_tokens(45, 90, 1);
  serve({tokens.begin(), tokens.begin() + 37});
  serve(tokens);
  EXPECT_EQ(cache_->n_entries(), 1u);
  EXPECT_EQ(cache_->n_tokens(), 45);
  serve({tokens.begin(), tokens.begin() + 37}, PrefixCache::Saved::contained);
}

TEST_F(PrefixCacheTest, NothingIsSavedWithoutRoom) {
  open(64, 0);
  serve(test::random_tokens(5, 90, 1), PrefixCache::Saved::too_large);
  EXPECT_EQ(cache_->n_bytes(), 0u);
}

TEST_F(PrefixCacheTest, TheTokenLimitHoldsUnlessTheBytesAllowMore) {
  open(64, 2, 100);
  EXPECT_EQ(cache_->max_tokens(), 100);
  open(64, 20, 100);
  EXPECT_EQ(cache_->max_tokens(), 320);
  open(64, 5, 60);
  EXPECT_EQ(cache_->max_tokens(), 80);
}

TEST_F(PrefixCacheTest, StatesAreFoundAtTheirPositionsOnly) {
  open(64, 64, 0, 7);
  const auto tokens = test::random_tokens(100, 90, 1);
  for (const size_t n : {20, 33, 64}) serve({tokens.begin(), tokens.begin() + static_cast<int64_t>(n)});
  EXPECT_EQ(cache_->n_entries(), 1u);
  for (const auto& [asked, found] :
       std::map<int64_t, int64_t>{{10, 0}, {20, 20}, {32, 20}, {33, 33}, {63, 33}, {64, 64}, {99, 64}}) {
    const auto match = cache_->find({}, tokens, asked);
    EXPECT_EQ(match.n_tokens, found) << asked;
    EXPECT_EQ(match.first_difference, 64);
    if (found == 0) continue;
    std::vector<float> expected(7);
    state_of({tokens.begin(), tokens.begin() + found})(expected);
    EXPECT_EQ(std::vector<float>(match.state.begin(), match.state.end()), expected) << asked;
    EXPECT_EQ(static_cast<int64_t>(match.pages.size()), KvPages::n_pages(found, kPageSize));
  }
  // The tokens are there, the state is not.
  serve({tokens.begin(), tokens.begin() + 50});
  EXPECT_EQ(cache_->find({}, tokens, 55).n_tokens, 50);
}

// Conversations that grow, branch and are forgotten, under a limit of a few entries: the allocator and the count of
// pages are asked at every allocation, the books after every request.
TEST_F(PrefixCacheTest, LimitsHoldAtEveryInstantOfARandomLoad) {
  for (const int64_t state_floats : {int64_t{0}, int64_t{300}})
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      cache_.reset();
      open(64, 12, seed % 2 == 0 ? 150 : 0, state_floats);
      std::vector<std::vector<int32_t>> talks(4);
      uint64_t k = 0;
      size_t n_reused = 0;
      for (int i = 0; i < 200; ++i) {
        auto& talk = talks[static_cast<size_t>(uniform(seed, k++) * 4)];
        if (uniform(seed, k++) < 0.2) talk.resize(talk.size() / 2);
        const auto n_more = 1 + static_cast<size_t>(uniform(seed, k++) * 40);
        const auto more = test::random_tokens(n_more, 3, static_cast<uint32_t>(k));
        talk = joined(talk, more);
        if (talk.size() > 250) talk.resize(9);
        const int32_t seq_id = pages_->add_sequence();
        const auto match = cache_->find({}, talk, static_cast<int64_t>(talk.size()) - 1);
        n_reused += static_cast<size_t>(match.n_tokens);
        pages_->attach(seq_id, match.pages, match.n_tokens);
        const int64_t n_new = static_cast<int64_t>(talk.size()) - match.n_tokens;
        ASSERT_TRUE(cache_->reclaim(pages_->n_missing(seq_id, n_new)));
        ASSERT_TRUE(pages_->own_tail(seq_id));
        ASSERT_TRUE(pages_->extend(seq_id, n_new));
        sequences_ = {{seq_id, pages_->pages(seq_id).size()}};
        cache_->insert({}, talk, pages_->pages(seq_id), state_of(talk));
        pages_->free_sequence(seq_id);
        sequences_.clear();
        ASSERT_LE(cache_->n_bytes(), cache_->max_bytes());
        ASSERT_TRUE(cache_->max_tokens() == 0 || cache_->n_tokens() <= cache_->max_tokens());
        const uint64_t counted = held_page_bytes() + static_cast<uint64_t>(cache_->n_tokens()) * 4 + memory_.n_bytes;
        ASSERT_EQ(cache_->n_bytes(), counted) << "seed " << seed << " request " << i;
      }
      EXPECT_GT(n_reused, 1000u) << "the load is to find something";
      EXPECT_TRUE(state_floats == 0 || memory_.n_allocations > 50);
    }
}

TEST_F(PrefixCacheTest, WhatIsStoredCanBeReadWhateverCanBeTakenOver) {
  open(64, 20, 0, 8);
  const auto talk = test::random_tokens(40, 96, 1);
  serve(talk);
  const std::vector<int32_t> prefix(talk.begin(), talk.begin() + 20);
  serve(prefix);  // adds a state inside
  auto stored = cache_->stored({}, talk);
  EXPECT_EQ(stored.n_tokens, 40);
  EXPECT_EQ(stored.pages.size(), 3u);
  ASSERT_EQ(stored.states.size(), 2u);
  EXPECT_EQ(stored.states.begin()->first, 20);
  EXPECT_EQ(stored.states.rbegin()->first, 40);
  std::vector<float> expected(8);
  state_of(prefix)(expected);
  EXPECT_EQ(std::vector<float>(stored.states[20].begin(), stored.states[20].end()), expected);
  std::vector<int32_t> other = talk;
  other[18] += 1;
  stored = cache_->stored({}, other);
  EXPECT_EQ(stored.n_tokens, 18);
  EXPECT_TRUE(stored.states.empty());
  EXPECT_EQ(cache_->stored({.tenant = "x"}, talk).n_tokens, 0);
}

TEST_F(PrefixCacheTest, ErasingLeavesWhatOthersNeed) {
  open(64, 20);
  const auto common = test::random_tokens(32, 96, 1);
  auto a = common, b = common;
  for (const int32_t t : test::random_tokens(10, 96, 2)) a.push_back(t);
  for (const int32_t t : test::random_tokens(12, 96, 3)) b.push_back(t);
  b[32] = a[32];
  b[33] = a[33] + 1;
  serve(a);
  serve(b);
  EXPECT_EQ(cache_->erase({.tenant = "x"}, a), 0);
  EXPECT_EQ(cache_->erase({}, a), 10);
  EXPECT_EQ(cache_->erase({}, a), 0) << "what is left of it belongs to the other";
  EXPECT_EQ(cache_->find({}, b, 100).n_tokens, 44);
  EXPECT_EQ(cache_->erase({}, b), 44);
  EXPECT_EQ(cache_->n_bytes(), 0u);
  EXPECT_EQ(pages_->n_free_pages(), 64);
}

TEST_F(PrefixCacheTest, EntriesCanGrowBeforeTheirStatesAreKnown) {
  open(64, 20, 0, 8);
  const auto talk = test::random_tokens(40, 96, 1);
  const int32_t seq_id = pages_->add_sequence();
  ASSERT_TRUE(pages_->extend(seq_id, 40));
  const auto pages = pages_->pages(seq_id);
  const std::span<const int32_t> tokens(talk);
  EXPECT_EQ(cache_->insert({}, tokens.first(16), pages.first(1)), PrefixCache::Saved::saved);
  EXPECT_EQ(cache_->insert({}, tokens, pages), PrefixCache::Saved::saved);
  EXPECT_EQ(cache_->find({}, talk, 100).n_tokens, 0);
  EXPECT_EQ(cache_->stored({}, talk).n_tokens, 40);
  EXPECT_EQ(cache_->insert({}, tokens, pages, state_of(talk)), PrefixCache::Saved::saved);
  EXPECT_EQ(cache_->find({}, talk, 100).n_tokens, 40);
  EXPECT_LE(cache_->n_bytes(), cache_->entry_bytes(40, 1));
  pages_->free_sequence(seq_id);
}

}  // namespace
}  // namespace tokamak

#include "engine/kv_pages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/round_up.h"

namespace tokamak {

KvPages::KvPages(int64_t max_tokens, int64_t page_size) : page_size_(page_size), max_tokens_(max_tokens) {
  for (int64_t page = n_pages(max_tokens, page_size); page-- > 0;) free_.push_back(static_cast<int32_t>(page));
  n_holders_.resize(free_.size());
}

int32_t KvPages::take_page() {
  const int32_t page = free_.back();
  free_.pop_back();
  n_holders_[static_cast<size_t>(page)] = 1;
  return page;
}

void KvPages::retain(int32_t page) {
  CHECK(n_holders(page) > 0, page);
  ++n_holders_[static_cast<size_t>(page)];
}

void KvPages::release(int32_t page) {
  CHECK(n_holders(page) > 0, page);
  if (--n_holders_[static_cast<size_t>(page)] == 0) free_.push_back(page);
}

void KvPages::attach(int32_t seq_id, std::span<const int32_t> pages, int64_t n_tokens) {
  Sequence& sequence = sequences_[index_of(seq_id)];
  CHECK(sequence.n_tokens == 0 && static_cast<int64_t>(pages.size()) == n_pages(n_tokens, page_size_), seq_id,
        n_tokens);
  for (const int32_t page : pages) retain(page);
  sequence.pages.assign(pages.begin(), pages.end());
  sequence.n_tokens = sequence.n_attached = n_tokens;
}

Result<std::optional<KvPages::Copy>> KvPages::own_tail(int32_t seq_id) {
  Sequence& sequence = sequences_[index_of(seq_id)];
  const bool tail_is_full = sequence.n_tokens % page_size_ == 0;
  if (tail_is_full || n_holders(sequence.pages.back()) == 1) return std::optional<Copy>();
  if (free_.empty()) return full(sequence.n_tokens + 1);
  const Copy copy{.from = sequence.pages.back(), .to = take_page()};
  sequence.pages.back() = copy.to;
  release(copy.from);
  return std::optional(copy);
}

int64_t KvPages::n_missing(int32_t seq_id, int64_t n) const {
  const Sequence& sequence = sequences_[index_of(seq_id)];
  const bool tail_is_shared = sequence.n_tokens % page_size_ != 0 && n_holders(sequence.pages.back()) > 1;
  return n_pages(sequence.n_tokens + n, page_size_) - static_cast<int64_t>(sequence.pages.size()) +
         (tail_is_shared ? 1 : 0);
}

Error KvPages::full(int64_t n_wanted) const {
  const int64_t n_left = std::min(n_free_tokens(), n_free_pages() * page_size_);
  return {.code = ErrorCode::context_full,
          .what = fmt::format("{} tokens do not fit into the context of {} ({} are free)", n_wanted, max_tokens_,
                              std::max<int64_t>(n_left, 0)),
          .hint = "shorten the prompt or raise --ctx-size"};
}

int32_t KvPages::add_sequence() {
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].in_use) continue;
    sequences_[i].in_use = true;
    return static_cast<int32_t>(i);
  }
  sequences_.push_back({.in_use = true});
  return static_cast<int32_t>(sequences_.size() - 1);
}

size_t KvPages::index_of(int32_t seq_id) const {
  CHECK(contains(seq_id), seq_id);
  return static_cast<size_t>(seq_id);
}

int64_t KvPages::n_tokens(int32_t seq_id) const { return sequences_[index_of(seq_id)].n_tokens; }
std::span<const int32_t> KvPages::pages(int32_t seq_id) const { return sequences_[index_of(seq_id)].pages; }

void KvPages::free_sequence(int32_t seq_id) {
  truncate(seq_id, 0);
  sequences_[index_of(seq_id)].in_use = false;
}

Result<void> KvPages::extend(int32_t seq_id, int64_t n) {
  Sequence& sequence = sequences_[index_of(seq_id)];
  if (n > n_free_tokens()) return full(sequence.n_tokens + n);
  const int64_t wanted = div_round_up(sequence.n_tokens + n, page_size_);
  const int64_t missing = wanted - static_cast<int64_t>(sequence.pages.size());
  if (missing > n_free_pages()) return full(sequence.n_tokens + n);  // pages half used by other sequences
  for (int64_t i = 0; i < missing; ++i) sequence.pages.push_back(take_page());
  sequence.n_tokens += n;
  n_tokens_ += n;
  return {};
}

void KvPages::truncate(int32_t seq_id, int64_t n) {
  Sequence& sequence = sequences_[index_of(seq_id)];
  CHECK(n <= sequence.n_tokens, n, sequence.n_tokens);
  const auto keep = static_cast<size_t>(div_round_up(n, page_size_));
  while (sequence.pages.size() > keep) {
    release(sequence.pages.back());
    sequence.pages.pop_back();
  }
  const int64_t n_attached = std::min(sequence.n_attached, n);
  n_tokens_ -= (sequence.n_tokens - sequence.n_attached) - (n - n_attached);
  sequence.n_tokens = n;
  sequence.n_attached = n_attached;
}

}  // namespace tokamak

#include "engine/kv_pages.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/round_up.h"

namespace tokamak {

KvPages::KvPages(int64_t max_tokens, int64_t page_size) : page_size_(page_size), max_tokens_(max_tokens) {
  for (int64_t page = n_pages(max_tokens, page_size); page-- > 0;) free_.push_back(static_cast<int32_t>(page));
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
  const auto full = [&] {
    return Error{.code = ErrorCode::context_full,
                 .what = fmt::format("{} tokens do not fit into the context of {} ({} are free)", sequence.n_tokens + n,
                                     max_tokens_, n_free_tokens()),
                 .hint = "shorten the prompt or raise --ctx-size"};
  };
  if (n > n_free_tokens()) return full();
  const int64_t wanted = div_round_up(sequence.n_tokens + n, page_size_);
  const int64_t missing = wanted - static_cast<int64_t>(sequence.pages.size());
  if (missing > static_cast<int64_t>(free_.size())) return full();  // pages half used by other sequences
  for (int64_t i = 0; i < missing; ++i) {
    sequence.pages.push_back(free_.back());
    free_.pop_back();
  }
  sequence.n_tokens += n;
  n_tokens_ += n;
  return {};
}

void KvPages::truncate(int32_t seq_id, int64_t n) {
  Sequence& sequence = sequences_[index_of(seq_id)];
  CHECK(n <= sequence.n_tokens, n, sequence.n_tokens);
  const auto keep = static_cast<size_t>(div_round_up(n, page_size_));
  while (sequence.pages.size() > keep) {
    free_.push_back(sequence.pages.back());
    sequence.pages.pop_back();
  }
  n_tokens_ -= sequence.n_tokens - n;
  sequence.n_tokens = n;
}

}  // namespace tokamak

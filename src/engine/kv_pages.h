// Which pages of the KV cache belong to which sequence. Bookkeeping only: it holds no keys or values.
//
// A page may have several holders: sequences that begin with the same tokens, and the prefix cache. It is free when the
// last one lets go. Nobody writes to a page with several holders: see own_tail().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/round_up.h"

namespace tokamak {

class KvPages {
 public:
  // At most `max_tokens` over all sequences, in ceil(max_tokens / page_size) pages.
  KvPages(int64_t max_tokens, int64_t page_size);

  static int64_t n_pages(int64_t max_tokens, int64_t page_size) { return div_round_up(max_tokens, page_size); }

  // A new, empty sequence; ids of freed ones are used again.
  int32_t add_sequence();
  // True between add_sequence() and free_sequence(). All other functions CHECK it.
  bool contains(int32_t seq_id) const {
    return seq_id >= 0 && static_cast<size_t>(seq_id) < sequences_.size() &&
           sequences_[static_cast<size_t>(seq_id)].in_use;
  }
  void free_sequence(int32_t seq_id);

  // Another holder for the page, and one holder less. The page is in use (CHECKed).
  void retain(int32_t page);
  void release(int32_t page);
  int32_t n_holders(int32_t page) const { return n_holders_[static_cast<size_t>(page)]; }
  int64_t n_free_pages() const { return static_cast<int64_t>(free_.size()); }

  // The empty sequence becomes one more holder of `pages`, which hold its first n_tokens tokens.
  void attach(int32_t seq_id, std::span<const int32_t> pages, int64_t n_tokens);
  // To be called before a token is added. When it would be written to a page that has other holders, the sequence gets
  // a page of its own instead, and the caller copies one to the other. Errors: context_full, nothing is changed.
  struct Copy {
    int32_t from = 0, to = 0;
  };
  Result<std::optional<Copy>> own_tail(int32_t seq_id);

  // Free pages that own_tail() and extend(n) would take, n >= 1.
  int64_t n_missing(int32_t seq_id, int64_t n) const;

  // Tokens the sequence holds.
  int64_t n_tokens(int32_t seq_id) const;
  std::span<const int32_t> pages(int32_t seq_id) const;

  // Makes room for `n` more tokens. Fails with context_full and changes nothing when the cache is full.
  Result<void> extend(int32_t seq_id, int64_t n);
  // Keeps the first `n` tokens, n <= n_tokens.
  void truncate(int32_t seq_id, int64_t n);

  int64_t slot(int32_t seq_id, int64_t position) const {
    return pages(seq_id)[static_cast<size_t>(position / page_size_)] * page_size_ + position % page_size_;
  }
  int64_t n_free_tokens() const { return max_tokens_ - n_tokens_; }
  int64_t page_size() const { return page_size_; }

 private:
  struct Sequence {
    std::vector<int32_t> pages;
    int64_t n_tokens = 0;
    int64_t n_attached = 0;  // of these, those that came with attach(): they count once, for who made them
    bool in_use = false;
  };
  size_t index_of(int32_t seq_id) const;
  int32_t take_page();
  Error full(int64_t n_wanted) const;

  int64_t page_size_;
  int64_t max_tokens_;
  int64_t n_tokens_ = 0;            // over all sequences, attached ones left out
  std::vector<int32_t> free_;       // taken from the back: lowest page first
  std::vector<int32_t> n_holders_;  // by page
  std::vector<Sequence> sequences_;
};

}  // namespace tokamak

// Greedy pair merging, the core of byte-level BPE and of SentencePiece BPE: of all neighbours that may merge, the best
// pair merges first; of equal ones the leftmost.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tokamak {

struct MergeSymbol {
  int32_t id = -1;                  // token, or -1: none (never merges)
  uint32_t begin = 0, n_bytes = 0;  // its place in the text
  int32_t prev = -1, next = -1;
};

// Smaller is better; compared before the position.
struct MergeRank {
  uint64_t major = 0, minor = 0;
  friend auto operator<=>(const MergeRank&, const MergeRank&) = default;
};

struct MergeResult {
  int32_t id = -1;  // -1: the pair does not merge
  MergeRank rank;
};

namespace detail {
struct MergeCandidate {
  MergeRank rank;
  int32_t left, right;        // symbol indices
  int32_t left_id, right_id;  // their tokens when queued; stale when they changed since
  int32_t id;
};
struct WorseCandidate {
  bool operator()(const MergeCandidate& a, const MergeCandidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }
};
}  // namespace detail

// Reused between calls of one thread to save allocations.
struct MergeScratch {
  std::vector<MergeSymbol> symbols;  // in: the initial symbols in text order, links set by merge_pairs
  std::vector<detail::MergeCandidate> heap;
};

// lookup(left, right) -> MergeResult for two neighbouring symbols with ids >= 0.
// Afterwards the symbols reached from index 0 through `next` are the result. O(n log n) lookups.
template <class Lookup>
void merge_pairs(MergeScratch& scratch, const Lookup& lookup) {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  const int32_t n = static_cast<int32_t>(symbols.size());
  const auto candidate = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return false;
    const MergeSymbol &l = symbols[static_cast<size_t>(left)], &r = symbols[static_cast<size_t>(right)];
    if (l.id < 0 || r.id < 0) return false;
    const MergeResult merged = lookup(l, r);
    if (merged.id < 0) return false;
    heap.push_back({merged.rank, left, right, l.id, r.id, merged.id});
    return true;
  };
  const auto push = [&](int32_t left, int32_t right) {
    if (candidate(left, right)) std::push_heap(heap.begin(), heap.end(), detail::WorseCandidate{});
  };
  for (int32_t i = 0; i < n; ++i) {
    symbols[static_cast<size_t>(i)].prev = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < n ? i + 1 : -1;
  }
  for (int32_t i = 0; i + 1 < n; ++i) candidate(i, i + 1);
  std::make_heap(heap.begin(), heap.end(), detail::WorseCandidate{});
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), detail::WorseCandidate{});
    const detail::MergeCandidate best = heap.back();
    heap.pop_back();
    MergeSymbol &l = symbols[static_cast<size_t>(best.left)], &r = symbols[static_cast<size_t>(best.right)];
    if (l.id != best.left_id || r.id != best.right_id || l.next != best.right) continue;
    l.id = best.id;
    l.n_bytes += r.n_bytes;
    l.next = r.next;
    if (r.next >= 0) symbols[static_cast<size_t>(r.next)].prev = best.left;
    r.id = -1;
    push(l.prev, best.left);
    push(best.left, l.next);
  }
}

}  // namespace tokamak

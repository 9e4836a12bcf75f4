#include "grammar/char_set.h"

#include <algorithm>

#include "base/utf8.h"

namespace tokamak::grammar {

CharSet::CharSet(std::initializer_list<CharRange> ranges) : ranges_(ranges) { normalize(); }

void CharSet::add(char32_t first, char32_t last) {
  ranges_.push_back({first, last});
  normalize();
}

void CharSet::add(const CharSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalize();
}

void CharSet::normalize() {
  constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;
  std::vector<CharRange> valid;
  for (CharRange r : ranges_) {
    r.last = std::min(r.last, kMaxChar);
    if (r.first > r.last) continue;
    if (r.first < kFirstSurrogate) valid.push_back({r.first, std::min<char32_t>(r.last, kFirstSurrogate - 1)});
    if (r.last > kLastSurrogate) valid.push_back({std::max<char32_t>(r.first, kLastSurrogate + 1), r.last});
  }
  std::sort(valid.begin(), valid.end(), [](CharRange a, CharRange b) { return a.first < b.first; });
  ranges_.clear();
  for (const CharRange& r : valid) {
    if (!ranges_.empty() && r.first <= ranges_.back().last + 1)
      ranges_.back().last = std::max(ranges_.back().last, r.last);
    else
      ranges_.push_back(r);
  }
}

CharSet CharSet::complement() const {
  CharSet out;
  char32_t next = 0;
  for (const CharRange& r : ranges_) {
    if (r.first > next) out.ranges_.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= kMaxChar) out.ranges_.push_back({next, kMaxChar});
  out.normalize();
  return out;
}

CharSet CharSet::intersect(const CharSet& other) const {
  CharSet out;
  size_t i = 0, j = 0;
  while (i < ranges_.size() && j < other.ranges_.size()) {
    const CharRange a = ranges_[i], b = other.ranges_[j];
    if (std::max(a.first, b.first) <= std::min(a.last, b.last))
      out.ranges_.push_back({std::max(a.first, b.first), std::min(a.last, b.last)});
    a.last < b.last ? ++i : ++j;
  }
  out.normalize();
  return out;
}

bool CharSet::contains(char32_t c) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), c,
                                      [](char32_t value, const CharRange& r) { return value < r.first; });
  return after != ranges_.begin() && c <= std::prev(after)->last;
}

namespace {

ByteRun run_of(char32_t first, char32_t last) {
  std::string a, b;
  append_utf8(a, first);
  append_utf8(b, last);
  ByteRun run{.n_bytes = static_cast<uint8_t>(a.size()), .lo = {}, .hi = {}};
  for (size_t i = 0; i < a.size(); ++i) {
    run.lo[i] = static_cast<uint8_t>(a[i]);
    run.hi[i] = static_cast<uint8_t>(b[i]);
  }
  return run;
}

// A range is one run when, below the first byte in which its ends differ, it spans every continuation byte.
// Returns the last character of the longest run that starts at `first`.
char32_t run_end(char32_t first, char32_t last) {
  for (const char32_t top : {0x7F, 0x7FF, 0xFFFF})  // all spellings of a run have one length
    if (first <= top && last > top) last = top;
  for (const int shift : {18, 12, 6}) {
    const char32_t low = (char32_t{1} << shift) - 1;
    if (first <= 0x7F || (first >> shift) == (last >> shift)) continue;
    if (first & low) return run_end(first, first | low);
    if ((last & low) != low) last = (last & ~low) - 1;
    return last;
  }
  return last;
}

}  // namespace

std::vector<ByteRun> utf8_runs(CharRange range) {
  std::vector<ByteRun> runs;
  while (range.first <= range.last) {
    const char32_t last = run_end(range.first, range.last);
    runs.push_back(run_of(range.first, last));
    range.first = last + 1;
  }
  return runs;
}

}  // namespace tokamak::grammar

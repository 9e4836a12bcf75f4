// Sets of Unicode scalar values, and the byte sequences that spell them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tokamak::grammar {

inline constexpr char32_t kMaxChar = 0x10FFFF;

struct CharRange {
  char32_t first, last;  // inclusive
  bool operator==(const CharRange&) const = default;
};

// Sorted, disjoint, not adjacent; surrogates are never members.
class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges);
  static CharSet all() { return {{0, kMaxChar}}; }

  void add(char32_t first, char32_t last);
  void add(const CharSet& other);
  CharSet complement() const;
  CharSet intersect(const CharSet& other) const;
  CharSet minus(const CharSet& other) const { return intersect(other.complement()); }
  bool contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CharRange>& ranges() const { return ranges_; }
  bool operator==(const CharSet&) const = default;

 private:
  void normalize();
  std::vector<CharRange> ranges_;
};

// One run of UTF-8 sequences: byte i of a sequence is any of lo[i] .. hi[i].
struct ByteRun {
  uint8_t n_bytes;
  uint8_t lo[4], hi[4];
};

// Runs that together are exactly the UTF-8 spellings of the range. The range must not touch surrogates.
std::vector<ByteRun> utf8_runs(CharRange range);

}  // namespace tokamak::grammar

// Finds the ends of many byte strings in a stream, one byte at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tokamak {

// The automaton of Aho & Corasick 1975, "Efficient string matching: an aid to bibliographic search": its state is the
// longest suffix of the text that begins a pattern. Immutable, shared between threads; memory is linear in the bytes
// of the patterns, a step costs amortised constant time.
class PatternMatcher {
 public:
  using State = uint32_t;
  static constexpr State kStart = 0;
  static constexpr int kNone = -1;

  // Patterns are not empty (CHECKed). Of equal patterns only the first is ever reported.
  explicit PatternMatcher(std::span<const std::string> patterns);

  State step(State state, uint8_t byte) const;
  // Bytes at the end of the text that may still become a pattern.
  size_t n_held(State state) const { return nodes_[state].depth; }
  // Index of the longest pattern that ends here, or kNone.
  int match(State state) const { return nodes_[state].match; }
  // The longest other pattern that ends wherever `pattern` does, or kNone.
  int next_match(int pattern) const { return shorter_[static_cast<size_t>(pattern)]; }

 private:
  struct Node {
    State fail = kStart;                                // the longest proper suffix of this prefix that is a prefix too
    State first_child = kStart, next_sibling = kStart;  // kStart: none
    uint32_t depth = 0;
    int match = kNone;
    uint8_t byte = 0;
  };

  State child(State state, uint8_t byte) const;
  void insert(const std::string& pattern, int index);
  void link();

  std::vector<Node> nodes_;
  std::array<State, 256> roots_{};  // children of the start, the only node with many
  std::vector<int> shorter_;
};

}  // namespace tokamak

#include "engine/output/pattern_matcher.h"

#include "base/check.h"

namespace tokamak {

PatternMatcher::PatternMatcher(std::span<const std::string> patterns) : nodes_(1), shorter_(patterns.size(), kNone) {
  for (size_t i = 0; i < patterns.size(); ++i) {
    CHECK(!patterns[i].empty(), i);
    insert(patterns[i], static_cast<int>(i));
  }
  link();
}

PatternMatcher::State PatternMatcher::child(State state, uint8_t byte) const {
  if (state == kStart) return roots_[byte];
  State node = nodes_[state].first_child;
  while (node != kStart && nodes_[node].byte != byte) node = nodes_[node].next_sibling;
  return node;
}

void PatternMatcher::insert(const std::string& pattern, int index) {
  State state = kStart;
  for (char c : pattern) {
    const auto byte = static_cast<uint8_t>(c);
    State next = child(state, byte);
    if (next == kStart) {
      next = static_cast<State>(nodes_.size());
      nodes_.push_back({.next_sibling = nodes_[state].first_child, .depth = nodes_[state].depth + 1, .byte = byte});
      nodes_[state].first_child = next;
      if (state == kStart) roots_[byte] = next;
    }
    state = next;
  }
  if (nodes_[state].match == kNone) nodes_[state].match = index;
}

// Breadth first, so that the links of all shorter prefixes are known.
void PatternMatcher::link() {
  std::vector<State> queue = {kStart};
  for (size_t i = 0; i < queue.size(); ++i) {
    const State parent = queue[i];
    for (State node = nodes_[parent].first_child; node != kStart; node = nodes_[node].next_sibling) {
      const State fail = parent == kStart ? kStart : step(nodes_[parent].fail, nodes_[node].byte);
      nodes_[node].fail = fail;
      if (nodes_[node].match == kNone)
        nodes_[node].match = nodes_[fail].match;
      else
        shorter_[static_cast<size_t>(nodes_[node].match)] = nodes_[fail].match;
      queue.push_back(node);
    }
  }
}

PatternMatcher::State PatternMatcher::step(State state, uint8_t byte) const {
  for (;;) {
    const State next = child(state, byte);
    if (next != kStart || state == kStart) return next;
    state = nodes_[state].fail;
  }
}

}  // namespace tokamak

// Walks the tree of token bytes with the readings of an automaton, remembering which byte leads from which set of
// readings to which (a deterministic automaton, made as far as it is needed).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/machine.h"
#include "grammar/vocab_trie.h"

namespace tokamak::grammar {

class Walker {
 public:
  // Nodes that the walk makes are appended to `stacks`; the caller truncates.
  Walker(Machine& machine, Stacks& stacks) : machine_(machine), stacks_(stacks), max_work_(machine.work() + kMaxWork) {}

  struct Set {
    std::vector<Config> configs;
    std::vector<Bottom> bottoms;
    std::vector<Bottom> needs;  // what the start count must fulfil for some config to be there; none dominates another
    std::unique_ptr<std::array<int32_t, 256>> next;
  };

  // Index of the set; only that of the first one outlives a walk.
  uint32_t add(const Readings& readings);
  const Set& set(uint32_t index) const { return *sets_[index]; }

  // visit(node, set) for every node below `root` (itself excluded) that is reached with readings. Gives up silently
  // when the work passes a limit that only absurdly ambiguous grammars reach: fewer tokens are found then.
  template <class Visit>
  void walk(const VocabTrie& trie, uint32_t root, uint32_t set, Visit visit) {
    path_.assign(1, {trie.after(root), set});
    for (uint32_t node = root + 1; node < trie.after(root);) {
      while (node >= path_.back().end) path_.pop_back();
      const int32_t next = step(path_.back().set, trie.byte(node));
      if (next < 0) {
        node = trie.after(node);
        continue;
      }
      visit(node, static_cast<uint32_t>(next));
      path_.push_back({trie.after(node), static_cast<uint32_t>(next)});
      ++node;
    }
  }

 private:
  static constexpr int32_t kDead = -1, kUnknown = -2;
  static constexpr size_t kMaxSets = 8192;
  static constexpr uint64_t kMaxWork = 10'000'000;  // readings looked at in one walker, about half a second

  struct Place {
    uint32_t end;
    uint32_t set;
  };

  int32_t step(uint32_t set, uint8_t byte) {
    if (sets_[set]->next) [[likely]]
      if (const int32_t next = (*sets_[set]->next)[byte]; next != kUnknown) return next;
    return step_slowly(set, byte);
  }
  int32_t step_slowly(uint32_t set, uint8_t byte);
  void unify_nodes(uint32_t first_new);
  void forget();

  Machine& machine_;
  Stacks& stacks_;
  Readings readings_;
  std::vector<std::unique_ptr<Set>> sets_;
  std::unordered_map<std::string, uint32_t> index_;  // readings as bytes -> set
  std::unordered_map<std::string, uint32_t> nodes_;  // frames as bytes -> stack node
  std::vector<Place> path_;
  uint64_t max_work_;
};

}  // namespace tokamak::grammar

// Which tokens one state of one rule takes, whatever lies below it on the stack: computed once, used at every step.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/machine.h"
#include "grammar/vocab_trie.h"

namespace tokamak::grammar {

// In a counted state the answer depends on the count, but only through thresholds: a token that begins k iterations
// needs room >= k, and one that ends the repetition after k needs need <= k. So one walk with an unknown count serves
// all counts.
struct LocalMask {
  struct Group {
    Bottom when;                 // room >= a and need <= b
    std::vector<uint64_t> bits;  // one of the two is empty
    std::vector<int32_t> tokens;
  };
  // At this node of the tree the rule may be complete: what follows depends on the stack.
  struct Escape {
    uint32_t node;
    Bottom when;
  };
  std::vector<Group> groups;
  std::vector<Escape> escapes;

  size_t n_bytes() const;
};

inline bool holds(const Bottom& when, const Count& count) {
  return count.room >= when.a && (when.b == kAnyNeed || count.need <= when.b);
}

// The state must have byte edges.
std::shared_ptr<const LocalMask> make_local_mask(const Program& program, uint32_t state, const VocabTrie& trie);

// Bounded by bytes; the least recently used go first. Thread-safe.
class MaskCache {
 public:
  explicit MaskCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Equal rules of different grammars share their masks, if the rules call no others.
  std::shared_ptr<const LocalMask> get(const Program& program, uint32_t state, const VocabTrie& trie);
  bool has(const Program& program, uint32_t state);
  size_t n_bytes();

 private:
  struct Key {
    uint64_t program;
    uint32_t state;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return key.program * 0x9E3779B97F4A7C15ull + key.state * 0xC2B2AE3D27D4EB4Full;
    }
  };
  struct Entry {
    Key key;
    std::shared_ptr<const LocalMask> mask;
    size_t n_bytes;
  };

  std::shared_ptr<const LocalMask> find(const Key& key);
  void insert(const Key& key, const std::shared_ptr<const LocalMask>& mask);

  std::mutex mutex_;
  size_t max_bytes_, n_bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<Key, std::list<Entry>::iterator, Hash> index_;
  std::unordered_map<std::string, std::weak_ptr<const LocalMask>> shared_;  // by content of the rule and state
};

}  // namespace tokamak::grammar

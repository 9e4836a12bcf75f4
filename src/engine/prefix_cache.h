// Prompts and answers of the past, kept as pages of the KV cache: a radix tree over token ids, one page per node.
//
// Terms. An entry is the way from a root to a leaf: all tokens of one finished request, or the beginning that others
// left of it. Roots are separate for every model, adapter and tenant. A page belongs to the cache and to the sequences
// that use it at the same time (KvPages counts the holders); only whole pages are shared by writers, who copy the last
// one when they go on inside it. Models with recurrent layers need the state after the last token too: a snapshot, on
// the host, at some positions of an entry; such an entry can be used at these positions only.
//
// What saving does, in this order: (1) an entry that is there already is only touched; (2) one that by itself is larger
// than a limit is not saved, and nothing else changes; (3) entries that the new one contains give way to it; (4) the
// least recently used leave until the new one fits; (5) only then it takes pages and memory. So the limits hold at
// every instant, and the cache may become empty. Not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_pages.h"

namespace tokamak {

struct PrefixKey {
  std::string model, adapter, tenant;
  friend auto operator<=>(const PrefixKey&, const PrefixKey&) = default;
};

struct PrefixCacheOptions {
  uint64_t max_bytes = 0;  // of pages, token ids and snapshots together; 0: nothing is ever saved
  // Most tokens; 0: no limit of its own. When max_bytes has room for more tokens, those count.
  int64_t max_tokens = 0;
  uint64_t page_bytes = 0;
  int64_t state_floats = 0;  // of a snapshot; 0: the model has no recurrent layers
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();  // of snapshots
};

class PrefixCache {
 public:
  // Without an end of their lives: `pages` must outlive the cache.
  PrefixCache(KvPages& pages, const PrefixCacheOptions& options);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Match {
    int64_t n_tokens = 0;          // that can be taken over
    int64_t first_difference = 0;  // tokens in common with the nearest entry; tokens.size() if it has all
    std::vector<int32_t> pages;    // of n_tokens; valid until the next call
    std::span<const float> state;  // after n_tokens; empty without recurrent layers
  };
  // The best beginning of `tokens`, at most max_tokens long, and marks it as used.
  Match find(const PrefixKey& key, std::span<const int32_t> tokens, int64_t max_tokens);

  enum class Saved : uint8_t { saved, contained, too_large };
  // `pages` hold the keys and values of `tokens`. With recurrent layers read_state writes the state after the last one;
  // an entry without it is of use only once others add states to it.
  using ReadState = std::function<void(std::span<float> out)>;
  Saved insert(const PrefixKey& key, std::span<const int32_t> tokens, std::span<const int32_t> pages,
               const ReadState& read_state = {});

  // The longest beginning of `tokens` that the cache holds, and all snapshots in it, by position; for saving it
  // elsewhere. Valid until the next call. Marks it as used.
  struct Stored {
    int64_t n_tokens = 0;
    std::vector<int32_t> pages;  // of n_tokens
    std::map<int64_t, std::span<const float>> states;
  };
  Stored stored(const PrefixKey& key, std::span<const int32_t> tokens);
  // Most bytes that an entry of so many tokens and snapshots takes, were it alone.
  uint64_t entry_bytes(int64_t n_tokens, int64_t n_states) const;
  // Removes `tokens` from the end, back to where another entry branches off. Returns how many tokens are gone.
  int64_t erase(const PrefixKey& key, std::span<const int32_t> tokens);

  // Lets least recently used pages go until `n_pages` are free in KvPages; false when that cannot be reached.
  bool reclaim(int64_t n_pages);
  // Pages that would be free if the cache were empty.
  int64_t n_reclaimable_pages() const;
  void clear();

  uint64_t n_bytes() const { return n_bytes_; }
  uint64_t max_bytes() const { return options_.max_bytes; }
  int64_t n_tokens() const { return n_tokens_; }
  int64_t max_tokens() const;  // in force; 0: none
  size_t n_entries() const { return leaves_.size(); }

 private:
  using State = std::pmr::vector<float>;
  using States = std::map<int64_t, State>;
  struct Node {
    std::vector<int32_t> tokens;  // at most a page; fewer only in leaves
    int32_t page = -1;
    Node* parent = nullptr;                                  // nullptr: a root, which has no page
    std::multimap<int32_t, std::unique_ptr<Node>> children;  // by their first token
    States states;      // snapshots, by the number of tokens of the node before them
    uint64_t used = 0;  // larger is later; unique
  };
  struct Path {
    std::vector<Node*> nodes;  // whole pages in common, from below the root
    Node* tail = nullptr;      // the child that shares most of what follows
    int64_t n_tail = 0;        // tokens in common with it
  };
  Path walk(Node& root, std::span<const int32_t> tokens) const;
  bool holds(const Path& path, std::span<const int32_t> tokens) const;
  uint64_t entry_bytes(const Path& path, int64_t n_tokens) const;
  uint64_t node_bytes(int64_t n_tokens) const;
  uint64_t state_bytes() const { return static_cast<uint64_t>(options_.state_floats) * sizeof(float); }
  void add_state(Node& node, int64_t n_tokens, const ReadState& read_state);
  void touch(Node* leaf);
  void remove(Node* leaf);
  void make_room(uint64_t n_bytes, int64_t n_tokens);
  States drop_contained(const Path& path);
  Node* append(Node* parent, std::span<const int32_t> tokens, std::span<const int32_t> pages, States states);

  KvPages& pages_;
  PrefixCacheOptions options_;
  std::map<PrefixKey, std::unique_ptr<Node>> roots_;
  std::map<uint64_t, Node*> leaves_;  // by Node::used
  uint64_t clock_ = 0;
  uint64_t n_bytes_ = 0;
  int64_t n_tokens_ = 0;
};

}  // namespace tokamak

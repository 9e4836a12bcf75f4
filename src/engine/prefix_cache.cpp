#include "engine/prefix_cache.h"

#include <algorithm>

#include "base/check.h"

namespace tokamak {

namespace {
int64_t n_common(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}
int64_t size_of(std::span<const int32_t> tokens) { return static_cast<int64_t>(tokens.size()); }
}  // namespace

PrefixCache::PrefixCache(KvPages& pages, const PrefixCacheOptions& options) : pages_(pages), options_(options) {}
PrefixCache::~PrefixCache() { clear(); }

uint64_t PrefixCache::node_bytes(int64_t n_tokens) const {
  return options_.page_bytes + static_cast<uint64_t>(n_tokens) * sizeof(int32_t);
}

int64_t PrefixCache::max_tokens() const {
  if (options_.max_tokens == 0) return 0;
  const uint64_t by_bytes = options_.max_bytes / std::max<uint64_t>(node_bytes(pages_.page_size()), 1) *
                            static_cast<uint64_t>(pages_.page_size());
  return std::max(options_.max_tokens, static_cast<int64_t>(std::min<uint64_t>(by_bytes, INT64_MAX)));
}

PrefixCache::Path PrefixCache::walk(Node& root, std::span<const int32_t> tokens) const {
  Path path;
  Node* node = &root;
  while (!tokens.empty()) {
    Node* best = nullptr;
    int64_t n_best = 0;
    const auto [begin, end] = node->children.equal_range(tokens[0]);
    for (auto it = begin; it != end; ++it)
      if (const int64_t n = n_common(it->second->tokens, tokens); n > n_best) best = it->second.get(), n_best = n;
    if (n_best < pages_.page_size()) {
      path.tail = best;
      path.n_tail = n_best;
      return path;
    }
    path.nodes.push_back(best);
    node = best;
    tokens = tokens.subspan(static_cast<size_t>(n_best));
  }
  return path;
}

PrefixCache::Match PrefixCache::find(const PrefixKey& key, std::span<const int32_t> tokens, int64_t max_tokens) {
  const auto root = roots_.find(key);
  if (root == roots_.end()) return {};
  Path path = walk(*root->second, tokens);
  Match match;
  const int64_t page_size = pages_.page_size(), n_whole = static_cast<int64_t>(path.nodes.size()) * page_size;
  match.first_difference = n_whole + path.n_tail;
  const int64_t n_most = std::min(match.first_difference, max_tokens);
  if (path.n_tail > 0) path.nodes.push_back(path.tail);
  if (options_.state_floats == 0) match.n_tokens = n_most;
  for (size_t i = 0; i < path.nodes.size(); ++i)
    for (const auto& [n, state] : path.nodes[i]->states)
      if (const int64_t position = static_cast<int64_t>(i) * page_size + n; position <= n_most) {
        match.n_tokens = position;
        match.state = state;
      }
  const auto n_pages = static_cast<size_t>(KvPages::n_pages(match.n_tokens, page_size));
  for (size_t i = 0; i < n_pages; ++i) match.pages.push_back(path.nodes[i]->page);
  if (n_pages > 0) touch(path.nodes[n_pages - 1]);
  return match;
}

// All tokens are on the path, with a snapshot behind them where one is needed.
bool PrefixCache::holds(const Path& path, std::span<const int32_t> tokens) const {
  const int64_t n_whole = static_cast<int64_t>(path.nodes.size()) * pages_.page_size();
  if (n_whole + path.n_tail < size_of(tokens)) return false;
  if (options_.state_floats == 0) return true;
  const Node* last = path.n_tail > 0 ? path.tail : path.nodes.back();
  return last->states.contains(path.n_tail > 0 ? path.n_tail : pages_.page_size());
}

// Everything that the entry for `n_tokens` tokens will hold, what it shares with others included.
uint64_t PrefixCache::entry_bytes(const Path& path, int64_t n_tokens) const {
  const int64_t page_size = pages_.page_size(), n_whole = static_cast<int64_t>(path.nodes.size()) * page_size;
  const bool has_all = n_whole + path.n_tail == n_tokens;
  const int64_t n_ids = has_all && path.n_tail > 0 ? n_whole + size_of(path.tail->tokens) : n_tokens;
  uint64_t n = static_cast<uint64_t>(KvPages::n_pages(n_tokens, page_size)) * options_.page_bytes +
               static_cast<uint64_t>(n_ids) * sizeof(int32_t) + state_bytes();
  for (const Node* node : path.nodes) n += node->states.size() * state_bytes();
  if (path.n_tail > 0) n += path.tail->states.size() * state_bytes();
  return n;
}

uint64_t PrefixCache::entry_bytes(int64_t n_tokens, int64_t n_states) const {
  return static_cast<uint64_t>(KvPages::n_pages(n_tokens, pages_.page_size())) * options_.page_bytes +
         static_cast<uint64_t>(n_tokens) * sizeof(int32_t) + static_cast<uint64_t>(n_states) * state_bytes();
}

void PrefixCache::touch(Node* node) {
  // From the end to the root, so that the end of an entry leaves before its beginning.
  for (; node->parent != nullptr; node = node->parent) {
    const bool is_leaf = leaves_.erase(node->used) > 0;
    node->used = ++clock_;
    if (is_leaf) leaves_.emplace(node->used, node);
  }
}

void PrefixCache::remove(Node* leaf) {
  CHECK(leaf->children.empty() && leaf->parent != nullptr);
  Node* parent = leaf->parent;
  leaves_.erase(leaf->used);
  pages_.release(leaf->page);
  n_tokens_ -= size_of(leaf->tokens);
  n_bytes_ -= node_bytes(size_of(leaf->tokens)) + leaf->states.size() * state_bytes();
  const auto [begin, end] = parent->children.equal_range(leaf->tokens[0]);
  parent->children.erase(std::find_if(begin, end, [&](const auto& child) { return child.second.get() == leaf; }));
  if (parent->parent != nullptr && parent->children.empty()) leaves_.emplace(parent->used, parent);
}

void PrefixCache::make_room(uint64_t n_bytes, int64_t n_tokens) {
  const int64_t token_limit = max_tokens();
  const auto fits = [&] {
    return n_bytes_ + n_bytes <= options_.max_bytes && (token_limit == 0 || n_tokens_ + n_tokens <= token_limit);
  };
  while (!fits()) {
    CHECK(!leaves_.empty(), n_bytes_, n_bytes);
    remove(leaves_.begin()->second);
  }
}

void PrefixCache::add_state(Node& node, int64_t n_tokens, const ReadState& read_state) {
  State state(static_cast<size_t>(options_.state_floats), options_.memory);
  read_state(state);
  n_bytes_ += state_bytes();
  node.states.emplace(n_tokens, std::move(state));
}

// An entry that ends inside the page where the new one goes on. Its snapshots are handed on.
PrefixCache::States PrefixCache::drop_contained(const Path& path) {
  States kept;
  if (path.n_tail == 0 || path.n_tail < size_of(path.tail->tokens)) return kept;
  kept.swap(path.tail->states);  // n_bytes_ goes on counting them
  remove(path.tail);
  return kept;
}

PrefixCache::Node* PrefixCache::append(Node* parent, std::span<const int32_t> tokens, std::span<const int32_t> pages,
                                       States states) {
  leaves_.erase(parent->used);
  for (const int32_t page : pages) {
    const size_t n = std::min(tokens.size(), static_cast<size_t>(pages_.page_size()));
    auto node = std::make_unique<Node>();
    node->tokens.assign(tokens.begin(), tokens.begin() + static_cast<int64_t>(n));
    node->page = page;
    node->parent = parent;
    node->states.swap(states);
    pages_.retain(page);
    n_bytes_ += node_bytes(static_cast<int64_t>(n));
    n_tokens_ += static_cast<int64_t>(n);
    parent = parent->children.emplace(tokens[0], std::move(node))->second.get();
    tokens = tokens.subspan(n);
  }
  parent->used = ++clock_;
  leaves_.emplace(parent->used, parent);
  touch(parent);
  return parent;
}

PrefixCache::Saved PrefixCache::insert(const PrefixKey& key, std::span<const int32_t> tokens,
                                       std::span<const int32_t> pages, const ReadState& read_state) {
  const int64_t page_size = pages_.page_size(), n_tokens = size_of(tokens);
  CHECK(n_tokens > 0 && size_of(pages) == KvPages::n_pages(n_tokens, page_size), n_tokens, pages.size());
  std::erase_if(roots_, [&](const auto& root) { return root.second->children.empty(); });
  std::unique_ptr<Node>& root = roots_[key];
  if (!root) root = std::make_unique<Node>();
  const Path path = walk(*root, tokens);
  const auto n_whole = static_cast<int64_t>(path.nodes.size());
  Node* parent = path.nodes.empty() ? root.get() : path.nodes.back();
  Node* end = path.n_tail > 0 ? path.tail : parent;
  if (holds(path, tokens)) return touch(end), Saved::contained;
  const int64_t token_limit = max_tokens();
  if (entry_bytes(path, n_tokens) > options_.max_bytes || (token_limit > 0 && n_tokens > token_limit))
    return Saved::too_large;

  const std::span<const int32_t> rest = tokens.subspan(static_cast<size_t>(n_whole * page_size));
  const bool only_state = path.n_tail == size_of(rest);
  // What the new entry builds on is the last to leave from here on, and with the new part it is within the limits.
  touch(only_state ? end : parent);
  if (!only_state) {
    States kept = drop_contained(path);
    uint64_t n_bytes = state_bytes();
    for (int64_t n = 0; n < size_of(rest); n += page_size)
      n_bytes += node_bytes(std::min(page_size, size_of(rest) - n));
    make_room(n_bytes, size_of(rest));
    end = append(parent, rest, pages.subspan(static_cast<size_t>(n_whole)), std::move(kept));
  } else {
    make_room(state_bytes(), 0);
  }
  if (read_state && options_.state_floats > 0) add_state(*end, (n_tokens - 1) % page_size + 1, read_state);
  return Saved::saved;
}

PrefixCache::Stored PrefixCache::stored(const PrefixKey& key, std::span<const int32_t> tokens) {
  const auto root = roots_.find(key);
  if (root == roots_.end()) return {};
  const Path path = walk(*root->second, tokens);
  Stored out;
  const auto add = [&](const Node& node, int64_t n_tokens) {
    for (const auto& [n, state] : node.states)
      if (n <= n_tokens) out.states.emplace(out.n_tokens + n, state);
    out.pages.push_back(node.page);
    out.n_tokens += n_tokens;
  };
  for (const Node* node : path.nodes) add(*node, pages_.page_size());
  if (path.n_tail > 0) add(*path.tail, path.n_tail);
  if (out.n_tokens > 0) touch(path.n_tail > 0 ? path.tail : path.nodes.back());
  return out;
}

int64_t PrefixCache::erase(const PrefixKey& key, std::span<const int32_t> tokens) {
  const auto root = roots_.find(key);
  if (root == roots_.end()) return 0;
  const Path path = walk(*root->second, tokens);
  Node* node = path.nodes.empty() ? root->second.get() : path.nodes.back();
  const int64_t n_rest = size_of(tokens) - static_cast<int64_t>(path.nodes.size()) * pages_.page_size();
  // Not the end of an entry that only begins alike.
  if (path.n_tail > 0 && (path.n_tail == n_rest || path.n_tail == size_of(path.tail->tokens))) node = path.tail;
  int64_t n_erased = 0;
  while (node->parent != nullptr && node->children.empty()) {
    Node* parent = node->parent;
    n_erased += size_of(node->tokens);
    remove(node);
    node = parent;
  }
  return n_erased;
}

bool PrefixCache::reclaim(int64_t n_pages) {
  while (pages_.n_free_pages() < n_pages && !leaves_.empty()) {
    // Pages that a sequence uses too are not free afterwards: they go last.
    const auto unused =
        std::ranges::find_if(leaves_, [this](const auto& leaf) { return pages_.n_holders(leaf.second->page) == 1; });
    remove(unused == leaves_.end() ? leaves_.begin()->second : unused->second);
  }
  return pages_.n_free_pages() >= n_pages;
}

int64_t PrefixCache::n_reclaimable_pages() const {
  int64_t n = 0;
  std::vector<const Node*> open;
  for (const auto& [key, root] : roots_) open.push_back(root.get());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (node->parent != nullptr && pages_.n_holders(node->page) == 1) ++n;
    for (const auto& [token, child] : node->children) open.push_back(child.get());
  }
  return n;
}

void PrefixCache::clear() {
  while (!leaves_.empty()) remove(leaves_.begin()->second);
  roots_.clear();
}

}  // namespace tokamak

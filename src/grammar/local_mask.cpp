#include "grammar/local_mask.h"

#include <algorithm>

#include "grammar/walker.h"

namespace tokamak::grammar {

size_t LocalMask::n_bytes() const {
  size_t n = sizeof *this + escapes.size() * sizeof(Escape);
  for (const Group& g : groups) n += sizeof g + g.bits.size() * 8 + g.tokens.size() * 4;
  return n;
}

std::shared_ptr<const LocalMask> make_local_mask(const Program& program, uint32_t state, const VocabTrie& trie) {
  Machine machine(program);
  Stacks stacks;
  Walker walker(machine, stacks);
  Readings start;
  const uint32_t unknown = program.states[state].counted ? kSymbol : 0;
  start.configs.push_back({state, 0, {unknown, unknown}, 0, kAnyNeed});

  auto mask = std::make_shared<LocalMask>();
  const auto group_of = [&](const Bottom& when) -> LocalMask::Group& {
    for (LocalMask::Group& g : mask->groups)
      if (g.when == when) return g;
    mask->groups.push_back({when, {}, {}});
    return mask->groups.back();
  };
  walker.walk(trie, 0, walker.add(start), [&](uint32_t node, uint32_t set) {
    const auto tokens = trie.tokens(node);
    if (!tokens.empty())
      for (const Bottom& when : walker.set(set).needs) {
        auto& list = group_of(when).tokens;
        list.insert(list.end(), tokens.begin(), tokens.end());
      }
    for (const Bottom& when : walker.set(set).bottoms) mask->escapes.push_back({node, when});
  });
  for (LocalMask::Group& g : mask->groups) {
    if (g.tokens.size() < trie.n_words() * 2) {
      g.tokens.shrink_to_fit();
      continue;
    }
    g.bits.resize(trie.n_words());
    for (const int32_t id : g.tokens) g.bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    g.tokens = {};
  }
  mask->escapes.shrink_to_fit();
  return mask;
}

std::shared_ptr<const LocalMask> MaskCache::find(const Key& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->mask;
}

void MaskCache::insert(const Key& key, const std::shared_ptr<const LocalMask>& mask) {
  if (index_.contains(key)) return;
  const size_t n = mask->n_bytes() + 128;
  if (n > max_bytes_) return;
  while (n_bytes_ + n > max_bytes_) {
    n_bytes_ -= entries_.back().n_bytes;
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({key, mask, n});
  index_[key] = entries_.begin();
  n_bytes_ += n;
}

std::shared_ptr<const LocalMask> MaskCache::get(const Program& program, uint32_t state, const VocabTrie& trie) {
  const Key key{program.uid, state};
  const RuleInfo& rule = program.rules[program.states[state].rule];
  std::string content;
  {
    const std::lock_guard lock(mutex_);
    if (auto mask = find(key)) return mask;
    if (!rule.content.empty()) {
      const uint32_t place = state - rule.first_state;
      content.assign(reinterpret_cast<const char*>(&place), sizeof place);
      content += rule.content;
      if (const auto shared = shared_.find(content); shared != shared_.end())
        if (auto mask = shared->second.lock()) {
          insert(key, mask);
          return mask;
        }
    }
  }
  auto mask = make_local_mask(program, state, trie);  // unlocked: two threads may both do it
  const std::lock_guard lock(mutex_);
  insert(key, mask);
  if (!content.empty()) {
    constexpr size_t kMaxShared = 4096;
    if (shared_.size() >= kMaxShared) std::erase_if(shared_, [](const auto& entry) { return entry.second.expired(); });
    if (shared_.size() < kMaxShared) shared_[std::move(content)] = mask;
  }
  return mask;
}

bool MaskCache::has(const Program& program, uint32_t state) {
  const std::lock_guard lock(mutex_);
  return index_.contains({program.uid, state});
}

size_t MaskCache::n_bytes() {
  const std::lock_guard lock(mutex_);
  return n_bytes_;
}

}  // namespace tokamak::grammar

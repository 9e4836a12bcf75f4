#include "grammar/walker.h"

#include <algorithm>
#include <tuple>

#include "grammar/rules.h"

namespace tokamak::grammar {

namespace {

void put(std::string& key, uint32_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); }

auto order_of(const Config& c) { return std::tuple(c.state, c.node, c.count.need, c.count.room, c.a, c.b); }

void add_need(std::vector<Bottom>& needs, Bottom need) {
  for (const Bottom& x : needs)
    if (x.a <= need.a && x.b >= need.b) return;
  std::erase_if(needs, [&](const Bottom& x) { return need.a <= x.a && need.b >= x.b; });
  needs.push_back(need);
}

}  // namespace

uint32_t Walker::add(const Readings& readings) {
  auto set = std::make_unique<Set>(Set{readings.configs, readings.bottoms, {}, nullptr});
  std::sort(set->configs.begin(), set->configs.end(),
            [](const Config& x, const Config& y) { return order_of(x) < order_of(y); });
  std::string key;
  for (const Config& c : set->configs) {
    for (const uint32_t value : {c.state, c.node, c.count.need, c.count.room, uint32_t{c.a} << 16 | c.b})
      put(key, value);
  }
  put(key, kNone);
  for (const Bottom& b : set->bottoms) put(key, uint32_t{b.a} << 16 | b.b);
  const auto [place, added] = index_.try_emplace(std::move(key), static_cast<uint32_t>(sets_.size()));
  if (added) {
    for (const Config& c : set->configs) add_need(set->needs, {c.a, c.b});
    sets_.push_back(std::move(set));
  }
  return place->second;
}

// Gives nodes with equal frames one number, so that equal sets of readings are recognised. Nodes in a circle (left
// recursion) stay as they are.
void Walker::unify_nodes(uint32_t first_new) {
  const uint32_t n = stacks_.n_nodes();
  if (n == first_new) return;
  std::vector<uint32_t> same(n - first_new);
  std::vector<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>> frames;
  std::string key;
  for (uint32_t node = first_new; node < n; ++node) {
    bool circle = false;
    frames.clear();
    for (uint32_t f = stacks_.first_frame[node]; f != kNone; f = stacks_.frames[f].next) {
      Frame& frame = stacks_.frames[f];
      circle = circle || frame.parent >= node;
      if (frame.parent >= first_new && frame.parent < node) frame.parent = same[frame.parent - first_new];
      frames.emplace_back(frame.state, frame.count.need, frame.count.room, frame.parent);
    }
    same[node - first_new] = node;
    if (circle) continue;
    std::sort(frames.begin(), frames.end());
    key.clear();
    for (const auto& [state, need, room, parent] : frames)
      for (const uint32_t value : {state, need, room, parent}) put(key, value);
    same[node - first_new] = nodes_.try_emplace(key, node).first->second;
  }
  for (Config& c : readings_.configs)
    if (c.node >= first_new) c.node = same[c.node - first_new];
}

// Keeps the first set and those of the path alone.
void Walker::forget() {
  std::vector<std::unique_ptr<Set>> old;
  old.swap(sets_);
  index_.clear();
  const auto keep = [&](uint32_t set) {
    Readings readings{old[set]->configs, old[set]->bottoms, false};
    return add(readings);
  };
  keep(0);
  for (Place& place : path_) place.set = keep(place.set);
}

int32_t Walker::step_slowly(uint32_t set, uint8_t byte) {
  if (machine_.work() > max_work_) return kDead;
  if (sets_.size() > kMaxSets && path_.size() * 2 < kMaxSets) {
    forget();
    set = path_.back().set;
  }
  if (!sets_[set]->next) {
    sets_[set]->next = std::make_unique<std::array<int32_t, 256>>();
    // Bytes that no reading takes are known at once.
    auto& next = *sets_[set]->next;
    next.fill(kDead);
    for (const Config& c : sets_[set]->configs)
      for (const ByteEdge& edge : machine_.program().edges_of(c.state))
        for (int b = edge.lo; b <= edge.hi; ++b) next[static_cast<size_t>(b)] = kUnknown;
    if (next[byte] == kDead) return kDead;
  }
  const uint32_t first_new = stacks_.n_nodes();
  machine_.step(stacks_, sets_[set]->configs, byte, readings_);
  int32_t next = kDead;
  if (!readings_.dead() && !readings_.overflow) {
    unify_nodes(first_new);
    next = static_cast<int32_t>(add(readings_));
  }
  (*sets_[set]->next)[byte] = next;
  return next;
}

}  // namespace tokamak::grammar

#include "engine/recurrent_states.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/fnv1a.h"

namespace tokamak {

namespace {
constexpr uint64_t kNoTokens = 0;

uint64_t next_hash(uint64_t before, int32_t token) {
  Fnv1a hash;
  hash.add(before);
  hash.add(token);
  return hash.value();
}
}  // namespace

RecurrentStates::RecurrentStates(int64_t n_sequences, int64_t n_snapshots, size_t n_checkpoints)
    : n_snapshots_(n_snapshots), n_checkpoints_(n_checkpoints), slot_taken_(static_cast<size_t>(n_sequences)) {}

RecurrentStates::Sequence& RecurrentStates::sequence(int32_t seq_id) {
  const auto index = static_cast<size_t>(seq_id);
  if (index >= sequences_.size()) sequences_.resize(index + 1);
  return sequences_[index];
}

RecurrentStates::Tag RecurrentStates::tag_at(const Sequence& s, int64_t n_tokens) const {
  return {n_tokens, n_tokens == 0 ? kNoTokens : s.prefix_hashes[static_cast<size_t>(n_tokens - 1)]};
}

bool RecurrentStates::is_valid(const Sequence& s, const Tag& tag) const {
  return tag.n_tokens <= static_cast<int64_t>(s.prefix_hashes.size()) && tag_at(s, tag.n_tokens).hash == tag.hash;
}

int32_t RecurrentStates::source_row(int32_t seq_id) const {
  const auto index = static_cast<size_t>(seq_id);
  if (index >= sequences_.size() || sequences_[index].prefix_hashes.empty()) return -1;
  const Sequence& s = sequences_[index];
  const auto current = std::ranges::find(s.snapshots, s.row, &Snapshot::row);
  CHECK(current != s.snapshots.end() && is_valid(s, current->tag) &&
            current->tag.n_tokens == static_cast<int64_t>(s.prefix_hashes.size()),
        seq_id, s.row);
  return s.row;
}

Result<int32_t> RecurrentStates::target_row(int32_t seq_id) {
  Sequence& s = sequence(seq_id);
  if (s.slot < 0) {
    const auto free = std::ranges::find(slot_taken_, false);
    if (free == slot_taken_.end())
      return Error{.code = ErrorCode::context_full,
                   .what = fmt::format("all {} recurrent states are in use", slot_taken_.size()),
                   .where = fmt::format("sequence {}", seq_id),
                   .hint = "free a sequence, or open the session with a larger n_sequences"};
    *free = true;
    s.slot = static_cast<int32_t>(free - slot_taken_.begin());
  }
  return static_cast<int32_t>(s.slot * n_snapshots_);
}

void RecurrentStates::advance(int32_t seq_id, std::span<const int32_t> tokens) {
  Sequence& s = sequence(seq_id);
  for (int32_t token : tokens)
    s.prefix_hashes.push_back(next_hash(s.prefix_hashes.empty() ? kNoTokens : s.prefix_hashes.back(), token));
  const auto n_tokens = static_cast<int64_t>(s.prefix_hashes.size());
  s.snapshots.clear();
  for (int64_t i = 0; i < std::min<int64_t>(n_snapshots_, static_cast<int64_t>(tokens.size())); ++i)
    s.snapshots.push_back({tag_at(s, n_tokens - i), static_cast<int32_t>(s.slot * n_snapshots_ + i)});
  s.row = static_cast<int32_t>(s.slot * n_snapshots_);
}

Result<int32_t> RecurrentStates::restore(int32_t seq_id, std::span<const int32_t> tokens) {
  const int32_t row = TRY(target_row(seq_id));
  CHECK(sequence(seq_id).prefix_hashes.empty() && !tokens.empty(), seq_id);
  advance(seq_id, tokens);
  sequence(seq_id).snapshots.resize(1);  // the states before it are not there
  return row;
}

void RecurrentStates::invalidate(int32_t seq_id) {
  Sequence& s = sequence(seq_id);
  s.snapshots.clear();
  s.prefix_hashes.clear();
  s.checkpoints.clear();
  s.row = -1;
}

void RecurrentStates::free_sequence(int32_t seq_id) {
  Sequence& s = sequence(seq_id);
  if (s.slot >= 0) slot_taken_[static_cast<size_t>(s.slot)] = false;
  s = {};
}

RecurrentStates::Rollback RecurrentStates::roll_back(int32_t seq_id, int64_t n) {
  Sequence& s = sequence(seq_id);
  CHECK(n <= static_cast<int64_t>(s.prefix_hashes.size()), seq_id, n);
  Rollback best;
  for (const Snapshot& snapshot : s.snapshots)
    if (snapshot.tag.n_tokens <= n && snapshot.tag.n_tokens > best.n_tokens && is_valid(s, snapshot.tag))
      best = {.n_tokens = snapshot.tag.n_tokens, .row = snapshot.row};
  for (const Checkpoint& checkpoint : s.checkpoints)
    if (checkpoint.tag.n_tokens <= n && checkpoint.tag.n_tokens > best.n_tokens && is_valid(s, checkpoint.tag))
      best = {.n_tokens = checkpoint.tag.n_tokens,
              .checkpoint = &checkpoint.state,
              .row = static_cast<int32_t>(s.slot * n_snapshots_)};
  const Tag tag = tag_at(s, best.n_tokens);
  s.prefix_hashes.resize(static_cast<size_t>(best.n_tokens));
  std::erase_if(s.snapshots, [&](const Snapshot& x) { return x.tag.n_tokens > best.n_tokens; });
  if (best.checkpoint != nullptr) s.snapshots = {{tag, best.row}};
  std::erase_if(s.checkpoints, [&](const Checkpoint& x) { return x.tag.n_tokens > best.n_tokens; });
  s.row = best.row;
  if (best.n_tokens == 0) s.snapshots.clear();
  return best;
}

std::vector<float>* RecurrentStates::new_checkpoint(int32_t seq_id, size_t n_floats) {
  Sequence& s = sequence(seq_id);
  if (n_checkpoints_ == 0 || s.prefix_hashes.empty()) return nullptr;
  const Tag tag = tag_at(s, static_cast<int64_t>(s.prefix_hashes.size()));
  for (const Checkpoint& checkpoint : s.checkpoints)
    if (checkpoint.tag.n_tokens == tag.n_tokens) return nullptr;
  Checkpoint made{.tag = tag, .state = {}};
  if (s.checkpoints.size() >= n_checkpoints_) {  // reuse the oldest one's memory
    made.state = std::move(s.checkpoints.front().state);
    s.checkpoints.erase(s.checkpoints.begin());
  }
  made.state.resize(n_floats);
  s.checkpoints.push_back(std::move(made));
  return &s.checkpoints.back().state;
}

uint64_t RecurrentStates::checkpoint_bytes() const {
  uint64_t n = 0;
  for (const Sequence& s : sequences_)
    for (const Checkpoint& checkpoint : s.checkpoints) n += checkpoint.state.capacity() * sizeof(float);
  return n;
}

}  // namespace tokamak

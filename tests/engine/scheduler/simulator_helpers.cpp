#include "engine/scheduler/simulator_helpers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tokamak::scheduler {

Simulator::Simulator(const DeviceModel& model, const Config& config)
    : model_(model), n_cache_pages_(model.n_cache_pages), scheduler_(config, *this, *this) {}

int64_t Simulator::pages_of(int64_t n_tokens) const { return (n_tokens + model_.page_size - 1) / model_.page_size; }

int64_t Simulator::n_pages_used() const {
  int64_t n = n_cache_pages_;
  for (const auto& [id, sequence] : sequences_)
    if (sequence.running) n += pages_of(sequence.n_tokens);
  return n;
}

void Simulator::arrive(size_t index) {
  const SimulatedRequest& request = requests_[index];
  fates_[index].submitted = now_;
  sequences_[index] = {};
  const auto accepted = scheduler_.submit({.id = index,
                                           .client = request.client,
                                           .priority = request.priority,
                                           .n_tokens = request.n_prompt,
                                           .max_chunk = 0,
                                           .stops = {}});
  if (accepted) return;
  EXPECT_EQ(accepted.error().code, ErrorCode::queue_full);
  fates_[index].refused = true;
  fates_[index].ended = now_;
  sequences_.erase(index);
}

void Simulator::run(const std::vector<SimulatedRequest>& requests) {
  requests_ = requests;
  fates_.assign(requests.size(), {});
  size_t next = 0;
  for (int64_t n_steps = 0; next < requests_.size() || !scheduler_.idle(); ++n_steps) {
    ASSERT_LT(n_steps, 1000000) << "the scheduler does not come to an end";
    while (next < requests_.size() && requests_[next].arrives <= now_) arrive(next++);
    for (const auto& [id, sequence] : sequences_)
      if (requests_[id].cancelled_at >= 0 && requests_[id].cancelled_at <= now_) scheduler_.cancel(id);
    if (scheduler_.step()) continue;
    ASSERT_TRUE(scheduler_.idle()) << "requests wait and nothing runs";
    if (next < requests_.size()) now_ = std::max(now_, requests_[next].arrives);
  }
  EXPECT_TRUE(sequences_.empty());
}

Result<int64_t> Simulator::start(RequestId id) {
  Sequence& sequence = sequences_.at(id);
  EXPECT_FALSE(sequence.running);
  sequence.running = true;
  sequence.n_tokens = 0;
  if (fates_[id].first_started < 0) {
    fates_[id].first_started = now_;
    sequence.n_tokens = requests_[id].n_cached;
  }
  return sequence.n_tokens;
}

void Simulator::pause(RequestId id) {
  Sequence& sequence = sequences_.at(id);
  EXPECT_TRUE(sequence.running);
  if (fates_[id].n_processed > 0) ++fates_[id].n_paused;
  sequence = {};
}

void Simulator::leave(RequestId id, Leaving why) {
  (why == Leaving::cancelled ? fates_[id].cancelled : fates_[id].stalled) = true;
  end(id);
}

void Simulator::end(RequestId id) {
  fates_[id].ended = now_;
  sequences_.erase(id);
}

int64_t Simulator::pages_needed(RequestId id, int64_t n_tokens) const {
  const int64_t held = sequences_.at(id).n_tokens;
  return pages_of(held + n_tokens) - pages_of(held);
}

void Simulator::reclaim(int64_t n_pages) {
  while (n_free_pages() < n_pages && n_cache_pages_ > 0) --n_cache_pages_;
}

void Simulator::run(std::span<const Entry> entries, std::span<Outcome> outcomes) {
  double seconds = model_.step_seconds;
  for (const Entry& entry : entries) {
    const Fate& fate = fates_[entry.id];
    const bool decodes = entry.n_tokens == 1 && fate.n_generated > 0;
    const auto n = static_cast<double>(entry.n_tokens);
    const double depth = static_cast<double>(entry.first) + n / 2;
    seconds += decodes ? model_.decode_seconds : model_.prefill_seconds * n * (1 + model_.depth_cost * depth);
    schedule_ += fmt::format("{}:{}+{}{} ", entry.id, entry.first, entry.n_tokens, entry.last ? "!" : "");
  }
  now_ += seconds * (1 + model_.noise * uniform(model_.seed, n_random_++));
  schedule_ += fmt::format("@{:.6f}\n", now_);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    Sequence& sequence = sequences_.at(entry.id);
    Fate& fate = fates_[entry.id];
    EXPECT_TRUE(sequence.running) << entry.id;
    EXPECT_EQ(entry.first, sequence.n_tokens) << entry.id;
    EXPECT_EQ(entry.last, entry.first + entry.n_tokens == requests_[entry.id].n_prompt + fate.n_generated) << entry.id;
    sequence.n_tokens += entry.n_tokens;
    fate.n_processed += entry.n_tokens;
    outcomes[i].n_done = sequence.n_tokens;
    if (!entry.last) continue;
    ++fate.n_generated;
    fate.tokens.push_back(now_);
    if (fate.first_token < 0) fate.first_token = now_;
    outcomes[i].is_over = fate.n_generated == requests_[entry.id].n_generate;
  }
  EXPECT_LE(n_pages_used(), model_.n_pages) << "the KV cache is overcommitted";
  most_pages_ = std::max(most_pages_, n_pages_used());
  for (size_t i = 0; i < entries.size(); ++i)
    if (outcomes[i].is_over) end(entries[i].id);
}

}  // namespace tokamak::scheduler

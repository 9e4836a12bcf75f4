#include "grammar/trigger.h"

#include <algorithm>

namespace tokamak::grammar {

bool Cursor::set(Readings& readings) {
  if (readings.dead() || readings.overflow) return false;
  configs.swap(readings.configs);
  can_end = !readings.bottoms.empty();
  return true;
}

bool Cursor::start(Machine& machine) {
  Readings readings;
  machine.start(stacks, readings);
  return set(readings);
}

bool Cursor::feed(Machine& machine, std::string_view bytes) {
  const size_t n_nodes = stacks.first_frame.size(), n_frames = stacks.frames.size();
  Readings now{configs, {}, false}, next;
  bool ends = can_end;
  for (const char byte : bytes) {
    machine.step(stacks, now.configs, static_cast<uint8_t>(byte), next);
    if (next.dead() || next.overflow) {
      stacks.truncate(n_nodes, n_frames);
      return false;
    }
    ends = !next.bottoms.empty();
    std::swap(now, next);
  }
  configs.swap(now.configs);
  can_end = ends;
  return true;
}

void Cursor::tidy() {
  if (stacks.n_nodes() < tidy_at_) return;
  stacks.compact(configs);
  tidy_at_ = std::max<uint32_t>(256, stacks.n_nodes() * 2);
}

TriggerSearch::TriggerSearch(GrammarTriggers triggers)
    : triggers_(std::make_shared<const GrammarTriggers>(std::move(triggers))) {
  for (const std::string& word : triggers_->words) longest_word_ = std::max(longest_word_, word.size());
}

bool TriggerSearch::is_trigger(int32_t token) const {
  return std::find(triggers_->tokens.begin(), triggers_->tokens.end(), token) != triggers_->tokens.end();
}

void TriggerSearch::feed_patterns(uint8_t byte, std::vector<Found>& found) {
  constexpr size_t kMaxThreads = 256;
  const std::string_view text(reinterpret_cast<const char*>(&byte), 1);
  std::vector<Thread> kept;
  for (size_t p = 0; p < triggers_->patterns.size(); ++p) {
    Machine machine(triggers_->patterns[p]->program());
    const size_t first = kept.size();
    const auto advance = [&](Thread&& thread) {
      if (!thread.cursor.feed(machine, text)) return;
      thread.cursor.tidy();
      if (thread.cursor.can_end) found.push_back({thread.first, text_.size()});
      // A later start that stands where an earlier one stands can only lose.
      for (size_t i = first; i < kept.size(); ++i)
        if (kept[i].cursor.configs == thread.cursor.configs && thread.cursor.stacks.n_nodes() == 1) return;
      if (kept.size() - first < kMaxThreads) kept.push_back(std::move(thread));
    };
    for (Thread& thread : threads_)
      if (thread.pattern == p) advance(std::move(thread));
    Thread fresh{p, text_.size() - 1, {}};
    if (fresh.cursor.start(machine)) advance(std::move(fresh));
  }
  threads_.swap(kept);
}

std::vector<TriggerSearch::Found> TriggerSearch::feed(uint8_t byte) {
  text_ += static_cast<char>(byte);
  std::vector<Found> found;
  for (const std::string& word : triggers_->words)
    if (!word.empty() && text_.ends_with(word)) found.push_back({text_.size() - word.size(), text_.size()});
  feed_patterns(byte, found);
  std::stable_sort(found.begin(), found.end(), [](const Found& x, const Found& y) { return x.first < y.first; });
  return found;
}

void TriggerSearch::drop_old() {
  size_t keep = text_.size() - std::min(text_.size(), longest_word_ > 0 ? longest_word_ - 1 : 0);
  for (const Thread& thread : threads_) keep = std::min(keep, thread.first);
  text_.erase(0, keep);
  for (Thread& thread : threads_) thread.first -= keep;
}

}  // namespace tokamak::grammar

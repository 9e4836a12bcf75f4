// One output in the making under a grammar: which tokens may come next, and what came.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/vocab_trie.h"

namespace tokamak {

// When a lazy grammar begins. Until then every token is allowed. The trigger itself is the first thing the grammar
// reads, so its root starts with it; with skip_trigger the grammar begins behind it.
struct GrammarTriggers {
  std::vector<int32_t> tokens;
  std::vector<std::string> words;
  std::vector<Grammar::Ptr> patterns;  // from Grammar::from_regex; the earliest start that matches wins
  bool skip_trigger = false;
  bool empty() const { return tokens.empty() && words.empty() && patterns.empty(); }
};

// Copies are independent and cost some hundred bytes plus the nesting depth. Not thread-safe; different copies may be
// used in different threads.
class GrammarState {
 public:
  // `triggers` empty: active from the start.
  GrammarState(Grammar::Ptr grammar, VocabTrie::Ptr trie, GrammarTriggers triggers = {});
  GrammarState(const GrammarState& other);
  GrammarState(GrammarState&& other) noexcept;
  GrammarState& operator=(GrammarState other) noexcept;
  ~GrammarState();

  // Sets bit `id` of bits (id / 64, id % 64) for exactly the tokens that accept() would take, clears all others.
  // bits.size() >= trie.n_words(). End tokens are set exactly when can_end().
  void fill_mask(std::span<uint64_t> bits);

  // Errors: bad_argument if the grammar does not allow the token (the state is unchanged), or if the grammar is too
  // ambiguous to follow (more than a fixed number of readings at once).
  Result<void> accept(int32_t token);
  // As text, without regard to tokens. The same errors; `bytes` is taken as a whole or not at all.
  Result<void> accept_bytes(std::string_view bytes);

  bool is_active() const;     // false: a lazy grammar that waits for its trigger
  bool can_end() const;       // what came so far is complete (also: not active)
  bool is_finished() const;   // an end token came, or nothing but the end can follow
  size_t n_readings() const;  // ways of reading the text so far that are still open

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Computes masks ahead, on the caller's thread, into the cache of the trie: those of states where many tokens fit
// first. Stops after `budget`. Returns the number of states whose masks are ready.
size_t prepare_masks(const Grammar::Ptr& grammar, const VocabTrie& trie, std::chrono::milliseconds budget);

// logits[id] = -infinity where bit `id` is clear. bits cover logits.
void apply_mask(std::span<const uint64_t> bits, std::span<float> logits);

}  // namespace tokamak

// Shared by the grammar targets: what must hold for every grammar that compiles.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "grammar/grammar.h"
#include "grammar/state.h"

namespace tokamak::fuzz {

inline GrammarOptions small_limits() {
  GrammarOptions options;
  options.limits.max_bytes = 8 << 20;
  options.limits.max_time = std::chrono::milliseconds(500);
  return options;
}

inline VocabTrie::Ptr trie() {
  static const VocabTrie::Ptr made = [] {
    std::vector<std::string> pieces;
    for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
    for (const char* piece :
         {"{\"", "\":", "\",\"", "\"}", "]}", "[[", "aa", "ab", "abc", "00", "\xc3\xa9", "\xe4\xb8"})
      pieces.emplace_back(piece);
    const auto end = static_cast<int32_t>(pieces.size());
    pieces.emplace_back();
    return VocabTrie::create(std::move(pieces), {end}, 1 << 20);
  }();
  return made;
}

// A complete output, or an empty text if the walk was stopped. `choices` pick the tokens.
inline std::string check_grammar(const Result<Grammar::Ptr>& grammar, std::string_view choices) {
  if (!grammar) {
    CHECK(!grammar.error().message().empty());
    return {};
  }
  GrammarState state(*grammar, trie());
  std::vector<uint64_t> bits(trie()->n_words());
  std::string text;
  for (size_t step = 0; step < 24 && !state.is_finished(); ++step) {
    state.fill_mask(bits);
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < trie()->n_vocab(); ++id) {
      const bool allowed = (bits[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
      if (allowed) ids.push_back(id);
      if (state.n_readings() > 200) continue;  // the slow way is for small sets
      GrammarState copy(state);
      CHECK(copy.accept(id).has_value() == allowed, id, step, text);
    }
    if (ids.empty()) return {};
    const auto choice = choices.empty() ? 0 : static_cast<uint8_t>(choices[step % choices.size()]);
    const int32_t token = ids[(choice * 7 + step) % ids.size()];
    CHECK(state.accept(token).has_value() || state.n_readings() > 200, token);
    text += trie()->piece(token);
  }
  return state.can_end() ? text : std::string();
}

}  // namespace tokamak::fuzz

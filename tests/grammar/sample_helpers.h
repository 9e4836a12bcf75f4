// Random outputs of a grammar, token by token, as a sampler at high temperature would make them.
#pragma once

#include <random>
#include <string>

#include "grammar/state.h"

namespace tokamak::test {

// All bytes, pieces that cross the ends of JSON tokens, words, halves of characters, and an end token (the last id).
VocabTrie::Ptr json_trie();

struct Sample {
  std::string text;
  bool finished = false;  // false: stopped after max_tokens
  std::string error;      // not empty: the mask and accept() disagree, or no token was left
};

// After half of max_tokens it prefers what closes things.
Sample sample(const Grammar::Ptr& grammar, const VocabTrie::Ptr& trie, std::mt19937& random, int max_tokens);

}  // namespace tokamak::test

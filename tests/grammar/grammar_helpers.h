// Shared by the tests of grammars.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/state.h"

namespace tokamak::test {

// A vocabulary of the 256 single bytes (id = byte), the pieces, and an end token (the last id).
VocabTrie::Ptr byte_trie(std::vector<std::string> pieces = {});

// The grammar of a text; fails the test if it is refused.
Grammar::Ptr gbnf(std::string_view text, const GrammarOptions& options = {});
Grammar::Ptr regex(std::string_view text, const GrammarOptions& options = {});
Grammar::Ptr schema(std::string_view json, const GrammarOptions& options = {});

// Message of the refusal; fails the test if there is none.
std::string gbnf_refusal(std::string_view text, const GrammarOptions& options = {});
std::string regex_refusal(std::string_view text);
std::string schema_refusal(std::string_view json);

// The whole text is an output of the grammar.
bool accepts(const Grammar::Ptr& grammar, std::string_view text);
// The text begins an output.
bool begins(const Grammar::Ptr& grammar, std::string_view text);

// Ids whose bits are set.
std::vector<int32_t> allowed(GrammarState& state, const VocabTrie& trie);
// The same without masks: each token is tried on a copy.
std::vector<int32_t> allowed_slowly(const GrammarState& state, const VocabTrie& trie);

}  // namespace tokamak::test

#include "grammar/grammar_helpers.h"

#include <gtest/gtest.h>

namespace tokamak::test {

VocabTrie::Ptr byte_trie(std::vector<std::string> pieces) {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
  for (std::string& piece : pieces) all.push_back(std::move(piece));
  const auto end = static_cast<int32_t>(all.size());
  all.emplace_back();
  return VocabTrie::create(std::move(all), {end});
}

namespace {
Grammar::Ptr checked(Result<Grammar::Ptr> made, std::string_view text) {
  EXPECT_TRUE(made) << text << "\n" << (made ? "" : made.error().message());
  return made ? *made : nullptr;
}
std::string message_of(const Result<Grammar::Ptr>& made, std::string_view text) {
  EXPECT_FALSE(made) << text;
  if (made) return {};
  EXPECT_EQ(made.error().code, ErrorCode::bad_argument);
  return made.error().message();
}
}  // namespace

Grammar::Ptr gbnf(std::string_view text, const GrammarOptions& options) {
  return checked(Grammar::from_gbnf(text, options), text);
}
Grammar::Ptr regex(std::string_view text, const GrammarOptions& options) {
  return checked(Grammar::from_regex(text, options), text);
}
Grammar::Ptr schema(std::string_view json, const GrammarOptions& options) {
  return checked(Grammar::from_json_schema(Json::parse(json), options), json);
}

std::string gbnf_refusal(std::string_view text, const GrammarOptions& options) {
  return message_of(Grammar::from_gbnf(text, options), text.substr(0, 200));
}
std::string regex_refusal(std::string_view text) { return message_of(Grammar::from_regex(text), text.substr(0, 200)); }
std::string schema_refusal(std::string_view json) {
  return message_of(Grammar::from_json_schema(Json::parse(json)), json.substr(0, 200));
}

bool accepts(const Grammar::Ptr& grammar, std::string_view text) {
  if (!grammar) return false;
  GrammarState state(grammar, byte_trie());
  return state.accept_bytes(text) && state.can_end();
}

bool begins(const Grammar::Ptr& grammar, std::string_view text) {
  if (!grammar) return false;
  GrammarState state(grammar, byte_trie());
  return state.accept_bytes(text).has_value();
}

std::vector<int32_t> allowed(GrammarState& state, const VocabTrie& trie) {
  std::vector<uint64_t> bits(trie.n_words());
  state.fill_mask(bits);
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < trie.n_vocab(); ++id)
    if (bits[static_cast<size_t>(id) / 64] >> (id % 64) & 1) ids.push_back(id);
  return ids;
}

std::vector<int32_t> allowed_slowly(const GrammarState& state, const VocabTrie& trie) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < trie.n_vocab(); ++id)
    if (GrammarState copy(state); copy.accept(id)) ids.push_back(id);
  return ids;
}

}  // namespace tokamak::test

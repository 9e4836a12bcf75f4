#include "grammar/sample_helpers.h"

#include <vector>

namespace tokamak::test {

VocabTrie::Ptr json_trie() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"{\"",    "\": ",     "\":",          "\", \"",   "\",\"",    "\"}",
                            "\"},",   "\"]",      "}}",           "}]",       "[]",       "{}",
                            "[{\"",   "},",       ", ",           ": \"",     ":\"",      ",\n",
                            "{\n",    "\n  ",     "\n    ",       "  ",       "    ",     "true",
                            "false",  "null",     "true,",        "false}",   "null]",    "name",
                            "id",     "type",     " the",         "ing",      "er",       "hello",
                            " world", "foo",      "bar",          "2024",     "-01-",     "00",
                            "12",     "123",      "1234",         "0.5",      ".5",       "e10",
                            "-1",     "\\n",      "\\u",          "\\u00",    "\\\"",     "\\\\",
                            "\xc3",   "\xc3\xa9", "\xe4\xb8\xad", "\xe4\xb8", "\xf0\x9f", "\xf0\x9f\xa6\x94",
                            "@",      ".com",     "http",         "://",      "a-",       "_b",
                            "AB",     "aaaa",     "zzzzzzzz"})
    pieces.emplace_back(piece);
  const auto end = static_cast<int32_t>(pieces.size());
  pieces.emplace_back();
  return VocabTrie::create(std::move(pieces), {end});
}

Sample sample(const Grammar::Ptr& grammar, const VocabTrie::Ptr& trie, std::mt19937& random, int max_tokens) {
  Sample out;
  GrammarState state(grammar, trie);
  std::vector<uint64_t> bits(trie->n_words());
  const int32_t end = trie->end_tokens()[0];
  const auto allowed = [&](int32_t id) { return (bits[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0; };
  for (int step = 0; step < max_tokens; ++step) {
    state.fill_mask(bits);
    std::vector<int32_t> ids, closing;
    for (int32_t id = 0; id < trie->n_vocab(); ++id)
      if (allowed(id)) ids.push_back(id);
    for (const int32_t id : {end, int32_t{'}'}, int32_t{']'}, int32_t{'"'}, int32_t{','}, int32_t{':'}})
      if (allowed(id)) closing.push_back(id);
    if (ids.empty()) {
      out.error = "no token is left";
      return out;
    }
    int32_t token = ids[random() % ids.size()];
    if (!closing.empty() && random() % 100 < 30) token = closing[random() % closing.size()];
    if (!closing.empty() && step > max_tokens / 2) token = closing[0];
    if (!state.accept(token)) {
      out.error = "an allowed token is refused";
      return out;
    }
    if (token == end) {
      out.finished = true;
      return out;
    }
    out.text += trie->piece(token);
  }
  return out;
}

}  // namespace tokamak::test

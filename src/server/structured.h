// Structured output: from a request's fields to what binds the tokens of its answers.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "engine/token_constraint.h"
#include "grammar/state.h"
#include "server/fields.h"
#include "server/http.h"

namespace tokamak::server {

struct OutputGrammar {
  Grammar::Ptr grammar;  // null: anything goes
  GrammarTriggers triggers;
};

// Compiled grammars by their text, the least recently used leave first. Thread-safe.
class GrammarCache {
 public:
  std::optional<OutputGrammar> find(const std::string& key);
  void insert(const std::string& key, OutputGrammar output);

 private:
  static constexpr size_t kMaxEntries = 128;
  static constexpr size_t kMaxBytes = size_t{128} << 20;
  using Entry = std::pair<std::string, OutputGrammar>;
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  size_t n_bytes_ = 0;
};

// What compiling needs of the model; made once.
struct GrammarTools {
  const Tokenizer& tokenizer;
  VocabTrie::Ptr trie;
  std::unique_ptr<GrammarCache> cache = std::make_unique<GrammarCache>();
};

// response_format, json_schema, grammar (with its triggers) and regex, of which at most one may be given. Compiles:
// for worker threads. Errors: bad_argument; `where` is the field.
Result<OutputGrammar> read_output_grammar(const Fields& fields, const GrammarTools& tools);
// {"type": "text" | "json_object" | "json_schema" | "grammar" | "regex", ...}, with the schema in `json_schema.schema`,
// `schema` or (the Responses API) beside the type. Null: text.
Result<Grammar::Ptr> read_format(const Json& format, std::string_view where, bool compact, const GrammarTools& tools);

// Compiles unless the cache has the key already, and computes masks ahead. Errors: those of `compile`.
Result<OutputGrammar> compile_once(const std::string& key, const GrammarTools& tools,
                                   const std::function<Result<OutputGrammar>()>& compile);

// One answer's constraint: any of the alternatives. `thought_token`: a token that may come before anything else
// although no grammar knows it, because it opens a thought; -1: none. Null if there is no grammar.
std::shared_ptr<TokenConstraint> make_constraint(std::span<const OutputGrammar> alternatives, const GrammarTools& tools,
                                                 int32_t thought_token);

// The keywords of the schema that are not enforced, for the answer's head: X-Tokamak-Not-Enforced.
Headers note_headers(const Grammar* grammar);

}  // namespace tokamak::server

// Constraints on generated text: GBNF, JSON Schema and regular expressions, compiled to one automaton over bytes.
// Goals: every token that the automaton allows can be continued to a complete output; hostile input costs a bounded
// amount of time, memory and C stack; large repetition bounds are counted, never unrolled.
// Non-goals: constraints that look at meaning (uniqueItems, not, if/then/else): they are returned as notes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "tokenizer/tokenizer.h"

namespace tokamak {

namespace grammar {
struct Program;
}

// What one compilation may use. Exceeding a limit is an error (bad_argument), never a partial result.
struct GrammarLimits {
  size_t max_text_bytes = 2 << 20;           // of the grammar, schema or pattern
  size_t max_bytes = size_t{64} << 20;       // memory of all intermediate and final tables together
  std::chrono::milliseconds max_time{2000};  // wall clock
  uint32_t max_depth = 128;                  // nesting of groups, schemas and patterns
  uint32_t max_rule_chain = 1000;            // rules that name each other in a row, without recursion
};

struct GrammarOptions {
  GrammarLimits limits;
  // Resolves <token> literals; must live during the call only. Null: literals by id (<[17]>) alone are known.
  const Tokenizer* tokenizer = nullptr;
  // JSON Schema only. false: one space, or a newline and up to 16 spaces and tabs, may follow { [ , and precede ] },
  // and one space may follow a colon. true: no white space at all.
  bool compact = false;
};

// A keyword of a schema that the automaton does not enforce (or not in full).
struct SchemaNote {
  std::string path;     // of the schema that holds it, as a JSON pointer with '#': "#/properties/tags"
  std::string keyword;  // "uniqueItems"
  std::string reason;   // a sentence fragment
};

// One part of a sequence: a literal text, one token as a whole, a JSON value, a pattern, free text or a group.
struct GrammarGroup;
struct GrammarPart {
  std::string text = {};         // the literal
  int32_t token = -1;            // >= 0: this token instead
  const Json* schema = nullptr;  // not null: a value of this schema instead; must live during the call only
  std::string pointer = {};      // only of the part of the schema there: "#/properties/tags"
  std::string label = {};        // names the schema in errors and notes, for example "tools[3]"
  std::string pattern = {};      // not empty: a text that matches this regular expression as a whole instead
  std::string without = {};      // not empty: any text that does not hold this one instead
  std::shared_ptr<const GrammarGroup> group = nullptr;  // not null: this instead
};
using GrammarSequence = std::vector<GrammarPart>;

struct GrammarGroup {
  std::vector<GrammarSequence> items;
  GrammarSequence separator = {};
  uint32_t min = 1, max = 1;  // any of the items, this many times (UINT32_MAX: any number), with separators between
  // Not empty: instead each item once, in this order; those that are false here may be missing. At least one item.
  std::vector<bool> required = {};
  std::vector<SchemaNote> notes = {};  // what the group leaves open of a schema that it stands for
};

// Immutable and thread-safe.
class Grammar {
 public:
  using Ptr = std::shared_ptr<const Grammar>;

  // All fail closed: what cannot be compiled is an error (bad_argument) that names the place (line and column of the
  // grammar, path in the schema, offset in the pattern) and the reason.

  // The start rule is `root`. Left recursion is fine. See README.md for the syntax.
  static Result<Ptr> from_gbnf(std::string_view text, const GrammarOptions& options = {});
  // Output: one JSON value that the schema allows, object keys in the order of the schema.
  static Result<Ptr> from_json_schema(const Json& schema, const GrammarOptions& options = {});
  // Any JSON object (response_format json_object).
  static Result<Ptr> any_json_object(const GrammarOptions& options = {});
  // The whole output must match (anchors at both ends are implied).
  static Result<Ptr> from_regex(std::string_view pattern, const GrammarOptions& options = {});

  // Any of the sequences, `min` to `max` times (UINT32_MAX: any number), with `separator` between: tool calls with what
  // a model's format writes around them.
  static Result<Ptr> from_sequences(const std::vector<GrammarSequence>& alternatives, uint32_t min, uint32_t max,
                                    std::string_view separator, const GrammarOptions& options = {});
  // The parts one after the other.
  static Result<Ptr> from_parts(const GrammarSequence& parts, const GrammarOptions& options = {});

  const std::vector<SchemaNote>& notes() const { return notes_; }
  size_t n_states() const;
  size_t n_bytes() const;  // memory held
  const grammar::Program& program() const { return *program_; }

  Grammar(std::unique_ptr<const grammar::Program> program, std::vector<SchemaNote> notes);
  ~Grammar();

 private:
  std::unique_ptr<const grammar::Program> program_;
  std::vector<SchemaNote> notes_;
};

}  // namespace tokamak

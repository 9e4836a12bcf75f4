// Automata over characters: what a pattern says about the text of a JSON string, before it is spelled in bytes.
// Only here can patterns be intersected with each other and with sets of names.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/char_set.h"

namespace tokamak::grammar {

class Rules;
class Budget;

// How the characters are spelled.
enum class StringForm : uint8_t {
  plain,         // UTF-8
  json,          // a JSON string with its quotes; each character in one spelling (escaped only where it must be)
  json_escapes,  // the same, and any character may be escaped as \uXXXX
};

// State 0 is the start; no empty moves. Every state lies on a path from the start to an accepting state (trim()).
struct CharNfa {
  struct Edge {
    CharSet set;
    uint32_t target;
  };
  struct State {
    std::vector<Edge> edges;
    bool accepts = false;
    uint32_t shortest = 0;  // fewest characters to an accepting state
    uint32_t longest = 0;   // most; kUnbounded if there is a loop on the way
  };
  std::vector<State> states;

  bool matches(std::u32string_view text) const;
};

// Any text.
CharNfa any_chars();
// The expression (call, token, chain and anchors must not occur) with repetitions written out. Errors: bad_argument if
// it needs more than `max_states`.
Result<CharNfa> char_nfa_of(const Rules& rules, uint32_t expr, size_t max_states, Budget& budget);
// Texts of both. The same error.
Result<CharNfa> intersect(const CharNfa& a, const CharNfa& b, size_t max_states, Budget& budget);
// Any text but these.
CharNfa all_but(std::span<const std::string> names);
// Any text in which `forbidden` does not occur, nor one that ends in the beginning of it in such a way that it would
// occur earlier when it follows. Not empty.
CharNfa text_without(std::string_view forbidden);
// Drops useless states and fills shortest and longest; false if nothing is accepted (the automaton is then empty).
bool trim(CharNfa& nfa);

}  // namespace tokamak::grammar

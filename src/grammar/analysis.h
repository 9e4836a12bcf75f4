// Facts about rules that building the automaton needs.
#pragma once

#include <vector>

#include "grammar/rules.h"

namespace tokamak::grammar {

struct Analysis {
  std::vector<uint8_t> nullable, productive;            // by expression
  std::vector<uint8_t> rule_nullable, rule_productive;  // by rule
  std::vector<uint32_t> size;                           // by expression: states it becomes, roughly
  std::vector<uint8_t> inlined;                         // by rule: its body replaces calls of it
};

// Largest rule that is copied into its callers, in states.
inline constexpr uint32_t kMaxInlinedStates = 24;
// Repetitions that need at most this many states are written out.
inline constexpr uint32_t kMaxUnrolledStates = 48;

// How a repetition is built.
enum class RepeatForm : uint8_t { loop, unrolled, counted };
RepeatForm repeat_form(const Expr& repeat, uint32_t body_size);

// Errors: bad_argument if rules name each other deeper than the limit ("too deep"), if the root matches nothing, or
// if the budget is used up.
Result<Analysis> analyse(Rules& rules);

}  // namespace tokamak::grammar

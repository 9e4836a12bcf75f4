// Characters spelled in bytes: UTF-8, and the escapes of JSON strings (RFC 8259, section 7).
#pragma once

#include "grammar/char_nfa.h"
#include "grammar/states.h"

namespace tokamak::grammar {

// One character of the set, from state `from` to state `to`.
void spell_char(States& states, const CharSet& set, StringForm form, uint32_t from, uint32_t to);

// All texts of the automaton, with quotes if the form is a JSON string; counted: as many characters as the count of the
// frame allows.
void spell_text(States& states, const CharNfa& nfa, StringForm form, bool counted, uint32_t from, uint32_t to);

}  // namespace tokamak::grammar

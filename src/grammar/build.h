// Rules to automaton.
#pragma once

#include <memory>

#include "grammar/program.h"
#include "grammar/rules.h"

namespace tokamak::grammar {

// Errors: as analyse(); budget used up.
Result<std::unique_ptr<const Program>> build_program(Rules& rules);

}  // namespace tokamak::grammar

// Mirostat: choosing so that the surprise of the text stays near a target.
// Source: Basu et al. 2021, "Mirostat: a neural text decoding algorithm that directly controls perplexity"
// (arXiv:2007.14966); version 1 is algorithm 1, version 2 the authors' later simplification (truncate by surprise).
#pragma once

#include "engine/sampling/candidates.h"

namespace tokamak {

struct Mirostat {
  int version = 0;    // 1 or 2; 0 is off
  double target = 5;  // tau, bits per token
  double rate = 0.1;  // eta
  double limit = 10;  // mu, the state: starts at twice the target

  // Removes what is too surprising and returns the index into the list of the choice that `u`, uniform in [0, 1),
  // makes; then moves the limit by the surprise of the choice under the distribution before the removal.
  // The list must not be empty.
  size_t choose(Candidates& candidates, double u);
};

// Index of the entry that `u`, uniform in [0, 1), falls on when the probabilities are laid end to end; never one of
// probability 0. The list must not be empty.
size_t draw(std::span<const Candidate> list, double u);

}  // namespace tokamak

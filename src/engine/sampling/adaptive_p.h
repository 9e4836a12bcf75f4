// Adaptive-p: choosing so that the probabilities of the chosen tokens average to a target.
// Source: the public description of --adaptive-target and --adaptive-decay (llama.cpp, "adaptive-p").
#pragma once

#include "engine/sampling/candidates.h"

namespace tokamak {

struct AdaptiveP {
  double target = -1;  // 0..1; below 0: a plain draw, nothing is remembered
  double decay = 0.9;  // 0..0.99, of what is remembered, per token
  // The state: the chosen tokens' probabilities, summed with weights that decay, and the sum of those weights.
  double weighted_sum = 0, total_weight = 0;

  // The state before the first token: as if the past had met the target.
  void reset();
  // Where the next probability should lie so that the average comes back to the target.
  double adapted() const;
  // Gives the candidates new logits, the higher the nearer their probability is to adapted(), and returns the index
  // into the list of the choice that `u`, uniform in [0, 1), makes; remembers the probability that the choice had
  // before. The list must not be empty.
  size_t choose(Candidates& candidates, double u);
};

}  // namespace tokamak

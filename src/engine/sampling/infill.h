// Filling a gap in a text: ends early rather than late, and takes tokens that begin alike as one choice.
// Source: the public description of the infill sampler (llama.cpp, llama.h); it is meant to follow top_k and top_p.
#pragma once

#include "engine/sampling/candidates.h"
#include "engine/sampling/vocab.h"

namespace tokamak {

// 1. If the end tokens' probabilities, times the number of candidates, exceed those of the text tokens, only the end
//    tokens stay.
// 2. Of two text tokens of which one's text begins with the other's, the more probable (ties: lowest id) takes the
//    probability of both; best first, among the 256 best: others cannot pass the next rule by themselves.
// 3. Text tokens below 0.2 go. If none is left, it ends: with the end tokens, or the best one that is allowed if a
//    filter removed them all; where none is allowed, the best text token stays.
// 4. Of n text tokens left, those with less than 1/(n+1) of what is left go, but the best stays. End tokens stay.
void infill(Candidates& candidates, const SamplerVocab& vocab);

}  // namespace tokamak

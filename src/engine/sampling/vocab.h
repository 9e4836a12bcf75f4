// What the sampler must know of the vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/sampling/history.h"

namespace tokamak {

struct SamplerVocab {
  size_t n_vocab = 0;
  std::vector<int32_t> end_of_generation;  // forbidden by ignore_eos; what infill may end with
  TokenText text;                          // bytes of a token, for DRY's breakers and infill; may be empty
};

}  // namespace tokamak

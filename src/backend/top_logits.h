// The largest logits of a row: all that most samplers look at.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokamak {

struct TopLogit {
  int32_t id = -1;  // -1: the row has no more
  float logit = 0;
};

// How many a backend gives that selects them on its device.
inline constexpr size_t kTopLogits = 128;

}  // namespace tokamak

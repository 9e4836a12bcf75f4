// What a router makes of its logits.
#pragma once

#include <cstdint>

namespace tokamak::arch {

// Values of the key expert_gating_func; none: the key is not there.
enum class Gating : uint8_t {
  none = 0,
  softmax = 1,
  sigmoid = 2,
  selected_softmax = 3,  // of the logits of the chosen experts alone
  sqrt_softplus = 4,
};

}  // namespace tokamak::arch

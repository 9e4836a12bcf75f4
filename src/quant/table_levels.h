// Levels (see scale_search.h) that are not evenly spaced, for encoders of types whose codes look up a table.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include "quant/lanes.h"

namespace tokamak {

// n values in ascending order. A lane takes the lowest value, then climbs one step for every midpoint it exceeds.
template <size_t n>
class TableLevels {
 public:
  template <class Value>
  explicit constexpr TableLevels(const std::array<Value, n>& values) : lowest_(static_cast<float>(values[0])) {
    for (size_t k = 0; k + 1 < n; ++k) {
      const float low = static_cast<float>(values[k]), high = static_cast<float>(values[k + 1]);
      middle_[k] = (low + high) / 2;
      step_[k] = high - low;
    }
  }
  F32x4 nearest(F32x4 v) const {
    F32x4 level = splat4(lowest_);
    for (size_t k = 0; k + 1 < n; ++k) level += mask4(v > splat4(middle_[k]), splat4(step_[k]));
    return level;
  }
  // The index of the value nearest to v, the lower one of equals.
  int code(float v) const {
    int code = 0;
    for (const float middle : middle_) code += v > middle;
    return code;
  }

 private:
  float lowest_;
  std::array<float, n - 1> middle_{}, step_{};
};

}  // namespace tokamak

// The gated activations in double precision, by ir::Glu.
#pragma once

#include <algorithm>
#include <cmath>

namespace tokamak::cuda {

inline double glu_value(int kind, double g, double u, double alpha, double limit) {
  const auto times_sigmoid = [](double x, double y) { return x / (1.0 + std::exp(-y)); };
  switch (kind) {
    case 0:
      return std::max(0.0, g) * u;
    case 1:
      return times_sigmoid(g, 2.0 * std::sqrt(2.0 / std::acos(-1.0)) * (g + 0.044715 * g * g * g)) * u;
    case 2:
      return times_sigmoid(g, g) * u;
    case 3:
      return g * 0.5 * std::erfc(-g / std::sqrt(2.0)) * u;
    case 4:
      return times_sigmoid(g, 1.702 * g) * u;
    default: {
      const double gate = std::min(g, limit), up = std::min(std::max(u, -limit), limit);
      return (up + 1.0) * times_sigmoid(gate, alpha * gate);
    }
  }
}

}  // namespace tokamak::cuda

// Whole units: the one place for this arithmetic.
#pragma once

#include <concepts>

namespace tokamak {

// Units needed to hold n >= 0 items; unit >= 1. n + unit - 1 must not overflow (also below).
template <std::integral T>
constexpr T div_round_up(T n, T unit) {
  return (n + unit - 1) / unit;
}

// The smallest multiple of `unit` that is at least n.
template <std::integral T>
constexpr T round_up(T n, T unit) {
  return div_round_up(n, unit) * unit;
}

}  // namespace tokamak

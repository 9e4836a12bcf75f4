// Normalised mean square error.
#pragma once

#include <cmath>
#include <limits>
#include <span>

namespace tokamak {

// sum (a - b)^2 / sum b^2 in f64, b the reference. Of equal arrays 0; infinities that are equal are left out. NaN or
// infinite, and so never below a bound, when the sizes differ, when b is 0 and a is not, and for other NaN and
// infinities.
inline double nmse(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::quiet_NaN();
  double error = 0, total = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i] && std::isinf(b[i])) continue;
    const double difference = double{a[i]} - double{b[i]};
    error += difference * difference;
    total += double{b[i]} * double{b[i]};
  }
  return error == 0 ? 0 : error / total;
}

}  // namespace tokamak

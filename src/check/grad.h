// Gradients of the reference backend's backward forms against finite differences of its ops.
#pragma once

#include <string>
#include <vector>

#include "check/case.h"

namespace tokamak::check {

// The published limit, of the mean absolute asymmetry sum |a - b| / sum |a + b| of a constant's elements.
inline constexpr double kMaxAsymmetry = 1e-4;

struct GradReport {
  std::string name;
  double asymmetry = 0;    // largest of all constants
  int64_t n_elements = 0;  // compared
  std::string why;         // empty: passed

  bool passed() const { return why.empty(); }
};

// One case or more per op with a backward form, and a whole decoder block of them.
std::vector<Recipe> grad_recipes();

// The gradient of sum_i r_i y_i, r random, by every F32 constant of the case. Differences: six points around x, h
// apart,
//   (45 (f(x + h) - f(x - h)) - 9 (f(x + 2h) - f(x - 2h)) + f(x + 3h) - f(x - 3h)) / 60h,
// off by the seventh derivative times h^6/140 and, since results are stored as f32, by 2^-24 |f| / h. With h = 2^-4 the
// second is mostly the larger one; where it is not, h = 2^-5 decides. Constants are multiples of 2^-16, so that the
// points are exact. Changes the case's constants while it runs and restores them.
GradReport check_gradients(const Recipe& recipe, uint64_t seed, Backend& reference);

}  // namespace tokamak::check

// Choosing a scale for a group of elements by weighted least squares. Used by encoders only.
#pragma once

#include <cstdint>

namespace tokamak {

// A scale s and codes q[n] in [q_min, q_max], q_min < 0 < q_max, that make sum_i w_i (x_i - s q_i)^2 small: candidate
// inverse scales around q_min / extreme are rounded, each is refitted in closed form, the best is kept.
//   w  null (all 1) or n weights >= 0
// Returns s, 0 when all x are 0. The codes are those for the returned, unrounded s.
float fit_scale(const float* x, const float* w, int n, int q_min, int q_max, int8_t* q);

struct ScaleAndMin {
  float scale, min;  // both >= 0; y = scale * q - min
};
// The same for y_i = scale * q_i - min with q_i in [0, q_max]: candidate steps over the range of x (with 0), then
// scale and min refitted together.
ScaleAndMin fit_scale_and_min(const float* x, const float* w, int n, int q_max, uint8_t* q);

}  // namespace tokamak

#include "quant/scale_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tokamak {

namespace {

constexpr int kSteps = 9;           // candidates on either side of the plain inverse scale
constexpr float kStepCodes = 0.1f;  // how far one candidate moves the end of the code range, in codes

double weight(const float* w, int i) { return w ? static_cast<double>(w[i]) : 1.0; }

int clamped_round(double v, int low, int high) {
  return static_cast<int>(std::clamp(std::nearbyint(v), static_cast<double>(low), static_cast<double>(high)));
}

}  // namespace

float fit_scale(const float* x, const float* w, int n, int q_min, int q_max, int8_t* q) {
  float extreme = 0.0f;
  for (int i = 0; i < n; ++i)
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  std::fill_n(q, n, int8_t{0});
  if (extreme == 0.0f) return 0.0f;

  double best_scale = 0.0, best_gain = -1.0;  // gain: how much of sum w x^2 the fit explains
  for (int step = -kSteps; step <= kSteps; ++step) {
    const double inverse = (q_min + static_cast<double>(kStepCodes) * step) / static_cast<double>(extreme);
    double xq = 0.0, qq = 0.0;
    for (int i = 0; i < n; ++i) {
      const int code = clamped_round(x[i] * inverse, q_min, q_max);
      xq += weight(w, i) * x[i] * code;
      qq += weight(w, i) * code * code;
    }
    if (qq > 0.0 && xq * xq / qq > best_gain) {
      best_gain = xq * xq / qq;
      best_scale = xq / qq;
    }
  }
  if (best_scale == 0.0) return 0.0f;
  for (int i = 0; i < n; ++i) q[i] = static_cast<int8_t>(clamped_round(x[i] / best_scale, q_min, q_max));
  return static_cast<float>(best_scale);
}

namespace {

struct Affine {
  double scale, min, error;
};

// Codes for (inverse, low), then the least-squares line through them with min >= 0 and scale >= 0.
Affine refit(const float* x, const float* w, int n, double inverse, double low, int q_max) {
  double sw = 0, sx = 0, sq = 0, sxq = 0, sqq = 0, sxx = 0;
  for (int i = 0; i < n; ++i) {
    const double q = clamped_round((x[i] - low) * inverse, 0, q_max), wi = weight(w, i), xi = x[i];
    sw += wi, sx += wi * xi, sq += wi * q, sxq += wi * xi * q, sqq += wi * q * q, sxx += wi * xi * xi;
  }
  const double det = sw * sqq - sq * sq;
  Affine fit{0.0, 0.0, std::numeric_limits<double>::infinity()};
  if (det <= 0.0) return fit;
  fit.scale = (sw * sxq - sx * sq) / det;
  fit.min = (sq * sxq - sqq * sx) / det;
  if (fit.min < 0.0) {
    fit.min = 0.0;
    fit.scale = sqq > 0.0 ? sxq / sqq : 0.0;
  }
  if (fit.scale <= 0.0) return fit;
  const double s = fit.scale, m = fit.min;
  fit.error = sxx - 2 * s * sxq + 2 * m * sx + s * s * sqq - 2 * s * m * sq + m * m * sw;
  return fit;
}

}  // namespace

ScaleAndMin fit_scale_and_min(const float* x, const float* w, int n, int q_max, uint8_t* q) {
  const auto [low_it, high_it] = std::minmax_element(x, x + n);
  const double low = std::min(static_cast<double>(*low_it), 0.0), high = static_cast<double>(*high_it);
  std::fill_n(q, n, uint8_t{0});
  if (high <= low) return {0.0f, static_cast<float>(-low)};  // all equal and <= 0

  Affine best{(high - low) / q_max, -low, std::numeric_limits<double>::infinity()};
  for (int step = -kSteps; step <= kSteps; ++step) {
    const double inverse = (q_max + static_cast<double>(kStepCodes) * step) / (high - low);
    const Affine fit = refit(x, w, n, inverse, low, q_max);
    if (fit.error < best.error) best = fit;
  }
  for (int i = 0; i < n; ++i) q[i] = static_cast<uint8_t>(clamped_round((x[i] + best.min) / best.scale, 0, q_max));
  return {static_cast<float>(best.scale), static_cast<float>(best.min)};
}

}  // namespace tokamak

// Choosing scales by weighted least squares: candidate scales are tried, each is refitted in closed form to the codes
// it gives, the best is kept. Used by encoders only. Units are those of Samples.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "quant/lanes.h"
#include "quant/samples.h"

namespace tokamak {

// n elements that share a scale; n is a multiple of 4. Views into Samples.
struct Run {
  const float *x, *w, *wx;
  int n;
};
template <int n>
Run run_of(const Samples<n>& samples, int begin, int length) {
  return {samples.x + begin, samples.w + begin, samples.wx + begin, length};
}
float weighted_squares(const Run& run);  // sum w x^2

// --- y = scale * q, q a level.

// Levels are objects with F32x4 nearest(F32x4): the level nearest to each lane.
struct IntegerLevels {
  float low, high;  // integers
  F32x4 nearest(F32x4 v) const { return round4(min4(max4(v, splat4(low)), splat4(high))); }
};

// What a choice of levels explains: sum w (x - s q)^2 = sum w x^2 - 2 s xq + s^2 qq.
struct Moments {
  float xq = 0.0f, qq = 0.0f;                                        // sum w x q, sum w q^2
  float gain() const { return qq > 0.0f ? xq * xq / qq : 0.0f; }     // the error taken away by the best s
  float scale() const { return qq > 0.0f ? xq / qq : 0.0f; }         // the best s
  float gain_of(float s) const { return s * (2.0f * xq - s * qq); }  // the error taken away by s
};

// The moments of the levels nearest to x * inverse.
template <class Levels>
Moments moments_of(const Levels& levels, const Run& run, float inverse) {
  F32x4 xq{}, qq{};
  for (int i = 0; i < run.n; i += 4) {
    const F32x4 q = levels.nearest(load4(run.x + i) * inverse);
    xq += load4(run.wx + i) * q;
    qq += load4(run.w + i) * (q * q);
  }
  return {sum4(xq), sum4(qq)};
}

// The scale with the largest gain. ends: candidates, as the (fractional) level on which the element of largest
// magnitude falls. 0 when all x are 0.
template <class Levels>
float fit_scale(const Levels& levels, const Run& run, std::span<const float> ends) {
  float extreme = 0.0f;
  for (int i = 0; i < run.n; ++i)
    if (std::fabs(run.x[i]) > std::fabs(extreme)) extreme = run.x[i];
  const float unit = inverse_or_zero(extreme);
  float best_gain = 0.0f, best_scale = 0.0f;
  const auto consider = [&](float inverse) {
    const Moments m = moments_of(levels, run, inverse);
    const float gain = m.gain();
    if (!(gain > best_gain)) return false;
    best_gain = gain;
    best_scale = m.scale();
    return true;
  };
  for (const float end : ends) consider(end * unit);
  for (int round = 0; round < 2 && consider(inverse_or_zero(best_scale)); ++round) {
  }
  return best_scale;
}

// --- integer scales of several runs under one f16 super-scale: y = d * code_g * q.

template <int groups>
struct GroupScales {
  F16Scale d;
  int code[groups];  // in [code_low, code_high]
};

template <class Levels, int groups>
struct GroupFit {
  const Levels& levels;
  const Run* runs;  // [groups]
  int code_low, code_high;
  float wanted[groups];  // the best real scale of each group

  // Chooses codes for d among the neighbours of the wanted scale. Returns the gain and what a refit of d needs.
  struct Outcome {
    double gain = 0.0, xq = 0.0, qq = 0.0;
  };
  Outcome assign(float d, int (&code)[groups]) const {
    Outcome total;
    const float inverse = inverse_or_zero(d);
    for (int g = 0; g < groups; ++g) {
      const float low = static_cast<float>(code_low), high = static_cast<float>(code_high);
      const int middle = static_cast<int>(std::nearbyint(std::fmin(std::fmax(wanted[g] * inverse, low), high)));
      Moments best;
      float best_gain = 0.0f;
      code[g] = 0;
      for (int c = std::max(middle - 1, code_low); c <= std::min(middle + 1, code_high); ++c) {
        const float scale = d * static_cast<float>(c);
        const Moments m = moments_of(levels, runs[g], inverse_or_zero(scale));
        if (m.gain_of(scale) > best_gain) best_gain = m.gain_of(scale), best = m, code[g] = c;
      }
      total.gain += static_cast<double>(best_gain);
      total.xq += static_cast<double>(code[g]) * static_cast<double>(best.xq);
      total.qq += static_cast<double>(code[g]) * code[g] * static_cast<double>(best.qq);
    }
    return total;
  }
};

// exponent: of the samples.
template <class Levels, int groups>
GroupScales<groups> fit_group_scales(const Levels& levels, const Run (&runs)[groups], std::span<const float> ends,
                                     int code_low, int code_high, int exponent) {
  GroupFit<Levels, groups> fit{levels, runs, code_low, code_high, {}};
  float extreme = 0.0f;
  for (int g = 0; g < groups; ++g) {
    fit.wanted[g] = fit_scale(levels, runs[g], ends);
    if (std::fabs(fit.wanted[g]) > std::fabs(extreme)) extreme = fit.wanted[g];
  }
  GroupScales<groups> best{};
  best.d = rounded_scale(extreme / static_cast<float>(code_low), exponent);
  auto outcome = fit.assign(best.d.value, best.code);
  if (outcome.qq > 0.0) {
    GroupScales<groups> again{};
    again.d = rounded_scale(outcome.xq / outcome.qq, exponent);
    if (fit.assign(again.d.value, again.code).gain > outcome.gain) return again;
  }
  return best;
}

// --- y = scale * q - min, q in [0, q_max], scale >= 0; min >= 0 unless the type stores its sign.

enum class MinSign { not_negative, any };

struct ScaleAndMin {
  float scale, min;
};

// Sums over a run for codes q; with them the error of any (scale, min) is known.
struct AffineMoments {
  float q = 0.0f, xq = 0.0f, qq = 0.0f;  // sum w q, sum w x q, sum w q^2
};
struct AffineRun {
  Run run;
  float w, x;       // sum w, sum w x
  float low, high;  // the range of x, 0 included where min cannot be negative
  MinSign min_sign;
};
AffineRun affine_run(const Run& run, MinSign min_sign);
AffineMoments affine_moments(const AffineRun& run, float inverse, float offset,
                             float q_max);  // q near x inverse + offset
inline AffineMoments affine_moments(const AffineRun& run, ScaleAndMin fit, float q_max) {
  const float inverse = inverse_or_zero(fit.scale);
  return affine_moments(run, inverse, fit.min * inverse, q_max);
}
// The error that (scale, min) takes away from sum w x^2.
inline float affine_gain(const AffineRun& run, const AffineMoments& m, ScaleAndMin fit) {
  const float s = fit.scale, d = fit.min;
  return s * (2.0f * m.xq - s * m.qq + 2.0f * d * m.q) - d * (2.0f * run.x + d * run.w);
}
// Candidate steps span the range of the run over q_max + t, t from t_low to t_high in n_steps.
struct AffineCandidates {
  float t_low, t_high;
  int n_steps;
};
ScaleAndMin fit_scale_and_min(const AffineRun& run, float q_max, const AffineCandidates& candidates);

template <int groups>
struct GroupScalesAndMins {
  F16Scale d, dmin;
  int scale[groups], min[groups];  // in [0, code_max]
};
template <int groups>
GroupScalesAndMins<groups> fit_group_scales_and_mins(const AffineRun (&runs)[groups], float q_max, int code_max,
                                                     const AffineCandidates& candidates, int exponent);
extern template GroupScalesAndMins<8> fit_group_scales_and_mins<8>(const AffineRun (&)[8], float, int,
                                                                   const AffineCandidates&, int);
extern template GroupScalesAndMins<16> fit_group_scales_and_mins<16>(const AffineRun (&)[16], float, int,
                                                                     const AffineCandidates&, int);

}  // namespace tokamak

// Choosing scales by weighted least squares: candidate scales are tried, each is refitted in closed form to the codes
// it gives, the best is kept. Used by encoders only. Units are those of Samples.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

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

// The two fits with the largest gains whose scales are far enough apart to round to different codes. The second may
// suit the rounded scales better; it is worth a trial when its error is not much larger.
template <class Fit>
struct BestTwo {
  Fit fit[2]{};
  float gain[2] = {-1.0f, -1.0f};

  // True when it is the new first.
  bool offer(const Fit& candidate, float its_gain) {
    const float tie = 3e-7f * its_gain;
    if (its_gain > gain[0] + tie || (its_gain > gain[0] - tie && preferred(candidate, fit[0]))) {
      if (apart(candidate, fit[0])) fit[1] = fit[0], gain[1] = gain[0];
      fit[0] = candidate, gain[0] = its_gain;
      return true;
    }
    if (its_gain > gain[1] && apart(candidate, fit[0])) fit[1] = candidate, gain[1] = its_gain;
    return false;
  }
  // squares: sum w x^2
  int n_worth_trying(float squares) const {
    return gain[1] >= 0.0f && squares - gain[1] <= 1.1f * (squares - gain[0]) + 1e-4f * squares ? 2 : 1;
  }

 private:
  static float scale_of(float scale) { return scale; }
  template <class Affine>
  static float scale_of(const Affine& affine) {
    return affine.scale;
  }
  // Of equals the smaller scale, which leaves finer steps to other groups, then the positive one, so that groups agree.
  static bool preferred(const Fit& a, const Fit& b) {
    const float size_a = std::fabs(scale_of(a)), size_b = std::fabs(scale_of(b));
    return size_a < 0.97f * size_b || (size_a < 1.03f * size_b && scale_of(a) > 0.0f && scale_of(b) < 0.0f);
  }
  static bool apart(const Fit& a, const Fit& b) {
    return std::fabs(scale_of(a) - scale_of(b)) > 0.03f * std::fabs(scale_of(b));
  }
};

// The element of largest magnitude, and the one of largest w x^2. Without importance they are the same.
struct Anchors {
  float extreme, heaviest;
};
Anchors anchors_of(const Run& run);

// The scales with the largest gains. ends: candidates, as the (fractional) level on which the element of largest
// magnitude falls, or the one that weighs most. 0 when all x are 0.
template <class Levels>
BestTwo<float> fit_scales(const Levels& levels, const Run& run, std::span<const float> ends) {
  const Anchors anchors = anchors_of(run);
  BestTwo<float> best;
  best.offer(0.0f, 0.0f);
  const auto consider = [&](float inverse) {
    const Moments m = moments_of(levels, run, inverse);
    return best.offer(m.scale(), m.gain());
  };
  const float unit = inverse_or_zero(anchors.extreme);
  for (const float end : ends) consider(end * unit);
  if (std::fabs(anchors.heaviest) < 0.9f * std::fabs(anchors.extreme))
    for (const float end : ends) consider(end * inverse_or_zero(anchors.heaviest));
  for (int round = 0; round < 2 && consider(inverse_or_zero(best.fit[0])); ++round) {
  }
  return best;
}
template <class Levels>
float fit_scale(const Levels& levels, const Run& run, std::span<const float> ends) {
  return fit_scales(levels, run, ends).fit[0];
}

// --- integer scales of several runs under one f16 super-scale: y = d * code_g * q.

template <int groups>
struct GroupScales {
  F16Scale d;
  int code[groups] = {};  // in [code_low, code_high]
};

template <class Levels, int groups>
struct GroupFit {
  const Levels& levels;
  const Run* runs = nullptr;  // [groups]
  int code_low = 0, code_high = 0;
  BestTwo<float> wanted[groups] = {};  // the best real scales of each group
  int n_wanted[groups] = {};

  // Chooses codes for d among the neighbours of the wanted scales. Returns the gain and what a refit of d needs.
  struct Outcome {
    double gain = 0.0, xq = 0.0, qq = 0.0;
  };
  Outcome assign(float d, int (&code)[groups]) const {
    Outcome total;
    const float inverse = inverse_or_zero(d);
    for (int g = 0; g < groups; ++g) {
      const float low = static_cast<float>(code_low), high = static_cast<float>(code_high);
      Moments best;
      float best_gain = 0.0f;
      code[g] = 0;
      for (int k = 0; k < n_wanted[g]; ++k) {
        const float exact = std::fmin(std::fmax(wanted[g].fit[k] * inverse, low), high);
        const int middle = static_cast<int>(std::nearbyint(exact));
        for (int c = std::max(middle - 1, code_low); c <= std::min(middle + 1, code_high); ++c) {
          const float scale = d * static_cast<float>(c);
          const Moments m = moments_of(levels, runs[g], inverse_or_zero(scale));
          if (m.gain_of(scale) > best_gain) best_gain = m.gain_of(scale), best = m, code[g] = c;
        }
      }
      total.gain += static_cast<double>(best_gain);
      total.xq += static_cast<double>(code[g]) * static_cast<double>(best.xq);
      total.qq += static_cast<double>(code[g]) * code[g] * static_cast<double>(best.qq);
    }
    return total;
  }
};

// exponent: of the samples. alternatives: 1 or 2 fits tried per group; the second matters to types of few levels.
template <class Levels, int groups>
GroupScales<groups> fit_group_scales(const Levels& levels, const Run (&runs)[groups], std::span<const float> ends,
                                     int code_low, int code_high, int exponent, int alternatives) {
  GroupFit<Levels, groups> fit{levels, runs, code_low, code_high, {}, {}};
  float lowest = 0.0f, highest = 0.0f;
  for (int g = 0; g < groups; ++g) {
    fit.wanted[g] = fit_scales(levels, runs[g], ends);
    fit.n_wanted[g] = std::min(fit.wanted[g].n_worth_trying(weighted_squares(runs[g])), alternatives);
    lowest = std::fmin(lowest, fit.wanted[g].fit[0]);
    highest = std::fmax(highest, fit.wanted[g].fit[0]);
  }
  // The lowest code goes to the scale of largest magnitude, whatever its sign; the highest must suffice for the other.
  if (-lowest < highest) std::swap(lowest, highest);
  const float low = static_cast<float>(code_low), high = static_cast<float>(code_high);
  const float unit = std::fabs(highest) * -low > std::fabs(lowest) * high ? highest / high : lowest / low;
  GroupScales<groups> best{};
  best.d = rounded_scale(static_cast<double>(unit), exponent);
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
BestTwo<ScaleAndMin> fit_scales_and_mins(const AffineRun& run, float q_max);

template <int groups>
struct GroupScalesAndMins {
  F16Scale d, dmin;
  int scale[groups] = {}, min[groups] = {};  // in [0, code_max]
};
template <int groups>
GroupScalesAndMins<groups> fit_group_scales_and_mins(const AffineRun (&runs)[groups], float q_max, int code_max,
                                                     int exponent);
extern template GroupScalesAndMins<8> fit_group_scales_and_mins<8>(const AffineRun (&)[8], float, int, int);
extern template GroupScalesAndMins<16> fit_group_scales_and_mins<16>(const AffineRun (&)[16], float, int, int);

}  // namespace tokamak

#include "quant/scale_search.h"

#include <algorithm>

namespace tokamak {

float weighted_squares(const Run& run) {
  F32x4 sum{};
  for (int i = 0; i < run.n; i += 4) sum += load4(run.wx + i) * load4(run.x + i);
  return sum4(sum);
}

Anchors anchors_of(const Run& run) {
  F32x4 low = load4(run.x), high = low, most{}, heaviest{};
  for (int i = 0; i < run.n; i += 4) {
    const F32x4 x = load4(run.x + i), square = load4(run.wx + i) * x;
    low = min4(x, low);
    high = max4(x, high);
    heaviest = square > most ? x : heaviest;
    most = max4(square, most);
  }
  int lane = 0;
  for (int k = 1; k < 4; ++k)
    if (most[k] > most[lane]) lane = k;
  const float lowest = std::min({low[0], low[1], low[2], low[3]}),
              highest = std::max({high[0], high[1], high[2], high[3]});
  return {-lowest > highest ? lowest : highest, heaviest[lane]};
}

AffineRun affine_run(const Run& run, MinSign min_sign) {
  F32x4 w{}, x{}, high = splat4(run.x[0]), low = min_sign == MinSign::any ? high : F32x4{};
  for (int i = 0; i < run.n; i += 4) {
    const F32x4 v = load4(run.x + i);
    w += load4(run.w + i);
    x += load4(run.wx + i);
    low = min4(v, low);
    high = max4(v, high);
  }
  return {run,
          sum4(w),
          sum4(x),
          std::min({low[0], low[1], low[2], low[3]}),
          std::max({high[0], high[1], high[2], high[3]}),
          min_sign};
}

AffineMoments affine_moments(const AffineRun& group, float inverse, float offset, float q_max) {
  const IntegerLevels levels{0.0f, q_max};
  F32x4 sq{}, xq{}, qq{};
  for (int i = 0; i < group.run.n; i += 4) {
    const F32x4 q = levels.nearest(load4(group.run.x + i) * inverse + offset);
    const F32x4 wq = load4(group.run.w + i) * q;
    sq += wq;
    xq += load4(group.run.wx + i) * q;
    qq += wq * q;
  }
  return {sum4(sq), sum4(xq), sum4(qq)};
}

namespace {

// The least-squares line through the codes, within the allowed signs.
ScaleAndMin refit(const AffineRun& run, const AffineMoments& m) {
  const float det = run.w * m.qq - m.q * m.q;
  if (det > 1e-6f * run.w * m.qq) {
    const ScaleAndMin fit{(run.w * m.xq - run.x * m.q) / det, (m.q * m.xq - m.qq * run.x) / det};
    if (fit.scale >= 0.0f && (fit.min >= 0.0f || run.min_sign == MinSign::any)) return fit;
  } else if (run.min_sign == MinSign::any) {  // one code for all
    return {0.0f, -run.x / run.w};
  }
  return {m.qq > 0.0f ? std::fmax(m.xq / m.qq, 0.0f) : 0.0f, 0.0f};
}

// Candidate steps: the range of a run over q_max + t. Above 0 some of the range is cut off, at -1 one code is spare.
constexpr float kSpare[] = {-1.0f, -0.67f, -0.33f, 0.0f, 0.33f, 0.67f, 1.0f, 1.33f, 1.67f, 2.0f};

// The range of a run without the elements far outside of the weighted distribution.
struct Range {
  float low, high;
};
Range core_range(const AffineRun& run) {
  const float mean = run.x / run.w, variance = weighted_squares(run.run) / run.w - mean * mean;
  const float reach = 2.5f * std::sqrt(std::fmax(variance, 0.0f));
  const float low = std::fmax(run.low, mean - reach), high = std::fmin(run.high, mean + reach);
  return {run.min_sign == MinSign::any ? low : std::fmin(low, 0.0f), high};
}

}  // namespace

BestTwo<ScaleAndMin> fit_scales_and_mins(const AffineRun& run, float q_max) {
  ScaleAndMin level{0.0f, -run.x / run.w};  // one value for all
  if (run.min_sign == MinSign::not_negative) level.min = std::fmax(level.min, 0.0f);
  BestTwo<ScaleAndMin> best;
  best.offer(level, affine_gain(run, {}, level));
  if (!(run.high > run.low)) return best;
  const auto consider = [&](const AffineMoments& m) {
    const ScaleAndMin fit = refit(run, m);
    return best.offer(fit, affine_gain(run, m, fit));
  };
  const bool low_end_moves = run.low < 0.0f || run.min_sign == MinSign::any;
  const auto consider_range = [&](float low, float span, float t) {
    const float inverse = (q_max + t) / span, offset = -low * inverse;
    // What does not fit is cut off at the top, or at the bottom unless that is the fixed 0.
    consider(affine_moments(run, inverse, offset, q_max));
    if (t > 0.0f && low_end_moves) consider(affine_moments(run, inverse, offset - t, q_max));
  };
  const float span = run.high - run.low;
  for (const float t : kSpare) consider_range(run.low, span, t);
  const Range core = core_range(run);
  if (core.high - core.low < 0.7f * span)
    for (const float t : kSpare) consider_range(core.low, core.high - core.low, t);
  for (int round = 0; round < 2 && consider(affine_moments(run, best.fit[0], q_max)); ++round) {
  }
  return best;
}

namespace {

int clamped_code(float v, int high) {
  return static_cast<int>(std::nearbyint(std::fmin(std::fmax(v, 0.0f), static_cast<float>(high))));
}

// Sums over the groups from which the best (d, dmin) for given integer codes follow.
struct Normal {
  double ss = 0, sm = 0, mm = 0, s = 0, m = 0;
};

template <int groups>
struct AffineFit {
  const AffineRun (&runs)[groups];
  float q_max = 0.0f;
  int code_max = 0;
  BestTwo<ScaleAndMin> wanted[groups] = {};
  int n_wanted[groups] = {};

  // Chooses the integer scale and min of every group for (d, dmin). Returns the gain.
  double assign(GroupScalesAndMins<groups>& out, Normal& normal) const {
    const float d = out.d.value, dmin = out.dmin.value, inverse_d = inverse_or_zero(d),
                inverse_dmin = inverse_or_zero(dmin);
    double total = 0.0;
    normal = {};
    for (int g = 0; g < groups; ++g) {
      const AffineRun& run = runs[g];
      AffineMoments best{};
      float best_gain = -1e30f;
      const auto consider = [&](int scale, int min) {
        const ScaleAndMin fit{d * static_cast<float>(scale), dmin * static_cast<float>(min)};
        const AffineMoments m = affine_moments(run, fit, q_max);
        const float gain = affine_gain(run, m, fit);
        if (!(gain > best_gain)) return;
        best_gain = gain, best = m, out.scale[g] = scale, out.min[g] = min;
      };
      for (int k = 0; k < n_wanted[g]; ++k) {
        const ScaleAndMin& fit = wanted[g].fit[k];
        const AffineMoments start = affine_moments(run, fit, q_max);
        const int middle = clamped_code(fit.scale * inverse_d, code_max);
        for (int scale = std::max(middle - 1, 0); scale <= std::min(middle + 1, code_max); ++scale) {
          // The best min for the codes of the wanted fit under this scale.
          const float min = (d * static_cast<float>(scale) * start.q - run.x) / run.w;
          consider(scale, clamped_code(min * inverse_dmin, code_max));
        }
      }
      total += static_cast<double>(best_gain);
      const double s = out.scale[g], m = out.min[g];
      normal.ss += s * s * static_cast<double>(best.qq), normal.sm += s * m * static_cast<double>(best.q);
      normal.mm += m * m * static_cast<double>(run.w), normal.s += s * static_cast<double>(best.xq);
      normal.m += m * static_cast<double>(run.x);
    }
    return total;
  }
};

}  // namespace

template <int groups>
GroupScalesAndMins<groups> fit_group_scales_and_mins(const AffineRun (&runs)[groups], float q_max, int code_max,
                                                     int exponent) {
  AffineFit<groups> fit{runs, q_max, code_max};
  float largest_scale = 0.0f, largest_min = 0.0f;
  for (int g = 0; g < groups; ++g) {
    fit.wanted[g] = fit_scales_and_mins(runs[g], q_max);
    fit.n_wanted[g] = fit.wanted[g].n_worth_trying(weighted_squares(runs[g].run));
    largest_scale = std::fmax(largest_scale, fit.wanted[g].fit[0].scale);
    largest_min = std::fmax(largest_min, fit.wanted[g].fit[0].min);
  }
  GroupScalesAndMins<groups> best{};
  best.d = rounded_scale(largest_scale / static_cast<float>(code_max), exponent);
  best.dmin = rounded_scale(largest_min / static_cast<float>(code_max), exponent);
  Normal normal;
  double gain = fit.assign(best, normal);
  for (int round = 0; round < 2; ++round) {
    const double det = normal.ss * normal.mm - normal.sm * normal.sm;
    if (!(det > 0.0)) break;
    GroupScalesAndMins<groups> again{};
    again.d = rounded_scale((normal.mm * normal.s - normal.sm * normal.m) / det, exponent);
    again.dmin = rounded_scale((normal.sm * normal.s - normal.ss * normal.m) / det, exponent);
    if (!(again.d.value > 0.0f && again.dmin.value >= 0.0f)) break;
    const double again_gain = fit.assign(again, normal);
    if (!(again_gain > gain)) break;
    gain = again_gain;
    best = again;
  }
  return best;
}

template GroupScalesAndMins<8> fit_group_scales_and_mins<8>(const AffineRun (&)[8], float, int, int);
template GroupScalesAndMins<16> fit_group_scales_and_mins<16>(const AffineRun (&)[16], float, int, int);

}  // namespace tokamak

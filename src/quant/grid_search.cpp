#include "quant/grid_search.h"

#include <cstring>
#include <limits>

#include "quant/lanes.h"

namespace tokamak {

namespace {

// The table entry of `n` packed codes: the number whose digits in base `levels` they are.
template <class Shape>
int half_entry(unsigned packed) {
  int entry = 0;
  for (int k = Shape::elems / 2 - 1; k >= 0; --k)
    entry = entry * Shape::levels + static_cast<int>((packed >> (Shape::bits * k)) & ((1u << Shape::bits) - 1));
  return entry;
}

// sums[i + n_a * j] = a[i] + b[j].
template <int n_a, int n_b>
void outer_sum(const float* a, const float* b, float* sums) {
  for (int j = 0; j < n_b; ++j)
    for (int i = 0; i < n_a; ++i) sums[n_a * j + i] = a[i] + b[j];
}

}  // namespace

template <class Shape>
Grid<Shape>::Grid(std::span<const uint16_t> points) : points_(points) {
  constexpr int half_bits = Shape::bits * Shape::elems / 2;
  index_.resize(size_t{Shape::half_size} * Shape::half_size, -1);
  for (size_t i = 0; i < points.size(); ++i) {
    const int high = half_entry<Shape>(points[i] >> half_bits),
              low = half_entry<Shape>(points[i] & ((1u << half_bits) - 1));
    low_.push_back(static_cast<uint8_t>(low));
    index_[static_cast<size_t>(low + Shape::half_size * high)] = static_cast<int16_t>(i);
    Bundle& bundle = bundles_[static_cast<size_t>(high)];
    if (bundle.end == 0) bundle.begin = static_cast<uint16_t>(i);
    bundle.end = static_cast<uint16_t>(i + 1);
  }
}

template <class Shape>
typename Grid<Shape>::Found Grid<Shape>::nearest(const float* x, const float* w, float scale, const Levels& values,
                                                 float limit) const {
  float single[Shape::elems][levels];
  for (int k = 0; k < Shape::elems; ++k)
    for (int level = 0; level < levels; ++level) {
      const float error = x[k] - scale * values[static_cast<size_t>(level)];
      single[k][level] = w[k] * error * error;
    }
  int entry[2] = {0, 0};  // of the vector rounded element by element
  float least = 0.0f;
  for (int k = Shape::elems - 1; k >= 0; --k) {
    int best = 0;
    for (int level = 1; level < levels; ++level) best = single[k][level] < single[k][best] ? level : best;
    int& half = entry[2 * k / Shape::elems];
    half = half * levels + best;
    least += single[k][best];
  }
  const int rounded = index_[static_cast<size_t>(entry[0] + Shape::half_size * entry[1])];
  if (rounded >= 0) return {rounded, least};
  if (least >= limit) return {0, least};  // no point is nearer than the vector rounded freely

  Halves errors;
  for (int i = Shape::half_size; i < kHalfRoom; ++i) errors.high[i] = std::numeric_limits<float>::infinity();
  if constexpr (Shape::elems == 4) {
    outer_sum<levels, levels>(single[0], single[1], errors.low);
    outer_sum<levels, levels>(single[2], single[3], errors.high);
  } else {
    float pair[4][levels * levels];
    for (int p = 0; p < 4; ++p) outer_sum<levels, levels>(single[2 * p], single[2 * p + 1], pair[p]);
    outer_sum<levels * levels, levels * levels>(pair[0], pair[1], errors.low);
    outer_sum<levels * levels, levels * levels>(pair[2], pair[3], errors.high);
  }
  return search(entry[0], entry[1], errors, limit);
}

template <class Shape>
typename Grid<Shape>::Found Grid<Shape>::search(int high, const Halves& errors, Found best) const {
  const float base = errors.high[high];
  const Bundle bundle = bundles_[static_cast<size_t>(high)];
  for (int i = bundle.begin; i < bundle.end; ++i) {
    const float error = base + errors.low[low_[static_cast<size_t>(i)]];
    if (error < best.error) best = {i, error};
  }
  return best;
}

// low, high: where the errors are smallest.
template <class Shape>
typename Grid<Shape>::Found Grid<Shape>::search(int low, int high, const Halves& errors, float limit) const {
  const float least_low = errors.low[low];
  // Begin where the best point is likely, so that most other bundles are skipped.
  Found best = search(high, errors, {0, limit});
  for (int first = 0; first < Shape::half_size; first += 4) {
    const I32x4 promising = load4(errors.high + first) + least_low < splat4(best.error);
    int64_t any[2];
    std::memcpy(any, &promising, sizeof any);
    if ((any[0] | any[1]) == 0) continue;
    for (int k = 0; k < 4; ++k)
      if (promising[k]) best = search(first + k, errors, best);
  }
  return best;
}

template class Grid<EightOfThree>;
template class Grid<FourOfEight>;

}  // namespace tokamak

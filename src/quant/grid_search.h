// The nearest point of a published grid, exactly, for weighted squared errors. Used by the IQ encoders.
//
// The squared error of a point is a sum over its elements, so the two halves of a vector are tabulated separately
// (81 or 64 entries each) and a point costs one addition. The vector rounded element by element is the answer when it
// is a point of the grid. Otherwise points that share a high half are visited together, and skipped together when that
// half alone is already worse than the best point so far.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tokamak {

// shape of a grid: a point has `elems` elements, each one of `levels`, packed in `bits` bits from the lowest.
struct EightOfThree {  // IQ1 and IQ2
  static constexpr int elems = 8, levels = 3, bits = 2, half_size = 81;
};
struct FourOfEight {  // IQ3
  static constexpr int elems = 4, levels = 8, bits = 3, half_size = 64;
};

template <class Shape>
class Grid {
 public:
  static constexpr int elems = Shape::elems, levels = Shape::levels;
  using Levels = std::array<float, levels>;

  // points: sorted, so that points with equal high halves are neighbours; must outlive the grid.
  explicit Grid(std::span<const uint16_t> points);

  struct Found {
    int index;
    float error;
  };
  // The point with the least sum_k w_k (x_k - scale * level_k)^2. When that is not below `limit`, some index with an
  // error >= limit.
  Found nearest(const float* x, const float* w, float scale, const Levels& values, float limit) const;

  int level(int index, int k) const {
    return (points_[static_cast<size_t>(index)] >> (Shape::bits * k)) & ((1 << Shape::bits) - 1);
  }

 private:
  struct Bundle {  // points [begin, end) share a high half
    uint16_t begin = 0, end = 0;
  };
  static constexpr int kHalfRoom = (Shape::half_size + 3) / 4 * 4;
  struct Halves {  // squared errors of every half point
    alignas(16) float low[kHalfRoom], high[kHalfRoom];
  };
  Found search(int high, const Halves& errors, Found best) const;
  Found search(int low, int high, const Halves& errors, float limit) const;

  std::span<const uint16_t> points_;
  std::vector<uint8_t> low_;                      // the half table entry of each point
  std::array<Bundle, Shape::half_size> bundles_;  // by entry of the high half
  std::vector<int16_t> index_;                    // by low entry + half_size * high entry; -1: no point
};

extern template class Grid<EightOfThree>;
extern template class Grid<FourOfEight>;

}  // namespace tokamak

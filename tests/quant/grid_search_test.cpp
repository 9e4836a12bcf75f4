#include "quant/grid_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "quant/iq_tables.h"
#include "quant/table_levels.h"

namespace tokamak {
namespace {

// Against all points, one after the other.
template <class Shape, size_t n_points>
void check_grid(const std::array<uint16_t, n_points>& points, const typename Grid<Shape>::Levels& values) {
  const Grid<Shape> grid{points};
  std::mt19937 random(static_cast<uint32_t>(n_points));
  std::normal_distribution<float> normal;
  for (int n = 0; n < 300; ++n) {
    float x[Shape::elems], w[Shape::elems];
    for (int k = 0; k < Shape::elems; ++k) x[k] = 10 * normal(random), w[k] = std::exp(2 * normal(random));
    const float scale = std::exp(normal(random)) / 3;
    double least = std::numeric_limits<double>::infinity();
    const auto error_of = [&](int index) {
      double error = 0.0;
      for (int k = 0; k < Shape::elems; ++k)
        error += static_cast<double>(w[k]) *
                 std::pow(static_cast<double>(x[k]) -
                              static_cast<double>(scale) *
                                  static_cast<double>(values[static_cast<size_t>(grid.level(index, k))]),
                          2);
      return error;
    };
    for (size_t i = 0; i < n_points; ++i) least = std::min(least, error_of(static_cast<int>(i)));
    const auto found = grid.nearest(x, w, scale, values, std::numeric_limits<float>::infinity());
    EXPECT_LE(error_of(found.index), least * (1 + 1e-5)) << n_points << " points";
    EXPECT_NEAR(static_cast<double>(found.error), least, 1e-5 * least);
    EXPECT_EQ(grid.nearest(x, w, scale, values, found.error * 1.001f).index, found.index);
    EXPECT_GE(grid.nearest(x, w, scale, values, found.error * 0.9f).error, found.error * 0.9f);
  }
}

TEST(Grid, NearestIsTheNearestOfAllPoints) {
  check_grid<EightOfThree>(kIq2XxsGrid, {8, 25, 43});
  check_grid<EightOfThree>(kIq2XsGrid, {8, 25, 43});
  check_grid<EightOfThree>(kIq2SGrid, {8, 25, 43});
  check_grid<EightOfThree>(kIq1Grid, {-0.875f, 0.125f, 1.125f});
  check_grid<FourOfEight>(kIq3XxsGrid, {4, 12, 20, 28, 36, 44, 52, 62});
  check_grid<FourOfEight>(kIq3SGrid, {1, 3, 5, 7, 9, 11, 13, 15});
}

TEST(Grid, PointsAreFoundAsThemselves) {
  const Grid<EightOfThree> grid{kIq1Grid};
  const float w[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (int i = 0; i < 2048; ++i) {
    float x[8];
    for (int k = 0; k < 8; ++k) x[k] = static_cast<float>(grid.level(i, k) - 1);
    const auto found = grid.nearest(x, w, 1.0f, {-1, 0, 1}, 1.0f);
    EXPECT_EQ(found.index, i);
    EXPECT_EQ(found.error, 0.0f);
  }
}

TEST(TableLevels, NearestValueOfTheTable) {
  const TableLevels<16> levels(std::to_array(kIq4Values));
  for (float v = -150.0f; v < 150.0f; v += 0.37f) {
    float best = kIq4Values[0];
    for (int8_t value : kIq4Values)
      if (std::fabs(v - static_cast<float>(value)) < std::fabs(v - best)) best = value;
    const F32x4 found = levels.nearest(F32x4{0.0f, v, -1000.0f, 1000.0f});
    EXPECT_EQ(found[1], best) << v;
    EXPECT_EQ(static_cast<float>(kIq4Values[levels.code(v)]), best) << v;
    EXPECT_EQ(found[2], -127.0f);
    EXPECT_EQ(found[3], 113.0f);
  }
}

}  // namespace
}  // namespace tokamak

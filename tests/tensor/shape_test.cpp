#include "tensor/shape.h"

#include <gtest/gtest.h>

namespace tokamak {
namespace {

TEST(Shape, DimensionsFromBothEnds) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[2], 5);
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape[-3], 2);
}

TEST(Shape, Counts) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.n_elements(), 30);
  EXPECT_EQ(shape.row_elems(), 5);
  EXPECT_EQ(shape.n_rows(), 6);
  EXPECT_EQ(Shape{7}.n_rows(), 1);
  EXPECT_EQ((Shape{4, 0, 8}).n_elements(), 0);
}

TEST(Shape, AScalarIsOneRowOfOne) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.n_elements(), 1);
  EXPECT_EQ(scalar.row_elems(), 1);
  EXPECT_EQ(scalar.n_rows(), 1);
}

TEST(Shape, EqualityMindsTheRank) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_NE((Shape{2}), (Shape{2, 0}));
}

TEST(Shape, SetAndPushInner) {
  Shape shape{4, 6};
  shape.set(0, 9);
  shape.set(-1, 7);
  shape.push_inner(3);
  EXPECT_EQ(shape, (Shape{9, 7, 3}));
}

TEST(Shape, Text) {
  EXPECT_EQ((Shape{64, 576}).to_string(), "[64, 576]");
  EXPECT_EQ(Shape{}.to_string(), "[]");
}

TEST(ShapeDeathTest, FifthDimension) {
  Shape shape{1, 2, 3, 4};
  EXPECT_DEATH(shape.push_inner(5), "rank_ < kMaxDims");
}

static_assert(Shape{8, 32}.n_elements() == 256);

}  // namespace
}  // namespace tokamak

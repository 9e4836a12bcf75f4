// How products are cut: every group of k in one part, no part empty, whatever the shape.
#include "backend/cuda/gemm/plan.h"

#include <gtest/gtest.h>

namespace tokamak::cuda {
namespace {

TEST(GemmPlan, PartsCoverK) {
  for (const int64_t n_rows : {1, 64, 1000, 4096, 28672, 151936})
    for (const int64_t k : {1, 128, 129, 768, 4096, 14336, 28672})
      for (const int n_cols : {17, 64, 65, 128, 129, 300, 2048, 8192})
        for (const DType dtype : {DType::nvfp4, DType::bf16, DType::f32}) {
          const GemmPlan plan = plan_of(n_rows, k, n_cols, dtype);
          const int64_t n_groups = (k + 127) / 128;
          EXPECT_GE(int64_t{plan.n_splits} * plan.split_groups, n_groups);
          EXPECT_LT(int64_t{plan.n_splits - 1} * plan.split_groups, n_groups);
          EXPECT_TRUE(plan.columns == 64 || plan.columns == 128 || (plan.columns == 256 && dtype != DType::f32));
          EXPECT_GE(plan.n_splits, 1);
          EXPECT_LE(plan.n_splits, 8);
        }
}

TEST(GemmPlan, LargeShapesAreNotSplit) {
  EXPECT_EQ(plan_of(28672, 4096, 64, DType::nvfp4).n_splits, 1);
  EXPECT_EQ(plan_of(4096, 14336, 2048, DType::q4_0).n_splits, 1);
  EXPECT_EQ(plan_of(4096, 14336, 64, DType::nvfp4).n_splits, 8);  // 16 row tiles
}

// Columns of an expert begin at multiples of 8, so the bound must hold for any counts.
TEST(GemmPlan, RouteHasRoomForEveryExpert) {
  for (const int n_tokens : {1, 17, 300, 2048})
    for (const int n_expert : {4, 60, 128, 512})
      for (const int tile_cols : {64, 256}) {
        const RouteShape shape{n_tokens, 4, n_expert, tile_cols};
        // Worst for columns: one more than a multiple of 8 everywhere; for tiles: one more than a tile.
        int pairs = shape.n_pairs(), columns = 0, tiles = 0;
        for (int e = 0; e < n_expert && pairs > 0; ++e) {
          const int count = e + 1 < n_expert && pairs > 1 ? 1 : pairs;
          columns += (count + 7) / 8 * 8;
          tiles += (count + tile_cols - 1) / tile_cols;
          pairs -= count;
        }
        EXPECT_LE(columns, shape.n_columns());
        EXPECT_LE(tiles, shape.most_tiles());
      }
}

}  // namespace
}  // namespace tokamak::cuda

#include "eval/fusion_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eval/fusion_structure.h"
#include "support/tiny_model.h"

namespace tokamak {
namespace {

uint64_t count_of(const FusionRun& run, std::string_view label) {
  uint64_t n = 0;
  for (const FusionRow& row : run.rows)
    if (row.label == label && row.mode != "decode") n += row.count;
  return n;
}

TEST(FusionRun, CountsAndErrorsOfAModel) {
  const auto path = test::write_tiny_model({.arch = "qwen3", .types = {DType::f16}});
  const auto run = run_fusion(path, {.n_threads = 1});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->model, path.stem().string());
  EXPECT_EQ(run->arch, "qwen3");
  EXPECT_FALSE(run->has_experts);
  EXPECT_TRUE(run->is_plain);
  EXPECT_GT(run->rows.size(), 1u);
  EXPECT_TRUE(std::ranges::is_sorted(run->rows));
  EXPECT_GE(count_of(*run, "RMS_NORM+MUL"), 5u);
  EXPECT_TRUE(excesses(*run).empty());
  for (const FusionErrors& errors : run->errors) {
    EXPECT_LE(errors.to_unfused, kFusionTolerance);
    EXPECT_LE(errors.to_reference, kFusionTolerance);
  }
}

TEST(FusionRun, TheReferenceMatchesEveryRule) {
  const auto run = run_fusion(test::write_tiny_model({.arch = "qwen3"}), {.device = "reference", .n_threads = 1});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_FALSE(run->is_plain);  // Q8_0
  EXPECT_GT(count_of(*run, "RMS_NORM+MUL+ROPE+VIEW+SET_ROWS"), 0u);
  for (const FusionErrors& errors : run->errors) {
    EXPECT_EQ(errors.to_unfused, 0);
    EXPECT_EQ(errors.to_reference, 0);
  }
}

TEST(FusionRun, ExcessesNameModelModeAndComparison) {
  FusionRun run{.model = "m", .is_plain = true};
  run.errors[0] = {.to_unfused = 2e-4, .to_reference = 0};
  run.errors[1] = {.to_unfused = 0, .to_reference = std::nan("")};
  const auto found = excesses(run);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(found[0].find("m: prefill: NMSE 0.0002 fused to unfused"), std::string::npos) << found[0];
  EXPECT_NE(found[1].find("m: decode: NMSE nan fused to the reference"), std::string::npos) << found[1];
  run.is_plain = false;  // quantized weights: their rounding is no error of fusion
  EXPECT_EQ(excesses(run).size(), 1u);
}

TEST(FusionStructure, NormsOfKnownFamilies) {
  const auto counts_of = [](const char* arch) {
    const auto model = Model::open(test::write_tiny_model({.arch = arch}));
    EXPECT_TRUE(model) << model.error().message();
    return structural_text(*structural_counts(**model, 8));
  };
  EXPECT_EQ(counts_of("llama"), "R5");
  EXPECT_EQ(counts_of("qwen3"), "R9");
  EXPECT_EQ(counts_of("gemma3"), "R9 Rb4");
  EXPECT_EQ(structural_text({}), "none");
  EXPECT_EQ(structural_text({{"R", 8}, {"G", 1}, {"A2", 2}}), "A2x2 G1 R8");
}

}  // namespace
}  // namespace tokamak

#include "engine/limit_share.h"

#include <gtest/gtest.h>

namespace tokamak {
namespace {

constexpr DeviceLimits kCpu{.read_bytes_per_second = 100, .int8_ops_per_second = 4000, .f32_ops_per_second = 1000};
constexpr DeviceLimits kGpu{.read_bytes_per_second = 100,
                            .int8_ops_per_second = 4000,
                            .f32_ops_per_second = 1000,
                            .f16_ops_per_second = 32000,
                            .step_seconds = 0.25};

StepReport step(std::string_view kernel, double bytes, double operations) {
  return {.what = "blk.0.ffn_up",
          .label = "MUL_MAT",
          .kernel = std::string(kernel),
          .bytes = bytes,
          .operations = operations,
          .seconds = 1};
}

TEST(LimitShare, IsOfTheKernelsArithmetic) {
  struct Row {
    const char* kernel;
    const DeviceLimits& limits;
    const char* limit;
    double share;
  };
  const Row rows[] = {
      {"gemm_q4_0_16x8_avx2", kCpu, "int8", 0.5},
      {"gemm_f32_8x8_avx2", kCpu, "f32", 2},
      {"gemm_bf16_8x8_avx2", kCpu, "f32", 2},
      {"rms_norm", kCpu, "f32", 2},
      {"gemm_nvfp4", kGpu, "f16", 2000.0 / 32000},
      {"gemm_f32", kGpu, "f16", 2000.0 / 32000},
      {"columns_q4_k", kGpu, "f16", 0.0625},
      {"attention_prefill", kGpu, "f16", 0.0625},
      {"kv_write+attention_decode", kGpu, "f16", 0.0625},
      {"kv_write", kGpu, "f32", 2},
      {"matvec_nvfp4", kGpu, "int8", 0.5},
      {"matvec_bf16", kGpu, "f32", 2},
      {"rms_norm", kGpu, "f32", 2},
  };
  for (const Row& row : rows) {
    DeviceLimits limits = row.limits;
    limits.step_seconds = 0;
    const LimitShare share = share_of(step(row.kernel, 1, 2000), limits);
    EXPECT_EQ(share.limit, row.limit) << row.kernel;
    EXPECT_DOUBLE_EQ(share.value, row.share) << row.kernel;
  }
}

TEST(LimitShare, OfMemoryCountsWhatAStepTakesAnyway) {
  const LimitShare share = share_of(step("gemm_nvfp4", 50, 2000), kGpu);
  EXPECT_EQ(share.limit, "memory");
  EXPECT_DOUBLE_EQ(share.value, 0.75);
}

TEST(LimitShare, TextNamesWhatThereIs) {
  EXPECT_EQ(limits_text({.read_bytes_per_second = 4e12,
                         .int8_ops_per_second = 2e12,
                         .f32_ops_per_second = 1e12,
                         .f16_ops_per_second = 9e14}),
            "reads 4000.0 GB/s, f16 900000 GOPS, int8 2000 GOPS, f32 1000 GOPS");
  EXPECT_EQ(limits_text({.read_bytes_per_second = 2e10, .int8_ops_per_second = 2e11, .f32_ops_per_second = 1e11}),
            "reads 20.0 GB/s, int8 200 GOPS, f32 100 GOPS");
}

}  // namespace
}  // namespace tokamak

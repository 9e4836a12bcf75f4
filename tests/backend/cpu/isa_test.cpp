#include "backend/cpu/isa.h"

#include <gtest/gtest.h>

#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/ops/ops.h"

namespace tokamak::cpu {
namespace {

TEST(Isa, RowsAreInEnumOrderAndFoundByName) {
  for (size_t i = 0; i < kIsas.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(kIsas[i].isa), i);
    EXPECT_EQ(find_isa(kIsas[i].name), kIsas[i].isa);
  }
  EXPECT_EQ(find_isa("AVX2"), std::nullopt);
  EXPECT_EQ(find_isa(""), std::nullopt);
}

TEST(Isa, OnlySetsOfThisProcessorFamily) {
  EXPECT_TRUE(isa_available(Isa::scalar));
#if defined(__x86_64__)
  EXPECT_FALSE(isa_available(Isa::neon));
#else
  EXPECT_FALSE(isa_available(Isa::avx2));
  EXPECT_FALSE(isa_available(Isa::avx512));
#endif
}

TEST(Isa, BestIsAvailableAndScalarOnlyForWantOfOthers) {
  EXPECT_TRUE(isa_available(best_isa()));
  bool others = false;
  for (const IsaRow& row : kIsas) others = others || (row.isa != Isa::scalar && isa_available(row.isa));
  EXPECT_EQ(best_isa() == Isa::scalar, !others);
}

// What is offered is implemented: falling back to scalar in silence would hide a forgotten table row.
TEST(Isa, EveryAvailableSetHasItsOwnKernels) {
  for (const IsaRow& row : kIsas) {
    if (!isa_available(row.isa)) continue;
    EXPECT_EQ(select_gemm_kernel(DType::q8_0, ActivationKind::int16, row.isa).isa, row.isa) << row.name;
    EXPECT_EQ(&op_set(row.isa) == &op_set(Isa::scalar), row.isa == Isa::scalar) << row.name;
  }
}

TEST(IsaDeathTest, MissingSetsAreRefused) {
  for (const IsaRow& row : kIsas)
    if (!isa_available(row.isa)) {
      EXPECT_DEATH(op_set(row.isa), std::string(row.name));
      EXPECT_DEATH(select_gemm_kernel(DType::f32, ActivationKind::int16, row.isa), std::string(row.name));
    }
}

}  // namespace
}  // namespace tokamak::cpu

// The op check on a GPU: everything that the backend has a kernel for. All cases: `tokamak check-ops test`.
#include "check/check.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "backend/cuda/backend.h"
#include "backend/reference/backend.h"
#include "check/bounds.h"
#include "check/recipes.h"

namespace tokamak::check {
namespace {

// Every n-th recipe that `is_wanted`.
void check_cuda_cases(size_t every, const std::function<bool(const Recipe&)>& is_wanted = {}) {
  const auto backend = make_cuda_backend();
  if (!backend) GTEST_SKIP() << backend.error().message();
  const auto reference = make_reference_backend();
  std::vector<Recipe> recipes = all_recipes();
  if (is_wanted) std::erase_if(recipes, [&](const Recipe& recipe) { return !is_wanted(recipe); });
  std::map<std::string, int> counts;
  for (size_t i = 0; i < recipes.size(); i += every) {
    const CaseReport report = check_case(recipes[i], 1, **backend, *reference, kCudaArithmetic);
    EXPECT_NE(report.verdict, Verdict::failed) << report.name << ": " << report.why;
    ++counts[std::string(kVerdicts[static_cast<size_t>(report.verdict)])];
  }
  EXPECT_GT(counts["passed"], 0);
  for (const auto& [verdict, n] : counts) std::printf("%s: %d\n", verdict.c_str(), n);
}

TEST(CudaCheck, SomeCases) { check_cuda_cases(29); }
TEST(CudaCheck, SumsOfExperts) {
  check_cuda_cases(3, [](const Recipe& recipe) { return recipe.rule == fuse::RuleId::moe_sum; });
}
TEST(CudaCheck, DISABLED_ManyCases) { check_cuda_cases(7); }

}  // namespace
}  // namespace tokamak::check

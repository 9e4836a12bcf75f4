#include "check/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/backend.h"
#include "backend/reference/backend.h"

namespace tokamak::check {
namespace {

using testing::HasSubstr;

const Support* find(const std::vector<Support>& rows, std::string_view subject, std::optional<DType> dtype = {}) {
  const auto found =
      std::ranges::find_if(rows, [&](const Support& r) { return r.subject == subject && r.dtype == dtype; });
  return found == rows.end() ? nullptr : &*found;
}

TEST(Support, TheReferenceRunsEveryOpAndFusesNothing) {
  const auto reference = make_reference_backend();
  for (const Support& row : support_of(*reference)) {
    const std::string type = row.dtype ? std::string(dtype_name(*row.dtype)) : "";
    EXPECT_EQ(row.text(), row.is_rule ? "no" : "yes") << row.subject << " " << type;
  }
}

TEST(Support, TheCpuHasTheProductsOfEveryType) {
  const auto cpu = make_cpu_backend({.isa = "scalar", .n_threads = 1});
  ASSERT_TRUE(cpu);
  const std::vector<Support> rows = support_of(**cpu);
  ASSERT_NE(find(rows, "MUL_MAT", DType::iq1_m), nullptr);
  EXPECT_EQ(find(rows, "MUL_MAT", DType::iq1_m)->text(), "yes");
  EXPECT_EQ(find(rows, "RMS_NORM+MUL")->text(), "yes");
  EXPECT_EQ(find(rows, "CROSS_ENTROPY_LOSS")->text(), "no");
  const BackendSupport both[] = {{"cpu", rows}, {"cpu again", rows}};
  const std::string page = support_markdown(both);
  EXPECT_THAT(page, HasSubstr("| op | types | cpu | cpu again |"));
  EXPECT_THAT(page, HasSubstr("| RMS_NORM+MUL |  | yes | yes |"));
  EXPECT_THAT(page, HasSubstr("SILU\\|SIGMOID\\|SOFTPLUS +MUL"));
}

}  // namespace
}  // namespace tokamak::check

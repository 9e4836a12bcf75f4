#include "check/grad.h"

#include <gtest/gtest.h>

#include <set>

#include "backend/reference/backend.h"
#include "backend/reference/backward.h"

namespace tokamak::check {
namespace {

TEST(Gradients, EveryBackwardFormAgreesWithDifferences) {
  const auto reference = make_reference_backend();
  std::set<std::string> subjects;
  for (const Recipe& recipe : grad_recipes()) {
    const GradReport report = check_gradients(recipe, 1, *reference);
    EXPECT_TRUE(report.passed()) << report.name << ": " << report.why;
    EXPECT_GT(report.n_elements, 0) << report.name;
    subjects.insert(recipe.subject);
  }
  for (const reference::BackwardRow& row : reference::backward_table()) {
    if (row.op == ir::Op::reshape) continue;  // inside others
    EXPECT_TRUE(subjects.contains(std::string(ir::op_row(row.op).name))) << ir::op_row(row.op).name;
  }
}

TEST(Gradients, AWrongOneIsFound) {
  const auto reference = make_reference_backend();
  Recipe recipe = grad_recipes()[0];
  // The result is cut off where the backward form of CLAMP is missing.
  recipe.build = [](CaseBuilder& c) { c.b.output(c.b.clamp(c.tensor({4}), -1, 1)); };
  EXPECT_EQ(check_gradients(recipe, 1, *reference).why, "CLAMP: no backward form");
  // A kink within the four points: differences and gradient disagree.
  recipe.build = [](CaseBuilder& c) { c.b.output(c.b.rms_norm(c.tensor({2}, {-1e-3, 1e-3}), 1e-9)); };
  EXPECT_FALSE(check_gradients(recipe, 1, *reference).passed());
}

}  // namespace
}  // namespace tokamak::check

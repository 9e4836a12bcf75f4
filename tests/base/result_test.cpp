#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace tokamak {
namespace {

Result<int> positive(int n) {
  if (n <= 0) return Error{.code = ErrorCode::bad_argument, .what = std::to_string(n) + " is not positive"};
  return n;
}
Result<int> sum(int a, int b) { return positive(a + b); }
Result<void> must_be(bool condition) {
  if (!condition) return Error{.code = ErrorCode::cancelled, .what = "it is not"};
  return {};
}

// Compiled with -Wshadow: every TRY here stands inside another one or beside it on one line.
Result<int> nested(int a, int b, int c) {
  return TRY(
      sum(TRY(sum(TRY(positive(a)), TRY(positive(b)))), [&]() -> Result<int> { return TRY(positive(c)); }().value()));
}

TEST(Try, NestsAndGivesTheFirstError) {
  EXPECT_EQ(nested(1, 2, 3).value(), 6);
  EXPECT_EQ(nested(-1, 2, 3).error().what, "-1 is not positive");
  EXPECT_EQ(nested(1, -2, 3).error().what, "-2 is not positive");
}

TEST(Try, WorksOnVoidAndOnWhatOnlyMoves) {
  const auto both = [](bool condition) -> Result<std::unique_ptr<int>> {
    TRY(must_be(condition));
    return TRY(Result<std::unique_ptr<int>>(std::make_unique<int>(7)));
  };
  EXPECT_EQ(**both(true), 7);
  EXPECT_EQ(both(false).error().code, ErrorCode::cancelled);
}

}  // namespace
}  // namespace tokamak

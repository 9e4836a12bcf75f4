// check-ops: its modes, its filters, and what it says about bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/process_helpers.h"
#include "tensor/dtypes.h"

namespace tokamak::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(CheckOps, TestCountsItsCases) {
  const RunResult result = run_tokamak({"check-ops", "--op", "ADD", "--every", "17", "--isa", "scalar"});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr(" 0 failed, 0 unsupported, 0 not fused; seed 1"));
}

TEST(CheckOps, JsonListsEveryCase) {
  const RunResult result =
      run_tokamak({"check-ops", "test", "--filter", "^MUL_MAT type=Q8_0 n=2 n_out=16 k=32 ", "--json", "--seed", "5"});
  ASSERT_EQ(result.status, 0) << result.talk;
  const json report = json::parse(result.output);
  EXPECT_EQ(report["seed"], 5);
  ASSERT_EQ(report["cases"].size(), 1u);
  EXPECT_EQ(report["cases"][0]["case"], "MUL_MAT type=Q8_0 n=2 n_out=16 k=32 layout=whole");
  EXPECT_EQ(report["cases"][0]["verdict"], "passed");
  EXPECT_EQ(report["totals"]["passed"], 1);
}

TEST(CheckOps, TheReferenceFusesNothing) {
  const RunResult result = run_tokamak({"check-ops", "--backend", "reference", "--op", "RELU+SQR", "--every", "9"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("right but not fused: RELU+SQR"));
  EXPECT_THAT(result.output, HasSubstr(" 0 passed, 0 failed, 0 unsupported"));
}

TEST(CheckOps, OtherModes) {
  const RunResult grad = run_tokamak({"check-ops", "grad", "--op", "ROPE"});
  EXPECT_EQ(grad.status, 0) << grad.output;
  EXPECT_THAT(grad.output, HasSubstr("0 failed"));
  const RunResult support = run_tokamak({"check-ops", "support", "--op", "SET_ROWS", "--json"});
  EXPECT_EQ(support.status, 0);
  EXPECT_EQ(json::parse(support.output)["rows"].size(), std::size(kCacheDTypes));
  const RunResult perf = run_tokamak({"check-ops", "perf", "--filter", "RMS_NORM .*n=1$", "--json", "-r", "1"});
  ASSERT_EQ(perf.status, 0) << perf.talk;
  EXPECT_GT(json::parse(perf.output)["cases"][0]["seconds"], 0);
}

TEST(CheckOps, Refusals) {
  expect_refusal({"check-ops", "tset"}, 2, "known: test, perf, support, grad");
  expect_refusal({"check-ops", "test", "more"}, 2, "unexpected word");
  expect_refusal({"check-ops", "--filter", "("}, 2, "no regular expression");
  expect_refusal({"check-ops", "--op", "MULMAT"}, 2, "no case is left");
  expect_refusal({"check-ops", "--every", "0"}, 2, "--every");
}

}  // namespace
}  // namespace tokamak::test

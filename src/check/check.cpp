#include "check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/nmse.h"
#include "fuse/matcher.h"

namespace tokamak::check {

namespace {

// A mean error says something about many numbers only: a single one may lie where a function vanishes.
constexpr size_t kMinForNmse = 32;

// Compares one run with what is expected; the first finding stands.
class Comparison {
 public:
  Comparison(const Case& c, const Expected& expected, CaseReport& report) : expected_(expected), report_(report) {
    max_nmse_ = max_nmse(c.graph);
    // Published for fused matrix-vector products; the mean error of an epilogue is that of its product.
    if (c.rule && (*c.rule == fuse::RuleId::mul_mat_epilogue || *c.rule == fuse::RuleId::mul_mat_glu ||
                   *c.rule == fuse::RuleId::mul_mat_id_epilogue || *c.rule == fuse::RuleId::mul_mat_id_glu))
      max_nmse_ = 5e-3;
  }

  void add(const RunOutcome& got, std::string_view how) {
    how_ = how;
    if (!got.damage.empty()) fail(got.damage);
    for (size_t i = 0; i < expected_.outputs.size(); ++i)
      compare(got.outputs[i], expected_.outputs[i], fmt::format("output {}", i));
    compare(got.states, expected_.states, "recurrent state");
    for (size_t i = 0; i < expected_.values.size(); ++i)
      compare(got.values[i], expected_.values[i], fmt::format("cached values of layer {}", i));
  }
  void add_fused(const RunOutcome& fused, const RunOutcome& unfused) {
    how_ = "fused to unfused";
    for (size_t i = 0; i < fused.outputs.size(); ++i) bar(fused.outputs[i], unfused.outputs[i], "outputs");
    bar(fused.states, unfused.states, "recurrent states");
  }
  void fail(std::string why) {
    if (report_.verdict == Verdict::failed) return;
    report_.verdict = Verdict::failed;
    report_.why = fmt::format("{}: {}", how_, why);
  }

 private:
  void bar(std::span<const float> got, std::span<const float> wanted, std::string_view what) {
    const double error = nmse(got, wanted);
    if (got.size() >= kMinForNmse) report_.nmse = std::max(report_.nmse, error);
    if (got.size() >= kMinForNmse && !(error <= max_nmse_))
      fail(fmt::format("NMSE {:.2e} of the {} is above {:.0e}", error, what, max_nmse_));
  }
  void compare(std::span<const float> got, const Bounded& wanted, const std::string& what) {
    double worst = -1;
    size_t at = 0;
    for (size_t i = 0; i < wanted.x.size(); ++i) {
      if (got[i] == wanted.x[i]) continue;
      const double error = std::abs(double{got[i]} - double{wanted.x[i]});
      const double share = error <= wanted.bound[i] ? error / wanted.bound[i]
                           : std::isnan(error)      ? HUGE_VAL
                           : wanted.bound[i] > 0    ? error / wanted.bound[i]
                                                    : HUGE_VAL;
      if (share > worst) worst = share, at = i;
    }
    report_.share = std::max(report_.share, worst);
    if (worst > 1)
      fail(fmt::format("{}[{}] is {:.9g}, should be {:.9g} within {:.2e}", what, at, got[at], wanted.x[at],
                       wanted.bound[at]));
    bar(got, wanted.x, what);
  }

  const Expected& expected_;
  CaseReport& report_;
  std::string how_;
  double max_nmse_ = 0;
};

// The rule matches the graph of its own case, under the label that the recipe says.
std::string match_fault(const Recipe& recipe, const Case& c) {
  ir::Graph graph = c.graph;
  fuse::fuse(graph, {}, true);
  std::string labels;
  for (const ir::Group& group : graph.groups) {
    if (group.rule == UINT16_MAX) continue;
    const std::string label = fuse::group_label(graph, group);
    if (group.rule == static_cast<uint16_t>(*c.rule) && label == recipe.subject) return {};
    labels += " " + label;
  }
  return fmt::format("the fusion table does not match {} here; it matches:{}", recipe.subject,
                     labels.empty() ? " nothing" : labels);
}

bool has_fired(const RunOutcome& run, fuse::RuleId rule) {
  return std::ranges::find(run.rules, static_cast<uint16_t>(rule)) != run.rules.end();
}

CaseReport give_up(CaseReport report, const Error& error) {
  report.verdict = error.code == ErrorCode::unsupported ? Verdict::unsupported : Verdict::failed;
  report.why = error.message();
  return report;
}

constexpr uint64_t kMaxDraws = 20;  // of numbers that leave no choice

}  // namespace

CaseReport check_case(const Recipe& recipe, uint64_t seed, Backend& backend, Backend& reference,
                      const Arithmetic& arithmetic) {
  CaseReport report{.name = recipe.name(), .why = {}};
  auto made = make_case(recipe, seed);
  if (!made) return give_up(std::move(report), made.error());
  auto expected = expect(*made, reference, arithmetic);
  for (uint64_t other = 1; expected && expected->is_ambiguous && other < kMaxDraws; ++other) {
    made = make_case(recipe, seed + (other << 32));
    expected = expect(*made, reference, arithmetic);
  }
  if (!expected) return give_up(std::move(report), expected.error());
  const Case& c = *made;
  Comparison comparison(c, *expected, report);
  const auto unfused = run_case(c, backend, {.fusion = false});
  if (!unfused) return give_up(std::move(report), unfused.error());
  comparison.add(*unfused, "unfused");
  if (!c.rule) return report;
  if (const std::string fault = match_fault(recipe, c); !fault.empty()) comparison.fail(fault);
  const auto fused = run_case(c, backend, {.fusion = true});
  if (!fused) return give_up(std::move(report), fused.error());
  comparison.add(*fused, "fused");
  comparison.add_fused(*fused, *unfused);
  if (report.verdict == Verdict::passed && !has_fired(*fused, *c.rule)) {
    report.verdict = Verdict::not_fused;
    report.why = "the backend has no kernel for this rule";
  }
  return report;
}

}  // namespace tokamak::check

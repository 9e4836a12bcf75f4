// Fusion rules of top-k routing, in all their forms.
#include <fmt/format.h>

#include <numeric>

#include "check/recipes.h"

namespace tokamak::check {

using fuse::RuleId;
using ir::ValueId;

namespace {

constexpr int64_t kTokens[] = {1, 2, 7, 33};

struct RouterCase {
  std::string_view label;  // of the scores
  RuleId rule;
  bool bias, groups, norm, scale;
};

ValueId scores_of(CaseBuilder& c, ValueId logits, RuleId rule) {
  if (rule == RuleId::topk_moe_softmax) return c.b.soft_max(logits);
  if (rule == RuleId::topk_moe_sigmoid) return c.b.unary(logits, ir::Unary::sigmoid);
  return c.b.unary(c.b.unary(logits, ir::Unary::softplus), ir::Unary::sqrt);
}

// The chosen experts as numbers.
ValueId shown(CaseBuilder& c, ValueId ids, int64_t n_expert) {
  std::vector<float> digits(static_cast<size_t>(n_expert));
  std::iota(digits.begin(), digits.end(), 0.0f);
  return c.b.get_rows(c.constant({n_expert, 1}, digits), ids);
}

void build_router(CaseBuilder& c, const RouterCase& r, int64_t n_expert, int64_t n_used) {
  const ValueId logits = c.rows(n_expert, distinct_rows(c, n_expert));
  const ValueId bias = r.bias ? c.weight(DType::f32, {n_expert}) : ir::kNone;
  const ValueId probs = scores_of(c, logits, r.rule);
  ValueId choice = probs;
  if (r.bias) choice = c.b.add(choice, bias);
  if (r.groups) choice = c.b.mask_groups(choice, 4, 2, std::min<int64_t>(2, n_expert / 4));
  const ValueId ids = c.b.view(c.b.argsort(choice), 0, {c.n_tokens, n_used});
  ValueId weights = c.b.get_rows(c.b.reshape(probs, {c.n_tokens, n_expert, 1}), ids);
  if (r.norm) {
    const ValueId flat = c.b.reshape(weights, {c.n_tokens, n_used});
    const ValueId sum = c.b.clamp(c.b.sum_rows(flat), 6.103515625e-5, 3e38);
    weights = c.b.reshape(c.b.div(flat, sum), {c.n_tokens, n_used, 1});
  }
  if (r.scale) weights = c.b.scale(weights, 2.5);
  c.b.output(weights);
  c.b.output(shown(c, ids, n_expert));
}

void add_routers(std::vector<Recipe>& out) {
  for (const auto& [scores, rule] : {std::pair{"SOFT_MAX", RuleId::topk_moe_softmax},
                                     {"SIGMOID", RuleId::topk_moe_sigmoid},
                                     {"SOFTPLUS+SQRT", RuleId::topk_moe_softplus}})
    for (int form = 0; form < 16; ++form) {
      const RouterCase r{scores, rule, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0, (form & 8) != 0};
      std::string label = scores;
      label += r.bias ? "+ADD" : "";
      label += r.groups ? "+MASK_GROUPS" : "";
      label += "+ARGSORT+GET_ROWS";
      label += r.norm ? "+SUM_ROWS+CLAMP+DIV" : "";
      label += r.scale ? "+SCALE" : "";
      for (const auto& [n_expert, n_used] : {std::pair<int64_t, int64_t>{8, 2}, {64, 6}, {4, 1}})
        for (int64_t n : kTokens)
          out.push_back({.subject = label,
                         .variant = fmt::format("experts={} used={} n={}", n_expert, n_used, n),
                         .build = [=, n_expert = n_expert,
                                   n_used = n_used](CaseBuilder& c) { build_router(c, r, n_expert, n_used); },
                         .sequences = {{.n_tokens = n}},
                         .rule = rule});
    }
}

void add_late_routers(std::vector<Recipe>& out) {
  for (bool sigmoid : {false, true})
    for (const auto& [n_expert, n_used] : {std::pair<int64_t, int64_t>{8, 2}, {32, 4}, {4, 1}})
      for (int64_t n : kTokens)
        out.push_back({.subject = sigmoid ? "ARGSORT+GET_ROWS+SIGMOID" : "ARGSORT+GET_ROWS+SOFT_MAX",
                       .variant = fmt::format("experts={} used={} n={}", n_expert, n_used, n),
                       .build =
                           [=, n_expert = n_expert, n_used = n_used](CaseBuilder& c) {
                             const ValueId logits = c.rows(n_expert, distinct_rows(c, n_expert));
                             const ValueId table = c.b.reshape(logits, {c.n_tokens, n_expert, 1});
                             const ValueId ids = c.b.view(c.b.argsort(logits), 0, {c.n_tokens, n_used});
                             const ValueId picked = c.b.reshape(c.b.get_rows(table, ids), {c.n_tokens, n_used});
                             c.b.output(sigmoid ? c.b.unary(picked, ir::Unary::sigmoid) : c.b.soft_max(picked));
                             c.b.output(shown(c, ids, n_expert));
                           },
                       .sequences = {{.n_tokens = n}},
                       .rule = sigmoid ? RuleId::topk_moe_late_sigmoid : RuleId::topk_moe_late_softmax});
}

}  // namespace

void add_moe_rules(std::vector<Recipe>& out) {
  add_routers(out);
  add_late_routers(out);
}

}  // namespace tokamak::check

// Fusion rules of top-k routing and of the sum over experts, in all their forms.
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

// addends_left: of each addend, whether it is the first operand.
ValueId expert_sum(CaseBuilder& c, int64_t n_used, int64_t width, const std::vector<bool>& addends_left,
                   Layout layout) {
  std::vector<ValueId> addends;
  for (size_t i = 0; i < addends_left.size(); ++i) addends.push_back(c.tensor({width}, {-2, 2}, layout));
  const ValueId made = c.tensor({n_used, width}, {-2, 2}, layout);
  const ValueId weights = c.tensor({n_used, 1}, {-1, 1}, layout);
  const ValueId flat = c.b.reshape(c.b.mul(made, weights), {c.n_tokens, n_used * width});
  const auto part = [&](int64_t i) { return c.b.view(flat, i * width, {c.n_tokens, width}); };
  ValueId sum = n_used == 1 ? flat : part(0);
  for (int64_t i = 1; i < n_used; ++i) sum = c.b.add(sum, part(i));
  for (size_t i = 0; i < addends.size(); ++i)
    sum = addends_left[i] ? c.b.add(addends[i], sum) : c.b.add(sum, addends[i]);
  return sum;
}

void add_expert_sums(std::vector<Recipe>& out) {
  for (int64_t n_used : {1, 2, 4, 8, 9, 16, 22})
    for (const std::vector<bool>& addends : {std::vector<bool>{}, {false}, {true}, {false, false}, {true, false}}) {
      const auto n_adds = static_cast<size_t>(n_used) - 1 + addends.size();
      if (n_adds == 0) continue;
      const std::string label = n_adds == 1 ? "MUL+ADD" : fmt::format("MUL+ADD*{}", n_adds);
      std::string sides;
      for (bool left : addends) sides += left ? "l" : "r";
      for (int64_t n : kTokens)
        for (int64_t width : {7, 64, 333})
          for (Layout layout : {Layout::whole, Layout::slice})
            out.push_back({.subject = label,
                           .variant = fmt::format("used={} addends={} n={} width={} layout={}", n_used, sides, n, width,
                                                  layout == Layout::slice ? "slice" : "whole"),
                           .build = [=](CaseBuilder& c) { c.b.output(expert_sum(c, n_used, width, addends, layout)); },
                           .sequences = {{.n_tokens = n}},
                           .rule = RuleId::moe_sum});
    }
}

}  // namespace

void add_moe_rules(std::vector<Recipe>& out) {
  add_routers(out);
  add_late_routers(out);
  add_expert_sums(out);
}

}  // namespace tokamak::check

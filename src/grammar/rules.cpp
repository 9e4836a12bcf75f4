#include "grammar/rules.h"

#include <algorithm>

namespace tokamak::grammar {

ExprId Rules::add(Expr e) {
  if (!budget_.spend(sizeof(Expr))) e = {.kind = ExprKind::never};
  if (e.depth > budget_.limits().max_depth) {
    too_deep_ = true;
    e = {.kind = ExprKind::never};
  }
  exprs_.push_back(e);
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId Rules::with_children(Expr e, std::span<const ExprId> parts) {
  budget_.spend(parts.size() * 5);
  for (const ExprId part : parts) e.depth = std::max<uint16_t>(e.depth, exprs_[part].depth + 1);
  e.first = static_cast<uint32_t>(children_.size());
  e.count = static_cast<uint32_t>(parts.size());
  children_.insert(children_.end(), parts.begin(), parts.end());
  required_.resize(children_.size());
  return add(e);
}

ExprId Rules::bytes(std::string_view text) {
  if (text.empty()) return empty();
  budget_.spend(text.size());
  const auto first = static_cast<uint32_t>(text_.size());
  text_ += text;
  return add({.kind = ExprKind::bytes, .first = first, .count = static_cast<uint32_t>(text.size())});
}

ExprId Rules::chars(const CharSet& set, bool json) {
  if (set.empty()) return never();
  budget_.spend(set.ranges().size() * sizeof(CharRange) + sizeof(CharSet));
  sets_.push_back(set);
  return add({.kind = ExprKind::chars, .json = json, .index = static_cast<uint32_t>(sets_.size() - 1)});
}

ExprId Rules::sequence(std::span<const ExprId> parts) {
  std::vector<ExprId> kept;
  for (const ExprId part : parts) {
    if (exprs_[part].kind == ExprKind::never) return part;
    if (exprs_[part].kind != ExprKind::empty) kept.push_back(part);
  }
  if (kept.empty()) return empty();
  return kept.size() == 1 ? kept[0] : with_children({.kind = ExprKind::sequence}, kept);
}

ExprId Rules::choice(std::span<const ExprId> parts) {
  std::vector<ExprId> kept;
  for (const ExprId part : parts)
    if (exprs_[part].kind != ExprKind::never) kept.push_back(part);
  if (kept.empty()) return never();
  return kept.size() == 1 ? kept[0] : with_children({.kind = ExprKind::choice}, kept);
}

ExprId Rules::repeat(ExprId body, uint32_t min, uint32_t max) {
  if (max == 0 || exprs_[body].kind == ExprKind::empty) return empty();
  if (exprs_[body].kind == ExprKind::never) return min == 0 ? empty() : body;
  if (min == 1 && max == 1) return body;
  if (max > kMaxCount) max = kUnbounded;
  return add({.kind = ExprKind::repeat,
              .depth = static_cast<uint16_t>(exprs_[body].depth + 1),
              .index = body,
              .min = min,
              .max = max});
}

ExprId Rules::call(RuleId rule, uint32_t min, uint32_t max) {
  return add({.kind = ExprKind::call, .index = rule, .min = min, .max = max > kMaxCount ? kUnbounded : max});
}

ExprId Rules::token(uint32_t id, bool negated) {
  return add({.kind = ExprKind::token, .negated = negated, .index = id});
}

ExprId Rules::chain(std::span<const ExprId> items, const std::vector<bool>& required, ExprId separator, ExprId more,
                    uint32_t min, uint32_t max) {
  if (more != kNone && exprs_[more].kind == ExprKind::never) more = kNone;
  std::vector<ExprId> kept;
  std::vector<uint8_t> flags;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool never_there = exprs_[items[i]].kind == ExprKind::never;
    if (never_there && required[i]) return items[i];
    if (never_there) continue;
    kept.push_back(items[i]);
    flags.push_back(required[i]);
  }
  const ExprId id = with_children({.kind = ExprKind::chain,
                                   .min = min,
                                   .max = max > kMaxCount ? kUnbounded : max,
                                   .separator = separator,
                                   .more = more},
                                  kept);
  if (exprs_[id].kind == ExprKind::chain) std::copy(flags.begin(), flags.end(), required_.begin() + exprs_[id].first);
  return id;
}

RuleId Rules::declare(std::string name) {
  budget_.spend(sizeof(Rule) + name.size());
  rules_.push_back({.name = std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

RuleId Rules::define_chars(std::string name, CharNfa nfa, StringForm form, bool takes_bounds) {
  const RuleId rule = declare(std::move(name));
  budget_.spend(nfa.states.size() * 64);
  rules_[rule].chars = std::make_unique<CharNfa>(std::move(nfa));
  rules_[rule].form = form;
  rules_[rule].takes_bounds = takes_bounds;
  return rule;
}

}  // namespace tokamak::grammar

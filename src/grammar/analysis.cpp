#include "grammar/analysis.h"

#include <algorithm>

namespace tokamak::grammar {

namespace {

constexpr uint32_t kHuge = 1u << 30;

// Calls f(id) for each expression below `root`, itself included, each once per occurrence; no recursion.
template <class F>
void for_each_expr(const Rules& rules, ExprId root, F f) {
  std::vector<ExprId> stack{root};
  while (!stack.empty()) {
    const ExprId id = stack.back();
    stack.pop_back();
    f(id);
    const Expr& e = rules.expr(id);
    if (e.kind == ExprKind::repeat) stack.push_back(e.index);
    if (e.kind != ExprKind::sequence && e.kind != ExprKind::choice && e.kind != ExprKind::chain) continue;
    for (const ExprId child : rules.children(e)) stack.push_back(child);
    if (e.separator != kNone) stack.push_back(e.separator);
    if (e.more != kNone) stack.push_back(e.more);
  }
}

// Rules in an order in which callees come first, except within cycles (Tarjan's algorithm with its own stack).
class CallGraph {
 public:
  explicit CallGraph(Rules& rules) : rules_(rules), n_(rules.rules().size()) {}

  Result<void> build() {
    callees_.resize(n_);
    for (RuleId rule = 0; rule < n_; ++rule) {
      if (rules_.rules()[rule].chars) continue;
      for_each_expr(rules_, rules_.rules()[rule].body, [&](ExprId id) {
        rules_.budget().spend(0);
        if (rules_.expr(id).kind == ExprKind::call) callees_[rule].push_back(rules_.expr(id).index);
      });
      if (!rules_.budget().ok()) return rules_.budget().error();
    }
    find_cycles();
    return check_depth();
  }

  const std::vector<RuleId>& order() const { return order_; }
  bool is_recursive(RuleId rule) const { return recursive_[rule]; }

 private:
  struct Visit {
    RuleId rule;
    size_t next;
  };

  void find_cycles() {
    index_.assign(n_, kNone);
    low_.assign(n_, 0);
    component_.assign(n_, kNone);
    recursive_.assign(n_, false);
    for (RuleId rule = 0; rule < n_; ++rule)
      if (index_[rule] == kNone) visit(rule);
  }

  void enter(RuleId rule) {
    index_[rule] = low_[rule] = n_seen_++;
    open_.push_back(rule);
    visits_.push_back({rule, 0});
  }

  void visit(RuleId root) {
    enter(root);
    while (!visits_.empty()) {
      Visit& at = visits_.back();
      const RuleId rule = at.rule;
      if (at.next < callees_[rule].size()) {
        const RuleId callee = callees_[rule][at.next++];
        if (index_[callee] == kNone)
          enter(callee);
        else if (component_[callee] == kNone)
          low_[rule] = std::min(low_[rule], index_[callee]);
        continue;
      }
      visits_.pop_back();
      if (!visits_.empty()) low_[visits_.back().rule] = std::min(low_[visits_.back().rule], low_[rule]);
      if (low_[rule] == index_[rule]) close(rule);
    }
  }

  void close(RuleId rule) {
    const size_t first = order_.size();
    do {
      order_.push_back(open_.back());
      component_[open_.back()] = n_components_;
      open_.pop_back();
    } while (order_.back() != rule);
    const bool cycle = order_.size() - first > 1 ||
                       std::find(callees_[rule].begin(), callees_[rule].end(), rule) != callees_[rule].end();
    for (size_t i = first; i < order_.size(); ++i) recursive_[order_[i]] = cycle;
    ++n_components_;
  }

  Result<void> check_depth() {
    std::vector<uint32_t> depth(n_components_);  // callees have smaller component numbers
    for (const RuleId rule : order_)
      for (const RuleId callee : callees_[rule])
        if (component_[callee] != component_[rule])
          depth[component_[rule]] = std::max(depth[component_[rule]], depth[component_[callee]] + 1);
    const uint32_t limit = rules_.budget().limits().max_rule_chain;
    for (RuleId rule = 0; rule < n_; ++rule)
      if (depth[component_[rule]] > limit)
        return refusal("rules that name each other are too deep (more than " + std::to_string(limit) + " in a row)",
                       "rule '" + rules_.rules()[rule].name + "'", "write shorter chains of rules");
    return {};
  }

  Rules& rules_;
  size_t n_;
  std::vector<std::vector<RuleId>> callees_;
  std::vector<RuleId> order_, open_;
  std::vector<uint32_t> index_, low_, component_;
  std::vector<bool> recursive_;
  std::vector<Visit> visits_;
  uint32_t n_seen_ = 0, n_components_ = 0;
};

class Facts {
 public:
  Facts(Rules& rules, Analysis& facts) : rules_(rules), facts_(facts) {}

  // Least fixed point; an expression's children have smaller numbers.
  Result<void> find_nullable_and_productive() {
    const size_t n = rules_.n_exprs();
    facts_.nullable.assign(n, 0);
    facts_.productive.assign(n, 0);
    facts_.rule_nullable.assign(rules_.rules().size(), 0);
    facts_.rule_productive.assign(rules_.rules().size(), 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (ExprId id = 0; id < n; ++id) {
        facts_.nullable[id] = is_nullable(rules_.expr(id));
        facts_.productive[id] = is_productive(rules_.expr(id));
        rules_.budget().spend(0);
      }
      if (!rules_.budget().ok()) return rules_.budget().error();
      for (RuleId r = 0; r < rules_.rules().size(); ++r) changed = update_rule(r) || changed;
    }
    return {};
  }

  uint32_t size_of(const Expr& e) const {
    uint64_t sum = 1;
    switch (e.kind) {
      case ExprKind::bytes:
        sum = e.count;
        break;
      case ExprKind::chars:
        sum = 1 + rules_.set(e).ranges().size() / 4 + (e.json ? 6 : 0);
        break;
      case ExprKind::call:
        sum = facts_.inlined[e.index] ? facts_.size[rules_.rules()[e.index].body] : 1;
        break;
      case ExprKind::chain:
      case ExprKind::sequence:
      case ExprKind::choice:
        for (const ExprId child : rules_.children(e)) sum += facts_.size[child];
        break;
      case ExprKind::repeat: {
        const uint32_t body = facts_.size[e.index];
        const uint64_t times = e.max == kUnbounded ? uint64_t{e.min} + 1 : e.max;
        sum = repeat_form(e, body) == RepeatForm::unrolled ? times * body : uint64_t{body} + 3;
        break;
      }
      default:
        break;
    }
    return static_cast<uint32_t>(std::min<uint64_t>(sum, kHuge));
  }

 private:
  bool is_nullable(const Expr& e) const {
    switch (e.kind) {
      case ExprKind::empty:
      case ExprKind::begin:
      case ExprKind::end:
        return true;
      case ExprKind::sequence:
        return std::ranges::all_of(rules_.children(e), [&](ExprId c) { return facts_.nullable[c] != 0; });
      case ExprKind::choice:
        return std::ranges::any_of(rules_.children(e), [&](ExprId c) { return facts_.nullable[c] != 0; });
      case ExprKind::repeat:
        return e.min == 0 || facts_.nullable[e.index];
      case ExprKind::call:
        return facts_.rule_nullable[e.index] && e.min == 0;
      case ExprKind::chain: {
        bool any_required = e.min > 0;
        for (size_t i = 0; i < e.count; ++i) any_required = any_required || rules_.required(e, i);
        return !any_required;
      }
      default:
        return false;
    }
  }

  bool is_productive(const Expr& e) const {
    switch (e.kind) {
      case ExprKind::never:
        return false;
      case ExprKind::sequence:
        return std::ranges::all_of(rules_.children(e), [&](ExprId c) { return facts_.productive[c] != 0; });
      case ExprKind::choice:
        return std::ranges::any_of(rules_.children(e), [&](ExprId c) { return facts_.productive[c] != 0; });
      case ExprKind::repeat:
        return e.min == 0 || facts_.productive[e.index];
      case ExprKind::call:
        return facts_.rule_productive[e.index];
      case ExprKind::chain: {
        const auto items = rules_.children(e);
        size_t n_possible = 0;
        for (size_t i = 0; i < items.size(); ++i) {
          if (rules_.required(e, i) && !facts_.productive[items[i]]) return false;
          n_possible += facts_.productive[items[i]];
        }
        const bool has_more = e.more != kNone && facts_.productive[e.more];
        return has_more || n_possible >= e.min;
      }
      default:
        return true;
    }
  }

  bool update_rule(RuleId r) {
    const Rule& rule = rules_.rules()[r];
    uint8_t nullable = 0, productive = 1;
    if (rule.chars) {
      productive = !rule.chars->states.empty();
      nullable = productive && rule.form == StringForm::plain && rule.chars->states[0].accepts;
    } else {
      nullable = facts_.nullable[rule.body];
      productive = facts_.productive[rule.body];
    }
    const bool changed = nullable != facts_.rule_nullable[r] || productive != facts_.rule_productive[r];
    facts_.rule_nullable[r] = nullable;
    facts_.rule_productive[r] = productive;
    return changed;
  }

  Rules& rules_;
  Analysis& facts_;
};

}  // namespace

RepeatForm repeat_form(const Expr& repeat, uint32_t body_size) {
  if (repeat.max == kUnbounded && repeat.min <= 1) return RepeatForm::loop;
  const uint64_t times = repeat.max == kUnbounded ? uint64_t{repeat.min} + 1 : repeat.max;
  return times == 1 || times * body_size <= kMaxUnrolledStates ? RepeatForm::unrolled : RepeatForm::counted;
}

Result<Analysis> analyse(Rules& rules) {
  if (!rules.budget().ok()) return rules.budget().error();
  if (rules.too_deep())
    return refusal("nesting is too deep (more than " + std::to_string(rules.budget().limits().max_depth) + " levels)",
                   "grammar", "nest less");
  Analysis facts;
  Facts find(rules, facts);
  CallGraph graph(rules);
  TRY(graph.build());
  TRY(find.find_nullable_and_productive());
  if (!facts.rule_productive[rules.root])
    return refusal("nothing can ever match", "rule '" + rules.rules()[rules.root].name + "'",
                   "every way through the rule needs itself or something impossible");
  facts.size.assign(rules.n_exprs(), 1);
  facts.inlined.assign(rules.rules().size(), 0);
  std::vector<ExprId> ids;
  for (const RuleId r : graph.order()) {
    const Rule& rule = rules.rules()[r];
    if (rule.chars) continue;
    ids.clear();
    for_each_expr(rules, rule.body, [&](ExprId id) { ids.push_back(id); });
    std::sort(ids.begin(), ids.end());
    for (const ExprId id : ids) facts.size[id] = find.size_of(rules.expr(id));
    facts.inlined[r] = !graph.is_recursive(r) && facts.size[rule.body] <= kMaxInlinedStates;
    if (!rules.budget().spend(0)) return rules.budget().error();
  }
  return facts;
}

}  // namespace tokamak::grammar

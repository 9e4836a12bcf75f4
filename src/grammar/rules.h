// What the front ends make: rules over expressions, in flat pools. build.h turns them into the automaton.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/budget.h"
#include "grammar/char_nfa.h"
#include "grammar/char_set.h"

namespace tokamak::grammar {

using ExprId = uint32_t;
using RuleId = uint32_t;
inline constexpr uint32_t kNone = UINT32_MAX;
inline constexpr uint32_t kUnbounded = UINT32_MAX;
inline constexpr uint32_t kMaxCount = 1u << 28;  // larger bounds than this are unbounded

enum class ExprKind : uint8_t {
  empty,     // the empty text
  never,     // nothing at all
  bytes,     // literal: text [first, first + count)
  chars,     // one character of char set `index`; json: as it stands inside a JSON string
  sequence,  // children one after the other
  choice,    // any one of the children
  repeat,    // child `index`, min to max times
  call,      // rule `index`; min and max are the bounds handed to a rule that takes them
  token,     // token `index` as a whole; negated: any other token
  chain,     // children in order, each optional unless required, with separators between those that are there
  begin,     // ^ and $ of a pattern; gone before building
  end,
};

struct Expr {
  ExprKind kind;
  bool json = false;     // chars
  bool negated = false;  // token
  uint16_t depth = 0;
  uint32_t index = 0;
  uint32_t first = 0, count = 0;             // children, or bytes of a literal
  uint32_t min = 0, max = 0;                 // repeat, call, chain (number of items)
  uint32_t separator = kNone, more = kNone;  // chain: between items; item that may follow, repeated
};

// Either an expression or, for text inside a JSON string or a name of a key, an automaton over characters.
struct Rule {
  std::string name;  // for messages
  ExprId body = kNone;
  std::unique_ptr<CharNfa> chars;
  StringForm form = StringForm::plain;
  bool takes_bounds = false;  // chars: each call says how many characters there may be
};

// Makes expressions. A pool that outgrows the budget turns into `never` expressions: ask budget().ok() at the end.
class Rules {
 public:
  explicit Rules(const GrammarLimits& limits) : budget_(limits) {}

  ExprId empty() { return add({.kind = ExprKind::empty}); }
  ExprId never() { return add({.kind = ExprKind::never}); }
  ExprId bytes(std::string_view text);
  ExprId chars(const CharSet& set, bool json = false);
  ExprId sequence(std::span<const ExprId> parts);
  ExprId sequence(std::initializer_list<ExprId> parts) { return sequence(std::span(parts.begin(), parts.size())); }
  ExprId choice(std::span<const ExprId> parts);
  ExprId choice(std::initializer_list<ExprId> parts) { return choice(std::span(parts.begin(), parts.size())); }
  ExprId repeat(ExprId body, uint32_t min, uint32_t max);
  ExprId optional(ExprId body) { return repeat(body, 0, 1); }
  ExprId call(RuleId rule, uint32_t min = 0, uint32_t max = 0);
  ExprId token(uint32_t id, bool negated);
  // items[i] is required where required[i]; min and max bound the number of items, those of `more` included.
  ExprId chain(std::span<const ExprId> items, const std::vector<bool>& required, ExprId separator, ExprId more,
               uint32_t min, uint32_t max);
  ExprId anchor(ExprKind kind) { return add({.kind = kind}); }

  RuleId declare(std::string name);  // define() it later
  void define(RuleId rule, ExprId body) { rules_[rule].body = body; }
  RuleId define_chars(std::string name, CharNfa nfa, StringForm form, bool takes_bounds);

  const Expr& expr(ExprId id) const { return exprs_[id]; }
  std::span<const ExprId> children(const Expr& e) const { return {children_.data() + e.first, e.count}; }
  bool required(const Expr& chain, size_t i) const { return required_[chain.first + i] != 0; }
  std::string_view text(const Expr& e) const { return std::string_view(text_).substr(e.first, e.count); }
  const CharSet& set(const Expr& e) const { return sets_[e.index]; }
  size_t n_exprs() const { return exprs_.size(); }
  std::vector<Rule>& rules() { return rules_; }
  const std::vector<Rule>& rules() const { return rules_; }
  Budget& budget() { return budget_; }
  bool too_deep() const { return too_deep_; }  // some expression nests deeper than the limit

  RuleId root = 0;

 private:
  ExprId add(Expr e);
  ExprId with_children(Expr e, std::span<const ExprId> parts);

  Budget budget_;
  std::vector<Expr> exprs_;
  std::vector<ExprId> children_;
  std::vector<uint8_t> required_;  // parallel to children_
  std::string text_;
  std::vector<CharSet> sets_;
  std::vector<Rule> rules_;
  bool too_deep_ = false;
};

}  // namespace tokamak::grammar

// Alternatives and sequences in the making, group within group: how the parsers of GBNF and of patterns nest without
// using the C stack.
#pragma once

#include <vector>

#include "grammar/rules.h"

namespace tokamak::grammar {

class GroupStack {
 public:
  explicit GroupStack(Rules& rules) : rules_(rules) { open(); }

  size_t depth() const { return groups_.size(); }
  void open() { groups_.emplace_back(); }
  // The group's expression; the outermost group stays open and empty.
  ExprId close() {
    bar();
    const ExprId all = groups_.back().alternatives.size() == 1 ? groups_.back().alternatives[0]
                                                               : rules_.choice(groups_.back().alternatives);
    groups_.pop_back();
    if (groups_.empty()) open();
    return all;
  }
  void bar() {
    groups_.back().alternatives.push_back(rules_.sequence(groups_.back().sequence));
    groups_.back().sequence.clear();
  }
  void push(ExprId item) { groups_.back().sequence.push_back(item); }
  bool has_last() const { return !groups_.back().sequence.empty(); }
  ExprId& last() { return groups_.back().sequence.back(); }

 private:
  struct Group {
    std::vector<ExprId> alternatives, sequence;
  };
  Rules& rules_;
  std::vector<Group> groups_;
};

}  // namespace tokamak::grammar

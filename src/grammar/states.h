// A growing network of states: what build.cpp and spelling.cpp put together, and what becomes a Program.
#pragma once

#include <vector>

#include "grammar/budget.h"
#include "grammar/program.h"

namespace tokamak::grammar {

class States {
 public:
  explicit States(Budget& budget) : budget_(budget) {}

  struct Entry {
    std::vector<ByteEdge> edges;
    std::vector<Move> moves;
    bool counted = false;
  };

  // New states are counted while a count is open.
  uint32_t add() {
    budget_.spend(sizeof(Entry) + 24);
    entries_.push_back({.counted = counting});
    return static_cast<uint32_t>(entries_.size() - 1);
  }
  void edge(uint32_t from, uint8_t lo, uint8_t hi, uint32_t target) {
    budget_.spend(sizeof(ByteEdge));
    entries_[from].edges.push_back({lo, hi, target});
  }
  void move(uint32_t from, const Move& move) {
    budget_.spend(sizeof(Move));
    entries_[from].moves.push_back(move);
  }
  void go(uint32_t from, uint32_t target) { move(from, {.kind = MoveKind::go, .target = target}); }

  bool ok() const { return budget_.ok(); }
  Budget& budget() { return budget_; }
  std::vector<Entry>& entries() { return entries_; }

  bool counting = false;

 private:
  Budget& budget_;
  std::vector<Entry> entries_;
};

}  // namespace tokamak::grammar

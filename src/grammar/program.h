// The automaton: one network of states per rule, over bytes. Rules call each other, so that the whole is a pushdown
// automaton. A frame of the stack holds one count (iterations of a repetition that are still due and still allowed);
// counted repetitions inside counted repetitions are rules of their own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tokamak::grammar {

struct Count {
  uint32_t need = 0;  // iterations that must still begin
  uint32_t room = 0;  // that may still begin; kUnbounded: any number
  bool operator==(const Count&) const = default;
};

struct ByteEdge {
  uint8_t lo, hi;  // inclusive
  uint32_t target;
};

// Moves that read no byte.
enum class MoveKind : uint8_t {
  go,     // to target
  open,   // to target with count {need, room}
  count,  // one iteration begins: only if count.room >= room and count.need <= need; then both are one less
  close,  // to target if no iteration is due; the count is over
  call,   // rule `rule` with count {need, room}, then target
  leave,  // the rule is complete
  token,  // reads one whole token: `rule` is its id; negated: any other
};

struct Move {
  MoveKind kind;
  bool negated = false;
  uint32_t target = 0;
  uint32_t rule = 0;
  uint32_t need = 0, room = 0;
};

struct State {
  uint32_t first_edge, first_move;
  uint32_t rule;
  bool counted;     // a count is open here
  bool is_reading;  // has byte edges or token moves
};

struct RuleInfo {
  std::string name;
  uint32_t start;
  // States [first_state, end_state) are this rule's.
  uint32_t first_state, end_state;
  // Rules that call nothing: their tables as bytes, equal for equal rules of any grammar; otherwise empty.
  std::string content;
};

// Immutable.
struct Program {
  std::vector<State> states;  // and one behind the last
  std::vector<ByteEdge> edges;
  std::vector<Move> moves;
  std::vector<RuleInfo> rules;
  uint32_t root_rule = 0;
  uint64_t uid = 0;  // of this program in this process
  bool has_tokens = false;

  size_t n_states() const { return states.size() - 1; }
  std::span<const ByteEdge> edges_of(uint32_t s) const {
    return {edges.data() + states[s].first_edge, edges.data() + states[s + 1].first_edge};
  }
  std::span<const Move> moves_of(uint32_t s) const {
    return {moves.data() + states[s].first_move, moves.data() + states[s + 1].first_move};
  }
  size_t n_bytes() const;
};

}  // namespace tokamak::grammar

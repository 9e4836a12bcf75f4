#include "grammar/char_nfa.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/check.h"
#include "base/utf8.h"
#include "grammar/rules.h"

namespace tokamak::grammar {

namespace {

// Thompson's construction with empty moves, which are then folded away.
class Builder {
 public:
  Builder(const Rules& rules, size_t max_states, Budget& budget)
      : rules_(rules), max_states_(max_states), budget_(budget) {}

  Result<CharNfa> build(ExprId expr) {
    const uint32_t start = new_state(), end = new_state();
    emit(expr, start, end);
    if (!budget_.ok()) return budget_.error();
    if (full_)
      return refusal("a pattern needs more than " + std::to_string(max_states_) + " states", "pattern",
                     "use smaller repetition bounds");
    return fold(end);
  }

 private:
  struct State {
    std::vector<CharNfa::Edge> edges;
    std::vector<uint32_t> empty_moves;
  };

  uint32_t new_state() {
    budget_.spend(sizeof(State));
    full_ = full_ || states_.size() >= max_states_;
    if (!full_) states_.emplace_back();
    return static_cast<uint32_t>(states_.size() - 1);
  }

  void link(uint32_t from, uint32_t to) { states_[from].empty_moves.push_back(to); }

  void emit_repeat(const Expr& e, uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < e.min && !full_; ++i) {
      const uint32_t next = new_state();
      emit(e.index, from, next);
      from = next;
    }
    if (e.max == kUnbounded) {
      const uint32_t loop = new_state();
      link(from, loop);
      const uint32_t back = new_state();
      emit(e.index, loop, back);
      link(back, loop);
      return link(loop, to);
    }
    for (uint32_t i = e.min; i < e.max && !full_; ++i) {
      link(from, to);
      const uint32_t next = new_state();
      emit(e.index, from, next);
      from = next;
    }
    link(from, to);
  }

  void emit_text(std::string_view text, uint32_t from, uint32_t to) {
    for (size_t i = 0; i < text.size() && !full_;) {
      const Utf8Char c = decode_utf8(text, i);
      i += c.n_bytes;
      const uint32_t next = i < text.size() ? new_state() : to;
      states_[from].edges.push_back({CharSet{{c.code_point, c.code_point}}, next});
      from = next;
    }
  }

  // Depth is bounded by the depth of expressions.
  void emit(ExprId id, uint32_t from, uint32_t to) {
    if (full_ || !budget_.ok()) return;
    const Expr& e = rules_.expr(id);
    switch (e.kind) {
      case ExprKind::empty:
        return link(from, to);
      case ExprKind::never:
        return;
      case ExprKind::bytes:
        return emit_text(rules_.text(e), from, to);
      case ExprKind::chars:
        states_[from].edges.push_back({rules_.set(e), to});
        return;
      case ExprKind::choice:
        for (const ExprId child : rules_.children(e)) emit(child, from, to);
        return;
      case ExprKind::repeat:
        return emit_repeat(e, from, to);
      case ExprKind::sequence: {
        const auto parts = rules_.children(e);
        for (size_t i = 0; i < parts.size(); ++i) {
          const uint32_t next = i + 1 < parts.size() ? new_state() : to;
          emit(parts[i], from, next);
          from = next;
        }
        return;
      }
      default:
        CHECK(false, static_cast<int>(e.kind));
    }
  }

  // States that are reached by a character, with the moves of all states that follow without one.
  Result<CharNfa> fold(uint32_t end) {
    std::unordered_map<uint32_t, uint32_t> numbers{{0, 0}};
    std::vector<uint32_t> order{0};
    CharNfa nfa;
    std::vector<uint32_t> seen(states_.size(), kNone), stack;
    for (uint32_t i = 0; i < order.size(); ++i) {
      CharNfa::State state;
      stack = {order[i]};
      seen[order[i]] = i;
      while (!stack.empty()) {
        const uint32_t at = stack.back();
        stack.pop_back();
        state.accepts = state.accepts || at == end;
        for (const CharNfa::Edge& edge : states_[at].edges) {
          const auto [place, added] = numbers.try_emplace(edge.target, static_cast<uint32_t>(order.size()));
          if (added) order.push_back(edge.target);
          state.edges.push_back({edge.set, place->second});
          if (!budget_.spend(sizeof(CharNfa::Edge) + edge.set.ranges().size() * sizeof(CharRange)))
            return budget_.error();
        }
        for (const uint32_t next : states_[at].empty_moves)
          if (seen[next] != i) {
            seen[next] = i;
            stack.push_back(next);
          }
      }
      nfa.states.push_back(std::move(state));
    }
    trim(nfa);
    return nfa;
  }

  const Rules& rules_;
  size_t max_states_;
  Budget& budget_;
  std::vector<State> states_;
  bool full_ = false;
};

// Distances to an accepting state; kUnbounded: none is reached.
std::vector<uint32_t> shortest_ways(const CharNfa& nfa) {
  std::vector<std::vector<uint32_t>> sources(nfa.states.size());
  std::vector<uint32_t> distance(nfa.states.size(), kUnbounded), queue;
  for (uint32_t i = 0; i < nfa.states.size(); ++i) {
    for (const CharNfa::Edge& edge : nfa.states[i].edges)
      if (!edge.set.empty()) sources[edge.target].push_back(i);
    if (nfa.states[i].accepts) {
      distance[i] = 0;
      queue.push_back(i);
    }
  }
  for (size_t i = 0; i < queue.size(); ++i)
    for (const uint32_t from : sources[queue[i]])
      if (distance[from] == kUnbounded) {
        distance[from] = distance[queue[i]] + 1;
        queue.push_back(from);
      }
  return distance;
}

// Kahn's algorithm from the accepting end: states on or before a loop are never released and stay unbounded.
void fill_longest(CharNfa& nfa) {
  std::vector<std::vector<uint32_t>> sources(nfa.states.size());
  std::vector<uint32_t> n_open(nfa.states.size()), queue;
  for (uint32_t i = 0; i < nfa.states.size(); ++i) {
    n_open[i] = static_cast<uint32_t>(nfa.states[i].edges.size());
    nfa.states[i].longest = n_open[i] == 0 ? 0 : kUnbounded;
    if (n_open[i] == 0) queue.push_back(i);
    for (const CharNfa::Edge& edge : nfa.states[i].edges) sources[edge.target].push_back(i);
  }
  for (size_t i = 0; i < queue.size(); ++i)
    for (const uint32_t from : sources[queue[i]]) {
      if (--n_open[from] > 0) continue;
      uint32_t longest = 0;
      for (const CharNfa::Edge& edge : nfa.states[from].edges)
        longest = std::max(longest, nfa.states[edge.target].longest + 1);
      nfa.states[from].longest = longest;
      queue.push_back(from);
    }
}

std::vector<bool> reachable(const CharNfa& nfa) {
  std::vector<bool> seen(nfa.states.size());
  std::vector<uint32_t> stack;
  if (!nfa.states.empty()) {
    seen[0] = true;
    stack.push_back(0);
  }
  while (!stack.empty()) {
    const uint32_t at = stack.back();
    stack.pop_back();
    for (const CharNfa::Edge& edge : nfa.states[at].edges)
      if (!seen[edge.target]) {
        seen[edge.target] = true;
        stack.push_back(edge.target);
      }
  }
  return seen;
}

}  // namespace

bool trim(CharNfa& nfa) {
  const std::vector<uint32_t> distance = shortest_ways(nfa);
  const std::vector<bool> reached = reachable(nfa);
  std::vector<uint32_t> number(nfa.states.size(), kNone);
  CharNfa out;
  for (uint32_t i = 0; i < nfa.states.size(); ++i) {
    if (distance[i] == kUnbounded || !reached[i]) continue;
    number[i] = static_cast<uint32_t>(out.states.size());
    out.states.push_back(std::move(nfa.states[i]));
    out.states.back().shortest = distance[i];
  }
  if (number.empty() || number[0] != 0) out.states.clear();
  for (CharNfa::State& state : out.states) {
    std::erase_if(state.edges, [&](const auto& edge) { return edge.set.empty() || number[edge.target] == kNone; });
    for (CharNfa::Edge& edge : state.edges) edge.target = number[edge.target];
  }
  fill_longest(out);
  nfa = std::move(out);
  return !nfa.states.empty();
}

CharNfa any_chars() {
  CharNfa nfa;
  nfa.states.push_back({.edges = {{CharSet::all(), 0}}, .accepts = true});
  trim(nfa);
  return nfa;
}

Result<CharNfa> char_nfa_of(const Rules& rules, uint32_t expr, size_t max_states, Budget& budget) {
  return Builder(rules, max_states, budget).build(expr);
}

Result<CharNfa> intersect(const CharNfa& a, const CharNfa& b, size_t max_states, Budget& budget) {
  CharNfa out;
  if (a.states.empty() || b.states.empty()) return out;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers{{{0, 0}, 0}};
  std::vector<std::pair<uint32_t, uint32_t>> order{{0, 0}};
  for (size_t i = 0; i < order.size(); ++i) {
    const auto [from_a, from_b] = order[i];
    CharNfa::State state{.accepts = a.states[from_a].accepts && b.states[from_b].accepts};
    for (const CharNfa::Edge& x : a.states[from_a].edges)
      for (const CharNfa::Edge& y : b.states[from_b].edges) {
        CharSet set = x.set.intersect(y.set);
        if (!budget.spend(sizeof(CharNfa::Edge) + set.ranges().size() * sizeof(CharRange))) return budget.error();
        if (set.empty()) continue;
        const std::pair target{x.target, y.target};
        const auto [place, added] = numbers.try_emplace(target, static_cast<uint32_t>(order.size()));
        if (added) order.push_back(target);
        state.edges.push_back({std::move(set), place->second});
      }
    out.states.push_back(std::move(state));
    if (out.states.size() > max_states)
      return refusal("patterns that must hold together need more than " + std::to_string(max_states) + " states",
                     "pattern", "use fewer or simpler patterns");
  }
  trim(out);
  return out;
}

CharNfa all_but(std::span<const std::string> names) {
  CharNfa nfa;
  nfa.states.resize(2);  // 1: differs from every name
  nfa.states[0].accepts = nfa.states[1].accepts = true;
  nfa.states[1].edges.push_back({CharSet::all(), 1});
  std::map<std::pair<uint32_t, char32_t>, uint32_t> children;
  for (const std::string& name : names) {
    uint32_t at = 0;
    for (size_t i = 0; i < name.size();) {
      const Utf8Char c = decode_utf8(name, i);
      i += c.n_bytes;
      const auto [place, added] = children.try_emplace({at, c.code_point}, static_cast<uint32_t>(nfa.states.size()));
      if (added) {
        nfa.states[at].edges.push_back({CharSet{{c.code_point, c.code_point}}, place->second});
        nfa.states.push_back({.accepts = true});
      }
      at = place->second;
    }
    nfa.states[at].accepts = false;
  }
  for (uint32_t i = 0; i < nfa.states.size(); ++i) {
    if (i == 1) continue;
    CharSet named;
    for (const CharNfa::Edge& edge : nfa.states[i].edges) named.add(edge.set);
    nfa.states[i].edges.push_back({named.complement(), 1});
  }
  trim(nfa);
  return nfa;
}

CharNfa text_without(std::string_view forbidden) {
  std::u32string word;
  for (size_t i = 0; i < forbidden.size();) {
    const Utf8Char c = decode_utf8(forbidden, i);
    word += c.code_point;
    i += c.n_bytes;
  }
  // The automaton of Knuth, Morris & Pratt 1977: state n has just read the first n characters of the word; its border
  // is the longest shorter beginning that it ends with.
  std::vector<uint32_t> border(word.size() + 1, 0);
  const auto step = [&](uint32_t n, char32_t c) {
    while (n > 0 && word[n] != c) n = border[n];
    return word[n] == c ? n + 1 : 0;
  };
  for (uint32_t n = 1; n < word.size(); ++n) border[n + 1] = step(border[n], word[n]);
  CharNfa nfa;
  nfa.states.resize(word.size());
  for (uint32_t n = 0; n < word.size(); ++n) {
    CharSet others = CharSet::all();
    for (const char32_t c : word) {
      const CharSet one{{c, c}};
      if (!others.contains(c)) continue;  // seen already
      others = others.minus(one);
      const uint32_t target = step(n, c);
      if (target == word.size()) continue;
      nfa.states[n].edges.push_back({one, target});
    }
    nfa.states[n].edges.push_back({others, 0});
    // Behind the text comes the word: it must not be complete before its own end.
    bool clean = true;
    uint32_t at = n;
    for (size_t i = 0; i + 1 < word.size() && clean; ++i) {
      at = step(at, word[i]);
      clean = at < word.size();
    }
    nfa.states[n].accepts = clean;
  }
  trim(nfa);
  return nfa;
}

bool CharNfa::matches(std::u32string_view text) const {
  if (states.empty()) return false;
  std::vector<uint32_t> now{0}, next;
  std::vector<bool> seen(states.size());
  for (const char32_t c : text) {
    next.clear();
    std::fill(seen.begin(), seen.end(), false);
    for (const uint32_t at : now)
      for (const Edge& edge : states[at].edges)
        if (!seen[edge.target] && edge.set.contains(c)) {
          seen[edge.target] = true;
          next.push_back(edge.target);
        }
    now.swap(next);
  }
  return std::any_of(now.begin(), now.end(), [&](uint32_t at) { return states[at].accepts; });
}

}  // namespace tokamak::grammar

#include "grammar/build.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "grammar/analysis.h"
#include "grammar/spelling.h"
#include "grammar/states.h"

namespace tokamak::grammar {

namespace {

// Calls that are replaced by the rule's body may nest this deep.
constexpr int kMaxInlineDepth = 16;

// Between two states `from` and `to`, an expression never adds an edge into `from` nor out of `to`.
class Builder {
 public:
  Builder(Rules& rules, const Analysis& facts) : rules_(rules), facts_(facts), states_(rules.budget()) {}

  Result<std::unique_ptr<const Program>> build() {
    place_.assign(rules_.rules().size(), kNone);
    want(rules_.root);
    // Counted repetitions add rules while others are built.
    for (uint32_t i = 0; i < jobs_.size(); ++i) {
      build_rule(i);
      if (!states_.ok()) return states_.budget().error();
    }
    return finish();
  }

 private:
  struct Job {
    std::string name;
    RuleId rule;  // kNone: the expression instead
    ExprId body;  // a counted repetition that is a rule of its own
    uint32_t start;
    uint32_t first_state = 0, end_state = 0;
  };

  uint32_t want(RuleId rule) {
    if (place_[rule] == kNone) place_[rule] = add_job(rules_.rules()[rule].name, rule, rules_.rules()[rule].body);
    return place_[rule];
  }

  uint32_t add_job(std::string name, RuleId rule, ExprId body) {
    jobs_.push_back({std::move(name), rule, body, 0});
    return static_cast<uint32_t>(jobs_.size() - 1);
  }

  void build_rule(uint32_t job_idx) {
    states_.counting = false;
    const auto first = static_cast<uint32_t>(states_.entries().size());
    const uint32_t start = states_.add(), end = states_.add();
    states_.move(end, {.kind = MoveKind::leave});
    const Job job = jobs_[job_idx];
    if (job.rule != kNone && rules_.rules()[job.rule].chars) {
      const Rule& rule = rules_.rules()[job.rule];
      states_.entries()[start].counted = rule.takes_bounds;
      spell_text(states_, *rule.chars, rule.form, rule.takes_bounds, start, end);
    } else {
      emit(job.body, start, end);
    }
    jobs_[job_idx].start = start;
    jobs_[job_idx].first_state = first;
    jobs_[job_idx].end_state = static_cast<uint32_t>(states_.entries().size());
  }

  void emit(ExprId id, uint32_t from, uint32_t to) {
    if (!states_.ok() || !facts_.productive[id]) return;
    const Expr& e = rules_.expr(id);
    switch (e.kind) {
      case ExprKind::empty:
        return states_.go(from, to);
      case ExprKind::never:
        return;
      case ExprKind::bytes:
        return emit_bytes(rules_.text(e), from, to);
      case ExprKind::chars:
        return spell_char(states_, rules_.set(e), e.json ? StringForm::json : StringForm::plain, from, to);
      case ExprKind::sequence:
        return emit_sequence(e, from, to);
      case ExprKind::choice:
        return emit_choice(e, from, to);
      case ExprKind::repeat:
        return emit_repeat(id, from, to);
      case ExprKind::call:
        return emit_call(e, from, to);
      case ExprKind::chain:
        return emit_chain(id, from, to);
      case ExprKind::token:
        return states_.move(from, {.kind = MoveKind::token, .negated = e.negated, .target = to, .rule = e.index});
      case ExprKind::begin:
      case ExprKind::end:
        CHECK(false, "anchors are gone before building");
    }
  }

  void emit_bytes(std::string_view text, uint32_t from, uint32_t to) {
    for (size_t i = 0; i < text.size(); ++i) {
      const uint32_t next = i + 1 < text.size() ? states_.add() : to;
      states_.edge(from, static_cast<uint8_t>(text[i]), static_cast<uint8_t>(text[i]), next);
      from = next;
    }
  }

  void emit_sequence(const Expr& e, uint32_t from, uint32_t to) {
    const auto parts = rules_.children(e);
    for (size_t i = 0; i < parts.size(); ++i) {
      const uint32_t next = i + 1 < parts.size() ? states_.add() : to;
      emit(parts[i], from, next);
      from = next;
    }
  }

  // Literals among the alternatives share their beginnings.
  void emit_choice(const Expr& e, uint32_t from, uint32_t to) {
    std::vector<std::string_view> literals;
    for (const ExprId child : rules_.children(e)) {
      if (rules_.expr(child).kind == ExprKind::bytes)
        literals.push_back(rules_.text(rules_.expr(child)));
      else
        emit(child, from, to);
    }
    std::sort(literals.begin(), literals.end());
    std::vector<uint32_t> path{from};  // states along the literal before
    std::string_view last;
    for (size_t i = 0; i < literals.size(); ++i) {
      const std::string_view text = literals[i];
      const bool begins_next = i + 1 < literals.size() && literals[i + 1].starts_with(text);
      size_t n = 0;
      while (n < text.size() && n < last.size() && n + 1 < path.size() && text[n] == last[n]) ++n;
      path.resize(n + 1);
      for (; n < text.size(); ++n) {
        const uint32_t next = n + 1 < text.size() || begins_next ? states_.add() : to;
        states_.edge(path[n], static_cast<uint8_t>(text[n]), static_cast<uint8_t>(text[n]), next);
        path.push_back(next);
      }
      if (path.back() != to) states_.go(path.back(), to);
      last = text;
    }
  }

  void emit_repeat(ExprId id, uint32_t from, uint32_t to) {
    const Expr& e = rules_.expr(id);
    if (!facts_.productive[e.index]) return states_.go(from, to);
    const uint32_t min = facts_.nullable[e.index] ? 0 : e.min;
    switch (repeat_form(e, facts_.size[e.index])) {
      case RepeatForm::loop:
        return emit_loop(e.index, min, from, to);
      case RepeatForm::unrolled:
        return emit_unrolled(e, min, from, to);
      case RepeatForm::counted:
        break;
    }
    if (states_.counting) return emit_apart(id, from, to);
    states_.counting = true;
    const uint32_t head = states_.add(), begin = states_.add(), end = states_.add();
    states_.move(from, {.kind = MoveKind::open, .target = head, .need = min, .room = e.max});
    states_.move(head, {.kind = MoveKind::count, .target = begin, .need = kUnbounded, .room = 1});
    emit(e.index, begin, end);
    states_.go(end, head);
    states_.move(head, {.kind = MoveKind::close, .target = to});
    states_.counting = false;
  }

  // A count within a count: as a rule of its own.
  void emit_apart(ExprId id, uint32_t from, uint32_t to) {
    const uint32_t job = add_job("repetition", kNone, id);
    if (facts_.nullable[id]) states_.go(from, to);
    states_.move(from, {.kind = MoveKind::call, .target = to, .rule = job});
  }

  void emit_loop(ExprId body, uint32_t min, uint32_t from, uint32_t to) {
    const uint32_t loop = states_.add(), back = states_.add();
    states_.go(from, loop);
    emit(body, loop, back);
    states_.go(back, loop);
    states_.go(min == 0 ? loop : back, to);
  }

  void emit_unrolled(const Expr& e, uint32_t min, uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < min; ++i) {
      const uint32_t next = states_.add();
      emit(e.index, from, next);
      from = next;
    }
    if (e.max == kUnbounded) return emit_loop(e.index, 0, from, to);
    for (uint32_t i = min; i < e.max; ++i) {
      states_.go(from, to);
      const uint32_t next = states_.add();
      emit(e.index, from, next);
      from = next;
    }
    states_.go(from, to);
  }

  void emit_call(const Expr& e, uint32_t from, uint32_t to) {
    const Rule& rule = rules_.rules()[e.index];
    if (!rule.chars && facts_.inlined[e.index] && inline_depth_ < kMaxInlineDepth) {
      ++inline_depth_;
      emit(rule.body, from, to);
      --inline_depth_;
      return;
    }
    if (facts_.rule_nullable[e.index] && e.min == 0) states_.go(from, to);
    const Count bounds = rule.takes_bounds ? Count{e.min, e.max} : Count{};
    states_.move(
        from, {.kind = MoveKind::call, .target = to, .rule = want(e.index), .need = bounds.need, .room = bounds.room});
  }

  // Two tracks: nothing came yet, or something came and a separator is due before the next item.
  void emit_chain(ExprId id, uint32_t from, uint32_t to) {
    const Expr& e = rules_.expr(id);
    const auto items = rules_.children(e);
    std::vector<uint32_t> required_after(items.size() + 1), possible_after(items.size() + 1);
    const bool has_more = e.more != kNone && facts_.productive[e.more];
    possible_after.back() = has_more ? kUnbounded : 0;
    for (size_t i = items.size(); i-- > 0;) {
      required_after[i] = required_after[i + 1] + rules_.required(e, i);
      const bool possible = facts_.productive[items[i]];
      possible_after[i] = has_more ? kUnbounded : possible_after[i + 1] + possible;
    }
    const bool counted = e.min > required_after[0] || e.max < possible_after[0];
    const bool outer = states_.counting;
    if (counted && outer) return emit_apart(id, from, to);
    states_.counting = counted || outer;
    uint32_t nothing = states_.add(), something = states_.add();
    if (counted)
      states_.move(from, {.kind = MoveKind::open, .target = nothing, .need = e.min, .room = e.max});
    else
      states_.go(from, nothing);
    const auto add_item = [&](ExprId item, uint32_t required, uint32_t possible, uint32_t next) {
      // The count comes before the separator, which must not be written when nothing may follow.
      const auto enter = [&](uint32_t before) {
        if (!counted) return before;
        const uint32_t after = states_.add();
        states_.move(before, {.kind = MoveKind::count,
                              .target = after,
                              .need = possible == kUnbounded ? kUnbounded : possible + 1,
                              .room = required + 1});
        return after;
      };
      const uint32_t begin = states_.add();
      emit(e.separator, enter(something), begin);
      states_.go(enter(nothing), begin);
      emit(item, begin, next);
    };
    for (size_t i = 0; i < items.size() && states_.ok(); ++i) {
      const uint32_t next_nothing = states_.add(), next_something = states_.add();
      add_item(items[i], required_after[i + 1], possible_after[i + 1], next_something);
      if (!rules_.required(e, i)) {
        states_.go(nothing, next_nothing);
        states_.go(something, next_something);
      }
      nothing = next_nothing;
      something = next_something;
    }
    if (has_more) add_item(e.more, 0, kUnbounded, something);
    const MoveKind end = counted ? MoveKind::close : MoveKind::go;
    states_.move(nothing, {.kind = end, .target = to});
    states_.move(something, {.kind = end, .target = to});
    states_.counting = outer;
  }

  Result<std::unique_ptr<const Program>> finish();
  void flatten(Program& program);
  void fill_contents(Program& program);

  Rules& rules_;
  const Analysis& facts_;
  States states_;
  std::vector<Job> jobs_;
  std::vector<uint32_t> place_;  // rule -> job
  int inline_depth_ = 0;
};

// States whose only move leads elsewhere are skipped; the rest is numbered anew, rule by rule.
void Builder::flatten(Program& program) {
  auto& entries = states_.entries();
  std::vector<uint32_t> alias(entries.size());
  for (uint32_t s = 0; s < entries.size(); ++s) {
    uint32_t at = s;
    for (int hops = 0; hops < 64; ++hops) {
      const auto& e = entries[at];
      if (!e.edges.empty() || e.moves.size() != 1 || e.moves[0].kind != MoveKind::go) break;
      at = e.moves[0].target;
    }
    alias[s] = at;
  }
  std::vector<uint32_t> number(entries.size(), kNone);
  std::vector<uint32_t> kept, stack;
  for (Job& job : jobs_) {
    job.first_state = static_cast<uint32_t>(kept.size());
    const auto visit = [&](uint32_t s) {
      if (number[alias[s]] != kNone) return;
      number[alias[s]] = static_cast<uint32_t>(kept.size());
      kept.push_back(alias[s]);
    };
    visit(job.start);
    for (size_t i = job.first_state; i < kept.size(); ++i) {
      for (const ByteEdge& edge : entries[kept[i]].edges) visit(edge.target);
      for (const Move& move : entries[kept[i]].moves)
        if (move.kind != MoveKind::leave) visit(move.target);
    }
    job.end_state = static_cast<uint32_t>(kept.size());
    job.start = number[alias[job.start]];
  }
  uint32_t job_idx = 0;
  for (uint32_t i = 0; i < kept.size(); ++i) {
    while (i >= jobs_[job_idx].end_state) ++job_idx;
    const auto& e = entries[kept[i]];
    bool is_reading = !e.edges.empty();
    program.states.push_back({static_cast<uint32_t>(program.edges.size()), static_cast<uint32_t>(program.moves.size()),
                              job_idx, e.counted, false});
    for (ByteEdge edge : e.edges) {
      edge.target = number[alias[edge.target]];
      program.edges.push_back(edge);
    }
    for (Move move : e.moves) {
      if (move.kind != MoveKind::leave) move.target = number[alias[move.target]];
      is_reading = is_reading || move.kind == MoveKind::token;
      program.has_tokens = program.has_tokens || move.kind == MoveKind::token;
      program.moves.push_back(move);
    }
    program.states.back().is_reading = is_reading;
  }
  program.states.push_back(
      {static_cast<uint32_t>(program.edges.size()), static_cast<uint32_t>(program.moves.size()), 0, false, false});
}

void Builder::fill_contents(Program& program) {
  constexpr uint32_t kMaxShared = 512;  // states
  for (RuleInfo& rule : program.rules) {
    if (rule.end_state - rule.first_state > kMaxShared) continue;
    std::string content;
    const auto put = [&](uint32_t value) { content.append(reinterpret_cast<const char*>(&value), sizeof value); };
    bool calls = false;
    for (uint32_t s = rule.first_state; s < rule.end_state; ++s) {
      put(program.states[s].counted);
      put(static_cast<uint32_t>(program.edges_of(s).size()));
      for (const ByteEdge& edge : program.edges_of(s)) {
        put(edge.lo | uint32_t{edge.hi} << 8);
        put(edge.target - rule.first_state);
      }
      put(static_cast<uint32_t>(program.moves_of(s).size()));
      for (const Move& move : program.moves_of(s)) {
        calls = calls || move.kind == MoveKind::call || move.kind == MoveKind::token;
        put(static_cast<uint32_t>(move.kind));
        put(move.kind == MoveKind::leave ? 0 : move.target - rule.first_state);
        put(move.need);
        put(move.room);
      }
    }
    if (!calls) rule.content = std::move(content);
  }
}

Result<std::unique_ptr<const Program>> Builder::finish() {
  if (!states_.budget().spend(states_.entries().size() * 16)) return states_.budget().error();
  auto program = std::make_unique<Program>();
  flatten(*program);
  for (const Job& job : jobs_) program->rules.push_back({job.name, job.start, job.first_state, job.end_state, {}});
  program->root_rule = place_[rules_.root];
  fill_contents(*program);
  static std::atomic<uint64_t> next_uid{1};
  program->uid = next_uid.fetch_add(1);
  if (!states_.budget().ok()) return states_.budget().error();
  return std::unique_ptr<const Program>(std::move(program));
}

}  // namespace

size_t Program::n_bytes() const {
  size_t n =
      sizeof *this + states.size() * sizeof(State) + edges.size() * sizeof(ByteEdge) + moves.size() * sizeof(Move);
  for (const RuleInfo& rule : rules) n += sizeof rule + rule.name.size() + rule.content.size();
  return n;
}

Result<std::unique_ptr<const Program>> build_program(Rules& rules) {
  const Analysis facts = TRY(analyse(rules));
  return Builder(rules, facts).build();
}

}  // namespace tokamak::grammar

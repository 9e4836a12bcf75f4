#include "grammar/machine.h"

#include <algorithm>

#include "grammar/rules.h"

namespace tokamak::grammar {

void Stacks::compact(std::span<Config> configs) {
  std::vector<uint32_t> number(n_nodes(), kNone), stack;
  const auto mark = [&](uint32_t node) {
    if (number[node] != kNone) return;
    number[node] = 0;
    stack.push_back(node);
  };
  number[0] = 0;
  for (const Config& c : configs) mark(c.node);
  while (!stack.empty()) {
    const uint32_t node = stack.back();
    stack.pop_back();
    for (uint32_t f = first_frame[node]; f != kNone; f = frames[f].next) mark(frames[f].parent);
  }
  uint32_t n = 0;
  for (uint32_t node = 0; node < n_nodes(); ++node)
    if (number[node] != kNone) number[node] = n++;
  Stacks out;
  for (uint32_t node = 1; node < n_nodes(); ++node) {
    if (number[node] == kNone) continue;
    const uint32_t kept = out.add_node();
    for (uint32_t f = first_frame[node]; f != kNone; f = frames[f].next) {
      Frame frame = frames[f];
      frame.parent = number[frame.parent];
      out.add_frame(kept, frame);
    }
  }
  for (Config& c : configs) c.node = number[c.node];
  *this = std::move(out);
}

void Machine::begin(const Stacks& stacks, Readings& out) {
  out.clear();
  pending_.clear();
  visited_.clear();
  calls_.clear();
  first_new_node_ = stacks.n_nodes();
  if (table_.empty()) {
    table_.resize(64);
    stamps_.resize(64);
    call_head_.resize(program_.rules.size());
    call_stamp_.resize(program_.rules.size());
  }
  if (++stamp_ == 0) {
    std::fill(stamps_.begin(), stamps_.end(), 0);
    std::fill(call_stamp_.begin(), call_stamp_.end(), 0);
    stamp_ = 1;
  }
}

namespace {
size_t hash_of(const Config& c) {
  uint64_t h = c.state * 0x9E3779B97F4A7C15ull ^ c.node * 0xC2B2AE3D27D4EB4Full;
  h ^= (uint64_t{c.a} << 16 | c.b) * 0x165667B19E3779F9ull;
  return static_cast<size_t>(h ^ (h >> 29));
}
}  // namespace

void Machine::grow_table() {
  table_.assign(table_.size() * 2, 0);
  stamps_.assign(table_.size(), 0);
  for (uint32_t i = 0; i < visited_.size(); ++i) {
    size_t at = hash_of(visited_[i]) & (table_.size() - 1);
    while (stamps_[at] == stamp_) at = (at + 1) & (table_.size() - 1);
    table_[at] = i;
    stamps_[at] = stamp_;
  }
}

// False if the config, or one that can do all it can, was visited: a smaller need and a larger room allow more.
bool Machine::visit(const Config& c) {
  size_t at = hash_of(c) & (table_.size() - 1);
  for (; stamps_[at] == stamp_; at = (at + 1) & (table_.size() - 1)) {
    const Config& other = visited_[table_[at]];
    if (other.state == c.state && other.node == c.node && other.a == c.a && other.b == c.b &&
        other.count.need <= c.count.need && other.count.room >= c.count.room)
      return false;
  }
  table_[at] = static_cast<uint32_t>(visited_.size());
  stamps_[at] = stamp_;
  visited_.push_back(c);
  if (visited_.size() * 2 > table_.size()) grow_table();
  return true;
}

void Machine::leave(Stacks& stacks, const Config& c, Readings& out) {
  if (c.node == 0) {
    const auto dominated = [&](const Bottom& x) { return x.a <= c.a && x.b >= c.b; };
    if (std::any_of(out.bottoms.begin(), out.bottoms.end(), dominated)) return;
    std::erase_if(out.bottoms, [&](const Bottom& x) { return c.a <= x.a && c.b >= x.b; });
    out.bottoms.push_back({c.a, c.b});
    return;
  }
  // A rule that read nothing: its callers have a move around the call.
  if (c.node >= first_new_node_) return;
  for (uint32_t f = stacks.first_frame[c.node]; f != kNone; f = stacks.frames[f].next) {
    const Frame& frame = stacks.frames[f];
    pending_.push_back({frame.state, frame.parent, frame.count, c.a, c.b});
  }
}

// Calls of one rule at one place share a stack node.
void Machine::call(Stacks& stacks, const Config& c, const Move& move) {
  const Count bounds{move.need, move.room};
  const Frame frame{move.target, c.count, c.node, kNone};
  uint32_t head = call_stamp_[move.rule] == stamp_ ? call_head_[move.rule] : kNone;
  for (uint32_t i = head; i != kNone; i = calls_[i].next) {
    const Call& made = calls_[i];
    if (!(made.bounds == bounds) || made.a != c.a || made.b != c.b) continue;
    for (uint32_t f = stacks.first_frame[made.node]; f != kNone; f = stacks.frames[f].next)
      if (const Frame& x = stacks.frames[f];
          x.state == frame.state && x.count == frame.count && x.parent == frame.parent)
        return;
    return stacks.add_frame(made.node, frame);
  }
  const uint32_t node = stacks.add_node();
  stacks.add_frame(node, frame);
  calls_.push_back({move.rule, bounds, c.a, c.b, node, head});
  call_head_[move.rule] = static_cast<uint32_t>(calls_.size() - 1);
  call_stamp_[move.rule] = stamp_;
  pending_.push_back({program_.rules[move.rule].start, node, bounds, c.a, c.b});
}

void Machine::follow(Stacks& stacks, const Config& c, const Move& move, Readings& out) {
  Config next = c;
  next.state = move.target;
  switch (move.kind) {
    case MoveKind::go:
      break;
    case MoveKind::open:
      next.count = {move.need, move.room};
      break;
    case MoveKind::count:
      if (is_symbol(c.count.room))
        next.a = std::max<uint16_t>(c.a, static_cast<uint16_t>(std::min(kSymbol - c.count.room + move.room, 65535u)));
      else if (c.count.room < move.room)
        return;
      if (is_symbol(c.count.need)) {
        const uint64_t limit = uint64_t{kSymbol - c.count.need} + move.need;
        next.b = static_cast<uint16_t>(std::min<uint64_t>(c.b, limit));
      } else if (c.count.need > move.need) {
        return;
      }
      if (next.count.need > 0) --next.count.need;
      if (next.count.room != kUnbounded) --next.count.room;
      break;
    case MoveKind::close:
      if (is_symbol(c.count.need))
        next.b = static_cast<uint16_t>(std::min<uint32_t>(c.b, kSymbol - c.count.need));
      else if (c.count.need > 0)
        return;
      next.count = {};
      break;
    case MoveKind::call:
      return call(stacks, c, move);
    case MoveKind::leave:
      return leave(stacks, c, out);
    case MoveKind::token:
      return;
  }
  pending_.push_back(next);
}

void Machine::run(Stacks& stacks, Readings& out) {
  for (size_t n = 0; !pending_.empty(); ++n, ++work_) {
    const Config c = pending_.back();
    pending_.pop_back();
    if (!visit(c)) continue;
    if (visited_.size() > kMaxReadings || n > 10 * kMaxReadings) {
      out.overflow = true;
      pending_.clear();
      return;
    }
    if (program_.states[c.state].is_reading) out.configs.push_back(c);
    for (const Move& move : program_.moves_of(c.state)) follow(stacks, c, move, out);
  }
}

void Machine::start(Stacks& stacks, Readings& out) {
  begin(stacks, out);
  pending_.push_back({program_.rules[program_.root_rule].start, 0, {}, 0, kAnyNeed});
  run(stacks, out);
}

void Machine::close(Stacks& stacks, std::span<const Config> configs, Readings& out) {
  begin(stacks, out);
  pending_.assign(configs.begin(), configs.end());
  run(stacks, out);
}

void Machine::step(Stacks& stacks, std::span<const Config> from, uint8_t byte, Readings& out) {
  begin(stacks, out);
  for (const Config& c : from)
    for (const ByteEdge& edge : program_.edges_of(c.state))
      if (byte >= edge.lo && byte <= edge.hi) pending_.push_back({edge.target, c.node, c.count, c.a, c.b});
  run(stacks, out);
}

void Machine::step_token(Stacks& stacks, std::span<const Config> from, int32_t token, Readings& out) {
  begin(stacks, out);
  for (const Config& c : from)
    for (const Move& move : program_.moves_of(c.state))
      if (move.kind == MoveKind::token && (move.rule == static_cast<uint32_t>(token)) != move.negated)
        pending_.push_back({move.target, c.node, c.count, c.a, c.b});
  run(stacks, out);
}

void Machine::pop(Stacks& stacks, uint32_t node, Readings& out) {
  begin(stacks, out);
  leave(stacks, {0, node, {}, 0, kAnyNeed}, out);
  run(stacks, out);
}

}  // namespace tokamak::grammar

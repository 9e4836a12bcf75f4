#include "grammar/state.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"
#include "grammar/local_mask.h"
#include "grammar/trigger.h"
#include "grammar/walker.h"

namespace tokamak {

using namespace grammar;

namespace {

void set_bit(std::span<uint64_t> bits, int32_t id) { bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64); }

void set_bits(std::span<uint64_t> bits, std::span<const int32_t> ids) {
  for (const int32_t id : ids) set_bit(bits, id);
}

void set_all(std::span<uint64_t> bits, int32_t n_vocab) {
  std::fill(bits.begin(), bits.end(), 0);
  std::fill_n(bits.begin(), n_vocab / 64, ~uint64_t{0});
  if (n_vocab % 64) bits[static_cast<size_t>(n_vocab / 64)] = (uint64_t{1} << (n_vocab % 64)) - 1;
}

// Nodes of the tree at which a rule above stack node `node` is complete.
struct Exit {
  uint32_t node;
  std::vector<uint32_t> places;
};

}  // namespace

struct GrammarState::Impl {
  Grammar::Ptr grammar;
  VocabTrie::Ptr trie;
  Cursor cursor;
  std::optional<TriggerSearch> search;  // while a lazy grammar waits
  bool ended = false;                   // an end token came
  std::unique_ptr<Machine> scratch;     // not copied

  Impl(Grammar::Ptr g, VocabTrie::Ptr t) : grammar(std::move(g)), trie(std::move(t)) {}
  Impl(const Impl& other)
      : grammar(other.grammar), trie(other.trie), cursor(other.cursor), search(other.search), ended(other.ended) {}

  Machine& machine() {
    if (!scratch) scratch = std::make_unique<Machine>(grammar->program());
    return *scratch;
  }

  std::vector<Exit> add_local_masks(std::span<uint64_t> bits);
  void add_exits(std::span<uint64_t> bits, const std::vector<Exit>& exits);
  void add_token_moves(std::span<uint64_t> bits);
  Result<void> accept_while_waiting(int32_t token);
  bool wake(std::string_view text, int32_t token);
  bool feed_token(int32_t token);
  Error not_allowed(std::string_view text) const;
};

GrammarState::GrammarState(Grammar::Ptr grammar, VocabTrie::Ptr trie, GrammarTriggers triggers)
    : impl_(std::make_unique<Impl>(std::move(grammar), std::move(trie))) {
  impl_->cursor.start(impl_->machine());
  if (!triggers.empty()) impl_->search.emplace(std::move(triggers));
}
GrammarState::GrammarState(const GrammarState& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
GrammarState::GrammarState(GrammarState&& other) noexcept = default;
GrammarState& GrammarState::operator=(GrammarState other) noexcept {
  impl_.swap(other.impl_);
  return *this;
}
GrammarState::~GrammarState() = default;

bool GrammarState::is_active() const { return !impl_->search; }
bool GrammarState::can_end() const { return impl_->search || impl_->cursor.can_end; }
bool GrammarState::is_finished() const {
  return impl_->ended || (!impl_->search && impl_->cursor.can_end && impl_->cursor.configs.empty());
}
size_t GrammarState::n_readings() const { return impl_->cursor.configs.size(); }

std::vector<Exit> GrammarState::Impl::add_local_masks(std::span<uint64_t> bits) {
  const Program& program = grammar->program();
  std::vector<Exit> exits;
  for (const Config& c : cursor.configs) {
    if (program.edges_of(c.state).empty()) continue;
    const auto mask = trie->cache().get(program, c.state, *trie);
    for (const LocalMask::Group& g : mask->groups) {
      if (!holds(g.when, c.count)) continue;
      for (size_t i = 0; i < g.bits.size(); ++i) bits[i] |= g.bits[i];
      set_bits(bits, g.tokens);
    }
    if (mask->escapes.empty()) continue;
    auto exit = std::find_if(exits.begin(), exits.end(), [&](const Exit& x) { return x.node == c.node; });
    if (exit == exits.end()) exit = exits.insert(exits.end(), {c.node, {}});
    for (const LocalMask::Escape& e : mask->escapes)
      if (holds(e.when, c.count)) exit->places.push_back(e.node);
  }
  return exits;
}

void GrammarState::Impl::add_exits(std::span<uint64_t> bits, const std::vector<Exit>& exits) {
  Stacks& stacks = cursor.stacks;
  const size_t n_nodes = stacks.first_frame.size(), n_frames = stacks.frames.size();
  Readings readings;
  // Only absurdly ambiguous grammars reach the limit; fewer tokens than possible are allowed then.
  constexpr uint64_t kMaxWork = 10'000'000;
  const uint64_t max_work = machine().work() + kMaxWork;
  for (const Exit& exit : exits) {
    if (machine().work() > max_work) break;
    machine().pop(stacks, exit.node, readings);
    if (readings.dead() || exit.places.empty()) continue;
    Walker walker(machine(), stacks);
    const uint32_t set = walker.add(readings);
    for (const uint32_t place : exit.places) {
      set_bits(bits, trie->tokens(place));
      walker.walk(*trie, place, set, [&](uint32_t node, uint32_t) { set_bits(bits, trie->tokens(node)); });
    }
    stacks.truncate(n_nodes, n_frames);
  }
  stacks.truncate(n_nodes, n_frames);
}

void GrammarState::Impl::add_token_moves(std::span<uint64_t> bits) {
  const Program& program = grammar->program();
  if (!program.has_tokens) return;
  std::vector<uint64_t> others(bits.size());
  for (const Config& c : cursor.configs)
    for (const Move& move : program.moves_of(c.state)) {
      if (move.kind != MoveKind::token || move.rule >= static_cast<uint32_t>(trie->n_vocab())) continue;
      const auto id = static_cast<int32_t>(move.rule);
      if (!move.negated) {
        set_bit(bits, id);
        continue;
      }
      set_all(others, trie->n_vocab());
      others[static_cast<size_t>(id) / 64] &= ~(uint64_t{1} << (id % 64));
      for (const int32_t end : trie->end_tokens())
        others[static_cast<size_t>(end) / 64] &= ~(uint64_t{1} << (end % 64));
      for (size_t i = 0; i < bits.size(); ++i) bits[i] |= others[i];
    }
}

void GrammarState::fill_mask(std::span<uint64_t> bits) {
  Impl& s = *impl_;
  CHECK(bits.size() >= s.trie->n_words(), bits.size());
  if (s.search && !s.ended) return set_all(bits, s.trie->n_vocab());
  std::fill(bits.begin(), bits.end(), 0);
  if (s.ended) return;
  s.add_exits(bits, s.add_local_masks(bits));
  s.add_token_moves(bits);
  if (s.cursor.can_end) set_bits(bits, s.trie->end_tokens());
}

Error GrammarState::Impl::not_allowed(std::string_view text) const {
  return Error{.code = ErrorCode::bad_argument,
               .what = ended ? "the output has ended" : "the grammar does not allow '" + std::string(text) + "' here",
               .where = "grammar",
               .hint = {}};
}

// By token moves and by bytes at once; false: not allowed, nothing changed.
bool GrammarState::Impl::feed_token(int32_t token) {
  Readings by_token;
  if (grammar->program().has_tokens && !trie->is_end(token))
    machine().step_token(cursor.stacks, cursor.configs, token, by_token);
  else if (grammar->program().has_tokens) {
    // An end token is meant only where it is named.
    std::vector<Config> named;
    for (const Config& c : cursor.configs)
      for (const Move& move : grammar->program().moves_of(c.state))
        if (move.kind == MoveKind::token && !move.negated) named.push_back(c);
    machine().step_token(cursor.stacks, named, token, by_token);
    if (by_token.dead()) by_token.clear();
  }
  const bool by_bytes = trie->in_tree(token);
  if (by_token.dead() || by_token.overflow) return by_bytes && cursor.feed(machine(), trie->piece(token));
  if (!by_bytes || !cursor.feed(machine(), trie->piece(token))) return cursor.set(by_token);
  for (const Config& c : by_token.configs)
    if (std::find(cursor.configs.begin(), cursor.configs.end(), c) == cursor.configs.end()) cursor.configs.push_back(c);
  cursor.can_end = cursor.can_end || !by_token.bottoms.empty();
  return true;
}

// Begins the grammar with the trigger and what follows it; false: the grammar does not take it and goes on waiting.
bool GrammarState::Impl::wake(std::string_view text, int32_t token) {
  if (token >= 0 ? !feed_token(token) && !cursor.feed(machine(), text) : !cursor.feed(machine(), text)) return false;
  search.reset();
  return true;
}

Result<void> GrammarState::Impl::accept_while_waiting(int32_t token) {
  if (trie->is_end(token) && !search->is_trigger(token)) {
    ended = true;
    return {};
  }
  const std::string_view text = trie->piece(token);
  if (search->is_trigger(token)) {
    if (search->skips_trigger()) {
      search.reset();
      return {};
    }
    if (wake(text, token)) return {};
  }
  for (size_t i = 0; i < text.size(); ++i) {
    for (const TriggerSearch::Found& found : search->feed(static_cast<uint8_t>(text[i]))) {
      std::string begun = search->text().substr(search->skips_trigger() ? found.end : found.first);
      begun += text.substr(i + 1);
      if (wake(begun, -1)) return {};
    }
  }
  search->drop_old();
  return {};
}

Result<void> GrammarState::accept(int32_t token) {
  Impl& s = *impl_;
  if (s.ended) return s.not_allowed({});
  if (token < 0 || token >= s.trie->n_vocab())
    return Error{.code = ErrorCode::bad_argument, .what = "no such token", .where = std::to_string(token), .hint = {}};
  if (s.search) return s.accept_while_waiting(token);
  if (s.feed_token(token)) {
    s.cursor.tidy();
    return {};
  }
  if (s.trie->is_end(token) && s.cursor.can_end) {
    s.ended = true;
    return {};
  }
  return s.not_allowed(s.trie->piece(token));
}

Result<void> GrammarState::accept_bytes(std::string_view bytes) {
  Impl& s = *impl_;
  if (s.ended) return s.not_allowed({});
  if (s.search) {
    for (size_t i = 0; i < bytes.size(); ++i)
      for (const TriggerSearch::Found& found : s.search->feed(static_cast<uint8_t>(bytes[i]))) {
        std::string begun = s.search->text().substr(s.search->skips_trigger() ? found.end : found.first);
        begun += bytes.substr(i + 1);
        if (s.wake(begun, -1)) return {};
      }
    s.search->drop_old();
    return {};
  }
  if (!s.cursor.feed(s.machine(), bytes)) return s.not_allowed(bytes);
  s.cursor.tidy();
  return {};
}

size_t prepare_masks(const Grammar::Ptr& grammar, const VocabTrie& trie, std::chrono::milliseconds budget) {
  const auto end = std::chrono::steady_clock::now() + budget;
  const Program& program = grammar->program();
  std::vector<std::pair<uint32_t, uint32_t>> order;  // bytes taken, state
  for (uint32_t s = 0; s < program.n_states(); ++s) {
    uint32_t n = 0;
    for (const ByteEdge& edge : program.edges_of(s)) n += edge.hi - edge.lo + 1u;
    if (n > 0) order.emplace_back(n, s);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
  size_t n_ready = 0;
  for (const auto& [n, s] : order) {
    if (std::chrono::steady_clock::now() >= end) break;
    trie.cache().get(program, s, trie);
    ++n_ready;
  }
  return n_ready;
}

void apply_mask(std::span<const uint64_t> bits, std::span<float> logits) {
  for (size_t i = 0; i < logits.size(); ++i)
    if (!(bits[i / 64] >> (i % 64) & 1)) logits[i] = -std::numeric_limits<float>::infinity();
}

}  // namespace tokamak

#include "grammar/spelling.h"

#include <array>
#include <map>
#include <tuple>

#include "grammar/rules.h"

namespace tokamak::grammar {

namespace {

// States between the bytes of characters; sequences with equal ends share them.
class Utf8Speller {
 public:
  Utf8Speller(States& states, uint32_t from, uint32_t to) : states_(states), from_(from), to_(to) {}

  void spell(const CharSet& set) {
    for (const CharRange& range : set.ranges())
      for (const ByteRun& run : utf8_runs(range)) {
        uint32_t next = to_;
        for (int i = run.n_bytes - 1; i > 0; --i) next = before(run.lo[i], run.hi[i], next);
        states_.edge(from_, run.lo[0], run.hi[0], next);
      }
  }

 private:
  uint32_t before(uint8_t lo, uint8_t hi, uint32_t next) {
    const auto [place, added] = made_.try_emplace({lo, hi, next}, 0);
    if (added) {
      place->second = states_.add();
      states_.edge(place->second, lo, hi, next);
    }
    return place->second;
  }

  States& states_;
  uint32_t from_, to_;
  std::map<std::tuple<uint8_t, uint8_t, uint32_t>, uint32_t> made_;
};

struct Escape {
  char letter;
  char32_t character;
};
constexpr auto kEscapes =
    std::to_array<Escape>({{'"', '"'}, {'\\', '\\'}, {'b', 8}, {'t', 9}, {'n', 10}, {'f', 12}, {'r', 13}});

void hex_digit(States& states, uint32_t from, uint32_t to) {
  states.edge(from, '0', '9', to);
  states.edge(from, 'a', 'f', to);
  states.edge(from, 'A', 'F', to);
}

void exact_hex_digit(States& states, uint32_t value, uint32_t from, uint32_t to) {
  const auto byte = static_cast<uint8_t>(value < 10 ? '0' + value : 'a' + value - 10);
  states.edge(from, byte, byte, to);
  if (value >= 10) states.edge(from, static_cast<uint8_t>(byte - 32), static_cast<uint8_t>(byte - 32), to);
}

// Four digits of any character behind "\u"; those beyond U+FFFF as two surrogates.
void any_hex_escape(States& states, uint32_t from, uint32_t to) {
  const uint32_t last1 = states.add(), last2 = states.add(), last3 = states.add();
  hex_digit(states, last1, to);
  hex_digit(states, last2, last1);
  hex_digit(states, last3, last2);
  states.edge(from, '0', '9', last3);
  for (const auto& [lo, hi] : {std::pair{'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}})
    states.edge(from, static_cast<uint8_t>(lo), static_cast<uint8_t>(hi), last3);
  const uint32_t after_d = states.add(), high2 = states.add(), high1 = states.add();
  for (const uint8_t d : {'d', 'D'}) states.edge(from, d, d, after_d);
  states.edge(after_d, '0', '7', last2);
  states.edge(after_d, '8', '9', high2);
  for (const auto& [lo, hi] : {std::pair{'a', 'b'}, {'A', 'B'}})
    states.edge(after_d, static_cast<uint8_t>(lo), static_cast<uint8_t>(hi), high2);
  const uint32_t slash = states.add(), u = states.add(), low4 = states.add(), low3 = states.add();
  hex_digit(states, high2, high1);
  hex_digit(states, high1, slash);
  states.edge(slash, '\\', '\\', u);
  states.edge(u, 'u', 'u', low4);
  for (const uint8_t d : {'d', 'D'}) states.edge(low4, d, d, low3);
  for (const auto& [lo, hi] : {std::pair{'c', 'f'}, {'C', 'F'}})
    states.edge(low3, static_cast<uint8_t>(lo), static_cast<uint8_t>(hi), last2);
}

void spell_json_char(States& states, const CharSet& set, bool any_escape, uint32_t from, uint32_t to) {
  static const CharSet kSpecial{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  Utf8Speller(states, from, to).spell(set.minus(kSpecial));
  const CharSet escaped = set.intersect(kSpecial);
  if (escaped.empty() && !any_escape) return;
  const uint32_t slash = states.add();
  states.edge(from, '\\', '\\', slash);
  for (const Escape& e : kEscapes)
    if (escaped.contains(e.character))
      states.edge(slash, static_cast<uint8_t>(e.letter), static_cast<uint8_t>(e.letter), to);
  if (any_escape) states.edge(slash, '/', '/', to);
  const CharSet control = escaped.intersect({{0, 0x1F}});
  if (control.empty() && !any_escape) return;
  const uint32_t digits = states.add();
  states.edge(slash, 'u', 'u', digits);
  if (any_escape) return any_hex_escape(states, digits, to);
  const uint32_t second = states.add(), third = states.add();
  states.edge(digits, '0', '0', second);
  states.edge(second, '0', '0', third);
  for (const uint32_t high : {0u, 1u}) {
    const uint32_t last = states.add();
    states.edge(third, static_cast<uint8_t>('0' + high), static_cast<uint8_t>('0' + high), last);
    for (uint32_t low = 0; low < 16; ++low)
      if (control.contains(high * 16 + low)) exact_hex_digit(states, low, last, to);
  }
}

}  // namespace

void spell_char(States& states, const CharSet& set, StringForm form, uint32_t from, uint32_t to) {
  if (form == StringForm::plain) return Utf8Speller(states, from, to).spell(set);
  spell_json_char(states, set, form == StringForm::json_escapes, from, to);
}

void spell_text(States& states, const CharNfa& nfa, StringForm form, bool counted, uint32_t from, uint32_t to) {
  states.counting = counted;
  std::vector<uint32_t> numbers(nfa.states.size());
  for (uint32_t& number : numbers) number = states.add();
  uint32_t end = to;
  if (form != StringForm::plain) {
    states.counting = false;
    end = states.add();
    states.edge(end, '"', '"', to);
    states.edge(from, '"', '"', numbers[0]);
    states.counting = counted;
  } else {
    states.go(from, numbers[0]);
  }
  for (size_t i = 0; i < nfa.states.size() && states.ok(); ++i) {
    const CharNfa::State& state = nfa.states[i];
    if (state.accepts) states.move(numbers[i], {.kind = counted ? MoveKind::close : MoveKind::go, .target = end});
    for (const CharNfa::Edge& edge : state.edges) {
      uint32_t before = numbers[i];
      if (counted) {
        const CharNfa::State& target = nfa.states[edge.target];
        before = states.add();
        const uint32_t longest = target.longest == kUnbounded ? kUnbounded : target.longest + 1;
        states.move(numbers[i],
                    {.kind = MoveKind::count, .target = before, .need = longest, .room = target.shortest + 1});
      }
      spell_char(states, edge.set, form, before, numbers[edge.target]);
    }
  }
  states.counting = false;
}

}  // namespace tokamak::grammar

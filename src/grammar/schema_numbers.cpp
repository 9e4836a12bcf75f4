// Integers and numbers within bounds, as automata over their digits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "grammar/schema_compiler.h"

namespace tokamak::grammar {

namespace {

constexpr size_t kMaxDigits = 15;  // before the point, and behind it: what a double tells apart
constexpr int64_t kMaxDivisor = 1000;

// A bound: whole and fraction digits without needless zeros ("0" for no whole part).
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
  bool exclusive = false;
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

Decimal decimal_of(const Json& number) {
  std::string text = number.is_number_float() ? fmt::format("{}", number.get<double>()) : json_text(number);
  Decimal out;
  if (text.starts_with('-')) {
    out.negative = true;
    text.erase(0, 1);
  }
  int exponent = 0;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits = text.substr(0, point);
  if (point < text.size()) digits += text.substr(point + 1);
  int n_whole = static_cast<int>(point) + exponent;
  if (n_whole <= 0) {
    digits.insert(0, static_cast<size_t>(1 - n_whole), '0');
    n_whole = 1;
  }
  if (static_cast<size_t>(n_whole) > digits.size()) digits.append(static_cast<size_t>(n_whole) - digits.size(), '0');
  out.whole = digits.substr(0, static_cast<size_t>(n_whole));
  out.fraction = digits.substr(static_cast<size_t>(n_whole));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size() - 1));
  while (out.fraction.ends_with('0')) out.fraction.pop_back();
  if (out.is_zero()) out.negative = false;
  return out;
}

std::string plus_one(std::string digits) {
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '9') {
      ++digits[i];
      return digits;
    }
    digits[i] = '0';
  }
  return "1" + digits;
}

std::string minus_one(std::string digits) {  // digits are not "0"
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '0') {
      --digits[i];
      break;
    }
    digits[i] = '9';
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return digits;
}

// Magnitudes from `lo` to `hi` (none: as many digits as are allowed).
struct Range {
  Decimal lo;
  std::optional<Decimal> hi;
};

// Whether the range holds no integer; its ends become integers that belong to it.
bool round_inwards(Range& range) {
  Decimal& lo = range.lo;
  if (!lo.fraction.empty() || lo.exclusive) lo.whole = plus_one(lo.whole);
  lo.fraction.clear();
  lo.exclusive = false;
  if (!range.hi) return false;
  Decimal& hi = *range.hi;
  if (hi.fraction.empty() && hi.exclusive) {
    if (hi.whole == "0") return true;
    hi.whole = minus_one(hi.whole);
  }
  hi.fraction.clear();
  hi.exclusive = false;
  return std::pair(lo.whole.size(), lo.whole) > std::pair(hi.whole.size(), hi.whole);
}

// Adds the texts of a range of magnitudes to an automaton, starting at one of its states.
class DigitWriter {
 public:
  DigitWriter(CharNfa& nfa, bool integer, int64_t divisor) : nfa_(nfa), integer_(integer), divisor_(divisor) {}

  void write(uint32_t start, const Range& range) {
    range_ = &range;
    known_.clear();
    const size_t shortest = range.lo.whole.size();
    const size_t longest = range.hi ? range.hi->whole.size() : std::max(kMaxDigits, shortest);
    for (size_t n = shortest; n <= longest; ++n) {
      Place first{.length = n, .tight_lo = n == shortest, .tight_hi = range.hi && n == longest};
      write_whole(start, first);
    }
  }

 private:
  // How far a number is written, and whether it still equals a bound so far.
  struct Place {
    size_t length = 0;  // of the whole part
    size_t at = 0;      // digits written; of the fraction, once in it
    bool in_fraction = false;
    bool tight_lo = false, tight_hi = false;
    int64_t rest = 0;  // of the division
    auto key() const { return std::tuple(length, at, in_fraction, tight_lo, tight_hi, rest); }
  };

  void edge(uint32_t from, char c, uint32_t to) {
    const auto code = static_cast<char32_t>(c);
    for (CharNfa::Edge& e : nfa_.states[from].edges)
      if (e.target == to) return e.set.add(code, code);
    nfa_.states[from].edges.push_back({CharSet{{code, code}}, to});
  }

  uint32_t state_of(const Place& place, std::vector<std::pair<uint32_t, Place>>& todo) {
    const auto [entry, added] = known_.try_emplace(place.key(), static_cast<uint32_t>(nfa_.states.size()));
    if (added) {
      nfa_.states.emplace_back();
      todo.emplace_back(entry->second, place);
    }
    return entry->second;
  }

  char bound_digit(const Decimal& bound, const Place& place) const {
    const std::string& digits = place.in_fraction ? bound.fraction : bound.whole;
    return place.at < digits.size() ? digits[place.at] : '0';
  }

  // The place after one more digit; none if that leaves the range for good.
  std::optional<Place> next(const Place& place, char digit) const {
    Place out = place;
    ++out.at;
    if (divisor_ > 1) out.rest = (place.rest * 10 + (digit - '0')) % divisor_;
    if (place.tight_lo) {
      const char bound = bound_digit(range_->lo, place);
      if (digit < bound) return std::nullopt;
      out.tight_lo = digit == bound;
    }
    if (place.tight_hi) {
      const char bound = bound_digit(*range_->hi, place);
      if (digit > bound) return std::nullopt;
      out.tight_hi = digit == bound;
    }
    return out;
  }

  // The number may end here.
  bool complete(const Place& place) const {
    if (!place.in_fraction && place.at < place.length) return false;
    if (place.in_fraction && place.at == 0) return false;
    if (place.rest != 0) return false;
    const size_t n_fraction = place.in_fraction ? place.at : 0;
    if (place.tight_lo && (n_fraction < range_->lo.fraction.size() || range_->lo.exclusive)) return false;
    return !(place.tight_hi && n_fraction >= range_->hi->fraction.size() && range_->hi->exclusive);
  }

  void write_whole(uint32_t start, const Place& first) {
    std::vector<std::pair<uint32_t, Place>> todo{{start, first}};
    while (!todo.empty()) {
      const auto [from, place] = todo.back();
      todo.pop_back();
      if (complete(place)) nfa_.states[from].accepts = true;
      const bool whole_done = !place.in_fraction && place.at == place.length;
      if (whole_done) {
        if (integer_) continue;
        Place fraction = place;
        fraction.in_fraction = true;
        fraction.at = 0;
        edge(from, '.', state_of(fraction, todo));
        continue;
      }
      if (place.in_fraction && place.at == kMaxDigits) continue;
      const bool no_zero = !place.in_fraction && place.at == 0 && place.length > 1;
      for (char digit = no_zero ? '1' : '0'; digit <= '9'; ++digit)
        if (const auto to = next(place, digit)) edge(from, digit, state_of(*to, todo));
    }
  }

  CharNfa& nfa_;
  bool integer_;
  int64_t divisor_;
  const Range* range_ = nullptr;
  std::map<std::tuple<size_t, size_t, bool, bool, bool, int64_t>, uint32_t> known_;
};

// -1, 0, 1 by value.
int compare(const Decimal& x, const Decimal& y) {
  if (x.negative != y.negative) return x.negative ? -1 : 1;
  const auto key = [](const Decimal& d) { return std::tuple(d.whole.size(), d.whole, d.fraction); };
  const int magnitude = key(x) < key(y) ? -1 : key(x) > key(y) ? 1 : 0;
  return x.negative ? -magnitude : magnitude;
}

// The tighter of an inclusive and an exclusive bound.
std::optional<Decimal> bound_of(const Json& plain, const char* inclusive, const char* exclusive, int direction) {
  constexpr double kFar = 1e15;  // no number that is made gets there
  std::optional<Decimal> a, b;
  const auto binds = [&](const char* key) {
    return plain.contains(key) && plain[key].get<double>() * direction > -kFar;
  };
  if (binds(inclusive)) a = decimal_of(plain[inclusive]);
  if (binds(exclusive)) b = decimal_of(plain[exclusive]);
  if (b) b->exclusive = true;
  if (!a || !b) return a ? a : b;
  return compare(*a, *b) * direction > 0 ? a : b;
}

// Any number, with an exponent.
CharNfa free_number() {
  const CharSet digit{{'0', '9'}}, positive{{'1', '9'}}, zero{{'0', '0'}}, point{{'.', '.'}}, e{{'e', 'e'}, {'E', 'E'}};
  CharNfa nfa;
  const auto add = [&] {
    nfa.states.emplace_back();
    return static_cast<uint32_t>(nfa.states.size() - 1);
  };
  const auto link = [&](uint32_t from, const CharSet& set, uint32_t to) {
    nfa.states[from].edges.push_back({set, to});
  };
  const uint32_t start = add(), minus = add(), mark = add(), sign = add(), power1 = add(), power2 = add();
  link(start, CharSet{{'-', '-'}}, minus);
  link(mark, CharSet{{'+', '+'}, {'-', '-'}}, sign);
  for (const uint32_t from : {mark, sign}) link(from, digit, power1);
  link(power1, digit, power2);
  std::vector<uint32_t> ends{power1, power2};
  const uint32_t dot = add();
  const auto end_here = [&](uint32_t state) {
    ends.push_back(state);
    link(state, e, mark);
  };
  uint32_t at = dot;
  for (size_t i = 0; i < kMaxDigits; ++i) {
    const uint32_t next = add();
    link(at, digit, next);
    end_here(next);
    at = next;
  }
  const uint32_t zero_state = add();
  for (const uint32_t from : {start, minus}) link(from, zero, zero_state);
  end_here(zero_state);
  link(zero_state, point, dot);
  uint32_t whole = kNone;
  for (size_t i = 0; i < kMaxDigits; ++i) {
    const uint32_t next = add();
    if (i == 0)
      for (const uint32_t from : {start, minus}) link(from, positive, next);
    else
      link(whole, digit, next);
    end_here(next);
    link(next, point, dot);
    whole = next;
  }
  for (const uint32_t end : ends) nfa.states[end].accepts = true;
  trim(nfa);
  return nfa;
}

// Divisor to follow, 1: none. Not enforced: `note` says why.
int64_t divisor_of(const Json& plain, bool& integer, std::string* note) {
  const auto given = plain.find("multipleOf");
  if (given == plain.end()) return 1;
  const double value = given->get<double>();
  if (value == std::floor(value) && value <= static_cast<double>(kMaxDivisor)) {
    integer = true;
    return static_cast<int64_t>(value);
  }
  *note = fmt::format("only whole divisors up to {} are enforced", kMaxDivisor);
  return 1;
}

}  // namespace

// No texts of 16 or more digits, except up to a bound that has them; exponents only without bounds.
Result<CharNfa> number_nfa(const Json& plain, bool integer, const std::string& path, std::string* note) {
  const int64_t divisor = divisor_of(plain, integer, note);
  const auto lo = bound_of(plain, "minimum", "exclusiveMinimum", 1);
  const auto hi = bound_of(plain, "maximum", "exclusiveMaximum", -1);
  if (!lo && !hi && !integer) return free_number();
  const auto too_long = [](const std::optional<Decimal>& d) {
    return d && (d->whole.size() > 30 || d->fraction.size() > kMaxDigits);
  };
  if (too_long(lo) || too_long(hi)) return schema_error(path, "a bound has too many digits");
  CharNfa nfa;
  nfa.states.emplace_back();
  DigitWriter writer(nfa, integer, divisor);
  const Decimal zero;
  if (!hi || !hi->negative) {
    Range range{lo && !lo->negative ? *lo : zero, hi};
    if (!integer || !round_inwards(range)) writer.write(0, range);
  }
  // Negative numbers: the bounds change places. The minus sign leads to a state of its own.
  if (!lo || lo->negative) {
    Decimal nearest = hi && (hi->negative || hi->is_zero()) ? *hi : zero;
    nearest.negative = false;
    if (integer && nearest.is_zero()) nearest.exclusive = true;  // no -0
    std::optional<Decimal> farthest = lo;
    if (farthest) farthest->negative = false;
    Range range{nearest, farthest};
    if (!integer || !round_inwards(range)) {
      const auto minus = static_cast<uint32_t>(nfa.states.size());
      nfa.states.emplace_back();
      nfa.states[0].edges.push_back({CharSet{{'-', '-'}}, minus});
      writer.write(minus, range);
    }
  }
  trim(nfa);
  return nfa;
}

}  // namespace tokamak::grammar

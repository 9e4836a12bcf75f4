// Random grammars and patterns over two letters, against a reference that knows nothing of automata: the set of ends of
// each rule at each place of the text, grown until nothing changes.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "grammar/grammar_helpers.h"

namespace tokamak {
namespace {

enum class Kind { literal, letters, sequence, choice, repeat, rule };

struct Node {
  Kind kind;
  std::string text;  // literal; letters: the members
  std::vector<Node> children;
  int min = 0, max = 0;  // repeat; max -1: any number
  int rule = 0;
};

class Maker {
 public:
  Maker(std::mt19937& random, int n_rules) : random_(random), n_rules_(n_rules) {}

  Node make(int depth) {
    const int kind = depth <= 0 ? pick(2) : pick(n_rules_ > 0 ? 7 : 6);
    if (kind == 0) return {.kind = Kind::literal, .text = word()};
    if (kind == 1) return {.kind = Kind::letters, .text = pick(3) == 0 ? "ab" : pick(2) == 0 ? "a" : "b"};
    if (kind == 6) return {.kind = Kind::rule, .rule = pick(n_rules_)};
    Node node{.kind = kind <= 3 ? Kind::sequence : kind == 4 ? Kind::choice : Kind::repeat};
    const int n = node.kind == Kind::repeat ? 1 : 2 + pick(2);
    for (int i = 0; i < n; ++i) node.children.push_back(make(depth - 1));
    if (node.kind == Kind::repeat) {
      // Large maxima make counted repetitions.
      node.min = pick(3);
      node.max = pick(3) == 0 ? -1 : node.min + std::vector<int>{0, 1, 2, 70}[static_cast<size_t>(pick(4))];
      if (node.max == 0) node.max = 1;
    }
    return node;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  std::string word() {
    std::string text;
    for (int n = pick(3); n >= 0; --n) text += pick(2) ? 'a' : 'b';
    return pick(8) == 0 ? "" : text;
  }

  std::mt19937& random_;
  int n_rules_;
};

std::string bounds_text(const Node& node) {
  return "{" + std::to_string(node.min) + "," + (node.max < 0 ? "" : std::to_string(node.max)) + "}";
}

std::string to_text(const Node& node, bool regex) {
  const std::string open = regex ? "(?:" : "(";
  switch (node.kind) {
    case Kind::literal:
      return regex ? "(?:" + node.text + ")" : "\"" + node.text + "\"";
    case Kind::letters:
      return "[" + node.text + "]";
    case Kind::rule:
      return "r" + std::to_string(node.rule);
    case Kind::repeat:
      return open + to_text(node.children[0], regex) + ")" + bounds_text(node);
    default:
      break;
  }
  std::string out = open;
  for (size_t i = 0; i < node.children.size(); ++i) {
    if (i > 0) out += node.kind == Kind::choice ? "|" : regex ? "" : " ";
    out += to_text(node.children[i], regex);
  }
  return out + ")";
}

using Ends = std::set<size_t>;

class Reference {
 public:
  Reference(const std::vector<Node>& rules, std::string text)
      : rules_(rules), text_(std::move(text)), known_(rules.size(), std::vector<Ends>(text_.size() + 1)) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t rule = 0; rule < rules_.size(); ++rule)
        for (size_t at = 0; at <= text_.size(); ++at) {
          Ends ends = ends_of(rules_[rule], at);
          changed = changed || ends != known_[rule][at];
          known_[rule][at] = std::move(ends);
        }
    }
  }

  bool accepts() const { return known_[0][0].contains(text_.size()); }

 private:
  Ends after(const Node& node, const Ends& starts) const {
    Ends out;
    for (const size_t at : starts) out.merge(ends_of(node, at));
    return out;
  }

  Ends ends_of(const Node& node, size_t at) const {
    switch (node.kind) {
      case Kind::literal:
        return text_.compare(at, node.text.size(), node.text) == 0 ? Ends{at + node.text.size()} : Ends{};
      case Kind::letters:
        return at < text_.size() && node.text.find(text_[at]) != std::string::npos ? Ends{at + 1} : Ends{};
      case Kind::rule:
        return known_[static_cast<size_t>(node.rule)][at];
      case Kind::choice: {
        Ends out;
        for (const Node& child : node.children) out.merge(ends_of(child, at));
        return out;
      }
      case Kind::sequence: {
        Ends now{at};
        for (const Node& child : node.children) now = after(child, now);
        return now;
      }
      case Kind::repeat:
        break;
    }
    Ends now{at}, out;
    const int limit = node.max < 0 ? node.min + 20 : node.max;  // texts are shorter
    for (int i = 0; i <= limit && !now.empty(); ++i) {
      if (i >= node.min) out.insert(now.begin(), now.end());
      now = after(node.children[0], now);
    }
    return out;
  }

  const std::vector<Node>& rules_;
  std::string text_;
  std::vector<std::vector<Ends>> known_;  // by rule and place
};

std::vector<std::string> all_texts(size_t max_length) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < texts.size(); ++i)
    if (texts[i].size() < max_length)
      for (const char c : {'a', 'b'}) texts.push_back(texts[i] + c);
  return texts;
}

void compare(const Result<Grammar::Ptr>& grammar, const std::vector<Node>& rules, const std::string& source) {
  bool any = false;
  for (const std::string& text : all_texts(5)) {
    const bool expected = Reference(rules, text).accepts();
    any = any || expected;
    if (!grammar) continue;
    ASSERT_EQ(test::accepts(*grammar, text), expected) << source << "\n'" << text << "'";
    for (size_t n = 0; expected && n <= text.size(); ++n) {
      ASSERT_TRUE(test::begins(*grammar, text.substr(0, n))) << source;
    }
  }
  // Refused only if nothing matches.
  ASSERT_TRUE(grammar || !any) << source;
}

TEST(Differential, Gbnf) {
  for (uint32_t seed = 1; seed <= 250; ++seed) {
    std::mt19937 random(seed);
    const int n_rules = 1 + static_cast<int>(random() % 3);
    Maker maker(random, n_rules);
    std::vector<Node> rules;
    std::string source = "root ::= r0\n";
    for (int i = 0; i < n_rules; ++i) {
      rules.push_back(maker.make(3));
      source += "r" + std::to_string(i) + " ::= " + to_text(rules.back(), false) + "\n";
    }
    ASSERT_NO_FATAL_FAILURE(compare(Grammar::from_gbnf(source), rules, source + "seed " + std::to_string(seed)));
  }
}

TEST(Differential, RegexAlsoInsideASchema) {
  for (uint32_t seed = 1; seed <= 250; ++seed) {
    std::mt19937 random(seed);
    const std::vector<Node> rules{Maker(random, 0).make(3)};
    const std::string source = to_text(rules[0], true);
    ASSERT_NO_FATAL_FAILURE(compare(Grammar::from_regex(source), rules, source));
    Json schema = Json::object();
    schema["pattern"] = "^" + source + "$";
    schema["minLength"] = 1;
    schema["maxLength"] = 3;
    const auto grammar = Grammar::from_json_schema(schema);
    for (const std::string& text : all_texts(4)) {
      const bool expected = !text.empty() && text.size() <= 3 && Reference(rules, text).accepts();
      const bool accepted = grammar && test::accepts(*grammar, "\"" + text + "\"");
      ASSERT_EQ(accepted, expected) << source << "\n'" << text << "'";
    }
  }
}

}  // namespace
}  // namespace tokamak

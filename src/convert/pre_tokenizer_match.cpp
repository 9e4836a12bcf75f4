#include "convert/pre_tokenizer_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/splitter.h"

namespace tokamak::convert {

namespace {

// What ByteLevel does with use_regex, and what Punctuation and Digits cut. Source: the `tokenizers` package.
constexpr std::string_view kByteLevelPattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kPunctuation = R"([\p{P}\$\+<=>\^~\|`])";
constexpr size_t kMaxPatternBytes = 16384;

// Where patterns of known models differ, some line of this text is cut differently.
constexpr std::string_view kProbe =
    "Hello World, it's HE'S they'Re I'LL o'clock 'tis x'ſ 3.14 2024 1234567 12ab34 a1b22c333 ٣٤٥ ⅷ²½ v1.2.3\n"
    "  two   three    four\tTab\t\tTabs \n\n \r\n\r\n   trailing   \n x\n\n\ny   \n   z "
    "camelCaseWord HTTPServer XMLHttpRequest iPhone ABCdef ǅungla\n"
    "a+b=c; x->y != z && !w || (q) [r] {s} <t> #u $v %w ^a ~b `c` @d \\e /f//g... --- *** ___ !!!?? \"quoted\" 'q'\n"
    "naïve Zürich e\u0301a\u0308 Ελλάδα Привет, мир! שלום עולם مرحبا بالعالم नमस्ते दुनिया ไทย 한국어 가나\n"
    "你好，世界。今天 123 天气 こんにちは世界 カタカナ ひらがな ー 。、！「」 繁體\n"
    "🦔👩‍🚀🇩🇪 ❤️ 1️⃣ €5 £6 ©®™ … – — ‘x’ “y” \u00a0\u3000\u2028 \u200b "
    "end/\n/ "
    "path/to/file\n\n/x "
    "foo_bar __init__ <|im_start|> https://a.b/c?d=e&f=g user@x.y #!/bin/sh\n";

struct Cut {
  std::vector<std::string> patterns;  // own the text of the steps
  bool add_prefix_space = false;
};

Error unknown(const std::string& where, std::string what) {
  return {.code = ErrorCode::unsupported,
          .what = std::move(what),
          .where = where + ": pre_tokenizer",
          .hint = "--pre NAME forces a known one, for example llama-bpe, qwen2 or gpt-2"};
}

std::string text_of(const Json& node, const char* field) {
  const auto at = node.find(field);
  return at != node.end() && at->is_string() ? at->get<std::string>() : std::string();
}
bool flag_of(const Json& node, const char* field, bool fallback) {
  const auto at = node.find(field);
  return at != node.end() && at->is_boolean() ? at->get<bool>() : fallback;
}

Result<std::string> split_pattern(const Json& node, const std::string& where) {
  const auto pattern = node.find("pattern");
  const std::string regex = pattern != node.end() && pattern->is_object() ? text_of(*pattern, "Regex") : "";
  const std::string behavior = text_of(node, "behavior");
  const bool keeps_matches = behavior == "Isolated" || (behavior == "Removed" && flag_of(node, "invert", false));
  if (regex.empty() || regex.size() > kMaxPatternBytes || !keeps_matches)
    return unknown(where, fmt::format("a Split with behavior '{}' is not known to this engine", behavior));
  return regex;
}

Result<Cut> read_cut(const Json& json, const std::string& where) {
  Cut cut;
  for (const Json* node : flatten_sequence(json, "pre_tokenizer")) {
    const std::string_view type = node_type(*node);
    if (type == "Split") {
      cut.patterns.push_back(TRY(split_pattern(*node, where)));
    } else if (type == "Digits") {
      cut.patterns.push_back(flag_of(*node, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
    } else if (type == "Punctuation") {
      cut.patterns.push_back(std::string(kPunctuation) + (text_of(*node, "behavior") == "Contiguous" ? "+" : ""));
    } else if (type == "ByteLevel") {
      cut.add_prefix_space |= flag_of(*node, "add_prefix_space", true);
      if (flag_of(*node, "use_regex", true)) cut.patterns.emplace_back(kByteLevelPattern);
    } else {
      return unknown(where, fmt::format("'{}' is not known to this engine", type));
    }
  }
  if (cut.patterns.size() > SplitRules{}.steps.size())
    return unknown(where, fmt::format("{} steps are more than this engine knows", cut.patterns.size()));
  return cut;
}

bool same_text(const SplitRules& rules, const Cut& cut) {
  for (size_t i = 0; i < rules.steps.size(); ++i) {
    if (i >= cut.patterns.size()) return rules.steps[i].kind == SplitKind::none;
    if (rules.steps[i].kind != SplitKind::regex || rules.steps[i].pattern != cut.patterns[i]) return false;
  }
  return true;
}

// Rows that cut the probe text like the file does.
Result<std::vector<const PreTokenizer*>> rows_by_effect(const Cut& cut, const std::string& where) {
  SplitRules rules{.name = "tokenizer.json"};
  for (size_t i = 0; i < cut.patterns.size(); ++i) rules.steps[i] = {SplitKind::regex, cut.patterns[i]};
  auto own = Splitter::create(rules);
  if (!own) return unknown(where, "its pattern is not one that this engine can run: " + own.error().message());
  const auto wanted = own->split(kProbe);
  std::vector<const PreTokenizer*> rows;
  const SplitRules *tried = nullptr, *equal = nullptr;
  for (const PreTokenizer& row : pre_tokenizers()) {
    if (row.characters) continue;
    if (row.rules != tried) {
      tried = row.rules;
      const Splitter splitter = TRY(Splitter::create(*row.rules));
      if (splitter.split(kProbe) == wanted) equal = row.rules;
    }
    if (row.rules == equal) rows.push_back(&row);
  }
  return rows;
}

// Place of a name in "a b c", or past the end.
size_t preference(std::string_view name, std::string_view preferred) {
  const std::string padded = fmt::format(" {} ", preferred);
  return std::min(padded.find(fmt::format(" {} ", name)), padded.size());
}

}  // namespace

std::string_view node_type(const Json& node) {
  if (!node.is_object()) return {};
  const auto type = node.find("type");
  if (type == node.end() || !type->is_string()) return {};
  return type->get_ref<const std::string&>();
}

std::vector<const Json*> flatten_sequence(const Json& json, std::string_view field) {
  std::vector<const Json*> nodes;
  if (!json.is_object()) return nodes;
  const auto first = json.find(std::string(field));
  if (first == json.end()) return nodes;
  std::vector<const Json*> stack = {&*first};
  while (!stack.empty()) {
    const Json* node = stack.back();
    stack.pop_back();
    if (node->is_null()) continue;
    const Json* members = nullptr;
    if (node_type(*node) == "Sequence")
      for (const char* name : {"normalizers", "pretokenizers", "processors"})
        if (const auto at = node->find(name); at != node->end() && at->is_array()) members = &*at;
    if (members == nullptr) {
      nodes.push_back(node);
      continue;
    }
    for (size_t i = members->size(); i > 0; --i) stack.push_back(&(*members)[i - 1]);
  }
  return nodes;
}

Result<PreTokenizerMatch> match_pre_tokenizer(const Json& json, std::string_view preferred, const std::string& where) {
  const Cut cut = TRY(read_cut(json, where));
  if (cut.add_prefix_space) return unknown(where, "a space in front of every text is not supported for byte-level BPE");
  bool nfc = false;
  for (const Json* node : flatten_sequence(json, "normalizer")) {
    if (node_type(*node) != "NFC")
      return unknown(where, fmt::format("normalizer '{}' is not known to this engine", node_type(*node)));
    nfc = true;
  }
  std::vector<const PreTokenizer*> rows;
  for (const PreTokenizer& row : pre_tokenizers())
    if (!row.characters && same_text(*row.rules, cut)) rows.push_back(&row);
  const bool same = !rows.empty();
  if (!same) rows = TRY(rows_by_effect(cut, where));
  if (rows.empty()) return unknown(where, "its split pattern is not one that this engine knows");
  const bool ignore_merges = json.contains("model") && flag_of(json["model"], "ignore_merges", false);
  const auto worse = [&](const PreTokenizer* row) {
    return std::tuple(row->add_sep, row->ignore_merges != ignore_merges, row->nfc != nfc,
                      preference(row->name, preferred));
  };
  const PreTokenizer& best = **std::ranges::min_element(rows, {}, worse);
  PreTokenizerMatch match{.name = std::string(best.name)};
  if (!same)
    match.notes.push_back(fmt::format(
        "the split pattern is spelled otherwise than that of pre-tokenizer '{}' and cuts a probe text the same way: "
        "rare texts may be cut otherwise",
        best.name));
  if (best.nfc != nfc)
    match.notes.push_back(fmt::format("the tokenizer {} Unicode NFC, pre-tokenizer '{}' {}", nfc ? "applies" : "lacks",
                                      best.name, best.nfc ? "applies it" : "does not"));
  if (best.ignore_merges != ignore_merges)
    match.notes.push_back(fmt::format("the tokenizer {} merges for whole words, pre-tokenizer '{}' {}",
                                      ignore_merges ? "skips" : "applies", best.name,
                                      best.ignore_merges ? "skips them" : "does not"));
  return match;
}

}  // namespace tokamak::convert

#include "server/structured.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/context.h"
#include "server/generation.h"
#include "server/json_access.h"

namespace tokamak::server {

namespace {
constexpr std::chrono::milliseconds kMaskBudget{30};
constexpr size_t kMaxTriggers = 64;  // each is looked for at every byte of an answer

// Several grammars read the same tokens; those that do not fit drop out.
class GrammarConstraint : public TokenConstraint {
 public:
  GrammarConstraint(std::vector<GrammarState> states, VocabTrie::Ptr trie, int32_t thought_token)
      : states_(std::move(states)), trie_(std::move(trie)), thought_token_(thought_token), bits_(trie_->n_words()) {}

  void prepare() override {
    if (is_ready_ || !is_active()) return;
    states_[0].fill_mask(bits_);
    for (size_t i = 1; i < states_.size(); ++i) {
      std::vector<uint64_t> more(bits_.size());
      states_[i].fill_mask(more);
      for (size_t w = 0; w < bits_.size(); ++w) bits_[w] |= more[w];
    }
    if (thought_token_ >= 0) bits_[static_cast<size_t>(thought_token_) / 64] |= uint64_t{1} << (thought_token_ % 64);
    is_ready_ = true;
  }
  void mask(std::span<float> logits) override {
    if (!is_active()) return;
    prepare();
    apply_mask(bits_, logits);
  }
  bool accept(int32_t token) override {
    is_ready_ = false;
    if (std::exchange(thought_token_, -1) == token && token >= 0) return true;
    std::vector<GrammarState> left;
    for (GrammarState& state : states_)
      if (state.accept(token)) left.push_back(std::move(state));
    if (left.empty()) return false;
    states_ = std::move(left);
    return true;
  }
  bool can_end() const override {
    return std::ranges::any_of(states_, [](const GrammarState& state) { return state.can_end(); });
  }

 private:
  bool is_active() const {
    return std::ranges::all_of(states_, [](const GrammarState& state) { return state.is_active(); });
  }

  std::vector<GrammarState> states_;  // not empty
  VocabTrie::Ptr trie_;
  int32_t thought_token_;
  std::vector<uint64_t> bits_;  // one bit per token
  bool is_ready_ = false;       // bits_ are those of the next step
};

Error of_field(Error error, std::string_view where) {
  if (!error.where.empty()) error.what = fmt::format("at {}: {}", error.where, error.what);
  error.where = std::string(where);
  return error;
}

Result<Grammar::Ptr> compile_text(std::string_view kind, const std::string& text, std::string_view where,
                                  const GrammarTools& tools, const std::function<Result<Grammar::Ptr>()>& compile) {
  auto output = compile_once(fmt::format("{}:{}", kind, text), tools, [&]() -> Result<OutputGrammar> {
    return OutputGrammar{.grammar = TRY(compile()), .triggers = {}};
  });
  if (!output) return of_field(std::move(output.error()), where);
  return output->grammar;
}

GrammarOptions options_for(bool compact, const GrammarTools& tools) {
  GrammarOptions options;
  options.tokenizer = &tools.tokenizer;
  options.compact = compact;
  return options;
}

Result<Grammar::Ptr> compile_schema(const Json& schema, std::string_view where, bool compact,
                                    const GrammarTools& tools) {
  if (!schema.is_object() && !schema.is_boolean()) return bad_field(where, "must be a JSON Schema: an object");
  return compile_text(compact ? "compact schema" : "schema", dump(schema), where, tools,
                      [&] { return Grammar::from_json_schema(schema, options_for(compact, tools)); });
}

Result<Grammar::Ptr> compile_object(bool compact, const GrammarTools& tools) {
  return compile_text(compact ? "compact object" : "object", "", "response_format", tools,
                      [&] { return Grammar::any_json_object(options_for(compact, tools)); });
}

Result<Grammar::Ptr> compile_gbnf(const std::string& text, std::string_view where, const GrammarTools& tools) {
  return compile_text("gbnf", text, where, tools, [&] { return Grammar::from_gbnf(text, options_for(false, tools)); });
}

Result<Grammar::Ptr> compile_regex(const std::string& text, std::string_view where, const GrammarTools& tools) {
  return compile_text("regex", text, where, tools,
                      [&] { return Grammar::from_regex(text, options_for(false, tools)); });
}

Result<std::string> needed_text(const Json& object, std::string_view name, std::string_view where) {
  const Json* value = member(object, name);
  if (!value || !value->is_string()) return bad_field(fmt::format("{}.{}", where, name), "must be text");
  return value->get<std::string>();
}

Result<Grammar::Ptr> schema_format(const Json& format, std::string_view where, bool compact,
                                   const GrammarTools& tools) {
  const Json* wrapper = member(format, "json_schema");
  std::string place(where);
  if (wrapper) place += ".json_schema";
  if (wrapper && !wrapper->is_object()) return bad_field(place, "must be an object that holds the schema");
  const Json* schema = member(wrapper ? *wrapper : format, "schema");
  place += ".schema";
  if (!schema) return bad_field(place, "is missing");
  return compile_schema(*schema, place, compact, tools);
}

Result<GrammarTriggers> read_triggers(const Json& list, const GrammarTools& tools) {
  if (list.size() > kMaxTriggers)
    return bad_field("grammar_triggers", fmt::format("has more than {} entries", kMaxTriggers));
  GrammarTriggers triggers;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("grammar_triggers[{}]", i);
    if (!list[i].is_object()) return bad_field(where, "must be an object with type and value");
    const Json* value = member(list[i], "value");
    const std::string type = TRY(needed_text(list[i], "type", where));
    if (type == "token") {
      if (!value || !value->is_number_unsigned() ||
          value->get<uint64_t>() >= static_cast<uint64_t>(tools.tokenizer.n_vocab()))
        return bad_field(where + ".value", fmt::format("must be a token id of 0..{}", tools.tokenizer.n_vocab() - 1));
      triggers.tokens.push_back(value->get<int32_t>());
    } else if (type == "word") {
      triggers.words.push_back(TRY(needed_text(list[i], "value", where)));
      if (triggers.words.back().empty()) return bad_field(where + ".value", "must not be empty");
    } else if (type == "pattern") {
      triggers.patterns.push_back(
          TRY(compile_regex(TRY(needed_text(list[i], "value", where)), where + ".value", tools)));
    } else {
      return bad_field(where + ".type", "must be word, token or pattern");
    }
  }
  return triggers;
}

Result<OutputGrammar> lazy_or_not(const Fields& fields, Grammar::Ptr grammar, const GrammarTools& tools) {
  OutputGrammar out{.grammar = std::move(grammar), .triggers = {}};
  if (!fields.flag("grammar_lazy", false)) return out;
  if (const Json* triggers = fields.find("grammar_triggers")) out.triggers = TRY(read_triggers(*triggers, tools));
  if (out.triggers.empty()) return bad_field("grammar_triggers", "a lazy grammar needs at least one trigger");
  return out;
}
}  // namespace

std::optional<OutputGrammar> GrammarCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void GrammarCache::insert(const std::string& key, OutputGrammar output) {
  const auto bytes_of = [](const std::string& text, const OutputGrammar& o) {
    return 2 * text.size() + (o.grammar ? o.grammar->n_bytes() : 0);
  };
  const std::lock_guard lock(mutex_);
  const size_t n_bytes = bytes_of(key, output);
  if (n_bytes > kMaxBytes || by_key_.contains(key)) return;
  while (entries_.size() >= kMaxEntries || n_bytes_ + n_bytes > kMaxBytes) {
    n_bytes_ -= bytes_of(entries_.back().first, entries_.back().second);
    by_key_.erase(entries_.back().first);
    entries_.pop_back();
  }
  entries_.emplace_front(key, std::move(output));
  by_key_[key] = entries_.begin();
  n_bytes_ += n_bytes;
}

Result<OutputGrammar> compile_once(const std::string& key, const GrammarTools& tools,
                                   const std::function<Result<OutputGrammar>()>& compile) {
  if (auto known = tools.cache->find(key)) return std::move(*known);
  OutputGrammar output = TRY(compile());
  if (output.grammar) prepare_masks(output.grammar, *tools.trie, kMaskBudget);
  tools.cache->insert(key, output);
  return output;
}

Result<Grammar::Ptr> read_format(const Json& format, std::string_view where, bool compact, const GrammarTools& tools) {
  if (!format.is_object()) return bad_field(where, "must be an object with a type");
  const std::string type = TRY(needed_text(format, "type", where));
  const auto place = [&](std::string_view name) { return fmt::format("{}.{}", where, name); };
  if (type == "text") return Grammar::Ptr();
  if (type == "json_schema") return schema_format(format, where, compact, tools);
  if (type == "json_object")
    return member(format, "schema") ? schema_format(format, where, compact, tools) : compile_object(compact, tools);
  if (type == "grammar") return compile_gbnf(TRY(needed_text(format, "grammar", where)), place("grammar"), tools);
  if (type == "regex") return compile_regex(TRY(needed_text(format, "regex", where)), place("regex"), tools);
  return bad_field(place("type"),
                   fmt::format("'{}' is not known: text, json_object, json_schema, grammar or regex", type));
}

Result<OutputGrammar> read_output_grammar(const Fields& fields, const GrammarTools& tools) {
  const bool compact = fields.flag("compact_json", false);
  const std::string gbnf = fields.text("grammar", ""), regex = fields.text("regex", "");
  const Json* schema = fields.find("json_schema");
  const Json* format = fields.find("response_format");
  Grammar::Ptr of_format;
  if (format) of_format = TRY(read_format(*format, "response_format", compact, tools));
  const int n_given = (of_format ? 1 : 0) + (schema ? 1 : 0) + (gbnf.empty() ? 0 : 1) + (regex.empty() ? 0 : 1);
  if (n_given > 1)
    return bad_field(schema          ? "json_schema"
                     : !gbnf.empty() ? "grammar"
                                     : "regex",
                     "give only one of response_format, json_schema, grammar and regex");
  if (schema) return lazy_or_not(fields, TRY(compile_schema(*schema, "json_schema", compact, tools)), tools);
  if (!gbnf.empty()) return lazy_or_not(fields, TRY(compile_gbnf(gbnf, "grammar", tools)), tools);
  if (!regex.empty()) return lazy_or_not(fields, TRY(compile_regex(regex, "regex", tools)), tools);
  if (of_format) return lazy_or_not(fields, std::move(of_format), tools);
  return OutputGrammar{};
}

std::shared_ptr<TokenConstraint> make_constraint(std::span<const OutputGrammar> alternatives, const GrammarTools& tools,
                                                 int32_t thought_token) {
  std::vector<GrammarState> states;
  for (const OutputGrammar& output : alternatives)
    if (output.grammar) states.emplace_back(output.grammar, tools.trie, output.triggers);
  if (states.empty()) return nullptr;
  return std::make_shared<GrammarConstraint>(std::move(states), tools.trie, thought_token);
}

Headers note_headers(const Grammar* grammar) {
  if (!grammar || grammar->notes().empty()) return {};
  std::string text;
  for (const SchemaNote& note : grammar->notes()) text += (text.empty() ? "" : ", ") + note.path + " " + note.keyword;
  return {{"X-Tokamak-Not-Enforced", header_text(std::move(text))}};
}

}  // namespace tokamak::server

#include "convert/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "arch/hparams.h"
#include "convert/pre_tokenizer_match.h"
#include "tokenizer/vocab.h"

namespace tokamak::convert {

namespace {

constexpr float kAddedScore = -1000;

Error bad_file(const std::string& where, std::string what) {
  return {.code = ErrorCode::bad_file, .what = std::move(what), .where = where, .hint = "the file is damaged"};
}

int32_t number_of(TokenType type) { return static_cast<int32_t>(type); }

// A member of an object if it is of that type, else null.
const Json* member(const Json& object, const char* name, Json::value_t type) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(name);
  return at != object.end() && at->type() == type ? &*at : nullptr;
}
std::string text_of(const Json& object, const char* name) {
  const Json* text = member(object, name, Json::value_t::string);
  return text ? text->get<std::string>() : std::string();
}

bool has_node(const Json& json, const char* field, std::string_view type) {
  return std::ranges::any_of(flatten_sequence(json, field), [&](const Json* node) { return node_type(*node) == type; });
}

// Puts `text` at `id`, making room.
Result<void> place_token(VocabSource& vocab, int64_t id, std::string text, TokenType type, const std::string& where) {
  if (id < 0 || id >= arch::kMaxVocab)
    return Error{.code = ErrorCode::bad_vocab, .what = fmt::format("token id {} is not possible", id), .where = where};
  const auto index = static_cast<size_t>(id);
  // Ids come in any order and a hostile file may jump: room grows with tokens present, within a factor.
  constexpr size_t kMaxHole = size_t{1} << 20;
  if (index > vocab.tokens.size() + kMaxHole)
    return Error{.code = ErrorCode::bad_vocab,
                 .what = fmt::format("token id {} follows {} tokens", id, vocab.tokens.size()),
                 .where = where};
  if (index >= vocab.tokens.size()) {
    vocab.tokens.resize(index + 1);
    vocab.types.resize(index + 1, number_of(TokenType::unused));
  }
  vocab.tokens[index] = std::move(text);
  vocab.types[index] = number_of(type);
  return {};
}

// "a b" or ["a", "b"].
Result<std::string> read_merge(const Json& merge, const std::string& where) {
  if (merge.is_string()) return merge.get<std::string>();
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  return bad_file(where, "a merge that is no pair of tokens");
}

// SentencePiece merges by the score of the joined piece: the first merge that makes a piece gives it its score.
// Exact when merges to the same piece stand together, ordered by their parts' ids, as converters write them.
void set_scores(VocabSource& vocab, std::vector<std::string>& notes) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < vocab.tokens.size(); ++id) ids.emplace(vocab.tokens[id], static_cast<int32_t>(id));
  const auto id_of = [&](std::string_view text) {
    const auto at = ids.find(text);
    return at == ids.end() ? kNoToken : at->second;
  };
  const auto n_merges = static_cast<float>(vocab.merges.size());
  vocab.scores.assign(vocab.tokens.size(), -n_merges);
  std::vector<bool> is_set(vocab.tokens.size());
  std::tuple<float, int32_t, int32_t> last{1, 0, 0};
  bool in_order = true;
  for (size_t rank = 0; rank < vocab.merges.size(); ++rank) {
    const std::string_view merge = vocab.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == merge.npos) continue;
    const std::string joined = std::string(merge.substr(0, space)) + std::string(merge.substr(space + 1));
    const int32_t left = id_of(merge.substr(0, space)), right = id_of(merge.substr(space + 1)), id = id_of(joined);
    if (left == kNoToken || right == kNoToken || id == kNoToken) continue;
    const auto index = static_cast<size_t>(id);
    if (!is_set[index]) vocab.scores[index] = -static_cast<float>(rank);
    is_set[index] = true;
    const std::tuple now{-vocab.scores[index], left, right};
    in_order &= std::get<0>(last) == 1 || last < now;
    last = now;
  }
  if (!in_order) notes.push_back("the order of the merges is no order of scores: some texts may be cut otherwise");
}

// Of a SentencePiece-like tokenizer: the engine writes spaces as U+2581, perhaps one in front, and changes nothing
// else.
Result<void> check_normalizers(const Json& json, const std::string& where) {
  for (const Json* node : flatten_sequence(json, "normalizer")) {
    const std::string_view type = node_type(*node);
    const Json* pattern = member(*node, "pattern", Json::value_t::object);
    const bool escapes_spaces = type == "Replace" && pattern != nullptr && text_of(*pattern, "String") == " " &&
                                text_of(*node, "content") == kSpaceMark;
    const bool adds_space = type == "Prepend" && text_of(*node, "prepend") == kSpaceMark;
    if (!escapes_spaces && !adds_space)
      return Error{.code = ErrorCode::unsupported,
                   .what = fmt::format("normalizer '{}' is not known to this engine", type),
                   .where = where + ": normalizer",
                   .hint = "SentencePiece BPE that replaces nothing but spaces is supported"};
  }
  return {};
}

}  // namespace

Result<VocabKind> kind_of_tokenizer(const Json& json, const std::string& where) {
  const Json* model = member(json, "model", Json::value_t::object);
  if (!model) return bad_file(where, "it has no model");
  std::string type = text_of(*model, "type");
  if (type.empty() && model->contains("merges")) type = "BPE";
  if (type != "BPE")
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("tokenizers of kind '{}' are not supported", type),
                 .where = where,
                 .hint = "byte-level BPE and SentencePiece BPE are"};
  if (has_node(json, "pre_tokenizer", "ByteLevel") || has_node(json, "normalizer", "ByteLevel"))
    return VocabKind::byte_bpe;
  const bool escapes = has_node(json, "normalizer", "Replace") || has_node(json, "normalizer", "Prepend") ||
                       has_node(json, "pre_tokenizer", "Metaspace");
  if (escapes) {
    TRY(check_normalizers(json, where));
    return VocabKind::sentencepiece;
  }
  return Error{.code = ErrorCode::unsupported,
               .what = "this BPE works neither on bytes nor on SentencePiece pieces",
               .where = where + ": pre_tokenizer"};
}

Result<VocabSource> read_bpe_model(const Json& json, VocabKind kind, std::vector<std::string>& notes,
                                   const std::string& where) {
  const Json& model = json["model"];
  const Json* tokens = member(model, "vocab", Json::value_t::object);
  const Json* merges = member(model, "merges", Json::value_t::array);
  if (!tokens || tokens->empty()) return bad_file(where, "its model has no vocab");
  if (!merges) return bad_file(where, "its model has no merges");
  VocabSource vocab;
  vocab.model = kind == VocabKind::byte_bpe ? "gpt2" : "llama";
  std::vector<std::pair<int64_t, const std::string*>> order;
  for (auto at = tokens->begin(); at != tokens->end(); ++at) {
    if (!at->is_number_integer()) return bad_file(where, fmt::format("token '{}' has no id", at.key()));
    order.emplace_back(at->get<int64_t>(), &at.key());
  }
  std::ranges::sort(order, {}, [](const auto& entry) { return entry.first; });
  const std::string unk = text_of(model, "unk_token");
  for (const auto& [id, text] : order) {
    TokenType type = TokenType::normal;
    if (kind == VocabKind::sentencepiece && parse_byte_token(*text) >= 0) type = TokenType::byte;
    if (kind == VocabKind::sentencepiece && *text == unk) type = TokenType::unknown;
    TRY(place_token(vocab, id, *text, type, where));
  }
  for (const Json& merge : *merges) vocab.merges.push_back(TRY(read_merge(merge, where)));
  if (kind == VocabKind::sentencepiece) {
    set_scores(vocab, notes);
    vocab.merges.clear();
  }
  return vocab;
}

Result<VocabSource> vocab_of_pieces(const SentencePieceModel& model, const std::string& where) {
  if (!model.is_bpe)
    return Error{.code = ErrorCode::unsupported,
                 .what = "SentencePiece models of the unigram kind are not supported",
                 .where = where,
                 .hint = "SentencePiece BPE is"};
  VocabSource vocab;
  vocab.model = "llama";
  vocab.add_space_prefix = model.add_dummy_prefix;
  for (const SentencePiece& piece : model.pieces) {
    vocab.tokens.push_back(piece.text);
    vocab.scores.push_back(piece.score);
    vocab.types.push_back(piece.type);
  }
  return vocab;
}

Result<std::vector<AddedToken>> read_added_tokens(const Json& json, const std::string& where) {
  std::vector<AddedToken> added;
  const auto add = [&](const Json& entry, const Json& id) -> Result<void> {
    if (text_of(entry, "content").empty() || !id.is_number_integer())
      return bad_file(where, "an added token without content or id");
    const Json* special = member(entry, "special", Json::value_t::boolean);
    added.push_back({id.get<int64_t>(), text_of(entry, "content"), special != nullptr && special->get<bool>()});
    return {};
  };
  if (const Json* list = member(json, "added_tokens", Json::value_t::array)) {
    for (const Json& entry : *list)
      TRY(add(entry, entry.is_object() && entry.contains("id") ? entry["id"] : Json(nullptr)));
  } else if (const Json* map = member(json, "added_tokens_decoder", Json::value_t::object)) {
    for (auto at = map->begin(); at != map->end(); ++at)
      TRY(add(*at, Json::parse(at.key(), nullptr, /*allow_exceptions=*/false)));
  }
  std::ranges::sort(added, {}, &AddedToken::id);
  return added;
}

Result<void> apply_added_tokens(const std::vector<AddedToken>& added, VocabKind kind, int64_t n_vocab,
                                VocabSource& vocab, std::vector<std::string>& notes, const std::string& where) {
  int64_t n_left_out = 0;
  for (const AddedToken& token : added) {
    if (token.id >= n_vocab) {
      ++n_left_out;
      continue;
    }
    const bool exists = token.id >= 0 && token.id < static_cast<int64_t>(vocab.tokens.size());
    TokenType type = token.special ? TokenType::control : TokenType::user_defined;
    const int32_t before = exists ? vocab.types[static_cast<size_t>(token.id)] : 0;
    if (before == number_of(TokenType::unknown) || before == number_of(TokenType::byte))
      type = static_cast<TokenType>(before);
    std::string text = token.text;
    // In files, texts that are looked for in the raw text have real spaces.
    if (kind == VocabKind::sentencepiece && type == TokenType::user_defined)
      for (size_t at = 0; (at = text.find(kSpaceMark, at)) != text.npos; ++at) text.replace(at, kSpaceMark.size(), " ");
    TRY(place_token(vocab, token.id, std::move(text), type, where));
  }
  if (!vocab.scores.empty()) vocab.scores.resize(vocab.tokens.size(), kAddedScore);
  if (n_left_out > 0)
    notes.push_back(fmt::format("{} added tokens have no row in the embedding and are left out", n_left_out));
  return {};
}

Affixes read_affixes(const Json& json) {
  Affixes affixes;
  for (const Json* node : flatten_sequence(json, "post_processor")) {
    const Json* single = member(*node, "single", Json::value_t::array);
    if (node_type(*node) != "TemplateProcessing" || !single || single->empty()) continue;
    const auto special = [](const Json& piece) {
      const Json* token = member(piece, "SpecialToken", Json::value_t::object);
      return token ? text_of(*token, "id") : std::string();
    };
    affixes.first = special(single->front());
    if (single->size() > 1) affixes.last = special(single->back());
  }
  return affixes;
}

bool adds_space_prefix(const Json& json) {
  if (has_node(json, "normalizer", "Prepend")) return true;
  for (const Json* node : flatten_sequence(json, "pre_tokenizer")) {
    if (node_type(*node) != "Metaspace") continue;
    const Json* old_form = member(*node, "add_prefix_space", Json::value_t::boolean);
    const std::string scheme = text_of(*node, "prepend_scheme");
    return scheme.empty() ? old_form == nullptr || old_form->get<bool>() : scheme != "never";
  }
  return false;
}

}  // namespace tokamak::convert

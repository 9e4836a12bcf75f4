#include "convert/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/mapped_file.h"
#include "base/utf8.h"
#include "convert/pre_tokenizer_match.h"
#include "convert/tokenizer_json.h"
#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace tokamak::convert {

namespace {
namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "tokenizer.ggml.";

// Everything the folder has, parsed once. Absent files are null.
struct Files {
  fs::path folder;
  Json tokenizer, tokenizer_config, special_tokens, generation, config;
  std::string where(const char* name) const { return (folder / name).string(); }
};

Result<Files> read_files(const fs::path& folder, const Json& config) {
  Files files{.folder = folder, .config = config};
  files.tokenizer = TRY(read_json_file_or_null(folder / "tokenizer.json"));
  files.tokenizer_config = TRY(read_json_file_or_null(folder / "tokenizer_config.json"));
  files.special_tokens = TRY(read_json_file_or_null(folder / "special_tokens_map.json"));
  files.generation = TRY(read_json_file_or_null(folder / "generation_config.json"));
  return files;
}

Result<VocabSource> read_tables(const Files& files, VocabKind& kind, TokenizerTables& tables) {
  std::error_code ignored;
  const bool has_pieces = fs::exists(files.folder / "tokenizer.model", ignored);
  if (files.tokenizer.is_null() && !has_pieces)
    return Error{.code = ErrorCode::not_found,
                 .what = "no tokenizer.json and no tokenizer.model",
                 .where = files.folder.string(),
                 .hint = "download all files of the model, or give --no-tokenizer for a file without one"};
  kind = VocabKind::sentencepiece;
  if (!files.tokenizer.is_null()) kind = TRY(kind_of_tokenizer(files.tokenizer, files.where("tokenizer.json")));
  // The SentencePiece file has the scores that a tokenizer.json only implies.
  if (kind == VocabKind::sentencepiece && has_pieces) {
    const MappedFile file = TRY(MappedFile::open(files.folder / "tokenizer.model"));
    const std::string where = files.where("tokenizer.model");
    const SentencePieceModel model = TRY(parse_sentencepiece(file.bytes(), where));
    if (model.has_charsmap && files.tokenizer.is_null())  // else tokenizer.json has told what is done to texts
      tables.notes.push_back(
          "tokenizer.model rewrites texts by a table that this engine does not apply: some are cut otherwise");
    return vocab_of_pieces(model, where);
  }
  VocabSource vocab = TRY(read_bpe_model(files.tokenizer, kind, tables.notes, files.where("tokenizer.json")));
  if (kind == VocabKind::sentencepiece) vocab.add_space_prefix = adds_space_prefix(files.tokenizer);
  return vocab;
}

// The vocabulary has exactly one token per row of the embedding.
Result<void> fit_to_embedding(TokenizerTables& tables, int64_t n_vocab, const std::string& where) {
  VocabSource& vocab = tables.vocab;
  const auto n = static_cast<size_t>(n_vocab);
  if (vocab.tokens.size() > n)
    return Error{
        .code = ErrorCode::bad_vocab,
        .what = fmt::format("the tokenizer has {} tokens, the embedding only {}", vocab.tokens.size(), n_vocab),
        .where = where,
        .hint = "the files do not belong to one model"};
  vocab.tokens.resize(n);
  vocab.types.resize(n, static_cast<int32_t>(TokenType::unused));
  if (!vocab.scores.empty()) vocab.scores.resize(n, -1e4f);
  std::unordered_set<std::string_view> seen;
  for (size_t id = 0; id < n; ++id) {
    std::string& text = vocab.tokens[id];
    if (text.empty()) {
      text = fmt::format("[PAD{}]", id);
      vocab.types[id] = static_cast<int32_t>(TokenType::unused);
    }
    if (seen.insert(text).second) continue;
    tables.notes.push_back(fmt::format("token {} repeats the text of another one and is renamed", id));
    text += fmt::format("[DUP{}]", id);
  }
  return {};
}

// A token's text: "<s>" or {"content": "<s>"}.
std::string token_text(const Json& object, const std::string& field) {
  if (!object.is_object() || !object.contains(field)) return {};
  const Json& value = object[field];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return {};
}

std::vector<int64_t> ids_of(const Json& object, const std::string& field) {
  std::vector<int64_t> ids;
  if (!object.is_object() || !object.contains(field)) return ids;
  const Json& value = object[field];
  for (const Json& id : value.is_array() ? value : Json::array({value}))
    if (id.is_number_integer()) ids.push_back(id.get<int64_t>());
  return ids;
}

struct RoleField {
  const char* name;  // in the tokenizer's files; with "_id" in config.json and generation_config.json
  std::optional<int64_t> SpecialIds::*id;
};
constexpr auto kRoles = std::to_array<RoleField>({
    {"bos_token", &SpecialIds::bos},
    {"eos_token", &SpecialIds::eos},
    {"unk_token", &SpecialIds::unk},
    {"pad_token", &SpecialIds::pad},
    {"sep_token", &SpecialIds::sep},
    {"mask_token", &SpecialIds::mask},
});

class RoleFinder {
 public:
  RoleFinder(const Files& files, const VocabSource& vocab) : files_(files) {
    for (size_t id = 0; id < vocab.tokens.size(); ++id) ids_.emplace(vocab.tokens[id], static_cast<int64_t>(id));
  }

  std::optional<int64_t> id_of_text(const std::string& text) const {
    const auto at = ids_.find(text);
    return at == ids_.end() ? std::nullopt : std::optional(at->second);
  }
  // The tokenizer's own files name texts; the model's name ids.
  std::optional<int64_t> find(const std::string& role) const {
    for (const Json* file : {&files_.tokenizer_config, &files_.special_tokens})
      if (const std::string text = token_text(*file, role); !text.empty())
        if (const auto id = id_of_text(text)) return id;
    for (const Json* file : {&files_.generation, &files_.config})
      if (const auto ids = ids_of(*file, role + "_id"); !ids.empty() && ids[0] >= 0) return ids[0];
    return std::nullopt;
  }

 private:
  const Files& files_;
  std::unordered_map<std::string, int64_t> ids_;
};

void set_roles(const Files& files, TokenizerTables& tables) {
  VocabSource& vocab = tables.vocab;
  const RoleFinder finder(files, vocab);
  for (const RoleField& role : kRoles) vocab.ids.*role.id = finder.find(role.name);
  // Generation may end at other tokens too. GGUF has places for two more; well-known texts need none.
  std::vector<int64_t> ends = ids_of(files.generation, "eos_token_id");
  std::erase_if(ends, [&](int64_t id) { return id == vocab.ids.eos.value_or(-1) || id < 0; });
  if (!ends.empty()) vocab.ids.eot = ends[0];
  if (ends.size() > 1) vocab.ids.eom = ends[1];
  if (ends.size() > 2)
    tables.notes.push_back(
        fmt::format("generation_config.json names {} more tokens that end an answer than GGUF has "
                    "places for",
                    ends.size() - 2));
  const auto config_flag = [&](const char* name) -> std::optional<bool> {
    const Json& config = files.tokenizer_config;
    if (!config.is_object() || !config.contains(name) || !config[name].is_boolean()) return std::nullopt;
    return config[name].get<bool>();
  };
  const Affixes affixes = read_affixes(files.tokenizer);
  const bool sentencepiece_only = files.tokenizer.is_null();  // LlamaTokenizer and GemmaTokenizer then add bos
  const auto given_bos = config_flag("add_bos_token"), given_eos = config_flag("add_eos_token");
  const bool is_explicit = given_bos.has_value() || given_eos.has_value();
  vocab.add_bos = is_explicit ? given_bos.value_or(sentencepiece_only) : !affixes.first.empty() || sentencepiece_only;
  vocab.add_eos = is_explicit ? given_eos.value_or(false) : !affixes.last.empty();
  if (!is_explicit && !affixes.first.empty())
    if (const auto id = finder.id_of_text(affixes.first)) vocab.ids.bos = id;
  if (!vocab.ids.bos) vocab.add_bos = false;
  if (!vocab.ids.eos) vocab.add_eos = false;
}

Result<std::string> read_text(const fs::path& path) {
  const MappedFile file = TRY(MappedFile::open(path));
  std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.size() > kMaxJsonBytes || !is_valid_utf8(text))
    return Error{.code = ErrorCode::bad_file, .what = "not a text of sane size", .where = path.string()};
  return text;
}

// chat_template.jinja and additional_chat_templates/, or else tokenizer_config.json or chat_template.json: a text, or
// a list of named ones.
Result<void> read_templates(const Files& files, TokenizerTables& tables) {
  std::error_code ignored;
  const auto add = [&](const std::string& name, std::string text) {
    if (name == "default")
      tables.chat_template = std::move(text);
    else
      tables.named_templates.emplace_back(name, std::move(text));
  };
  // Processors of multimodal models keep theirs in a file of its own.
  const Json processor = TRY(read_json_file_or_null(files.folder / "chat_template.json"));
  for (const Json* file : {&processor, &files.tokenizer_config}) {
    if (!file->is_object() || !file->contains("chat_template")) continue;
    const Json& value = (*file)["chat_template"];
    if (value.is_string()) add("default", value.get<std::string>());
    if (!value.is_array()) continue;
    for (const Json& entry : value)
      if (!token_text(entry, "name").empty()) add(token_text(entry, "name"), token_text(entry, "template"));
  }
  if (fs::exists(files.folder / "chat_template.jinja", ignored)) {
    tables.named_templates.clear();
    add("default", TRY(read_text(files.folder / "chat_template.jinja")));
  }
  std::vector<fs::path> others;
  for (fs::directory_iterator at(files.folder / "additional_chat_templates", ignored); at != fs::directory_iterator();
       at.increment(ignored))
    if (at->path().extension() == ".jinja") others.push_back(at->path());
  std::ranges::sort(others);
  for (const fs::path& path : others) add(path.stem().string(), TRY(read_text(path)));
  return {};
}

Result<void> set_pre_tokenizer(const Files& files, VocabKind kind, const TokenizerRequest& request,
                               TokenizerTables& tables) {
  const std::string& forced = request.forced_pre;
  if (!forced.empty() && find_pre_tokenizer(forced) == nullptr) {
    std::string names;
    for (const PreTokenizer& row : pre_tokenizers()) names += (names.empty() ? "" : " ") + std::string(row.name);
    return Error{.code = ErrorCode::bad_argument, .what = "no such pre-tokenizer", .where = forced, .hint = names};
  }
  if (kind == VocabKind::sentencepiece) {
    if (!forced.empty()) tables.notes.push_back("a SentencePiece tokenizer has no pre-tokenizer: --pre is ignored");
    tables.vocab.pre = "default";
    return {};
  }
  if (!forced.empty()) {
    tables.vocab.pre = forced;
    return {};
  }
  PreTokenizerMatch match =
      TRY(match_pre_tokenizer(files.tokenizer, request.family->pre_names, files.where("tokenizer.json")));
  tables.vocab.pre = std::move(match.name);
  std::ranges::move(match.notes, std::back_inserter(tables.notes));
  return {};
}

}  // namespace

Result<TokenizerTables> read_tokenizer(const fs::path& folder, const Json& config, const TokenizerRequest& request) {
  const Files files = TRY(read_files(folder, config));
  TokenizerTables tables;
  VocabKind kind = VocabKind::byte_bpe;
  tables.vocab = TRY(read_tables(files, kind, tables));
  const bool from_json = !files.tokenizer.is_null();
  const std::string where = files.where(from_json ? "tokenizer.json" : "tokenizer_config.json");
  const auto added = TRY(read_added_tokens(from_json ? files.tokenizer : files.tokenizer_config, where));
  TRY(apply_added_tokens(added, kind, request.n_vocab, tables.vocab, tables.notes, where));
  TRY(fit_to_embedding(tables, request.n_vocab, where));
  TRY(set_pre_tokenizer(files, kind, request, tables));
  set_roles(files, tables);
  TRY(read_templates(files, tables));
  // What is written must be a vocabulary that the engine takes.
  TRY(Tokenizer::create(tables.vocab));
  return tables;
}

TokenizerTables without_tokenizer(int64_t n_vocab) {
  TokenizerTables tables;
  tables.vocab.model = "no_vocab";
  tables.vocab.n_dummy_tokens = n_vocab;
  return tables;
}

void add_tokenizer_keys(GgufWriter& writer, const TokenizerTables& tables) {
  const VocabSource& vocab = tables.vocab;
  const auto key = [](std::string_view name) { return std::string(kPrefix) += name; };
  writer.add(key("model"), vocab.model);
  if (vocab.tokens.empty()) return;  // the model's vocab_size key says the rest
  if (vocab.pre) writer.add(key("pre"), *vocab.pre);
  writer.add_array(key("tokens"), std::span(vocab.tokens));
  if (!vocab.scores.empty()) writer.add_array(key("scores"), std::span(vocab.scores));
  writer.add_array(key("token_type"), std::span(vocab.types));
  if (!vocab.merges.empty()) writer.add_array(key("merges"), std::span(vocab.merges));
  struct IdKey {
    const char* name;
    std::optional<int64_t> id;
  };
  for (const auto& [name, id] : {IdKey{"bos_token_id", vocab.ids.bos}, IdKey{"eos_token_id", vocab.ids.eos},
                                 IdKey{"eot_token_id", vocab.ids.eot}, IdKey{"eom_token_id", vocab.ids.eom},
                                 IdKey{"unknown_token_id", vocab.ids.unk}, IdKey{"seperator_token_id", vocab.ids.sep},
                                 IdKey{"padding_token_id", vocab.ids.pad}, IdKey{"mask_token_id", vocab.ids.mask}})
    if (id && *id >= 0 && *id < static_cast<int64_t>(vocab.tokens.size()))
      writer.add(key(name), static_cast<uint32_t>(*id));
  if (vocab.add_bos) writer.add(key("add_bos_token"), *vocab.add_bos);
  if (vocab.add_eos) writer.add(key("add_eos_token"), *vocab.add_eos);
  if (vocab.add_space_prefix) writer.add(key("add_space_prefix"), *vocab.add_space_prefix);
  constexpr std::string_view kTemplate = "tokenizer.chat_template";
  if (!tables.chat_template.empty()) writer.add(kTemplate, tables.chat_template);
  std::vector<std::string> names;
  for (const auto& [name, text] : tables.named_templates) {
    writer.add(fmt::format("{}.{}", kTemplate, name), text);
    names.push_back(name);
  }
  if (!names.empty()) writer.add_array("tokenizer.chat_templates", std::span<const std::string>(names));
}

}  // namespace tokamak::convert

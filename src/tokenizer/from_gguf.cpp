#include "tokenizer/from_gguf.h"

#include <array>

namespace tokamak {

namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
std::string key_of(std::string_view name) { return std::string(kPrefix) += name; }

struct IdKey {
  std::string_view name;
  std::optional<int64_t> SpecialIds::*id;
};
// Later rows win: the deprecated names come first.
constexpr auto kIdKeys = std::to_array<IdKey>({
    {"prefix_token_id", &SpecialIds::fim_pre},
    {"suffix_token_id", &SpecialIds::fim_suf},
    {"middle_token_id", &SpecialIds::fim_mid},
    {"bos_token_id", &SpecialIds::bos},
    {"eos_token_id", &SpecialIds::eos},
    {"eot_token_id", &SpecialIds::eot},
    {"eom_token_id", &SpecialIds::eom},
    {"unknown_token_id", &SpecialIds::unk},
    {"seperator_token_id", &SpecialIds::sep},
    {"padding_token_id", &SpecialIds::pad},
    {"mask_token_id", &SpecialIds::mask},
    {"fim_pre_token_id", &SpecialIds::fim_pre},
    {"fim_suf_token_id", &SpecialIds::fim_suf},
    {"fim_mid_token_id", &SpecialIds::fim_mid},
    {"fim_pad_token_id", &SpecialIds::fim_pad},
    {"fim_rep_token_id", &SpecialIds::fim_rep},
    {"fim_sep_token_id", &SpecialIds::fim_sep},
});

struct FlagKey {
  std::string_view name;
  std::optional<bool> VocabSource::*flag;
};
constexpr auto kFlagKeys = std::to_array<FlagKey>({
    {"add_bos_token", &VocabSource::add_bos},
    {"add_eos_token", &VocabSource::add_eos},
    {"add_sep_token", &VocabSource::add_sep},
    {"add_space_prefix", &VocabSource::add_space_prefix},
});

Result<std::vector<std::string>> read_strings(const GgufFile& file, std::string_view name) {
  const auto views = TRY(file.get_strings_or(key_of(name), {}));
  return std::vector<std::string>(views.begin(), views.end());
}

}  // namespace

Result<VocabSource> read_vocab(const GgufFile& file) {
  VocabSource source;
  source.model = TRY(file.get_string(key_of("model")));
  if (file.has(key_of("pre"))) source.pre = std::string(TRY(file.get_string(key_of("pre"))));
  source.tokens = TRY(read_strings(file, "tokens"));
  source.merges = TRY(read_strings(file, "merges"));
  source.scores = TRY(file.get_floats_or(key_of("scores"), {}));
  for (const int64_t type : TRY(file.get_ints_or(key_of("token_type"), {})))
    source.types.push_back(type >= 0 && type <= 255 ? static_cast<int32_t>(type) : -1);  // -1 is refused later
  source.suppress_tokens = TRY(file.get_ints_or(key_of("suppress_tokens"), {}));
  for (const IdKey& row : kIdKeys)
    if (file.has(key_of(row.name))) source.ids.*row.id = TRY(file.get_i64(key_of(row.name)));
  for (const FlagKey& row : kFlagKeys)
    if (file.has(key_of(row.name))) source.*row.flag = TRY(file.get_bool(key_of(row.name)));
  source.lowercase = TRY(file.get_bool_or(key_of("normalizer.lowercase"), false));
  if (source.tokens.empty()) {
    const std::string_view arch = TRY(file.get_string_or("general.architecture", ""));
    source.n_dummy_tokens = TRY(file.get_i64_or(std::string(arch) + ".vocab_size", 0));
  }
  return source;
}

Result<Tokenizer> load_tokenizer(const GgufFile& file) { return Tokenizer::create(TRY(read_vocab(file))); }

}  // namespace tokamak

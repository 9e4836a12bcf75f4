#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/log.h"
#include "base/utf8.h"
#include "tokenizer/byte_letters.h"

namespace tokamak {

namespace {

struct KindRow {
  std::string_view model;  // tokenizer.ggml.model
  TokenizerKind kind;
  std::string_view forced_pre;  // overrides the file's
};
constexpr auto kKinds = std::to_array<KindRow>({
    {"none", TokenizerKind::none, ""},
    {"no_vocab", TokenizerKind::none, ""},
    {"llama", TokenizerKind::spm, ""},
    {"gpt2", TokenizerKind::bpe, ""},
    {"whitespace", TokenizerKind::bpe, "whitespace"},
    {"gemma4", TokenizerKind::bpe, "gemma4"},
});

const KindRow* find_kind(std::string_view model) {
  for (const KindRow& row : kKinds)
    if (row.model == model) return &row;
  return nullptr;
}

Result<const PreTokenizer*> choose_pre_tokenizer(const VocabSource& source, std::string_view forced) {
  if (!forced.empty()) return find_pre_tokenizer(forced);
  if (!source.pre) {
    log_line(LogLevel::warning,
             "tokenizer: the file names no pre-tokenizer (tokenizer.ggml.pre); 'default' is used and may split words "
             "differently from the model's training");
    return find_pre_tokenizer("default");
  }
  if (const PreTokenizer* row = find_pre_tokenizer(*source.pre)) return row;
  return Error{ErrorCode::unsupported, "unknown pre-tokenizer '" + *source.pre + "'", "tokenizer.ggml.pre",
               "update Tokamak, or set the key to the pre-tokenizer of the same model family"};
}

// Converters write a user-defined run of spaces with real spaces; all other tokens spell a space as U+2581.
void respell_space_runs(VocabSource& source) {
  const auto is_run_of = [](std::string_view text, std::string_view unit) {
    size_t n = 0;
    while (text.starts_with(unit)) text.remove_prefix(unit.size()), ++n;
    return text.empty() && n >= 2;
  };
  std::unordered_set<std::string> taken;
  for (const std::string& text : source.tokens)
    if (is_run_of(text, kSpaceMark)) taken.insert(text);
  const size_t n = std::min(source.tokens.size(), source.types.size());
  for (size_t id = 0; id < n; ++id) {
    if (source.types[id] != static_cast<int32_t>(TokenType::user_defined) || !is_run_of(source.tokens[id], " "))
      continue;
    std::string marks;
    for (size_t i = 0; i < source.tokens[id].size(); ++i) marks += kSpaceMark;
    if (taken.insert(marks).second) source.tokens[id] = marks;
  }
}

// What Hugging Face's clean_up_tokenization does, in its order.
struct Replacement {
  std::string_view from, to;
};
constexpr auto kCleanups = std::to_array<Replacement>({
    {" .", "."},
    {" ?", "?"},
    {" !", "!"},
    {" ,", ","},
    {" ' ", "'"},
    {" n't", "n't"},
    {" 'm", "'m"},
    {" 's", "'s"},
    {" 've", "'ve"},
    {" 're", "'re"},
});

std::string clean_up_spaces(std::string text) {
  for (const Replacement& rule : kCleanups) {
    std::string out;
    size_t from = 0;
    for (size_t at; (at = text.find(rule.from, from)) != std::string::npos; from = at + rule.from.size())
      out.append(text, from, at - from) += rule.to;
    out.append(text, from);
    text = std::move(out);
  }
  return text;
}

void append_letters_as_bytes(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    const int byte = c.valid ? byte_of_letter(c.code_point) : -1;
    if (byte >= 0)
      out += static_cast<char>(byte);
    else
      out += text.substr(i, c.n_bytes);  // not of the alphabet: as it stands
    i += c.n_bytes;
  }
}

void append_unescaped(std::string_view text, std::string& out) {
  for (size_t at; (at = text.find(kSpaceMark)) != std::string_view::npos; text.remove_prefix(at + kSpaceMark.size()))
    (out += text.substr(0, at)) += ' ';
  out += text;
}

}  // namespace

Result<Tokenizer> Tokenizer::create(VocabSource source) {
  const KindRow* kind = find_kind(source.model);
  if (!kind)
    return Error{ErrorCode::unsupported, "unknown tokenizer kind '" + source.model + "'", "tokenizer.ggml.model",
                 "supported: llama, gpt2, gemma4, whitespace, no_vocab"};
  Tokenizer tokenizer;
  tokenizer.kind_ = kind->kind;
  if (kind->kind == TokenizerKind::none) {
    tokenizer.n_vocab_ = static_cast<int32_t>(std::clamp<int64_t>(source.n_dummy_tokens, 0, 1 << 28));
    return tokenizer;
  }
  if (kind->kind == TokenizerKind::bpe) tokenizer.pre_ = TRY(choose_pre_tokenizer(source, kind->forced_pre));
  tokenizer.spaces_escaped_ = kind->kind == TokenizerKind::spm || tokenizer.pre_->escape;
  tokenizer.byte_letters_ = kind->kind == TokenizerKind::bpe && !tokenizer.pre_->characters;
  if (tokenizer.spaces_escaped_) respell_space_runs(source);
  tokenizer.vocab_ = std::make_unique<const Vocab>(TRY(Vocab::create(source)));
  tokenizer.n_vocab_ = tokenizer.vocab_->size();
  tokenizer.roles_ = find_roles(*tokenizer.vocab_, source);
  tokenizer.end_tokens_ = find_end_tokens(*tokenizer.vocab_, tokenizer.roles_);
  tokenizer.set_flags(source);
  TRY(tokenizer.set_encoder(source));
  tokenizer.index_added_tokens();
  return tokenizer;
}

void Tokenizer::set_flags(const VocabSource& source) {
  const bool spm = kind_ == TokenizerKind::spm;
  add_bos_ = source.add_bos.value_or(spm || pre_->add_bos);
  if (source.model == "gemma4") add_bos_ = true;  // its files say no, the model wants one
  add_eos_ = source.add_eos.value_or(false);
  add_sep_ = source.add_sep.value_or(!spm && pre_->add_sep);
  add_space_prefix_ = spm && source.add_space_prefix.value_or(true);
  for (const int64_t id : source.suppress_tokens) {
    if (contains(id))
      suppress_tokens_.push_back(static_cast<int32_t>(id));
    else
      log_line(LogLevel::warning,
               "tokenizer: suppress_tokens names id " + std::to_string(id) + ", outside the vocabulary; ignored");
  }
}

Result<void> Tokenizer::set_encoder(const VocabSource& source) {
  if (kind_ == TokenizerKind::spm)
    encoder_ = TRY(make_spm_encoder(*vocab_, add_space_prefix_, roles_.unk));
  else
    encoder_ = TRY(make_bpe_encoder(*vocab_, *pre_, source.merges, source.lowercase, roles_.unk));
  return {};
}

void Tokenizer::index_added_tokens() {
  for (int32_t id = 0; id < n_vocab_; ++id) {
    const TokenType type = vocab_->type(id);
    if (spaces_escaped_ && is_space_run(*vocab_, id)) continue;
    if (type == TokenType::user_defined)
      added_.add(vocab_->text(id), id, true);
    else if (type == TokenType::control || type == TokenType::unknown)
      added_.add(vocab_->text(id), id, false);
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options,
                                       size_t* n_lost_bytes) const {
  std::vector<int32_t> out;
  size_t n_lost = 0;
  if (kind_ == TokenizerKind::none) {
    if (n_lost_bytes != nullptr) *n_lost_bytes = text.size();
    return out;
  }
  out.reserve(text.size() / 3 + 4);
  const auto add = [&](bool wanted, int32_t id) {
    if (options.add_special && wanted && id != kNoToken) out.push_back(id);
  };
  add(add_bos_, roles_.bos);
  size_t segment = 0;  // start of the text not yet encoded
  for (size_t at = added_.next_start(text, 0); at < text.size();) {
    const auto match = added_.longest(text, at, options.parse_special);
    if (!match) {
      at = added_.next_start(text, at + 1);
      continue;
    }
    if (at > segment) n_lost += encoder_->encode(text.substr(segment, at - segment), out);
    out.push_back(match->id);
    segment = at + match->n_bytes;
    at = added_.next_start(text, segment);
  }
  if (segment < text.size()) n_lost += encoder_->encode(text.substr(segment), out);
  if (n_lost_bytes != nullptr) *n_lost_bytes = n_lost;
  add(add_eos_, roles_.eos);
  add(add_sep_, roles_.sep);
  return out;
}

void Tokenizer::append_bytes(int32_t id, std::string& out) const {
  if (!vocab_ || !vocab_->contains(id)) return;
  const std::string& text = vocab_->text(id);
  const TokenType type = vocab_->type(id);
  const bool added = type == TokenType::control || type == TokenType::unknown || type == TokenType::user_defined;
  if (type == TokenType::byte)
    out += static_cast<char>(parse_byte_token(text));
  else if (byte_letters_ && !added)
    append_letters_as_bytes(text, out);
  else if (spaces_escaped_ && (!added || type == TokenType::user_defined))
    append_unescaped(text, out);
  else
    out += text;
}

std::string Tokenizer::token_bytes(int32_t id) const {
  std::string out;
  append_bytes(id, out);
  return out;
}

std::string Tokenizer::decode_bytes(std::span<const int32_t> ids, const DecodeOptions& options) const {
  std::string out;
  for (const int32_t id : ids) {
    const TokenType kind = type(id);
    if (!options.keep_special && (kind == TokenType::control || kind == TokenType::unknown)) continue;
    append_bytes(id, out);
  }
  if (options.at_text_start && add_space_prefix_ && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  std::string text = replace_invalid_utf8(decode_bytes(ids, options));
  return options.clean_spaces ? clean_up_spaces(std::move(text)) : text;
}

TokenType Tokenizer::type(int32_t id) const {
  return vocab_ && vocab_->contains(id) ? vocab_->type(id) : TokenType::undefined;
}

bool Tokenizer::is_eog(int32_t id) const { return std::binary_search(end_tokens_.begin(), end_tokens_.end(), id); }

}  // namespace tokamak

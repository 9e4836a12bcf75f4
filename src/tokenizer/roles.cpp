// Which ids play which role (declared in vocab.h).
#include <algorithm>
#include <optional>
#include <string>

#include "base/log.h"
#include "tokenizer/vocab.h"

namespace tokamak {

namespace {

enum class TextRole : uint8_t { eot, eom, end, fim_pre, fim_suf, fim_mid, fim_pad, fim_rep, fim_sep };

// Texts that mean the same in every vocabulary that has them as a control or user-defined token. Of several texts for
// one role the first that is present counts. Source: the models' own tokenizer files.
struct RoleText {
  std::string_view text;
  TextRole role;
};
constexpr auto kRoleTexts = std::to_array<RoleText>({
    {"<|eot_id|>", TextRole::eot},
    {"<|im_end|>", TextRole::eot},
    {"<|end|>", TextRole::eot},
    {"<end_of_turn>", TextRole::eot},
    {"<turn|>", TextRole::eot},
    {"<|endoftext|>", TextRole::end},
    {"<|end_of_text|>", TextRole::end},
    {"<|return|>", TextRole::end},
    {"<|call|>", TextRole::end},
    {"<|calls|>", TextRole::end},
    {"<|flush|>", TextRole::end},
    {"<|eot|>", TextRole::end},
    {"<|eos|>", TextRole::end},
    {"<|END_OF_TURN_TOKEN|>", TextRole::end},
    {"<end_of_utterance>", TextRole::end},
    {"<EOT>", TextRole::end},
    {"_<EOT>", TextRole::end},
    {"[EOT]", TextRole::end},
    {"[EOS]", TextRole::end},
    {"<|END_TEXT|>", TextRole::end},
    {"< EOT >", TextRole::end},
    {"\uFF5Cend\u2581of\u2581sentence\uFF5C", TextRole::end},
    {"<\uFF5Cend\u2581of\u2581sentence\uFF5C>", TextRole::end},
    {"<|eom_id|>", TextRole::eom},
    {"<|fim_prefix|>", TextRole::fim_pre},
    {"<fim-prefix>", TextRole::fim_pre},
    {"<fim_prefix>", TextRole::fim_pre},
    {"<\uFF5Cfim\u2581begin\uFF5C>", TextRole::fim_pre},
    {"<PRE>", TextRole::fim_pre},
    {"\u2581<PRE>", TextRole::fim_pre},
    {"<|code_prefix|>", TextRole::fim_pre},
    {"<|fim_suffix|>", TextRole::fim_suf},
    {"<fim-suffix>", TextRole::fim_suf},
    {"<fim_suffix>", TextRole::fim_suf},
    {"<\uFF5Cfim\u2581hole\uFF5C>", TextRole::fim_suf},
    {"<SUF>", TextRole::fim_suf},
    {"\u2581<SUF>", TextRole::fim_suf},
    {"<|code_suffix|>", TextRole::fim_suf},
    {"<|fim_middle|>", TextRole::fim_mid},
    {"<fim-middle>", TextRole::fim_mid},
    {"<fim_middle>", TextRole::fim_mid},
    {"<\uFF5Cfim\u2581end\uFF5C>", TextRole::fim_mid},
    {"<MID>", TextRole::fim_mid},
    {"\u2581<MID>", TextRole::fim_mid},
    {"<|code_middle|>", TextRole::fim_mid},
    {"<|fim_pad|>", TextRole::fim_pad},
    {"<fim-pad>", TextRole::fim_pad},
    {"<fim_pad>", TextRole::fim_pad},
    {"<PAD>", TextRole::fim_pad},
    {"<|fim_repo|>", TextRole::fim_rep},
    {"<|repo_name|>", TextRole::fim_rep},
    {"<fim-repo>", TextRole::fim_rep},
    {"<REPO>", TextRole::fim_rep},
    {"<reponame>", TextRole::fim_rep},
    {"<repo_name>", TextRole::fim_rep},
    {"<|file_sep|>", TextRole::fim_sep},
    {"<file_sep>", TextRole::fim_sep},
});

// Ids that a kind has when the file names none. Source: the defaults of the original tokenizers.
struct DefaultIds {
  std::string_view model;
  int32_t bos, eos, unk;
};
constexpr auto kDefaultIds = std::to_array<DefaultIds>({{"llama", 1, 2, 0}, {"gpt2", 11, 11, kNoToken}});

bool is_marker(const Vocab& vocab, int32_t id) {
  return id != kNoToken && (vocab.type(id) == TokenType::control || vocab.type(id) == TokenType::user_defined);
}

int32_t find_role_text(const Vocab& vocab, TextRole role) {
  for (const RoleText& row : kRoleTexts)
    if (row.role == role)
      if (const int32_t id = vocab.find(row.text); is_marker(vocab, id)) return id;
  return kNoToken;
}

int32_t checked_id(const Vocab& vocab, const std::optional<int64_t>& id, std::string_view key, int32_t otherwise) {
  if (!id) return vocab.contains(otherwise) ? otherwise : kNoToken;
  if (vocab.contains(*id)) return static_cast<int32_t>(*id);
  log_line(LogLevel::warning, "tokenizer: tokenizer.ggml." + std::string(key) + " is " + std::to_string(*id) +
                                  ", outside the vocabulary; ignored");
  return kNoToken;
}

}  // namespace

TokenRoles find_roles(const Vocab& vocab, const VocabSource& source) {
  DefaultIds defaults{source.model, kNoToken, kNoToken, kNoToken};
  for (const DefaultIds& row : kDefaultIds)
    if (row.model == source.model) defaults = row;
  const SpecialIds& ids = source.ids;
  const auto by_text = [&](TextRole role) { return find_role_text(vocab, role); };
  TokenRoles roles;
  roles.bos = checked_id(vocab, ids.bos, "bos_token_id", defaults.bos);
  roles.eos = checked_id(vocab, ids.eos, "eos_token_id", defaults.eos);
  roles.unk = checked_id(vocab, ids.unk, "unknown_token_id", defaults.unk);
  roles.sep = checked_id(vocab, ids.sep, "seperator_token_id", kNoToken);
  roles.pad = checked_id(vocab, ids.pad, "padding_token_id", kNoToken);
  roles.mask = checked_id(vocab, ids.mask, "mask_token_id", kNoToken);
  roles.eot = checked_id(vocab, ids.eot, "eot_token_id", by_text(TextRole::eot));
  roles.eom = checked_id(vocab, ids.eom, "eom_token_id", by_text(TextRole::eom));
  roles.fim_pre = checked_id(vocab, ids.fim_pre, "fim_pre_token_id", by_text(TextRole::fim_pre));
  roles.fim_suf = checked_id(vocab, ids.fim_suf, "fim_suf_token_id", by_text(TextRole::fim_suf));
  roles.fim_mid = checked_id(vocab, ids.fim_mid, "fim_mid_token_id", by_text(TextRole::fim_mid));
  roles.fim_pad = checked_id(vocab, ids.fim_pad, "fim_pad_token_id", by_text(TextRole::fim_pad));
  roles.fim_rep = checked_id(vocab, ids.fim_rep, "fim_rep_token_id", by_text(TextRole::fim_rep));
  roles.fim_sep = checked_id(vocab, ids.fim_sep, "fim_sep_token_id", by_text(TextRole::fim_sep));
  return roles;
}

std::vector<int32_t> find_end_tokens(const Vocab& vocab, const TokenRoles& roles) {
  std::vector<int32_t> ends;
  for (const RoleText& row : kRoleTexts) {
    if (row.role != TextRole::eot && row.role != TextRole::eom && row.role != TextRole::end) continue;
    if (const int32_t id = vocab.find(row.text); is_marker(vocab, id)) ends.push_back(id);
  }
  for (const int32_t id : {roles.eos, roles.eot, roles.eom})
    if (id != kNoToken) ends.push_back(id);
  if (roles.fim_mid != kNoToken)  // a gap has been filled when the next file, or padding, begins
    for (const int32_t id : {roles.fim_pad, roles.fim_rep, roles.fim_sep})
      if (id != kNoToken) ends.push_back(id);
  // In vocabularies of the harmony format <|end|> closes one message of several; <|return|> and <|call|> end the turn.
  const int32_t message_end = vocab.find("<|end|>");
  if (vocab.find("<|return|>") != kNoToken && vocab.find("<|call|>") != kNoToken && message_end != roles.eos)
    std::erase(ends, message_end);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

}  // namespace tokamak

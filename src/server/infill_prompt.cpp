#include "server/infill_prompt.h"

#include <fmt/format.h>

namespace tokamak::server {

namespace {

class PromptBuilder {
 public:
  explicit PromptBuilder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  PromptBuilder& token(int32_t id) {
    if (id != kNoToken) out.push_back(id);
    return *this;
  }
  PromptBuilder& text(std::string_view text) {
    const std::vector<int32_t> tokens = tokenizer_.encode(text, {.add_special = false});
    out.insert(out.end(), tokens.begin(), tokens.end());
    return *this;
  }
  std::vector<int32_t> out;

 private:
  const Tokenizer& tokenizer_;
};

Result<void> check_tokens(const TokenRoles& roles) {
  std::string missing;
  const std::pair<int32_t, std::string_view> needed[] = {
      {roles.fim_pre, "prefix"}, {roles.fim_suf, "suffix"}, {roles.fim_mid, "middle"}};
  for (const auto& [id, name] : needed)
    if (id == kNoToken) missing += (missing.empty() ? "" : ", ") + std::string(name);
  if (missing.empty()) return {};
  return Error{.code = ErrorCode::unsupported,
               .what = fmt::format("the model has no tokens for filling in the middle ({})", missing),
               .hint = "use a model for code that was trained on it"};
}

void add_files(PromptBuilder& prompt, const std::vector<InfillFile>& files, const TokenRoles& roles) {
  const bool has_marks = roles.fim_sep != kNoToken;
  if (has_marks && roles.fim_rep != kNoToken) prompt.token(roles.fim_rep).text("project\n");
  for (const InfillFile& file : files) {
    if (has_marks)
      prompt.token(roles.fim_sep).text(file.name + "\n" + file.text);
    else
      prompt.text(fmt::format("--- {} ---\n{}\n\n", file.name, file.text));
  }
  if (has_marks) prompt.token(roles.fim_sep).text("filename\n");
}

}  // namespace

Result<std::vector<int32_t>> infill_prompt(const InfillParts& parts, const Tokenizer& tokenizer) {
  const TokenRoles& roles = tokenizer.roles();
  TRY(check_tokens(roles));
  PromptBuilder prompt(tokenizer);
  if (tokenizer.adds_bos()) prompt.token(roles.bos);
  if (!parts.others.empty()) add_files(prompt, parts.others, roles);
  prompt.token(roles.fim_pre).text(parts.prefix);
  for (const int32_t id : parts.typed) prompt.token(id);
  prompt.token(roles.fim_suf).text(parts.suffix).token(roles.fim_mid);
  return std::move(prompt.out);
}

}  // namespace tokamak::server

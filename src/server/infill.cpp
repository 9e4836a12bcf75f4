// POST /infill: the native completion of a gap.
#include <fmt/format.h>

#include "server/dialect.h"
#include "server/endpoints.h"
#include "server/infill_prompt.h"
#include "server/native_completion.h"

namespace tokamak::server {

namespace {
Result<std::string> text_of(const Json& file, std::string_view key, const std::string& where) {
  if (!file.is_object() || !file.contains(key) || !file[key].is_string())
    return bad_field(where, R"(must be {"filename": text, "text": text})");
  return file[key].get<std::string>();
}

Result<InfillParts> read_parts(const Fields& fields, const Tokenizer& tokenizer) {
  InfillParts parts{.prefix = fields.text("input_prefix", ""), .suffix = fields.text("input_suffix", "")};
  if (!fields.has("input_prefix") && !fields.has("input_suffix") && !fields.has("prompt"))
    return bad_field("input_prefix", "is missing, and input_suffix too");
  if (const Json* prompt = fields.find("prompt"); prompt && *prompt != "") {
    if (prompt->is_string())
      parts.typed = tokenizer.encode(prompt->get<std::string>(), {.add_special = false});
    else
      parts.typed = TRY(read_one_prompt(*prompt, "prompt", tokenizer));
  }
  const Json* others = fields.find("input_extra");
  for (size_t i = 0; others && i < others->size(); ++i) {
    const std::string where = fmt::format("input_extra[{}]", i);
    std::string name = TRY(text_of((*others)[i], "filename", where));
    std::string text = TRY(text_of((*others)[i], "text", where));
    parts.others.push_back({.name = std::move(name), .text = std::move(text)});
  }
  return parts;
}

Result<void> run(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const Fields fields = TRY(Fields::parse(exchange->request().body, kInfill));
  const InfillParts parts = TRY(read_parts(fields, context.tokenizer()));
  return complete_natively(exchange, context, fields, kInfill, {TRY(infill_prompt(parts, context.tokenizer()))});
}
}  // namespace

void infill(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run(exchange, context); !ok) respond_error(*exchange, context, Dialect::openai, ok.error());
}

}  // namespace tokamak::server

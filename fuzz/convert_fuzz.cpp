// Any bytes as the small files of a checkpoint folder: config.json, tokenizer.json, tokenizer.model. Each reader says
// yes or a reason; tables that were read fit together.
#include "base/check.h"
#include "convert/model_config.h"
#include "convert/pre_tokenizer_match.h"
#include "convert/sentencepiece.h"
#include "convert/tokenizer_json.h"
#include "fuzz_target.h"

using namespace tokamak;

namespace {

void check_tables(const VocabSource& vocab) {
  CHECK(vocab.types.size() == vocab.tokens.size());
  CHECK(vocab.scores.empty() || vocab.scores.size() == vocab.tokens.size());
}

void read_tokenizer_json(const Json& json) {
  std::vector<std::string> notes;
  (void)convert::match_pre_tokenizer(json, "qwen2", "fuzz");
  (void)convert::read_affixes(json);
  (void)convert::adds_space_prefix(json);
  const auto kind = convert::kind_of_tokenizer(json, "fuzz");
  if (!kind) return;
  auto vocab = convert::read_bpe_model(json, *kind, notes, "fuzz");
  if (!vocab) return;
  check_tables(*vocab);
  const auto added = convert::read_added_tokens(json, "fuzz");
  if (added && convert::apply_added_tokens(*added, *kind, 1000, *vocab, notes, "fuzz")) check_tables(*vocab);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  const auto bytes = std::as_bytes(std::span(data, n_bytes));
  if (const auto model = convert::parse_sentencepiece(bytes, "fuzz")) {
    CHECK(!model->pieces.empty() && model->pieces.size() <= n_bytes);
    if (const auto vocab = convert::vocab_of_pieces(*model, "fuzz")) check_tables(*vocab);
  }
  const auto json = parse_json({reinterpret_cast<const char*>(data), n_bytes}, "fuzz");
  if (!json) return 0;
  read_tokenizer_json(*json);
  if (const auto model = convert::read_model_config(*json, "fuzz")) {
    CHECK(model->n_embd > 0 && model->n_head > 0 && model->n_head_kv > 0 && model->head_dim > 0);
    for (const auto& factors : model->rope_factors)
      CHECK(!factors.values.empty() && static_cast<int64_t>(factors.values.size()) <= model->head_dim / 2);
  }
  return 0;
}

// The tokenizer of a checkpoint folder (tokenizer.json, tokenizer.model, tokenizer_config.json, chat templates) as the
// tables that a GGUF holds.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "arch/checkpoint_names.h"
#include "base/result.h"
#include "convert/config_reader.h"
#include "gguf/writer.h"
#include "tokenizer/vocab_source.h"

namespace tokamak::convert {

struct TokenizerTables {
  VocabSource vocab;  // as Tokenizer::create takes it
  std::string chat_template;
  std::vector<std::pair<std::string, std::string>> named_templates;  // all but the default one
  std::vector<std::string> notes;                                    // for the user
};

struct TokenizerRequest {
  const arch::CheckpointFamily* family = nullptr;
  int64_t n_vocab = 0;     // rows of the embedding: the vocabulary is padded to it
  std::string forced_pre;  // tokenizer.ggml.pre; empty: found out
};

// config: the whole config.json, for ids that the tokenizer's own files leave out.
// Errors: not_found (no tokenizer), bad_file, bad_vocab, unsupported (its kind, or its pre-tokenizer), bad_argument
// (forced_pre names none).
Result<TokenizerTables> read_tokenizer(const std::filesystem::path& folder, const Json& config,
                                       const TokenizerRequest& request);

// Ids without texts, of an embedding of n_vocab rows.
TokenizerTables without_tokenizer(int64_t n_vocab);

void add_tokenizer_keys(GgufWriter& writer, const TokenizerTables& tables);

}  // namespace tokamak::convert

// Tiny vocabularies for tokenizer tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tokamak::test {

// tests/golden/tokenizer/tiny.json, made by tools/tokenizer_oracle.py.
const nlohmann::json& golden();

// Letters of all bytes, then joined merges, then control and user-defined tokens of the golden file.
VocabSource golden_bpe(std::string pre);
// The SentencePiece-like vocabulary of the golden file.
VocabSource golden_spm(bool add_space_prefix);

// A hand-made SentencePiece vocabulary: <unk> <s> </s>, all bytes, then `pieces` with falling scores.
VocabSource small_spm(const std::vector<std::string>& pieces);

// Fails the test and stops it when the vocabulary is refused.
Tokenizer make_tokenizer(VocabSource source);

std::string join(const std::vector<int32_t>& ids);  // "1 2 3"

}  // namespace tokamak::test

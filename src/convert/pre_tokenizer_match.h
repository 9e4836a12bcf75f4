// Which row of the tokenizer's table of pre-tokenizers a tokenizer.json describes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "safetensors/json_text.h"

namespace tokamak::convert {

struct PreTokenizerMatch {
  std::string name;                // value of tokenizer.ggml.pre
  std::vector<std::string> notes;  // what the row does otherwise than the file, for the user
};

// json: a whole tokenizer.json of byte-level BPE. The patterns are compared as texts, then by what they do to a probe
// text; among equal rows the one with the same flags wins, then the first of `preferred` (names between spaces).
// Errors: unsupported, naming what is unknown and the way to force a name.
Result<PreTokenizerMatch> match_pre_tokenizer(const Json& json, std::string_view preferred, const std::string& where);

// The nodes of a normalizer, pre_tokenizer or post_processor with its Sequences taken apart; empty for null.
std::vector<const Json*> flatten_sequence(const Json& json, std::string_view field);
// node["type"], or empty.
std::string_view node_type(const Json& node);

}  // namespace tokamak::convert

// Filling in the middle: text before and after a gap, in the form that models for code are trained on.
//
//   [REP] project \n  { [SEP] file name \n text }  [SEP] filename \n   only with other files, if the model has REP and
//   SEP bos [PRE] prefix [SUF] suffix [MID]
//
// Goal: nothing is cut away; a prompt that is too long is refused like any other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace tokamak::server {

struct InfillFile {
  std::string name, text;
};

struct InfillParts {
  std::string prefix, suffix;
  std::vector<int32_t> typed;      // tokens behind the prefix, encoded on their own: what changes with every key press
  std::vector<InfillFile> others;  // other files of the project
};

// Texts are taken literally: special tokens written in them mean nothing.
// Errors: unsupported, naming the tokens that the model lacks.
Result<std::vector<int32_t>> infill_prompt(const InfillParts& parts, const Tokenizer& tokenizer);

}  // namespace tokamak::server

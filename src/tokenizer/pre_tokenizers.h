// How text is cut into pieces before byte-level BPE merges: one row per value of tokenizer.ggml.pre.
// Source: the names are those of the GGUF format; the patterns, those of the models' own tokenizer.json files.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace tokamak {

// One step of a cut. Every piece of the step before is cut again, on its own: a pattern sees nothing outside it.
// What a pattern does not match is a piece too.
enum class SplitKind : uint8_t {
  none,
  regex,              // each match is a piece
  words,              // each match is a piece, the rest of the text is dropped
  group_numbers,      // runs of \p{N}, grouped by three from the right
  group_digit_words,  // runs of \d that end at a word boundary, grouped by three from the right
  cut_digits,         // a cut wherever a multiple of three \d is left in the run
};

struct SplitStep {
  SplitKind kind = SplitKind::none;
  std::string_view pattern;  // Perl syntax, \s and \S meaning Unicode White_Space
};

struct SplitRules {
  std::string_view name;
  std::array<SplitStep, 6> steps;  // up to the first `none`
};

struct PreTokenizer {
  std::string_view name;
  const SplitRules* rules;
  bool ignore_merges = false;  // a piece that is a token as a whole is not merged
  bool add_bos = false;        // default when the file does not say
  bool add_sep = false;        // default when the file does not say
  bool characters = false;     // tokens are spelled in UTF-8 characters, not in byte letters
  bool escape = false;         // ... and a space as U+2581
  bool clean_spaces = false;   // the Hugging Face default for decoding; see DecodeOptions
  bool nfc = false;            // the model's own tokenizer applies Unicode NFC first
};

std::span<const PreTokenizer> pre_tokenizers();
// Null when there is no such name.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

}  // namespace tokamak

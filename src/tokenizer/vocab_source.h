// The tables of one vocabulary as a file declares them, before validation. Filled by from_gguf.h or by a test.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tokamak {

// Numbers of tokenizer.ggml.token_type.
enum class TokenType : uint8_t { undefined = 0, normal, unknown, control, user_defined, unused, byte };

// Ids that play a role. Absent: the file does not name one.
struct SpecialIds {
  std::optional<int64_t> bos, eos, eot, eom, unk, sep, pad, mask;
  std::optional<int64_t> fim_pre, fim_suf, fim_mid, fim_pad, fim_rep, fim_sep;
};

struct VocabSource {
  std::string model;                // tokenizer.ggml.model: gpt2, llama, gemma4, no_vocab ...
  std::optional<std::string> pre;   // tokenizer.ggml.pre; used by the BPE kinds only
  std::vector<std::string> tokens;  // text of each id
  std::vector<float> scores;        // empty, or one per token
  std::vector<int32_t> types;       // empty (all normal), or one per token
  std::vector<std::string> merges;  // "left right", best first
  SpecialIds ids;
  std::vector<int64_t> suppress_tokens;
  std::optional<bool> add_bos, add_eos, add_sep, add_space_prefix;
  bool lowercase = false;      // tokenizer.ggml.normalizer.lowercase
  int64_t n_dummy_tokens = 0;  // vocabulary size of the kind no_vocab
};

}  // namespace tokamak

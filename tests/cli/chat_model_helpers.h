// Model files small enough to be made by every test: random F32 weights, and a vocabulary of all bytes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tokamak::test {

struct ChatModel {
  std::string architecture = "llama";
  bool has_all_bytes = true;             // false: no tokens for bytes from 0xF0
  std::vector<std::string> more_tokens;  // control tokens behind the others, ids from 259
  int64_t n_labels = 0;                  // > 0: a head that ranks documents, with as many outputs
  int64_t pooling = -1;                  // the key pooling_type; -1: none
  bool causal = true;                    // false: the key attention.causal says so
  std::string chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>";
};

// Written once per content; a 256-byte-token llama of 2 layers that emits printable letters and never ends by itself.
std::filesystem::path chat_model(const ChatModel& model = {});
// An unknown architecture with one tensor of every type.
std::filesystem::path all_types_file();

}  // namespace tokamak::test

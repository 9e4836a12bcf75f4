// Helper of tools/tokenizer_oracle.py: tokenize_tool MODEL.gguf < documents > ids
// Input: per document a line "N\n" and then N bytes. Output: per document one line of ids, a tab, and "same" or
// "differs" for decode(encode(document)) == document. Special tokens are parsed and none is added.
#include <fmt/format.h>

#include <iostream>
#include <string>

#include "gguf/gguf.h"
#include "tokenizer/from_gguf.h"

int main(int argc, char** argv) {
  if (argc != 2) return fmt::print(stderr, "usage: {} MODEL.gguf\n", argv[0]), 2;
  const auto file = tokamak::GgufFile::open(argv[1]);
  if (!file) return fmt::print(stderr, "{}\n", file.error().message()), 1;
  const auto tokenizer = tokamak::load_tokenizer(*file);
  if (!tokenizer) return fmt::print(stderr, "{}\n", tokenizer.error().message()), 1;
  for (std::string line; std::getline(std::cin, line);) {
    std::string text(std::stoul(line), '\0');
    std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
    const auto ids = tokenizer->encode(text, {.add_special = false, .parse_special = true});
    const bool same = tokenizer->decode_bytes(ids, {.keep_special = true}) == text;
    fmt::print("{}\t{}\n", fmt::join(ids, " "), same ? "same" : "differs");
  }
}

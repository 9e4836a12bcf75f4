#include "tokenizer/vocab_helpers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/utf8.h"
#include "tokenizer/byte_letters.h"

namespace tokamak::test {

const nlohmann::json& golden() {
  static const nlohmann::json file = nlohmann::json::parse(std::ifstream(TOKAMAK_GOLDEN "/tokenizer/tiny.json"));
  return file;
}

VocabSource golden_bpe(std::string pre) {
  VocabSource source{.model = "gpt2", .pre = std::move(pre)};
  std::set<std::string> seen;
  const auto add = [&](std::string text, TokenType type) {
    if (!seen.insert(text).second) return;
    source.tokens.push_back(std::move(text));
    source.types.push_back(static_cast<int32_t>(type));
  };
  for (const char32_t letter : kByteLetters) {
    std::string text;
    append_utf8(text, letter);
    add(std::move(text), TokenType::normal);
  }
  for (const std::string merge : golden()["merges"]) {
    source.merges.push_back(merge);
    std::string joined = merge;
    joined.erase(joined.find(' ', 1), 1);
    add(std::move(joined), TokenType::normal);
  }
  for (const std::string text : golden()["control"]) add(text, TokenType::control);
  for (const std::string text : golden()["user_defined"]) add(text, TokenType::user_defined);
  source.ids.bos = source.ids.eos = static_cast<int64_t>(source.tokens.size()) - 5;
  return source;
}

VocabSource golden_spm(bool add_space_prefix) {
  const auto& spm = golden()["spm"];
  VocabSource source{.model = "llama"};
  source.tokens = spm["tokens"].get<std::vector<std::string>>();
  source.types = spm["types"].get<std::vector<int32_t>>();
  source.scores = spm["scores"].get<std::vector<float>>();
  source.ids.bos = 1, source.ids.eos = 2, source.ids.unk = 0;
  source.add_space_prefix = add_space_prefix;
  return source;
}

VocabSource small_spm(const std::vector<std::string>& pieces) {
  VocabSource source{.model = "llama", .tokens = {"<unk>", "<s>", "</s>"}, .types = {2, 3, 3}};
  for (int byte = 0; byte < 256; ++byte) {
    source.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    source.types.push_back(static_cast<int32_t>(TokenType::byte));
  }
  source.scores.assign(source.tokens.size(), 0);
  for (const std::string& piece : pieces) {
    source.tokens.push_back(piece);
    source.types.push_back(static_cast<int32_t>(TokenType::normal));
    source.scores.push_back(-static_cast<float>(source.scores.size()));
  }
  return source;
}

Tokenizer make_tokenizer(VocabSource source) {
  auto tokenizer = Tokenizer::create(std::move(source));
  if (!tokenizer) {
    ADD_FAILURE() << tokenizer.error().message();
    return *Tokenizer::create(VocabSource{.model = "no_vocab"});
  }
  return std::move(*tokenizer);
}

std::string join(const std::vector<int32_t>& ids) { return fmt::format("{}", fmt::join(ids, " ")); }

}  // namespace tokamak::test

// Any bytes: a vocabulary made of them is refused with a reason or gives a tokenizer that is total; then decoding
// the whole and token by token agree, and vocabularies that have every byte give the text back.
// Input: one byte of choices, lines of the vocabulary ("type score text"), a NUL byte, the text.
#include <algorithm>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "fuzz_target.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/tokenizer.h"

using namespace tokamak;

namespace {

constexpr size_t kMaxTokens = 400;

// Splits the next line off `text`.
std::string_view next_line(std::string_view& text) {
  const size_t n = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, n);
  text.remove_prefix(std::min(n + 1, text.size()));
  return line;
}

VocabSource read_vocabulary(uint8_t choices, std::string_view lines) {
  const auto pre = pre_tokenizers();
  VocabSource source{.model = choices & 1 ? "llama" : "gpt2",
                     .pre = std::string(pre[(choices >> 1) % pre.size()].name)};
  source.add_space_prefix = (choices & 128) != 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string text;
    if (choices & 1) {
      static constexpr char kHex[] = "0123456789ABCDEF";
      text = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
    } else {
      append_utf8(text, kByteLetters[byte]);
    }
    source.tokens.push_back(text);
    source.types.push_back(choices & 1 ? 6 : 1);
    source.scores.push_back(0);
  }
  while (!lines.empty() && source.tokens.size() < kMaxTokens) {
    const std::string_view line = next_line(lines);
    if (line.size() < 3) continue;
    source.types.push_back(line[0] - '0');
    source.scores.push_back(static_cast<float>(line[1]) / 8);
    source.merges.emplace_back(line.substr(2));
    std::string text(line.substr(2));
    if (!(choices & 1))
      if (const size_t space = text.find(' ', 1); space != std::string::npos) text.erase(space, 1);
    source.tokens.push_back(std::move(text));
  }
  source.ids.bos = static_cast<int64_t>(source.tokens.size()) - 3;
  return source;
}

bool is_special(const Tokenizer& tokenizer, int32_t id) {
  return tokenizer.type(id) == TokenType::control || tokenizer.type(id) == TokenType::unknown;
}

void check_text(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view text, bool parse_special) {
  const auto ids = tokenizer->encode(text, {.parse_special = parse_special});
  for (const int32_t id : ids) CHECK(tokenizer->contains(id), id);
  for (const bool keep_special : {false, true}) {
    const DecodeOptions options{.keep_special = keep_special};
    const std::string whole = tokenizer->decode(ids, options);
    CHECK(is_valid_utf8(whole));
    std::string bytes;
    for (const int32_t id : ids)
      if (keep_special || !is_special(*tokenizer, id)) bytes += tokenizer->token_bytes(id);
    CHECK(bytes == tokenizer->decode_bytes(ids, {.keep_special = keep_special, .at_text_start = false}));
  }
  (void)tokenizer->decode(ids, {.clean_spaces = true});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  if (n_bytes < 2) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, n_bytes - 1);
  const size_t n_lines = std::min(all.find('\0'), all.size());
  auto made = Tokenizer::create(read_vocabulary(data[0], all.substr(0, n_lines)));
  if (!made) {
    CHECK(!made.error().message().empty());
    return 0;
  }
  const auto tokenizer = std::make_shared<const Tokenizer>(std::move(*made));
  const std::string_view text = all.substr(std::min(n_lines + 1, all.size()));
  check_text(tokenizer, text, false);
  check_text(tokenizer, text, true);
  return 0;
}

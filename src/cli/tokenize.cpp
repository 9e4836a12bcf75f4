// tokenize: text to token ids, and back.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "chat/message.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/input.h"
#include "cli/loading.h"
#include "tokenizer/from_gguf.h"

namespace tokamak::cli {

namespace {
// Ids separated by anything that is no digit: "1 2 3", "[1, 2, 3]".
Result<std::vector<int32_t>> parse_ids(std::string_view text, const Tokenizer& tokenizer) {
  constexpr std::string_view kBetween = " ,;[]\n\r\t";
  std::vector<int32_t> ids;
  for (size_t i = text.find_first_not_of(kBetween); i < text.size(); i = text.find_first_not_of(kBetween, i)) {
    const size_t end = std::min(text.find_first_of(kBetween, i), text.size());
    const std::string_view word = text.substr(i, end - i);
    int32_t id = -1;
    const auto [rest, problem] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (problem != std::errc() || rest != word.data() + word.size() || !tokenizer.contains(id))
      return Error{.code = ErrorCode::bad_argument,
                   .what = "not a token id",
                   .where = fmt::format("--ids: {}", word),
                   .hint = fmt::format("a number from 0 to {}", tokenizer.n_vocab() - 1)};
    ids.push_back(id);
    i = end;
  }
  return ids;
}

Json pieces_json(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  Json tokens = Json::array();
  for (int32_t id : ids) {
    Json token = {{"id", id}, {"piece", tokenizer.token_bytes(id)}, {"spelling", tokenizer.token_text(id)}};
    if (tokenizer.is_control(id)) token["control"] = true;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Result<int> detokenize(const Tokenizer& tokenizer, const SettingValues& values) {
  std::string text = values.text("--ids");
  if (text == "-") text = TRY(read_standard_input());
  const std::vector<int32_t> ids = TRY(parse_ids(text, tokenizer));
  const std::string out = tokenizer.decode(ids, {.keep_special = true});
  print(values.flag("--json") ? Json{{"text", out}}.dump() + "\n" : out);
  if (output_is_terminal()) print("\n");
  return 0;
}

// Of the command line; what the environment sets is only a default.
Result<void> check_one_input(const Arguments& arguments) {
  std::vector<std::string_view> given;
  if (arguments.words.size() > 1) given.push_back("a text");
  for (std::string_view flag : {"--prompt", "--file", "--ids"})
    if (arguments.values.source(flag) == SettingValues::Source::flag) given.push_back(flag);
  if (given.size() <= 1) return {};
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("{} were given together", fmt::join(given, " and ")),
               .hint = "give one of them"};
}

Result<std::string> text_of(const Arguments& arguments) {
  if (arguments.words.size() > 1) return arguments.words[1];
  if (auto text = TRY(given_text(arguments.values))) return *text;
  return Error{.code = ErrorCode::bad_argument,
               .what = "there is no text to tokenize",
               .hint = "give it after the model, with -p or -f, or on standard input"};
}
}  // namespace

Result<int> tokenize_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  TRY(check_no_more_words(arguments, 2));
  TRY(check_one_input(arguments));
  const std::filesystem::path path = TRY(model_path(arguments));
  const GgufFile file = TRY(GgufFile::open(path));
  const Tokenizer tokenizer = TRY(load_tokenizer(file));
  if (values.is_set("--ids") && arguments.words.size() < 2) return detokenize(tokenizer, values);
  const std::string text = TRY(text_of(arguments));
  size_t n_lost_bytes = 0;
  const std::vector<int32_t> ids = tokenizer.encode(
      text, {.add_special = !values.flag("--no-bos"), .parse_special = !values.flag("--no-parse-special")},
      &n_lost_bytes);
  if (n_lost_bytes > 0) talk_line(lost_bytes_text(n_lost_bytes));
  if (values.flag("--json")) {
    const Json json = {
        {"n_tokens", ids.size()}, {"n_lost_bytes", n_lost_bytes}, {"tokens", pieces_json(tokenizer, ids)}};
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } else {
    print(fmt::format("{}\n", fmt::join(ids, " ")));
  }
  return 0;
}

}  // namespace tokamak::cli

// /infill and the suffix of /v1/completions.
#include <gtest/gtest.h>

#include "cli/chat_model_helpers.h"
#include "cli/serve_helpers.h"

namespace tokamak::test {
namespace {

using Json = nlohmann::json;

constexpr int kPre = 259, kSuf = 260, kMid = 261, kRep = 262, kSep = 263;
std::filesystem::path code_model(bool with_files) {
  std::vector<std::string> tokens = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"};
  if (with_files) tokens.insert(tokens.end(), {"<|repo_name|>", "<|file_sep|>"});
  return chat_model({.more_tokens = tokens});
}

void add_text(Json& ids, std::string_view text) {
  for (const char c : text) ids.push_back(static_cast<int>(static_cast<unsigned char>(c)));
}

// The answer to the same prompt given as ids, which has the same first difference: none.
void expect_prompt(const ServeProcess& server, const Json& infill, const Json& ids) {
  const Json settings = {{"n_predict", 6}, {"temperature", 0}, {"cache_prompt", true}};
  Json body = infill, plain = {{"prompt", ids}};
  body.update(settings);
  plain.update(settings);
  const Json expected = server.expect(200, "/completion", plain);
  const Json got = server.expect(200, "/infill", body);
  EXPECT_EQ(got["content"], expected["content"]);
  EXPECT_EQ(got["tokens_evaluated"], ids.size()) << "prompts differ in length";
  EXPECT_EQ(got["tokens_cached"], ids.size() - 1) << "prompts differ";
}

TEST(ServeInfill, PromptsAreInTheFormOfTheModel) {
  const ServeProcess server(code_model(true), {.flags = {"--ctx-size", "512"}});
  Json ids = {kPre};
  add_text(ids, "int f(");
  ids.push_back(kSuf);
  add_text(ids, ");\n");
  ids.push_back(kMid);
  expect_prompt(server, {{"input_prefix", "int f("}, {"input_suffix", ");\n"}}, ids);
  expect_prompt(server, {{"input_prefix", "int"}, {"prompt", " f("}, {"input_suffix", ");\n"}}, ids);

  Json files = {kRep};
  add_text(files, "project\n");
  for (const auto& [name, text] : {std::pair("a.h", "x"), std::pair("b.h", "y\n")}) {
    files.push_back(kSep);
    add_text(files, std::string(name) + "\n" + text);
  }
  files.push_back(kSep);
  add_text(files, "filename\n");
  for (const Json& id : ids) files.push_back(id);
  expect_prompt(server,
                {{"input_prefix", "int f("},
                 {"input_suffix", ");\n"},
                 {"input_extra", {{{"filename", "a.h"}, {"text", "x"}}, {{"filename", "b.h"}, {"text", "y\n"}}}}},
                files);
  // Special tokens in a user's file are text.
  Json literal = {kPre};
  add_text(literal, "<|fim_middle|>");
  literal.push_back(kSuf);
  literal.push_back(kMid);
  expect_prompt(server, {{"input_prefix", "<|fim_middle|>"}}, literal);
}

TEST(ServeInfill, SuffixOfCompletionsIsTheSame) {
  const ServeProcess server(code_model(false), {.flags = {"--ctx-size", "512"}});
  const Json infill = server.expect(
      200, "/infill", {{"input_prefix", "ab"}, {"input_suffix", "cd"}, {"n_predict", 5}, {"temperature", 0}});
  const Json text = server.expect(200, "/v1/completions",
                                  {{"prompt", "ab"}, {"suffix", "cd"}, {"max_tokens", 5}, {"temperature", 0}});
  EXPECT_EQ(text["choices"][0]["text"], infill["content"]);
  EXPECT_EQ(text["usage"]["prompt_tokens"], 7);
  // All fields of the native completion.
  const Json native = server.expect(200, "/infill",
                                    {{"input_prefix", "ab"},
                                     {"input_suffix", "cd"},
                                     {"n_predict", 5},
                                     {"temperature", 0},
                                     {"n_probs", 2},
                                     {"return_tokens", true},
                                     {"stop", {infill["content"].get<std::string>().substr(2, 1)}}});
  EXPECT_EQ(native["stop_type"], "word");
  EXPECT_EQ(native["completion_probabilities"].size(), native["tokens"].size());
}

TEST(ServeInfill, BadRequestsAndModelsWithoutTheTokens) {
  const ServeProcess code(code_model(true), {.flags = {"--ctx-size", "256"}});
  code.expect_bad_field("input_prefix", "/infill", Json::object());
  code.expect_bad_field("input_prefix", "/infill", {{"input_prefix", 5}});
  code.expect_bad_field("input_extra[0]", "/infill", {{"input_prefix", "x"}, {"input_extra", {"a"}}});
  code.expect_bad_field("input_extra[1]", "/infill",
                        {{"input_prefix", "x"}, {"input_extra", {{{"filename", "a"}, {"text", ""}}, {{"text", "b"}}}}});
  const Json too_long = code.expect(400, "/infill", {{"input_prefix", std::string(300, 'x')}});
  EXPECT_EQ(too_long["error"]["code"], "context_length_exceeded");
  const ServeProcess plain(chat_model(), {.flags = {"--ctx-size", "256"}});
  for (const Json& json : {plain.expect(400, "/infill", {{"input_prefix", "x"}}),
                           plain.expect(400, "/v1/completions", {{"prompt", "x"}, {"suffix", "y"}})})
    EXPECT_NE(json.dump().find("filling in the middle"), std::string::npos) << json;
}

}  // namespace
}  // namespace tokamak::test

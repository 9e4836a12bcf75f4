// Every command once, and what each says about bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/chat_model_helpers.h"
#include "cli/process_helpers.h"
#include "ir/text.h"

namespace tokamak::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

size_t n_lines(const std::string& text) { return static_cast<size_t>(std::ranges::count(text, '\n')); }

TEST(Commands, HelpFitsAScreen) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--help"},
                                                                                     {"run", "--help"},
                                                                                     {"inspect", "--help"},
                                                                                     {"bench", "-h"},
                                                                                     {"tokenize", "--help"},
                                                                                     {"explain", "--help"},
                                                                                     {"selftest", "--help"}}) {
    const RunResult result = run_tokamak(words);
    EXPECT_EQ(result.status, 0) << words[0];
    EXPECT_THAT(result.output, HasSubstr("tokamak"));
    EXPECT_LE(n_lines(result.output), 45u) << words[0];
    std::istringstream lines(result.output);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 130u) << line;
  }
  EXPECT_THAT(run_tokamak({"run", "--help-all"}).output, HasSubstr("--mirostat"));
  EXPECT_THAT(run_tokamak({"--version"}).output, testing::MatchesRegex("tokamak [0-9.]+\n"));
  EXPECT_EQ(run_tokamak({}).status, 2);
}

TEST(Commands, RefusalsAreOneLine) {
  const std::string model = chat_model().string();
  expect_refusal({"rum"}, 2, "did you mean run?");
  expect_refusal({"run", model, "-p", "x", "--tmp", "1"}, 2, "did you mean --temp?");
  expect_refusal({"run", model, "-p", "x", "--temp", "hot"}, 2, "'hot' is not a number");
  expect_refusal({"run", model, "what", "-p", "x"}, 2, "what: unexpected word");
  expect_refusal({"run", model, "-p", "x", "-f", "y"}, 2, "give one");
  expect_refusal({"run", model, "-p", ""}, 2, "the prompt is empty");
  expect_refusal({"run", model, "-f", "/no/such/file"}, 3, "/no/such/file");
  expect_refusal({"run", "/no/such/model.gguf", "-p", "x"}, 3, "/no/such/model.gguf");
  expect_refusal({"run", "-p", "x"}, 3, "./demo.sh");
  expect_refusal({"run", chat_model({.architecture = "mystery"}).string(), "-p", "x"}, 7, "mystery");
  expect_refusal({"run", model, "-p", "x", "--chat-template", "{% if %}"}, 6, "line 1");
  expect_refusal({"run", model, "-p", "x", "--chat-template", "{{ raise_exception('not today') }}"}, 6, "not today");
  expect_refusal({"run", model, "-p", "x", "--dump-ir", "after:fus"}, 2, "fuse");
  expect_refusal({"run", "/no/such/model.gguf"}, 3, "/no/such/model.gguf");  // before the empty standard input
  expect_refusal({"run", model, "-p", "x", "--chat-template", "chatlm"}, 3, "did you mean chatml?");
  expect_refusal({"run", model, "-p", "x", "--chat-template", "/no/file"}, 3, "known: alpaca, chatml");
  expect_refusal({"inspect", model, "more"}, 2, "it takes one model and flags");
  expect_refusal({"selftest", "more"}, 2, "takes only flags");
  expect_refusal({"bench", model, "--temp", "1"}, 2, "it belongs to: run");
  expect_refusal({"inspect", "/dev/null"}, 2, "/dev/null: is not a regular file");
  expect_refusal({"bench", model, "-p", "0", "-n", "0"}, 2, "nothing to measure");
  expect_refusal({"tokenize", model, "--ids", "1 9999"}, 2, "9999");
  expect_refusal({"docs", "--out", "/no/such/folder"}, 3, "folder");
  expect_refusal({"run", model, "-p", "x", "-ngl", "3"}, 2, "add --backend cuda");
  expect_refusal({"run", model, "-p", "x", "--backend", "cuda", "-ngl", "most"}, 2, "'most' is no number of layers");
}

TEST(Commands, AContextBeyondEveryLimitNamesItsFlag) {
  const RunResult result = run_tokamak({"run", chat_model().string(), "-p", "x", "-c", "2147483647"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.talk, HasSubstr("context size (--ctx-size): 2147483647 is outside"));
}

TEST(Commands, TruncatedFileIsRefused) {
  const std::string whole = read_whole_file(chat_model());
  for (const size_t n : {size_t{3}, size_t{20}, whole.size() / 2, whole.size() - 1}) {
    const auto path = scratch_folder() / "cut.gguf";
    write_whole_file(path, whole.substr(0, n));
    for (const char* command : {"run", "inspect", "bench", "tokenize", "explain"}) {
      const RunResult result = run_tokamak({command, path.string()}, {.input = "x"});
      EXPECT_EQ(result.status, 5) << command << " " << n;
      EXPECT_EQ(n_lines(result.talk), 1u) << result.talk;
      EXPECT_THAT(result.talk, HasSubstr("cut.gguf"));
    }
  }
}

TEST(Commands, ErrorsHaveAJsonForm) {
  const RunResult result = run_tokamak({"inspect", "/no/such/model.gguf", "--json"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(json::parse(result.output)["error"]["code"], "not_found");
}

TEST(Commands, TokenizeTakesOneInput) {
  const std::string model = chat_model().string();
  expect_refusal({"tokenize", model, "text", "-p", "x"}, 2, "a text and --prompt were given together");
  expect_refusal({"tokenize", model, "text", "--ids", "1"}, 2, "a text and --ids");
  expect_refusal({"tokenize", model, "-f", "x", "--ids", "1"}, 2, "--file and --ids");
  expect_refusal({"tokenize", model, "t", "-p", "x", "-f", "y", "--ids", "1"}, 2, "a text and --prompt and --file and");
  const RunOptions options{.input = {}, .environment = {{"TOKAMAK_IDS", "1"}, {"TOKAMAK_PROMPT", "x"}}};
  EXPECT_EQ(run_tokamak({"tokenize", model, "a"}, options).output, "97\n");  // the environment holds defaults
}

TEST(Commands, LostBytesAreSaidOnce) {
  const std::string model = chat_model({.has_all_bytes = false}).string();
  const std::string hedgehog = "a\xf0\x9f\xa6\x94";  // the first byte of the character has no token
  const RunResult text = run_tokamak({"tokenize", model, hedgehog});
  EXPECT_EQ(text.output, "97 159 166 148\n");
  EXPECT_EQ(n_lines(text.talk), 1u) << text.talk;
  EXPECT_THAT(text.talk, HasSubstr("1 byte of the text has no token"));
  const RunResult as_json = run_tokamak({"tokenize", model, hedgehog + hedgehog, "--json"});
  EXPECT_EQ(json::parse(as_json.output)["n_lost_bytes"], 2);
  EXPECT_THAT(as_json.talk, HasSubstr("2 bytes of the text have no token"));
  const RunResult answer = run_tokamak({"run", model, "-p", hedgehog, "-n", "2", "--json"});
  EXPECT_EQ(json::parse(answer.output)["n_lost_bytes"], 1);
  EXPECT_THAT(answer.talk, HasSubstr("1 byte of the text"));
  EXPECT_EQ(run_tokamak({"tokenize", model, "plain"}).talk, "");
  EXPECT_EQ(json::parse(run_tokamak({"tokenize", model, "plain", "--json"}).output)["n_lost_bytes"], 0);
}

TEST(Commands, FullDiskIsReported) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{}, {"--help"}, {"--version"}, {"run", "--help"}}) {
    const RunResult result = run_tokamak(words, {.output_file = "/dev/full"});
    EXPECT_EQ(result.status, 4) << testing::PrintToString(words);
    EXPECT_THAT(result.talk, HasSubstr("No space left"));
  }
  for (const char* command : {"inspect", "run"}) {
    const RunResult result = run_tokamak({command, chat_model().string()}, {.input = "x", .output_file = "/dev/full"});
    EXPECT_EQ(result.status, 4) << command;
    EXPECT_THAT(result.talk, HasSubstr("No space left"));
  }
}

TEST(Commands, OutputsThatNobodyReadsEndTheProgram) {
  const RunResult result =
      run_tokamak({"run", chat_model().string(), "-p", "x", "-n", "20"}, {.output_file = "/dev/null"});
  EXPECT_EQ(result.status, 0);
}

TEST(Commands, ModelComesFromTheCache) {
  const auto cache = scratch_folder() / "cache";
  std::filesystem::create_directories(cache);
  const RunOptions options{.input = {}, .environment = {{"TOKAMAK_CACHE", cache.string()}}};
  EXPECT_THAT(run_tokamak({"inspect"}, options).talk, HasSubstr(cache.string()));
  std::filesystem::copy_file(chat_model(), cache / "a.gguf");
  EXPECT_THAT(run_tokamak({"inspect"}, options).output, HasSubstr("a.gguf"));
  std::filesystem::copy_file(chat_model(), cache / "b.gguf");
  EXPECT_THAT(run_tokamak({"inspect"}, options).talk, HasSubstr("2 to choose from"));
  std::filesystem::copy_file(chat_model(), cache / "SmolLM2-135M-Instruct.Q4_1.gguf");
  EXPECT_THAT(run_tokamak({"inspect"}, options).output, HasSubstr("SmolLM2"));
}

TEST(Commands, EnvironmentSetsFlags) {
  const RunOptions options{.input = {}, .environment = {{"TOKAMAK_TEMP", "hot"}}};
  const RunResult result = run_tokamak({"run", chat_model().string(), "-p", "x"}, options);
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.talk, HasSubstr("TOKAMAK_TEMP"));
}

TEST(Commands, ErrorsOfTheEnvironmentNameItsVariables) {
  for (const auto& [name, value] : {std::pair<const char*, const char*>{"TOKAMAK_PAGE_SIZE", "17"},
                                    {"TOKAMAK_CTX_SIZE", "1999999999"},
                                    {"TOKAMAK_N_GPU_LAYERS", "some"}}) {
    const RunOptions options{.input = {}, .environment = {{name, value}}};
    const RunResult result = run_tokamak({"plan", chat_model().string()}, options);
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.talk, HasSubstr(name));
    EXPECT_THAT(result.talk, testing::Not(HasSubstr("--page-size")));
  }
}

TEST(Commands, InspectShowsEverything) {
  const RunResult text = run_tokamak({"inspect", chat_model().string()});
  EXPECT_EQ(text.status, 0) << text.talk;
  for (const char* part : {"tiny chat", "can be run", "n_head_kv", "kv_bytes_per_token_f16", "byte-level BPE", "F32",
                           "llama.block_count", "blk.1.ffn_down.weight", "[64, 96]"})
    EXPECT_THAT(text.output, HasSubstr(part));
  const json parsed = json::parse(run_tokamak({"inspect", chat_model().string(), "--json"}).output);
  EXPECT_EQ(parsed["runnable"], true);
  EXPECT_EQ(parsed["hparams"]["kv_bytes_per_token_f16"], 2 * 2 * (16 + 16) * 2);
  EXPECT_EQ(parsed["tensors"].size(), 21u);
  uint64_t n_bytes = 0;
  for (const json& tensor : parsed["tensors"]) n_bytes += tensor["n_bytes"].get<uint64_t>();
  EXPECT_EQ(parsed["types"]["F32"]["n_bytes"], n_bytes);
}

TEST(Commands, CheckTensorsFindsABadValue) {
  const auto path = scratch_folder() / "nan.gguf";
  std::string bytes = read_whole_file(chat_model());
  const json parsed = json::parse(run_tokamak({"inspect", chat_model().string(), "--json"}).output);
  for (const json& tensor : parsed["tensors"])
    if (tensor["name"] == "blk.0.attn_q.weight")
      bytes.replace(tensor["offset"].get<size_t>() + (5 * 64 + 7) * 4, 4, std::string("\0\0\xc0\x7f", 4));
  write_whole_file(path, bytes);
  const std::string reason = "tensor blk.0.attn_q.weight (F32), row 5, block 7";
  EXPECT_EQ(run_tokamak({"inspect", path.string()}).status, 0);
  const RunResult inspected = run_tokamak({"inspect", path.string(), "--check-tensors"});
  EXPECT_EQ(inspected.status, 1);
  EXPECT_THAT(inspected.output, HasSubstr("cannot be run: " + reason));
  for (const char* command : {"run", "bench", "explain"}) {
    const RunResult refused = run_tokamak({command, path.string(), "--check-tensors"}, {.input = "x"});
    EXPECT_EQ(refused.status, 5) << command;
    EXPECT_EQ(refused.output, "");
    EXPECT_THAT(refused.talk, HasSubstr(reason));
  }
  EXPECT_EQ(run_tokamak({"inspect", chat_model().string(), "--check-tensors"}).status, 0);
}

TEST(Commands, InspectKnowsEveryTypeAndExplainsRefusals) {
  const RunResult text = run_tokamak({"inspect", all_types_file().string()});
  EXPECT_EQ(text.status, 0) << text.talk;
  EXPECT_THAT(text.output, HasSubstr("cannot be run: "));
  EXPECT_THAT(text.output, HasSubstr("mystery"));
  const json parsed = json::parse(run_tokamak({"inspect", all_types_file().string(), "--json"}).output);
  EXPECT_EQ(parsed["runnable"], false);
  EXPECT_THAT(parsed["reason"].get<std::string>(), HasSubstr("mystery"));
  EXPECT_GE(parsed["types"].size(), 33u);
  EXPECT_EQ(parsed["types"].size(), parsed["tensors"].size());
}

TEST(Commands, TokenizeGoesBothWays) {
  const std::string model = chat_model().string();
  EXPECT_EQ(run_tokamak({"tokenize", model, "Hi \xc3\xbc"}).output, "72 105 32 195 188\n");
  EXPECT_EQ(run_tokamak({"tokenize", model}, {.input = "a\nb"}).output, "97 10 98\n");
  EXPECT_EQ(run_tokamak({"tokenize", model, "-p", "a</s>"}).output, "97 257\n");
  EXPECT_EQ(run_tokamak({"tokenize", model, "-p", "</s>", "--no-parse-special"}).output, "60 47 115 62\n");
  EXPECT_EQ(run_tokamak({"tokenize", model, "--ids", "[72, 105 32,195,188]"}).output, "Hi \xc3\xbc");
  EXPECT_EQ(run_tokamak({"tokenize", model, "--ids", "-"}, {.input = "104 105\n"}).output, "hi");
  const json parsed = json::parse(run_tokamak({"tokenize", model, "--json", "-p", "a</s>"}).output);
  EXPECT_EQ(parsed["n_tokens"], 2);
  EXPECT_EQ(parsed["tokens"][1]["control"], true);
}

TEST(Commands, BenchMeasures) {
  const RunResult result =
      run_tokamak({"bench", chat_model().string(), "-p", "40", "-n", "5", "-r", "2", "-d", "10", "--json", "-t", "1"});
  ASSERT_EQ(result.status, 0) << result.talk;
  const json parsed = json::parse(result.output);
  ASSERT_EQ(parsed["tests"].size(), 2u);
  for (const json& test : parsed["tests"]) {
    EXPECT_EQ(test["seconds"].size(), 2u);
    const json& speed = test["tokens_per_second"];
    EXPECT_GT(speed["min"].get<double>(), 0);
    EXPECT_LE(speed["min"].get<double>(), speed["median"].get<double>());
    EXPECT_LE(speed["median"].get<double>(), speed["max"].get<double>());
  }
  EXPECT_EQ(parsed["threads"], 1);
  EXPECT_EQ(parsed["depth"], 10);
  EXPECT_GT(parsed["peak_memory_bytes"].get<uint64_t>(), 1000000u);
  const RunResult text = run_tokamak({"bench", chat_model().string(), "-p", "8", "-n", "0", "-r", "1"});
  EXPECT_THAT(text.output, HasSubstr("prefill 8"));
  EXPECT_THAT(text.output, Not(HasSubstr("decode")));
}

TEST(Commands, ExplainNamesKernels) {
  const std::vector<std::string> arguments = {"explain", chat_model().string(), "-b", "8", "-r", "1", "-t", "1"};
  const RunResult text = run_tokamak(arguments);
  ASSERT_EQ(text.status, 0) << text.talk;
  for (const char* part : {"limits of this machine", "decode of 1 token", "prefill of 8 tokens", "MUL_MAT", "gemm_f32",
                           "blk.*.attn_q", "by op"})
    EXPECT_THAT(text.output, HasSubstr(part));
  std::vector<std::string> as_json = arguments;
  as_json.push_back("--json");
  const json parsed = json::parse(run_tokamak(as_json).output);
  ASSERT_EQ(parsed["phases"].size(), 2u);
  for (const json& phase : parsed["phases"]) {
    EXPECT_GT(phase["steps"].size(), 10u);
    for (const json& step : phase["steps"]) EXPECT_GT(step["seconds"].get<double>(), 0) << step.dump();
  }
}

// The reference matches groups too and runs their nodes one by one.
TEST(Commands, ExplainTellsGroupsThatAStepRunsFromOthers) {
  const auto phases = [](const char* backend) {
    const RunResult result = run_tokamak(
        {"explain", chat_model().string(), "--backend", backend, "-t", "1", "-b", "8", "-r", "1", "--json"});
    EXPECT_EQ(result.status, 0) << result.talk;
    return json::parse(result.output)["phases"];
  };
  for (const json& phase : phases("cpu")) {
    EXPECT_FALSE(phase["fusion"].empty());
    EXPECT_TRUE(phase["not_fused"].empty()) << phase["not_fused"];
  }
  for (const json& phase : phases("reference")) {
    EXPECT_EQ(phase["not_fused"], phase["fusion"]);
    EXPECT_GT(phase["not_fused"]["RMS_NORM+MUL"].get<int>(), 0);
  }
}

TEST(Commands, DumpedGraphsParse) {
  for (const char* command : {"run", "explain"})
    for (const char* pass : {"build", "after:simplify", "after:fuse"}) {
      const RunResult result = run_tokamak({command, chat_model().string(), "--dump-ir", pass});
      ASSERT_EQ(result.status, 0) << result.talk;
      const auto graph = ir::parse_text(result.output);
      ASSERT_TRUE(graph) << graph.error().message();
      EXPECT_EQ(graph->groups.empty(), std::string(pass) != "after:fuse");
    }
}

}  // namespace
}  // namespace tokamak::test

// run with a prompt: what is printed, where, and why it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/chat_model_helpers.h"
#include "cli/process_helpers.h"

namespace tokamak::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<std::string> greedy(std::vector<std::string> more) {
  std::vector<std::string> out = {"run", chat_model().string(), "--temp", "0", "-n", "12"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST(Run, PromptsFromEverywhereAreAlike) {
  const RunResult flag = run_tokamak(greedy({"-p", "hello"}));
  ASSERT_EQ(flag.status, 0) << flag.talk;
  EXPECT_THAT(flag.output, testing::MatchesRegex("[a-z]{12}\n"));
  EXPECT_EQ(flag.talk, "");
  const auto file = scratch_folder() / "prompt.txt";
  write_whole_file(file, "hello");
  EXPECT_EQ(run_tokamak(greedy({"-f", file.string()})).output, flag.output);
  EXPECT_EQ(run_tokamak(greedy({"-f", "-"}), {.input = "hello"}).output, flag.output);
  EXPECT_EQ(run_tokamak(greedy({}), {.input = "hello"}).output, flag.output);
}

TEST(Run, AnswersDoNotDependOnHowTheyAreComputed) {
  const std::string expected = run_tokamak(greedy({"-p", "a longer prompt of some words"})).output;
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"-t", "1"}, {"-t", "3"}, {"-b", "7"}, {"--page-size", "16"}, {"--isa", "scalar"}, {"--no-fusion"}}) {
    std::vector<std::string> words = {"-p", "a longer prompt of some words"};
    words.insert(words.end(), flags.begin(), flags.end());
    EXPECT_EQ(run_tokamak(greedy(words)).output, expected) << flags[0];
  }
}

// Heads are too narrow for blocks of Q8_0.
TEST(Run, EveryCacheTypeOfEveryBackendAnswers) {
  for (const char* backend : {"cpu", "reference"})
    for (const char* type : {"f16", "f32", "bf16", "f8_e4m3"}) {
      const RunResult result = run_tokamak(greedy({"-p", "hello", "--backend", backend, "--cache-type", type}));
      EXPECT_EQ(result.status, 0) << result.talk;
      EXPECT_THAT(result.output, testing::MatchesRegex("[a-z]{12}\n")) << backend << " " << type;
    }
  expect_refusal({"run", chat_model().string(), "-p", "hello", "--cache-type", "fp8"}, 2, "f8_e4m3");
}

TEST(Run, JsonTellsEverything) {
  const RunResult result =
      run_tokamak({"run", chat_model().string(), "-p", "hello", "-n", "9", "--seed", "5", "--json"});
  ASSERT_EQ(result.status, 0) << result.talk;
  const json parsed = json::parse(result.output);
  EXPECT_EQ(parsed["tokens"].size(), 9u);
  EXPECT_EQ(parsed["text"].get<std::string>().size(), 9u);
  EXPECT_EQ(parsed["finish_reason"], "length");
  EXPECT_EQ(parsed["seed"], 5);
  EXPECT_EQ(parsed["timings"]["n_prompt"], std::string("<user>hello\n<assistant>").size());
  const RunResult again =
      run_tokamak({"run", chat_model().string(), "-p", "hello", "-n", "9", "--seed", "5", "--json"});
  EXPECT_EQ(json::parse(again.output)["text"], parsed["text"]);
}

TEST(Run, StopStringsEndTheAnswer) {
  const std::string all = run_tokamak(greedy({"-p", "hello"})).output;
  const std::string stop = all.substr(4, 2);
  const RunResult result = run_tokamak(greedy({"-p", "hello", "--stop", stop, "--json"}));
  const json parsed = json::parse(result.output);
  EXPECT_EQ(parsed["finish_reason"], "stop_string");
  EXPECT_EQ(parsed["stop"], stop);
  EXPECT_EQ(parsed["text"], all.substr(0, all.find(stop)));
}

TEST(Run, RawCompletesTheTextItself) {
  const json parsed = json::parse(run_tokamak(greedy({"-p", "hello", "--raw", "--json"})).output);
  EXPECT_EQ(parsed["timings"]["n_prompt"], 5);
  const std::string model = chat_model({.chat_template = ""}).string();
  const RunResult result = run_tokamak({"run", model, "-p", "hello", "-n", "3", "--temp", "0", "--json"});
  EXPECT_THAT(result.talk, HasSubstr("no chat template"));
  EXPECT_EQ(json::parse(result.output)["timings"]["n_prompt"], 5);
  const RunResult named = run_tokamak({"run", model, "-p", "hello", "-n", "3", "--chat-template", "chatml", "--json"});
  EXPECT_EQ(named.talk, "");
  EXPECT_GT(json::parse(named.output)["timings"]["n_prompt"], 20);
}

TEST(Run, SystemMessageReachesTheTemplate) {
  const json parsed = json::parse(run_tokamak(greedy({"-p", "a", "-sys", "b", "--json"})).output);
  EXPECT_EQ(parsed["timings"]["n_prompt"], std::string("<system>b\n<user>a\n<assistant>").size());
}

TEST(Run, ThoughtsAreKeptApart) {
  const std::string opens = "{{ messages[0].content }}<think>\n";
  const json parsed = json::parse(run_tokamak(greedy({"-p", "a", "--chat-template", opens, "--json"})).output);
  EXPECT_EQ(parsed["text"], "");
  EXPECT_EQ(parsed["reasoning"].get<std::string>().size(), 12u);
  EXPECT_EQ(run_tokamak(greedy({"-p", "a", "--chat-template", opens})).output, "");
}

TEST(Run, FullContext) {
  const RunResult refused = run_tokamak(greedy({"-p", std::string(100, 'x'), "-c", "64"}));
  EXPECT_EQ(refused.status, 8);
  EXPECT_EQ(refused.output, "");
  EXPECT_THAT(refused.talk, HasSubstr("do not fit into the context of 64"));
  const RunResult cut = run_tokamak({"run", chat_model().string(), "-p", "x", "-c", "32", "--temp", "0"});
  EXPECT_EQ(cut.status, 0);
  EXPECT_THAT(cut.talk, HasSubstr("the context of 32 tokens is full"));
}

TEST(Run, InterruptEndsTheAnswer) {
  const RunResult result =
      run_tokamak({"run", chat_model().string(), "-p", "x", "-c", "300000", "--ignore-eos", "-t", "1"},
                  {.interrupt_after_output = true});
  EXPECT_EQ(result.status, 130);
  EXPECT_LT(result.output.size(), 250000u);
  EXPECT_EQ(result.output.back(), '\n');
}

}  // namespace
}  // namespace tokamak::test

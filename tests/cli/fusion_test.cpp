#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/process_helpers.h"

namespace tokamak::test {
namespace {

namespace fs = std::filesystem;

// A folder with a dense and an expert model of one family.
const fs::path& models() {
  static const fs::path folder = [] {
    fs::path path = scratch_folder() / "fusion-models";
    fs::create_directories(path);
    EXPECT_EQ(run_tokamak({"synth", "granite", (path / "granite-dense.gguf").string(), "--dense"}).status, 0);
    EXPECT_EQ(run_tokamak({"synth", "granite", (path / "granite-moe.gguf").string(), "--moe"}).status, 0);
    return path;
  }();
  return folder;
}

const std::string& baseline() {
  static const std::string path = [] {
    std::string file = (scratch_folder() / "fusion.csv").string();
    const RunResult recorded = run_tokamak({"fusion", "--models", models().string(), "--record", file});
    EXPECT_EQ(recorded.status, 0) << recorded.output << recorded.talk;
    return file;
  }();
  return path;
}

RunResult check(const std::string& csv) {
  const std::string file = (scratch_folder() / "changed.csv").string();
  write_whole_file(file, csv);
  return run_tokamak({"fusion", "--models", models().string(), "--check", file});
}

void expect_failure(const std::string& csv, const std::string& part) {
  const RunResult result = check(csv);
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.output.find("FAILED"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find(part), std::string::npos) << result.output;
}

TEST(FusionCommand, RecordedCountsAreConfirmed) {
  const RunResult result = run_tokamak({"fusion", "--models", models().string(), "--check", baseline(), "-t", "1"});
  EXPECT_EQ(result.status, 0) << result.output << result.talk;
  EXPECT_NE(result.output.find("2 models"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find(" 0 failures"), std::string::npos) << result.output;
  const std::string csv = read_whole_file(baseline());
  EXPECT_NE(csv.find("granite-dense       , 0   , any     , RMS_NORM+MUL"), std::string::npos) << csv;
  EXPECT_NE(csv.find("granite-moe         , 1   , any     , RMS_NORM+MUL"), std::string::npos) << csv;
}

TEST(FusionCommand, EveryKindOfDifferenceFails) {
  const std::string csv = read_whole_file(baseline());
  expect_failure(csv + "granite-moe, 1, any, ADD+ADD+ADD, 2\n", "ADD+ADD+ADD: did not fire");
  expect_failure(csv + "gone, 0, any, ADD+ADD, 2\n", "gone (moe 0), any, ADD+ADD: did not fire");
  const size_t row = csv.find("granite-dense "), end = csv.find('\n', row);
  expect_failure(csv.substr(0, row) + csv.substr(end + 1), "the baseline has no such row");
  std::string changed = csv;
  changed[end - 1] = changed[end - 1] == '9' ? '8' : '9';
  expect_failure(changed, "per graph, the baseline has");
}

TEST(FusionCommand, OneModelIsComparedWithItsRowsOnly) {
  const RunResult result =
      run_tokamak({"fusion", "--model", (models() / "granite-moe.gguf").string(), "--check", baseline(), "--json"});
  ASSERT_EQ(result.status, 0) << result.output << result.talk;
  const auto json = nlohmann::json::parse(result.output);
  ASSERT_EQ(json["models"].size(), 1u);
  EXPECT_EQ(json["models"][0]["arch"], "granite");
  EXPECT_EQ(json["models"][0]["moe"], true);
  EXPECT_LE(json["models"][0]["errors"]["prefill"]["nmse_to_reference"].get<double>(), 1e-4);
  EXPECT_TRUE(json["failures"].empty());
}

TEST(FusionCommand, AMissingDevice) {
  const std::string folder = models().string();
  expect_refusal({"fusion", "--models", folder, "--device", "abacus"}, 2, "no such device");
  const RunResult skipped = run_tokamak({"fusion", "--models", folder, "--device", "abacus", "--skip-missing"});
  EXPECT_EQ(skipped.status, 0);
  EXPECT_NE(skipped.talk.find("skipped"), std::string::npos) << skipped.talk;
}

TEST(FusionCommand, Structure) {
  const std::string file = (scratch_folder() / "structure.csv").string();
  const auto run = [&](const std::string& csv) {
    write_whole_file(file, csv);
    return run_tokamak({"fusion", "--models", models().string(), "--structural", "--check", file});
  };
  const RunResult good = run("granite-dense, R5,,\ngranite-moe, A2x2 R5, R5, a reason, with a comma\n");
  EXPECT_EQ(good.status, 0) << good.output;
  EXPECT_NE(good.output.find("| `granite-moe` | R5 | A2x2 R5 | a reason, with a comma |"), std::string::npos)
      << good.output;
  EXPECT_EQ(run("granite-dense, R5,,\ngranite-moe, R9,,\n").status, 1);
  EXPECT_EQ(run("granite-dense, R5,,\ngranite-moe, R9, R5,\n").status, 1);  // no reason
  EXPECT_EQ(run("granite-dense, R5,,\n").status, 1);
  EXPECT_EQ(run("granite-dense, R5,,\ngranite-moe, R5,,\ngone, R5,,\n").status, 1);
}

TEST(FusionCommand, Refusals) {
  const std::string folder = models().string();
  expect_refusal({"fusion"}, 2, "needs one of --model and --models");
  expect_refusal({"fusion", "--model", "a", "--models", "b"}, 2, "needs one of --model and --models");
  expect_refusal({"fusion", "--models", folder, "--check", "a", "--record", "b"}, 2, "exclude each other");
  expect_refusal({"fusion", "x", "--models", folder}, 2, "does not know what x is");
  const auto empty = scratch_folder() / "no-models";
  fs::create_directories(empty);
  expect_refusal({"fusion", "--models", empty.string()}, 3, "holds no .gguf file");
  expect_refusal({"fusion", "--models", folder, "--check", (empty / "x.csv").string()}, 3, "x.csv");
}

}  // namespace
}  // namespace tokamak::test

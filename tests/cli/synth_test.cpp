#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/process_helpers.h"
#include "gguf/gguf.h"

namespace tokamak::test {
namespace {

TEST(SynthCommand, WritesOneModel) {
  const auto path = scratch_folder() / "qwen3moe.gguf";
  const RunResult made = run_tokamak({"synth", "qwen3moe", path.string(), "--type", "Q8_0"});
  ASSERT_EQ(made.status, 0) << made.talk;
  EXPECT_EQ(made.output, "");
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(*file->architecture(), "qwen3moe");
  EXPECT_EQ(file->find_tensor("blk.0.ffn_up_exps.weight")->type, DType::q8_0);
}

TEST(SynthCommand, SameSeedSameBytes) {
  const auto write = [](const char* name, const char* seed) {
    const auto path = scratch_folder() / name;
    EXPECT_EQ(run_tokamak({"synth", "gemma", path.string(), "--seed", seed}).status, 0);
    return read_whole_file(path);
  };
  const std::string first = write("a.gguf", "5");
  EXPECT_TRUE(first == write("b.gguf", "5"));
  EXPECT_FALSE(first == write("c.gguf", "6"));
}

TEST(SynthCommand, AllOfAKindIntoAFolder) {
  const auto folder = scratch_folder() / "dummies";
  const RunResult made = run_tokamak({"synth", "--all", folder.string(), "--moe", "--type", "F16", "--json"});
  ASSERT_EQ(made.status, 0) << made.talk;
  const auto files = nlohmann::json::parse(made.output)["files"];
  EXPECT_GT(files.size(), 10u);
  EXPECT_TRUE(std::filesystem::exists(folder / "llama-moe.gguf"));
  EXPECT_FALSE(std::filesystem::exists(folder / "llama-dense.gguf"));
  std::filesystem::remove_all(folder);
}

TEST(SynthCommand, Refusals) {
  const std::string out = (scratch_folder() / "refused.gguf").string();
  expect_refusal({"synth", "lama", out}, 2, "did you mean llama?");
  expect_refusal({"synth", "llama-8c", out}, 2, "did you mean llama-8b?");
  expect_refusal({"synth", "llama"}, 2, "needs a family and an output file");
  expect_refusal({"synth", "gemma", out, "--moe"}, 2, "no model with experts");
  expect_refusal({"synth", "olmoe", out, "--dense"}, 2, "has experts always");
  expect_refusal({"synth", "llama", out, "--type", "Q9_9"}, 2, "no such tensor type");
  expect_refusal({"synth", "llama", out, "--all", "x"}, 2, "none can be named");
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace tokamak::test

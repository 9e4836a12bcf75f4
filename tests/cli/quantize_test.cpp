// quantize, split and merge as a user runs them: results, refusals, and that nothing is left half written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/process_helpers.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"

namespace tokamak::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Model {
  int64_t n_rows = 64, n_layer = 2;
  bool has_nan = false;
};

// Weights of a llama without a tokenizer, in F16.
std::string write_weights(const std::string& name, const Model& model = {}) {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("llama.block_count", static_cast<uint32_t>(model.n_layer));
  std::vector<std::vector<uint16_t>> data;
  data.reserve(static_cast<size_t>(model.n_layer) + 1);
  const auto add = [&](const std::string& tensor_name, const Shape& shape) {
    auto& values = data.emplace_back(static_cast<size_t>(shape.n_elements()));
    for (size_t i = 0; i < values.size(); ++i)  // halves from 1 to 2, either sign
      values[i] = static_cast<uint16_t>(0x3C00 + i * 37 % 1024 + (i * 7 % 3 == 0 ? 0x8000 : 0));
    if (model.has_nan) values[5 * 256 + 1] = 0x7E00;
    writer.add_tensor(tensor_name, DType::f16, shape, std::as_bytes(std::span(values)));
  };
  add("token_embd.weight", Shape{64, 256});
  for (int64_t i = 0; i < model.n_layer; ++i)
    add("blk." + std::to_string(i) + ".attn_q.weight", Shape{model.n_rows, 256});
  const auto path = scratch_folder() / name;
  EXPECT_TRUE(writer.write(path));
  return path.string();
}

std::string out_path(const std::string& name) { return (scratch_folder() / name).string(); }

// Names in the scratch folder that begin with `name`.
std::vector<std::string> files_like(const std::string& name) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_folder()))
    if (const std::string file = entry.path().filename().string(); file.starts_with(name)) out.push_back(file);
  std::ranges::sort(out);
  return out;
}

TEST(QuantizeCommand, WritesTheModelAndSaysItsSize) {
  const std::string in = write_weights("in.gguf"), out = out_path("out.gguf");
  const RunResult result = run_tokamak({"quantize", in, out, "Q8_0"});
  EXPECT_EQ(result.status, 0) << result.talk;
  EXPECT_THAT(result.output, HasSubstr("8.50 bits each"));
  const auto file = GgufFile::open(out);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->find_tensor("blk.1.attn_q.weight")->type, DType::q8_0);
  EXPECT_EQ(*file->get_u64("general.file_type"), 7u);
}

TEST(QuantizeCommand, DryRunPrintsThePlanAndWritesNothing) {
  const std::string in = write_weights("dry.gguf");
  const RunResult result = run_tokamak({"quantize", in, "Q4_K_M", "--dry-run"});
  EXPECT_EQ(result.status, 0) << result.talk;
  EXPECT_THAT(result.output, HasSubstr("blk.0.attn_q.weight"));
  EXPECT_THAT(result.output, HasSubstr("Q4_K"));
  EXPECT_THAT(result.output, HasSubstr("would write"));
  const RunResult as_json = run_tokamak({"quantize", in, out_path("dry_out.gguf"), "Q4_K_M", "--dry-run", "--json"});
  const json plan = json::parse(as_json.output);
  EXPECT_EQ(plan["written"], false);
  EXPECT_EQ(plan["tensors"][0]["to"], "Q6_K");  // the embedding is the output matrix
  EXPECT_THAT(files_like("dry_out"), IsEmpty());
}

TEST(QuantizeCommand, FlagsReachThePlan) {
  const std::string in = write_weights("flags.gguf");
  write_whole_file(scratch_folder() / "rules.txt", "blk\\.1=Q5_0\n blk=Q4_1\n");
  const RunResult result = run_tokamak({"quantize", in, "Q8_0", "--dry-run", "--json", "--token-embedding-type", "f16",
                                        "--tensor-type", "blk\\.0=Q6_K", "--tensor-type-file", out_path("rules.txt")});
  const json plan = json::parse(result.output);
  EXPECT_EQ(plan["tensors"][0]["to"], "F16");
  EXPECT_EQ(plan["tensors"][1]["to"], "Q6_K");
  EXPECT_EQ(plan["tensors"][2]["to"], "Q5_0");
  const RunResult bits = run_tokamak({"quantize", in, "--target-bpw", "6", "--dry-run", "--json"});
  EXPECT_LE(json::parse(bits.output)["bits_per_weight"], 6.0) << bits.talk;
}

TEST(QuantizeCommand, TargetBitsNeedNoImatrixWhereTypesDoNot) {
  const std::string in = write_weights("bits.gguf"), out = out_path("bits_out.gguf");
  const RunResult result = run_tokamak({"quantize", in, out, "--target-bpw", "4", "--tensor-type", "attn_q=Q2_K"});
  ASSERT_EQ(result.status, 0) << result.talk;
  const auto file = GgufFile::open(out);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->find_tensor("blk.1.attn_q.weight")->type, DType::q2_k);
  EXPECT_EQ(*file->get_u64("general.file_type"), 10u);  // Q2_K, not Q2_K_S
}

TEST(QuantizeCommand, BadInputIsOneLineAndTheRightStatus) {
  const std::string in = write_weights("bad.gguf"), out = out_path("bad_out.gguf");
  expect_refusal({"quantize"}, 2, "needs a model, an output file and a type");
  expect_refusal({"quantize", in, out}, 2, "not 2 words");
  expect_refusal({"quantize", in, out, "Q4_KM"}, 2, "did you mean Q4_K_M?");
  expect_refusal({"quantize", out_path("none.gguf"), out, "Q8_0"}, 3, "no such file");
  expect_refusal({"quantize", in, in, "Q8_0"}, 2, "the output is the input file");
  expect_refusal({"quantize", in, "/dev/full", "Q8_0"}, 2, "is not a regular file");
  expect_refusal({"quantize", in, out_path("no/such/folder.gguf"), "Q8_0"}, 3, "the folder does not exist");
  expect_refusal({"quantize", in, out, "IQ2_XS"}, 2, "needs an importance matrix");
  expect_refusal({"quantize", in, out, "Q8_0", "--imatrix", in}, 5, "is no importance matrix");
  expect_refusal({"quantize", in, out, "Q8_0", "--imatrix", ""}, 2, "the value is empty");
  expect_refusal({"quantize", in, out, ""}, 2, "an argument is empty");
  const std::string rules = out_path("rules.txt");
  write_whole_file(rules, "attn_q=Q8_0\n");
  expect_refusal({"quantize", in, rules, "Q8_0", "--tensor-type-file", rules}, 2, "a file that this command reads");
  EXPECT_EQ(read_whole_file(rules), "attn_q=Q8_0\n");
  expect_refusal({"quantize", in, out, "Q8_0", "--tensor-type", "x"}, 2, "must be REGEX=TYPE");
  expect_refusal({"quantize", in, out, "Q8_0", "--prune-layers", "1,x"}, 2, "--prune-layers 1,x");
  expect_refusal({"quantize", in, out, "Q8_0", "--override-kv", "x"}, 2, "must be KEY=TYPE:VALUE");
  expect_refusal({"quantize", in, out, "--target-bpw", "0.5"}, 2, "the smallest types");
  expect_refusal({"quantize", in, out, "--target-bpw", "0"}, 2, "not 2 words");
  expect_refusal({"quantize", in, out, "Q8_0", "--include-weights", "a", "--exclude-weights", "b"}, 2, "exclude each");
  EXPECT_THAT(files_like("bad_out"), IsEmpty());
}

// 3e38 as BF16 does not fit into F16: no infinity is written.
TEST(QuantizeCommand, ValuesBeyondF16AreRefused) {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("llama.block_count", uint32_t{1});
  std::vector<uint16_t> values(64 * 256, 0x3F80);
  values[3 * 256] = 0x7F62;
  writer.add_tensor("token_embd.weight", DType::bf16, Shape{64, 256}, std::as_bytes(std::span(values)));
  const std::string in = out_path("large.gguf"), out = out_path("large_out.gguf");
  ASSERT_TRUE(writer.write(in));
  expect_refusal({"quantize", in, out, "F16", "--pure"}, 5, "tensor token_embd.weight, row 3");
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(QuantizeCommand, RequantizingMustBeAllowed) {
  const std::string in = write_weights("twice.gguf"), once = out_path("once.gguf"), out = out_path("twice_out.gguf");
  ASSERT_EQ(run_tokamak({"quantize", in, once, "Q8_0"}).status, 0);
  expect_refusal({"quantize", once, out, "Q4_0"}, 7, "is quantized already (Q8_0)");
  EXPECT_EQ(run_tokamak({"quantize", once, out, "Q4_0", "--allow-requantize"}).status, 0);
}

TEST(QuantizeCommand, NanWeightsAreNamedWithTensorAndRow) {
  const std::string in = write_weights("nan.gguf", {.has_nan = true});
  for (const char* type : {"Q8_0", "COPY", "NVFP4", "F16", "F32", "BF16"}) {
    expect_refusal({"quantize", in, out_path("nan_out.gguf"), type}, 5, "token_embd.weight");
    EXPECT_THAT(run_tokamak({"quantize", in, out_path("nan_out.gguf"), type}).talk, HasSubstr("row 5"));
  }
  EXPECT_THAT(files_like("nan_out"), IsEmpty());
}

TEST(QuantizeCommand, AFullDiskLeavesTheOldFile) {
  const std::string in = write_weights("full.gguf", {.n_rows = 4096});
  write_whole_file(scratch_folder() / "full_out.gguf", "old");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"quantize", in, out_path("full_out.gguf"), "Q8_0"},
        {"merge", in, out_path("full_out.gguf")}}) {
    Terminal terminal(words, 100000);
    EXPECT_EQ(terminal.wait_for_end(), 4) << terminal.screen();
    EXPECT_THAT(terminal.screen(), HasSubstr("no space left"));
    EXPECT_EQ(read_whole_file(scratch_folder() / "full_out.gguf"), "old");
    EXPECT_THAT(files_like("full_out"), testing::ElementsAre("full_out.gguf"));
  }
}

TEST(QuantizeCommand, InterruptLeavesNoFile) {
  const std::string in = write_weights("long.gguf", {.n_rows = 16384, .n_layer = 12});  // some seconds of IQ4_XS
  Terminal terminal({"quantize", in, out_path("long_out.gguf"), "IQ4_XS", "-t", "1"});
  ASSERT_TRUE(terminal.wait_for("quantizing")) << terminal.screen();
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait_for_end(), 130) << terminal.screen();
  EXPECT_THAT(files_like("long_out"), IsEmpty());
}

TEST(SplitCommand, SplitAndMergedIsTheSameFile) {
  const std::string in = write_weights("round.gguf"), merged = out_path("merged.gguf");
  const RunResult dry = run_tokamak({"split", in, out_path("part"), "--split-max-tensors", "2", "--dry-run"});
  EXPECT_THAT(dry.output, HasSubstr("part-00002-of-00002.gguf"));
  EXPECT_THAT(files_like("part"), IsEmpty());
  ASSERT_EQ(run_tokamak({"split", in, out_path("part"), "--split-max-tensors", "2"}).status, 0);
  EXPECT_EQ(files_like("part").size(), 2u);
  ASSERT_EQ(run_tokamak({"merge", out_path("part-00002-of-00002.gguf"), merged}).status, 0);
  EXPECT_EQ(read_whole_file(merged), read_whole_file(in));
  expect_refusal({"merge", out_path("part-00001-of-00002.gguf"), out_path("part-00002-of-00002.gguf")}, 2,
                 "the output is the input file");
  const std::string second = read_whole_file(out_path("part-00002-of-00002.gguf"));
  expect_refusal({"quantize", out_path("part-00001-of-00002.gguf"), out_path("part.gguf"), "Q8_0", "--keep-split"}, 2,
                 "the output is the input file");
  EXPECT_EQ(read_whole_file(out_path("part-00002-of-00002.gguf")), second);
  std::filesystem::remove(out_path("part-00001-of-00002.gguf"));
  expect_refusal({"merge", out_path("part-00002-of-00002.gguf"), merged}, 3, "part 1 of 2 of the model is missing");
}

TEST(SplitCommand, BadInputIsOneLine) {
  const std::string in = write_weights("split_bad.gguf");
  expect_refusal({"split", in}, 2, "needs an input and an output");
  expect_refusal({"merge", in}, 2, "tokamak merge: needs an input and an output");
  for (const char* size : {"3", "3T", "0M", "M", "-1G", "1.5G"})
    expect_refusal({"split", in, out_path("x"), "--split-max-size", size}, 2, "must be a whole number and M or G");
  EXPECT_THAT(files_like("x"), IsEmpty());
}

}  // namespace
}  // namespace tokamak::test

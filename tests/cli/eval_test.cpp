// imatrix and eval as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/chat_model_helpers.h"
#include "cli/process_helpers.h"
#include "gguf/gguf.h"

namespace tokamak::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// n bytes, and as many tokens of the tiny model.
std::string text_file(size_t n, const std::string& name) {
  std::string text;
  for (size_t i = 0; text.size() < n; ++i) text += "line " + std::to_string(i * i % 9973) + " of some text\n";
  text.resize(n);
  const auto path = scratch_folder() / name;
  write_whole_file(path, text);
  return path.string();
}
std::string scratch(const std::string& name) { return (scratch_folder() / name).string(); }

json run_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const RunResult result = run_tokamak(arguments);
  EXPECT_EQ(result.status, 0) << result.talk;
  return json::parse(result.output, nullptr, false);
}

TEST(EvalCommand, PerplexityAsTextAndJson) {
  const std::string model = chat_model().string(), text = text_file(1200, "eval.txt");
  const RunResult plain = run_tokamak({"eval", model, "-f", text});
  EXPECT_EQ(plain.status, 0) << plain.talk;
  EXPECT_THAT(plain.output, HasSubstr("tiny chat, 2 chunks of 512 tokens, 510 scored"));
  EXPECT_THAT(plain.output, testing::ContainsRegex("perplexity  [0-9.]+ ± [0-9.]+"));
  const json got = run_json({"eval", model, "-f", text, "-c", "64", "--chunks", "3"});
  EXPECT_EQ(got["n_chunks"], 3);
  EXPECT_EQ(got["n_scored"], 3 * 31);
  EXPECT_GT(got["perplexity"]["value"], 1);
  EXPECT_NEAR(got["perplexity"]["value"].get<double>(), std::exp(got["nll"]["value"].get<double>()), 1e-9);
}

TEST(EvalCommand, SavedLogitsCompareWithoutAText) {
  const std::string model = chat_model().string(), text = text_file(400, "short.txt"), logits = scratch("logits");
  const json base = run_json({"eval", model, "-f", text, "-c", "64", "--save-logits", logits, "--logits-type", "f32"});
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"-f", text, "--chunk-size=64"}}) {
    std::vector<std::string> arguments = {"eval", model, "--kl-divergence", "--base", logits};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const json got = run_json(arguments);
    EXPECT_EQ(got["perplexity"], base["perplexity"]);
    EXPECT_EQ(got["kl_divergence"]["value"], 0);
    EXPECT_EQ(got["same_top"]["value"], 1);
    EXPECT_EQ(got["perplexity_ratio"]["value"], 1);
  }
  EXPECT_THAT(run_tokamak({"eval", model, "--base", logits}).output, HasSubstr("same top token"));

  expect_refusal({"eval", model, "--base", logits, "-f", text_file(900, "other.txt") + "x"}, 3, "other.txtx");
  write_whole_file(scratch_folder() / "other.txt", std::string(400, 'z'));
  expect_refusal({"eval", model, "--base", logits, "-f", scratch("other.txt")}, 2, "another text");
  expect_refusal({"eval", model, "--base", logits, "-c", "32"}, 2, "chunks of 64 tokens");
  expect_refusal({"eval", chat_model({.has_all_bytes = false}).string(), "--base", logits}, 2, "another vocabulary");
  write_whole_file(scratch_folder() / "half", read_whole_file(logits).substr(0, 3000));
  expect_refusal({"eval", model, "--base", scratch("half")}, 5, "truncated");
}

TEST(EvalCommand, RefusalsAreOneLine) {
  const std::string model = chat_model().string(), text = text_file(400, "short.txt");
  expect_refusal({"eval", model}, 2, "give one with -f FILE");
  expect_refusal({"eval", model, "-f", text}, 2, "one chunk takes 512");
  expect_refusal({"eval", model, "-f", "/no/such/text"}, 3, "/no/such/text");
  expect_refusal({"eval", model, "-f", text, "-c", "64", "--kl-divergence"}, 2, "needs --base");
  expect_refusal({"eval", model, "-f", text, "--plot", "x.svg"}, 2, "needs --tensors");
  expect_refusal({"eval", model, "--tensors"}, 2, "needs --base-model");
  expect_refusal({"eval", model, "--tensors", "-f", text, "--base-model", model}, 2, "exclude each other");
  expect_refusal({"eval", model, "--base", model}, 5, "no file of saved logits");
  expect_refusal({"eval", model, "-f", text, "-c", "64", "--save-logits", model}, 2, "the output is the input file");
  expect_refusal({"imatrix", model}, 2, "give one with -f FILE");
  expect_refusal({"imatrix", model, "-f", text, "-c", "64", "-o", model}, 2, "the output is the input file");
  const std::string before = read_whole_file(text);
  expect_refusal({"imatrix", model, "-f", text, "-c", "64", "-o", text}, 2, "a file that this command reads");
  expect_refusal({"eval", model, "-f", text, "-c", "64", "--save-logits", text}, 2, "a file that this command reads");
  EXPECT_EQ(read_whole_file(text), before);
  expect_refusal({"imatrix", model, "-f", text, "-c", "64", "--from-chunk", "9", "-o", scratch("no")}, 2,
                 "only 6 chunks");
  expect_refusal({"imatrix", model, "-f", text, "--in-file", "/no/such/file"}, 3, "/no/such/file");
  expect_refusal({"imatrix", model, "-f", text, "-c", "64", "-o", scratch("no/such/folder")}, 3, "no/such");
}

TEST(EvalCommand, TensorsAsTableJsonAndPlot) {
  const std::string model = chat_model().string(), small = scratch("small.gguf"), plot = scratch("plot.svg");
  ASSERT_EQ(run_tokamak({"quantize", model, small, "Q8_0"}).status, 0);
  const RunResult table = run_tokamak({"eval", small, "--tensors", "--base-model", model, "--plot", plot});
  EXPECT_EQ(table.status, 0) << table.talk;
  EXPECT_THAT(table.output, testing::ContainsRegex("blk.1.attn_q.weight +Q8_0 +8.50 +0\\.[0-9]+ "));
  EXPECT_THAT(read_whole_file(plot), HasSubstr("ffn_down"));
  const json got = run_json({"eval", small, "--tensors", "--base-model", model});
  ASSERT_EQ(got["tensors"].size(), 16u);
  EXPECT_EQ(got["tensors"][0]["base_type"], "F32");
  EXPECT_GT(got["all"]["relative_rmse"], 0);
  EXPECT_LT(got["all"]["relative_rmse"], 0.02);
  expect_refusal({"eval", small, "--tensors", "--base-model", model, "--plot", small}, 2,
                 "the output is the input file");
}

TEST(ImatrixCommand, WritesMergesAndServesQuantizeAndEval) {
  const std::string model = chat_model().string(), text = text_file(700, "imatrix.txt"), whole = scratch("whole.gguf"),
                    first = scratch("first.gguf"), rest = scratch("rest.gguf");
  const json got = run_json({"imatrix", model, "-f", text, "-c", "64", "-o", whole});
  EXPECT_EQ(got["n_matrices"], 14);
  EXPECT_EQ(got["n_chunks"], 10);
  EXPECT_EQ(got["datasets"], json::array({text}));
  ASSERT_EQ(run_tokamak({"imatrix", model, "-f", text, "-c", "64", "--chunks", "4", "-o", first}).status, 0);
  ASSERT_EQ(run_json({"imatrix", model, "-f", text, "-c", "64", "--from-chunk", "4", "--in-file", first, "-o", rest,
                      "--output-frequency", "1"})["n_chunks"],
            10);
  const auto a = GgufFile::open(whole), b = GgufFile::open(rest);
  ASSERT_TRUE(a && b);
  ASSERT_EQ(a->tensors().size(), 28u);
  for (size_t i = 0; i < a->tensors().size(); ++i) {
    const GgufTensor &x = a->tensors()[i], &y = b->tensors()[i];
    ASSERT_EQ(x.name, y.name);
    for (int64_t k = 0; k < x.shape.n_elements(); ++k) {
      const float want = reinterpret_cast<const float*>(x.data.data())[k];
      EXPECT_NEAR(reinterpret_cast<const float*>(y.data.data())[k], want, 0x1p-22 * want) << x.name;
    }
  }
  const json merged = run_json({"imatrix", "--in-file", first, "--in-file", whole, "-o", scratch("merged.gguf")});
  EXPECT_EQ(merged["n_chunks"], 14);
  EXPECT_EQ(merged["datasets"], json::array({text}));
  EXPECT_EQ(run_tokamak({"quantize", model, scratch("iq.gguf"), "Q4_0", "--imatrix", whole}).status, 0);
  const RunResult table =
      run_tokamak({"eval", scratch("iq.gguf"), "--tensors", "--base-model", model, "--imatrix", whole});
  EXPECT_EQ(table.status, 0) << table.talk;
  EXPECT_THAT(table.output, HasSubstr("weighted %"));
  // An imatrix of another model is no start.
  const std::string pruned = scratch("pruned.gguf");
  ASSERT_EQ(run_tokamak({"quantize", model, pruned, "COPY", "--prune-layers", "1"}).status, 0);
  expect_refusal({"imatrix", pruned, "-f", text, "-c", "64", "--in-file", whole, "-o", scratch("mixed.gguf")}, 2,
                 "the model has no tensor blk.1.");
}

TEST(ImatrixCommand, CtrlCSavesWhatIsThere) {
  const std::string out = scratch("stopped.gguf");
  Terminal terminal({"imatrix", chat_model().string(), "-f", text_file(3'000'000, "long.txt"), "-o", out});
  ASSERT_TRUE(terminal.wait_for("measuring [")) << terminal.screen();
  EXPECT_FALSE(std::filesystem::exists(out) && read_whole_file(out).empty());
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait_for_end(), 130) << terminal.screen();
  EXPECT_THAT(terminal.screen(), HasSubstr("what is done was saved"));
  EXPECT_THAT(terminal.screen(), HasSubstr("--from-chunk"));
  const auto file = GgufFile::open(out);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_GE(*file->get_u64("imatrix.chunk_count"), 1u);
}

TEST(EvalCommand, AFullDiskAndCtrlCLeaveNoFile) {
  const std::string model = chat_model().string(), logits = scratch("none.logits");
  Terminal full({"eval", model, "-f", text_file(2000, "full.txt"), "-c", "64", "--save-logits", logits}, 1000);
  EXPECT_EQ(full.wait_for_end(), 4) << full.screen();
  EXPECT_FALSE(std::filesystem::exists(logits));
  Terminal stopped({"eval", model, "-f", text_file(3'000'000, "long.txt"), "--save-logits", logits});
  ASSERT_TRUE(stopped.wait_for("evaluating [")) << stopped.screen();
  stopped.type("\x03");
  EXPECT_EQ(stopped.wait_for_end(), 130) << stopped.screen();
  EXPECT_THAT(stopped.screen(), HasSubstr("perplexity"));
  EXPECT_FALSE(std::filesystem::exists(logits));
}

}  // namespace
}  // namespace tokamak::test

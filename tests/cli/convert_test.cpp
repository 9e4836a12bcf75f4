// tokamak convert, and folders in the place of a model file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/process_helpers.h"

namespace tokamak::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

size_t n_lines(const std::string& text) { return static_cast<size_t>(std::ranges::count(text, '\n')); }

fs::path fixture(const std::string& name) { return fs::path(TOKAMAK_TEST_DATA) / "convert" / name; }

// A copy that may be damaged, in an empty folder of its own.
fs::path copy_of(const std::string& name) {
  static int n_copies = 0;
  const fs::path folder = scratch_folder() / ("checkpoint_" + std::to_string(n_copies++));
  fs::copy(fixture(name), folder, fs::copy_options::recursive);
  for (const auto& entry : fs::directory_iterator(folder))
    fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
  return folder;
}

void replace_in(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = read_whole_file(path);
  const size_t at = text.find(from);
  ASSERT_NE(at, text.npos) << path;
  write_whole_file(path, text.replace(at, from.size(), to));
}

// One line, that status, and an output folder that stays empty.
void expect_refusal(const fs::path& folder, int status, const std::vector<std::string>& parts,
                    std::vector<std::string> flags = {}) {
  static int n_outputs = 0;
  const fs::path out = scratch_folder() / ("out_" + std::to_string(n_outputs++));
  fs::create_directories(out);
  std::vector<std::string> arguments = {"convert", folder.string(), (out / "x.gguf").string()};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const RunResult result = run_tokamak(arguments);
  EXPECT_EQ(result.status, status) << result.talk;
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(n_lines(result.talk), 1u) << result.talk;
  for (const std::string& part : parts) EXPECT_THAT(result.talk, HasSubstr(part));
  EXPECT_TRUE(fs::is_empty(out)) << parts[0];
}

TEST(Convert, WritesAFileThatRuns) {
  const fs::path out = scratch_folder() / "converted.gguf";
  const RunResult converted = run_tokamak({"convert", fixture("llama_smollm").string(), out.string()});
  ASSERT_EQ(converted.status, 0) << converted.talk;
  EXPECT_EQ(converted.output, "");
  EXPECT_THAT(converted.talk, HasSubstr("written (llama, "));
  const RunResult ran = run_tokamak({"run", out.string(), "--raw", "-p", "Hello", "-n", "4", "--json", "--temp", "0"});
  ASSERT_EQ(ran.status, 0) << ran.talk;
  // A folder runs like its conversion, here and from the cache.
  const fs::path cache = scratch_folder() / "cache";
  const RunOptions options{.environment = {{"TOKAMAK_CACHE", cache.string()}}};
  const std::vector<std::string> from_folder = {
      "run", fixture("llama_smollm").string(), "--raw", "-p", "Hello", "-n", "4", "--json", "--temp", "0"};
  const RunResult first = run_tokamak(from_folder, options), second = run_tokamak(from_folder, options);
  ASSERT_EQ(first.status, 0) << first.talk;
  EXPECT_THAT(first.talk, HasSubstr("the next start reads " + cache.string()));
  EXPECT_EQ(second.talk, "");
  const fs::path with_notes = copy_of("llama_smollm");
  write_whole_file(with_notes / "generation_config.json", R"({"eos_token_id": [2, 7, 8, 9]})");
  const RunResult noted = run_tokamak({"inspect", with_notes.string()}, options);
  EXPECT_EQ(noted.status, 0) << noted.talk;
  EXPECT_THAT(noted.talk, HasSubstr("note: generation_config.json names 1 more tokens"));
  EXPECT_EQ(json::parse(first.output)["text"], json::parse(ran.output)["text"]);
  EXPECT_EQ(json::parse(second.output)["text"], json::parse(ran.output)["text"]);
  for (const char* command : {"inspect", "tokenize"}) {
    const RunResult result = run_tokamak({command, fixture("llama_smollm").string()},
                                         {.input = "Hello", .environment = options.environment});
    EXPECT_EQ(result.status, 0) << result.talk;
  }
}

TEST(Convert, DryRunPrintsThePlanAndWritesNothing) {
  const fs::path out = scratch_folder() / "never.gguf";
  const RunResult text = run_tokamak({"convert", fixture("qwen3").string(), out.string(), "--dry-run"});
  ASSERT_EQ(text.status, 0) << text.talk;
  EXPECT_THAT(text.output, HasSubstr("blk.1.attn_q_norm.weight"));
  EXPECT_THAT(text.output, HasSubstr("model.layers.1.self_attn.q_norm.weight"));
  EXPECT_THAT(text.output, HasSubstr("qwen3.rope.freq_base"));
  const RunResult machine =
      run_tokamak({"convert", fixture("qwen3").string(), "--dry-run", "--json", "--outtype", "f32"});
  ASSERT_EQ(machine.status, 0) << machine.talk;
  const json plan = json::parse(machine.output);
  uint64_t n_bytes = 0;
  for (const json& tensor : plan["tensors"]) n_bytes += tensor["n_bytes"].get<uint64_t>();
  EXPECT_EQ(plan["n_bytes"].get<uint64_t>(), n_bytes);
  EXPECT_FALSE(fs::exists(out));
}

TEST(Convert, BadInputsAreOneLine) {
  fs::path folder = copy_of("llama_spm");
  fs::remove(folder / "model-00003-of-00006.safetensors");
  expect_refusal(folder, 3, {"model-00003-of-00006.safetensors", "missing"});
  folder = copy_of("llama_spm");
  fs::resize_file(folder / "model-00005-of-00006.safetensors", 50'000);
  expect_refusal(folder, 5, {"model-00005-of-00006.safetensors: tensor '", "cut short"});
  folder = copy_of("llama_smollm");
  replace_in(folder / "model.safetensors", "\"F32\"", "\"F99\"");
  expect_refusal(folder, 7, {"model.safetensors: tensor '", "F99"});
  folder = copy_of("llama_smollm");
  replace_in(folder / "config.json", "\"intermediate_size\": 60", "\"intermediate_size\": 61");
  expect_refusal(folder, 5, {"mlp.gate_proj.weight'", "[60, 48]", "[61, 48]"});
  folder = copy_of("llama_smollm");
  std::string weights = read_whole_file(folder / "model.safetensors");
  std::memset(weights.data() + weights.size() - 8, 0xFF, 4);
  write_whole_file(folder / "model.safetensors", weights);
  expect_refusal(folder, 5, {"model.safetensors: tensor '", "NaN"});
  expect_refusal("/no/such/folder", 3, {"/no/such/folder"});
  expect_refusal(fixture("qwen3"), 2, {"nonsense"}, {"--pre", "nonsense"});
  EXPECT_EQ(run_tokamak({"convert"}).status, 2);
  EXPECT_EQ(run_tokamak({"convert", fixture("qwen3").string()}).status, 2);
  EXPECT_EQ(run_tokamak({"convert", fixture("qwen3").string(), "/no/such/folder/x.gguf"}).status, 3);
  folder = copy_of("qwen3");
  replace_in(folder / "config.json", "Qwen3ForCausalLM", "Qwen9ForCausalLM");
  const RunResult ran = run_tokamak({"run", folder.string(), "-p", "x"});
  EXPECT_EQ(ran.status, 7);
  EXPECT_EQ(n_lines(ran.talk), 1u) << ran.talk;
}

// Zeros that take a second or more to write; the file itself is sparse.
fs::path large_checkpoint() {
  const fs::path folder = copy_of("llama_smollm");
  replace_in(folder / "config.json", "\"intermediate_size\": 60", "\"intermediate_size\": 1000000");
  const std::string bytes = read_whole_file(folder / "model.safetensors");
  uint64_t n = 0, end = 0;
  std::memcpy(&n, bytes.data(), sizeof n);
  json header = json::parse(bytes.substr(sizeof n, n));
  for (auto& [name, tensor] : header.items()) {
    if (!tensor.contains("shape")) continue;
    uint64_t n_bytes = sizeof(float);
    for (json& d : tensor["shape"]) {
      if (d == 60) d = 1000000;
      n_bytes *= d.get<uint64_t>();
    }
    tensor["data_offsets"] = {end, end + n_bytes};
    end += n_bytes;
  }
  const std::string text = header.dump();
  n = text.size();
  std::string head(sizeof n, '\0');
  std::memcpy(head.data(), &n, sizeof n);
  write_whole_file(folder / "model.safetensors", head + text);
  fs::resize_file(folder / "model.safetensors", sizeof n + n + end);
  return folder;
}

// Starts the program, sends it `signals` as soon as a file is in `out`, and returns its status.
int status_after_signals(const std::vector<std::string>& arguments, const fs::path& out,
                         const std::vector<int>& signals, const std::string& cache) {
  const std::string program = (fs::read_symlink("/proc/self/exe").parent_path() / "tokamak").string();
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv = {const_cast<char*>(program.c_str())};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    setenv("TOKAMAK_CACHE", cache.c_str(), 1);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  int raw = 0;
  std::error_code ignored;
  while (fs::directory_iterator(out, ignored) == fs::directory_iterator()) {
    if (waitpid(child, &raw, WNOHANG) == child) return -1;
    usleep(1000);
  }
  for (const int signal : signals) kill(child, signal);
  waitpid(child, &raw, 0);
  return WIFEXITED(raw) ? WEXITSTATUS(raw) : 1000 + WTERMSIG(raw);
}

TEST(Convert, StoppingLeavesNoFile) {
  const fs::path folder = large_checkpoint(), out = scratch_folder() / "stopped",
                 cache = scratch_folder() / "stop_cache";
  fs::create_directories(out);
  // Two signals: the second one does not wait for the writer.
  for (const std::vector<int>& signals :
       std::vector<std::vector<int>>{{SIGINT}, {SIGTERM}, {SIGHUP}, {SIGTERM, SIGINT}}) {
    const int status =
        status_after_signals({"convert", folder.string(), (out / "x.gguf").string()}, out, signals, cache.string());
    EXPECT_EQ(status, 130) << signals[0];
    EXPECT_TRUE(fs::is_empty(out)) << signals[0] << ", " << signals.size();
    fs::remove_all(out);
    fs::create_directories(out);
  }
  const int ran =
      status_after_signals({"run", folder.string(), "-p", "x"}, cache / "converted", {SIGTERM}, cache.string());
  EXPECT_EQ(ran, 130);
  EXPECT_TRUE(fs::is_empty(cache / "converted"));
}

TEST(Convert, FullDiskLeavesTheOldFile) {
  const fs::path out = scratch_folder() / "full_disk" / "x.gguf";
  fs::create_directories(out.parent_path());
  write_whole_file(out, "old");
  Terminal terminal({"convert", fixture("gemma3").string(), out.string()}, 50'000);
  EXPECT_EQ(terminal.wait_for_end(), 4) << terminal.screen();
  EXPECT_THAT(terminal.screen(), HasSubstr("no space left"));
  EXPECT_EQ(read_whole_file(out), "old");
  for (const auto& entry : fs::directory_iterator(out.parent_path())) EXPECT_EQ(entry.path(), out) << terminal.screen();
}

}  // namespace
}  // namespace tokamak::test

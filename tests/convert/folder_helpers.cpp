#include "convert/folder_helpers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/random.h"

namespace tokamak::test {

namespace fs = std::filesystem;

namespace {
struct Scratch {
  fs::path path = fs::temp_directory_path() / fmt::format("tokamak_convert_{}", ::getpid());
  int n_folders = 0;
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

constexpr const char* kConfig = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 400, "rms_norm_eps": 1e-5,
 "max_position_embeddings": 128, "tie_word_embeddings": true, "rope_theta": 10000.0, "hidden_act": "silu"})";
}  // namespace

fs::path fixtures() { return fs::path(TOKAMAK_TEST_DATA) / "convert"; }

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fixtures())) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

fs::path new_folder() {
  static Scratch scratch;
  const fs::path folder = scratch.path / std::to_string(scratch.n_folders++);
  fs::create_directories(folder);
  return folder;
}

fs::path copy_of(const std::string& fixture) {
  const fs::path folder = new_folder();
  fs::copy(fixtures() / fixture, folder, fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
  return folder;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const fs::path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

void replace_in(const fs::path& path, std::string_view from, std::string_view to) {
  std::string text = read_file(path);
  const size_t at = text.find(from);
  ASSERT_NE(at, text.npos) << path << " has no " << from;
  write_file(path, text.replace(at, from.size(), to));
}

std::vector<float> random_floats(size_t n, uint32_t seed) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(2 * uniform(seed, i) - 1);
  return values;
}

RawTensor random_f32(std::vector<int64_t> shape, uint32_t seed) {
  size_t n = 1;
  for (int64_t d : shape) n *= static_cast<size_t>(d);
  return {"F32", std::move(shape), bytes_of(random_floats(n, seed))};
}

void write_safetensors(const fs::path& path, const RawTensors& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})", data;
  for (const auto& [name, tensor] : tensors) {
    header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name, tensor.dtype,
                          fmt::join(tensor.shape, ","), data.size(), data.size() + tensor.data.size());
    data += tensor.data;
  }
  header += "}";
  std::string out(8, '\0');
  const uint64_t n = header.size();
  std::memcpy(out.data(), &n, sizeof n);
  write_file(path, out + header + data);
}

fs::path llama_folder(const std::function<void(RawTensors&)>& change) {
  const fs::path folder = new_folder();
  write_file(folder / "config.json", kConfig);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy_file(fixtures() / "llama_smollm" / name, folder / name);
  const std::string layer = "model.layers.0.";
  RawTensors tensors = {
      {"model.embed_tokens.weight", random_f32({kVocab, kEmbd}, 1)},
      {layer + "input_layernorm.weight", random_f32({kEmbd}, 2)},
      {layer + "self_attn.q_proj.weight", random_f32({64, kEmbd}, 3)},
      {layer + "self_attn.k_proj.weight", random_f32({32, kEmbd}, 4)},
      {layer + "self_attn.v_proj.weight", random_f32({32, kEmbd}, 5)},
      {layer + "self_attn.o_proj.weight", random_f32({kEmbd, 64}, 6)},
      {layer + "post_attention_layernorm.weight", random_f32({kEmbd}, 7)},
      {layer + "mlp.gate_proj.weight", random_f32({kFf, kEmbd}, 8)},
      {layer + "mlp.up_proj.weight", random_f32({kFf, kEmbd}, 9)},
      {layer + "mlp.down_proj.weight", random_f32({kEmbd, kFf}, 10)},
      {"model.norm.weight", random_f32({kEmbd}, 11)},
  };
  if (change) change(tensors);
  write_safetensors(folder / "model.safetensors", tensors);
  return folder;
}

}  // namespace tokamak::test

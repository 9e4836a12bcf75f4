#include "quantize/model_helpers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "quant/codec.h"

namespace tokamak::test {

const std::filesystem::path& scratch() {
  struct Folder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("tokamak-quantize-test-" + std::to_string(::getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static const Folder folder;
  return folder.path;
}

std::vector<float> random_floats(size_t n, uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<float> out(n);
  for (float& x : out) {
    x = 0;
    for (int i = 0; i < 4; ++i) x += static_cast<float>(random() % 20001) / 10000.0f - 1;
  }
  return out;
}

std::filesystem::path write_model(const std::string& file_name, const SmallModel& model) {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("general.file_type", uint32_t{1});
  writer.add("llama.block_count", static_cast<uint32_t>(model.n_layer));
  writer.add("llama.attention.head_count", uint32_t{8});
  writer.add("llama.attention.head_count_kv", uint32_t{4});
  writer.add("llama.context_length", uint32_t{128});
  if (model.n_expert > 0) writer.add("llama.expert_count", static_cast<uint32_t>(model.n_expert));
  std::vector<int32_t> per_layer(static_cast<size_t>(model.n_layer));
  for (size_t i = 0; i < per_layer.size(); ++i) per_layer[i] = static_cast<int32_t>(10 + i);
  writer.add_array("llama.per_layer", std::span<const int32_t>(per_layer));
  std::vector<std::vector<std::byte>> data;
  data.reserve(1000);
  uint32_t seed = 1;
  const auto add = [&](const std::string& name, const Shape& shape) {
    std::vector<float> values = random_floats(static_cast<size_t>(shape.n_elements()), seed++);
    if (model.edit) model.edit(name, values);
    const DType type = shape.rank() == 1 ? DType::f32 : model.type;
    auto& bytes = data.emplace_back(dtype_bytes(type, values.size()));
    EXPECT_TRUE(encode_row(type, values.data(), static_cast<int64_t>(values.size()), nullptr, bytes.data()));
    writer.add_tensor(name, type, shape, bytes);
  };
  add("token_embd.weight", Shape{96, model.n_embd});
  for (int64_t i = 0; i < model.n_layer; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    add(layer + "attn_norm.weight", Shape{model.n_embd});
    add(layer + "attn_q.weight", Shape{model.n_embd, model.n_embd});
    add(layer + "attn_v.weight", Shape{model.n_kv, model.n_embd});
    if (model.n_expert > 0)
      add(layer + "ffn_down_exps.weight", Shape{model.n_expert, model.n_embd, model.n_ff});
    else
      add(layer + "ffn_down.weight", Shape{model.n_embd, model.n_ff});
  }
  add("output_norm.weight", Shape{model.n_embd});
  if (model.has_output) add("output.weight", Shape{96, model.n_embd});
  const auto path = scratch() / file_name;
  EXPECT_TRUE(writer.write(path));
  return path;
}

std::vector<float> values_of(const GgufFile& file, const std::string& name) {
  const GgufTensor* tensor = file.find_tensor(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (!tensor) return {};
  std::vector<float> out(static_cast<size_t>(tensor->shape.n_elements()));
  decode_row(tensor->type, tensor->data.data(), tensor->shape.n_elements(), out.data());
  return out;
}

std::vector<std::string> leftovers(const std::filesystem::path& path) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path()))
    if (entry.path().filename().string().starts_with(path.filename().string()))
      out.push_back(entry.path().filename().string());
  return out;
}

}  // namespace tokamak::test

#include "cli/chat_model_helpers.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "base/utf8.h"
#include "cli/process_helpers.h"
#include "gguf/writer.h"
#include "tensor/dtypes.h"

namespace tokamak::test {

namespace {
constexpr int64_t kTokens = 259, kEmbd = 64, kLayers = 2, kHeads = 4, kHeadsKv = 2, kHeadDim = 16, kFf = 96;

// The letter that byte-level BPE spells a byte with.
std::string byte_letter(int byte) {
  const auto is_plain = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  int n_before = 0;
  for (int b = 0; b < byte; ++b) n_before += !is_plain(b);
  std::string out;
  append_utf8(out, static_cast<char32_t>(is_plain(byte) ? byte : 256 + n_before));
  return out;
}

class Maker {
 public:
  explicit Maker(const ChatModel& model) : n_vocab_(kTokens + static_cast<int64_t>(model.more_tokens.size())) {
    metadata(model);
    vocabulary(model);
    tensors();
    if (model.n_labels > 0) add("cls.output.weight", {model.n_labels, kEmbd}, [&](int64_t) { return random(2); });
  }
  void write(const std::filesystem::path& path) {
    const auto written = writer_.write(path);
    ASSERT_TRUE(written) << written.error().message();
  }

 private:
  void metadata(const ChatModel& model) {
    const auto key = [&](const char* suffix) { return model.architecture + "." + suffix; };
    writer_.add("general.architecture", model.architecture);
    writer_.add("general.name", "tiny chat");
    writer_.add(key("context_length"), uint32_t{4096});
    writer_.add(key("embedding_length"), static_cast<uint32_t>(kEmbd));
    writer_.add(key("block_count"), static_cast<uint32_t>(kLayers));
    writer_.add(key("feed_forward_length"), static_cast<uint32_t>(kFf));
    writer_.add(key("attention.head_count"), static_cast<uint32_t>(kHeads));
    writer_.add(key("attention.head_count_kv"), static_cast<uint32_t>(kHeadsKv));
    writer_.add(key("attention.layer_norm_rms_epsilon"), 1e-5f);
    if (!model.causal) writer_.add(key("attention.causal"), false);
    if (model.pooling >= 0) writer_.add(key("pooling_type"), static_cast<uint32_t>(model.pooling));
    if (!model.chat_template.empty()) writer_.add("tokenizer.chat_template", model.chat_template);
  }

  void vocabulary(const ChatModel& model) {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back(byte < 0xF0 || model.has_all_bytes ? byte_letter(byte) : "<none" + std::to_string(byte) + ">");
    tokens.insert(tokens.end(), {"<s>", "</s>", "qz"});
    tokens.insert(tokens.end(), model.more_tokens.begin(), model.more_tokens.end());
    std::vector<int32_t> types(static_cast<size_t>(n_vocab_), 1);
    types[256] = types[257] = 3;
    std::fill(types.begin() + kTokens, types.end(), 3);
    writer_.add("tokenizer.ggml.model", "gpt2");
    writer_.add("tokenizer.ggml.pre", "gpt-2");
    writer_.add_array("tokenizer.ggml.tokens", std::span<const std::string>(tokens));
    writer_.add_array("tokenizer.ggml.token_type", std::span<const int32_t>(types));
    const std::string merge = "q z";  // the kind needs at least one
    writer_.add_array("tokenizer.ggml.merges", std::span<const std::string>(&merge, 1));
    writer_.add("tokenizer.ggml.bos_token_id", uint32_t{256});
    writer_.add("tokenizer.ggml.eos_token_id", uint32_t{257});
  }

  // Rows of the output that are no small letters are zero, so that small letters win.
  void tensors() {
    add("token_embd.weight", {n_vocab_, kEmbd}, [&](int64_t) { return random(2); });
    add("output.weight", {n_vocab_, kEmbd}, [&](int64_t i) {
      const int64_t row = i / kEmbd;
      return row >= 'a' && row <= 'z' ? random(4) : 0;
    });
    add("output_norm.weight", {kEmbd}, [](int64_t) { return 1.0f; });
    for (int64_t i = 0; i < kLayers; ++i) {
      const auto at = [&](const char* name) { return "blk." + std::to_string(i) + "." + name + ".weight"; };
      const auto some = [&](int64_t) { return random(0.5f); };
      add(at("attn_norm"), {kEmbd}, [](int64_t) { return 1.0f; });
      add(at("attn_q"), {kHeads * kHeadDim, kEmbd}, some);
      add(at("attn_k"), {kHeadsKv * kHeadDim, kEmbd}, some);
      add(at("attn_v"), {kHeadsKv * kHeadDim, kEmbd}, some);
      add(at("attn_output"), {kEmbd, kHeads * kHeadDim}, some);
      add(at("ffn_norm"), {kEmbd}, [](int64_t) { return 1.0f; });
      add(at("ffn_gate"), {kFf, kEmbd}, some);
      add(at("ffn_up"), {kFf, kEmbd}, some);
      add(at("ffn_down"), {kEmbd, kFf}, some);
    }
  }

  float random(float scale) { return (static_cast<float>(random_()) * 0x1p-32f - 0.5f) * scale; }

  template <class Fn>
  void add(const std::string& name, const Shape& shape, Fn value) {
    auto& data = data_.emplace_back(static_cast<size_t>(shape.n_elements()));
    for (size_t i = 0; i < data.size(); ++i) data[i] = value(static_cast<int64_t>(i));
    writer_.add_tensor(name, DType::f32, shape, std::as_bytes(std::span(data)));
  }

  const int64_t n_vocab_;
  std::mt19937 random_{7};
  GgufWriter writer_;
  std::deque<std::vector<float>> data_;
};
}  // namespace

std::filesystem::path chat_model(const ChatModel& model) {
  static std::map<std::string, std::filesystem::path> made;
  std::string name = model.architecture + "|" + model.chat_template + (model.has_all_bytes ? "" : "|some bytes");
  for (const std::string& token : model.more_tokens) name += "|" + token;
  name +=
      "|" + std::to_string(model.n_labels) + "|" + std::to_string(model.pooling) + (model.causal ? "" : "|both ways");
  auto& path = made[name];
  if (path.empty()) {
    path = scratch_folder() / ("chat" + std::to_string(made.size()) + ".gguf");
    Maker(model).write(path);
  }
  return path;
}

std::filesystem::path all_types_file() {
  static const std::filesystem::path path = [] {
    auto target = scratch_folder() / "all_types.gguf";
    GgufWriter writer;
    writer.add("general.architecture", "mystery");
    std::deque<std::vector<std::byte>> data;
    for (const DTypeRow& row : kDTypes) {
      auto& bytes = data.emplace_back(dtype_bytes(row.id, 512));
      writer.add_tensor("tensor." + std::string(row.name), row.id, {2, 256}, bytes);
    }
    const auto written = writer.write(target);
    EXPECT_TRUE(written) << written.error().message();
    return target;
  }();
  return path;
}

}  // namespace tokamak::test

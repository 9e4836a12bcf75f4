#include "support/tiny_model.h"

#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <random>

#include <gtest/gtest.h>

#include "gguf/writer.h"
#include "quant/codec.h"

namespace tokamak::test {

namespace {
// A folder of this process, gone with it.
const std::filesystem::path& temporary_folder() {
  struct Folder {
    Folder() : path(std::filesystem::temp_directory_path() / ("tokamak-test-" + std::to_string(getpid()))) {
      std::filesystem::create_directories(path);
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
  };
  static const Folder folder;
  return folder.path;
}

class Builder {
 public:
  explicit Builder(const TinyModel& model) : m_(model), random_(model.seed) {}

  std::filesystem::path write() {
    metadata();
    matrix("token_embd.weight", m_.n_vocab, m_.n_embd);
    vector("output_norm.weight", m_.n_embd);
    for (int64_t i = 0; i < m_.n_layer; ++i) layer("blk." + std::to_string(i) + ".");
    static int n_files = 0;
    const auto path = temporary_folder() / (m_.arch + "-" + std::to_string(n_files++) + ".gguf");
    const auto written = writer_.write(path);
    EXPECT_TRUE(written) << written.error().message();
    return path;
  }

 private:
  void metadata() {
    const auto key = [&](const char* suffix) { return m_.arch + "." + suffix; };
    writer_.add("general.architecture", m_.arch);
    writer_.add(key("context_length"), static_cast<uint32_t>(m_.n_ctx));
    writer_.add(key("embedding_length"), static_cast<uint32_t>(m_.n_embd));
    writer_.add(key("block_count"), static_cast<uint32_t>(m_.n_layer));
    writer_.add(key("feed_forward_length"), static_cast<uint32_t>(m_.n_ff));
    writer_.add(key("attention.head_count"), static_cast<uint32_t>(m_.n_head));
    writer_.add(key("attention.head_count_kv"), static_cast<uint32_t>(m_.n_head_kv));
    writer_.add(key("attention.key_length"), static_cast<uint32_t>(m_.head_dim));
    writer_.add(key("attention.value_length"), static_cast<uint32_t>(m_.head_dim));
    writer_.add(key("attention.layer_norm_rms_epsilon"), 1e-5f);
    if (m_.window > 0) {
      writer_.add(key("attention.sliding_window"), static_cast<uint32_t>(m_.window));
      writer_.add(key("attention.sliding_window_pattern"), uint32_t{2});
    }
    writer_.add("tokenizer.ggml.model", "no_vocab");
    writer_.add(key("vocab_size"), static_cast<uint32_t>(m_.n_vocab));
  }

  void layer(const std::string& prefix) {
    const auto at = [&](const char* name) { return prefix + name + ".weight"; };
    vector(at("attn_norm"), m_.n_embd);
    matrix(at("attn_q"), m_.n_head * m_.head_dim, m_.n_embd);
    matrix(at("attn_k"), m_.n_head_kv * m_.head_dim, m_.n_embd);
    matrix(at("attn_v"), m_.n_head_kv * m_.head_dim, m_.n_embd);
    matrix(at("attn_output"), m_.n_embd, m_.n_head * m_.head_dim);
    vector(at("ffn_norm"), m_.n_embd);
    matrix(at("ffn_gate"), m_.n_ff, m_.n_embd);
    matrix(at("ffn_up"), m_.n_ff, m_.n_embd);
    matrix(at("ffn_down"), m_.n_embd, m_.n_ff);
    if (m_.arch == "qwen2")
      for (const char* which : {"attn_q", "attn_k", "attn_v"})
        vector(prefix + which + ".bias", (which[5] == 'q' ? m_.n_head : m_.n_head_kv) * m_.head_dim);
    if (m_.arch == "qwen3" || m_.arch == "gemma3")
      for (const char* which : {"attn_q_norm", "attn_k_norm"}) vector(at(which), m_.head_dim);
    if (m_.arch == "gemma3")
      for (const char* which : {"post_attention_norm", "post_ffw_norm"}) vector(at(which), m_.n_embd);
  }

  void vector(const std::string& name, int64_t n) {
    std::uniform_real_distribution<float> around_one(0.8f, 1.2f);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = around_one(random_);
    add(name, DType::f32, {n}, x);
  }

  void matrix(const std::string& name, int64_t n_out, int64_t n_in) {
    // Bits of the generator only: the standard's distributions differ between libraries.
    std::vector<float> x(static_cast<size_t>(n_out * n_in));
    for (float& v : x) v = (static_cast<float>(random_()) * 0x1p-32f - 0.5f) * 0.2f;
    DType type = m_.types[n_matrices_++ % m_.types.size()];
    if (n_in % dtype_row(type).block_elems != 0) type = DType::f32;
    add(name, type, {n_out, n_in}, x);
  }

  void add(const std::string& name, DType type, const Shape& shape, const std::vector<float>& x) {
    auto& bytes = data_.emplace_back(dtype_bytes(type, x.size()));
    const auto encoded = encode_row(type, x.data(), static_cast<int64_t>(x.size()), nullptr, bytes.data());
    ASSERT_TRUE(encoded) << encoded.error().message();
    writer_.add_tensor(name, type, shape, bytes);
  }

  const TinyModel& m_;
  std::mt19937 random_;
  GgufWriter writer_;
  std::deque<std::vector<std::byte>> data_;
  size_t n_matrices_ = 0;
};
}  // namespace

std::filesystem::path write_tiny_model(const TinyModel& model) { return Builder(model).write(); }

std::vector<int32_t> random_tokens(size_t n, int64_t n_vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> out(n);
  for (int32_t& token : out) token = static_cast<int32_t>(random() % static_cast<uint32_t>(n_vocab));
  return out;
}

}  // namespace tokamak::test

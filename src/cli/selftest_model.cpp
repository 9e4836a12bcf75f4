// selftest of whole graphs: a small random model on the reference backend and on the CPU backend.
#include <fmt/format.h>

#include <cstring>
#include <deque>

#include "base/check.h"
#include "base/nmse.h"
#include "cli/selftest.h"
#include "engine/session.h"
#include "gguf/writer.h"
#include "quant/codec.h"
#include "tokenizer/from_gguf.h"

namespace tokamak::cli {

namespace {
constexpr int64_t kVocab = 96, kEmbd = 256, kLayers = 2, kHeads = 4, kHeadsKv = 2, kFf = 512, kTokens = 40;

// A llama of random weights of one type, as the bytes of a file.
class ModelBytes {
 public:
  explicit ModelBytes(DType type) : type_(type) {
    writer_.add("general.architecture", "llama");
    writer_.add("llama.context_length", uint32_t{256});
    writer_.add("llama.embedding_length", static_cast<uint32_t>(kEmbd));
    writer_.add("llama.block_count", static_cast<uint32_t>(kLayers));
    writer_.add("llama.feed_forward_length", static_cast<uint32_t>(kFf));
    writer_.add("llama.attention.head_count", static_cast<uint32_t>(kHeads));
    writer_.add("llama.attention.head_count_kv", static_cast<uint32_t>(kHeadsKv));
    writer_.add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer_.add("llama.vocab_size", static_cast<uint32_t>(kVocab));
    writer_.add("tokenizer.ggml.model", "no_vocab");
    add("token_embd.weight", {kVocab, kEmbd});
    add("output_norm.weight", {kEmbd});
    for (int64_t i = 0; i < kLayers; ++i) {
      const auto at = [i](std::string_view name) { return fmt::format("blk.{}.{}.weight", i, name); };
      add(at("attn_norm"), {kEmbd});
      add(at("attn_q"), {kEmbd, kEmbd});
      add(at("attn_k"), {kEmbd * kHeadsKv / kHeads, kEmbd});
      add(at("attn_v"), {kEmbd * kHeadsKv / kHeads, kEmbd});
      add(at("attn_output"), {kEmbd, kEmbd});
      add(at("ffn_norm"), {kEmbd});
      add(at("ffn_gate"), {kFf, kEmbd});
      add(at("ffn_up"), {kFf, kEmbd});
      add(at("ffn_down"), {kEmbd, kFf});
    }
  }
  Result<std::vector<std::byte>> take() const { return writer_.to_bytes(); }

 private:
  void add(const std::string& name, const Shape& shape) {
    const bool is_matrix = shape.rank() == 2;
    const DType type = is_matrix ? type_ : DType::f32;
    std::vector<float> values = random_numbers(static_cast<size_t>(shape.n_elements()), ++seed_);
    for (float& v : values) v = is_matrix ? 0.1f * v : 1 + 0.1f * v;
    auto& bytes = data_.emplace_back(dtype_bytes(type, values.size()));
    CHECK(encode_row(type, values.data(), shape.n_elements(), nullptr, bytes.data()).has_value());
    writer_.add_tensor(name, type, shape, bytes);
  }

  DType type_;
  uint32_t seed_ = 100;
  GgufWriter writer_;
  std::deque<std::vector<std::byte>> data_;
};

Result<std::shared_ptr<const Model>> make_model(std::span<const std::byte> bytes) {
  GgufFile file = TRY(GgufFile::parse(bytes, "selftest"));
  arch::Hparams hparams = TRY(arch::read_hparams(file));
  auto tokenizer = std::make_shared<const Tokenizer>(TRY(load_tokenizer(file)));
  return std::shared_ptr<const Model>(
      std::make_shared<Model>("selftest", std::move(file), std::move(hparams), std::move(tokenizer), ""));
}

// Logits of a prompt, then of further tokens one by one.
Result<std::vector<float>> logits_of(const std::shared_ptr<const Model>& model, SessionOptions options) {
  options.n_ctx = 64;
  options.n_batch = kTokens;
  const std::unique_ptr<Session> session = TRY(Session::create(model, std::move(options)));
  const int32_t seq_id = session->add_sequence();
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kTokens; ++i) tokens.push_back(i * 37 % static_cast<int32_t>(kVocab));
  std::vector<float> out;
  for (size_t begin = 0; begin < tokens.size();) {
    const size_t n = begin == 0 ? 30 : 1;
    const SequenceTokens part{seq_id, std::span(tokens).subspan(begin, n), Logits::all};
    const std::span<const float> logits = TRY(session->forward({&part, 1}));
    out.insert(out.end(), logits.begin(), logits.end());
    begin += n;
  }
  return out;
}
}  // namespace

Result<std::vector<CheckResult>> check_models(const std::vector<cpu::Isa>& isas) {
  std::vector<CheckResult> results;
  // Int8 activations are off by up to 1/254 of their group's largest value, about 1e-5 of the variance per product of
  // which two layers multiply many; f32 ones by rounding, and by the cache's f16 where two roundings differ.
  for (const auto& [type, bound] : {std::pair(DType::f32, 1e-6), {DType::q8_0, 2e-3}, {DType::q4_k, 2e-3}}) {
    const std::vector<std::byte> bytes = TRY(ModelBytes(type).take());
    const std::shared_ptr<const Model> model = TRY(make_model(bytes));
    const std::vector<float> exact = TRY(logits_of(model, {.backend = "reference"}));
    std::vector<float> bits[2];  // of the scalar kernels, fused or not
    for (cpu::Isa isa : isas)
      for (const bool fusion : {true, false}) {
        const SessionOptions options{.isa = std::string(cpu::isa_name(isa)), .compile = {.fusion = fusion}};
        CheckResult result{.name = fmt::format("small {} model, {}", dtype_name(type), fusion ? "fused" : "not fused"),
                           .isa = options.isa};
        const std::vector<float> logits = TRY(logits_of(model, options));
        result.meter.add(nmse(logits, exact), 0, bound);
        if (bits[fusion].empty()) bits[fusion] = logits;
        result.same_bits = std::memcmp(bits[fusion].data(), logits.data(), logits.size() * sizeof(float)) == 0;
        results.push_back(std::move(result));
      }
  }
  return results;
}

}  // namespace tokamak::cli

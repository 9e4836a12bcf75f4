#include "synth/synth.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/recipe.h"
#include "quant/codec.h"
#include "quantize/mix.h"
#include "synth/weights.h"

namespace tokamak {

namespace {
constexpr std::string_view kWeight = ".weight", kScale = ".scale";

// The metadata alone: what hyperparameters are read from. They look at the vocabulary, and at whether an optional
// tensor is there.
Result<GgufWriter> outline(const arch::DummyRow& dummy) {
  GgufWriter writer;
  arch::add_metadata(writer, dummy);
  const auto zeros = [](size_t n_bytes) {
    return [n_bytes](const GgufWriter::Sink& sink) { return sink(std::vector<std::byte>(n_bytes)); };
  };
  const Shape table{dummy.sizes.n_vocab, dummy.sizes.n_embd};
  const DType type = dummy.full_size.empty() ? DType::f32 : DType::iq1_s;  // only its shape is read: the smallest
  writer.add_tensor("token_embd.weight", type, table,
                    zeros(dtype_bytes(type, static_cast<uint64_t>(table.n_elements()))));
  for (std::string_view words : dummy.tensors)
    while (!words.empty()) {
      const std::string_view word = words.substr(0, words.find(' '));
      writer.add_tensor(arch::block_name(0, word), DType::f32, {1}, zeros(sizeof(float)));
      words.remove_prefix(std::min(words.size(), word.size() + 1));
    }
  return writer;
}

// Writes down what a recipe asks for.
class DummyTensorIndex : public arch::TensorIndex {
 public:
  DummyTensorIndex(const arch::DummyRow& dummy, const arch::Hparams& hparams, DType type)
      : dummy_(dummy), hparams_(hparams), type_(type) {}

  bool has(std::string_view name) const override {
    if (name.ends_with(kScale)) return has_scale(name.substr(0, name.size() - kScale.size()));
    return arch::has_tensor(dummy_, name);
  }

  std::optional<Shape> shape(std::string_view name) const override {
    if (const SynthTensor* known = find(name)) return known->shape;
    const auto layer = layer_of(name);
    if (!layer || !has(name)) return std::nullopt;
    const arch::LayerHparams& sizes = hparams_.layers[static_cast<size_t>(*layer)];
    const bool is_q = name.ends_with("attn_q_norm.weight"), is_k = name.ends_with("attn_k_norm.weight");
    if (!is_q && !is_k) return std::nullopt;
    const int64_t n_head = is_q ? sizes.n_head : sizes.n_head_kv, head_dim = hparams_.head_dim_k;
    switch (dummy_.qk_norm) {
      case arch::QkNorm::rows:
        return Shape{n_head, head_dim};
      case arch::QkNorm::whole:
        return Shape{n_head * head_dim};
      case arch::QkNorm::head:
      case arch::QkNorm::none:
        break;
    }
    return Shape{head_dim};
  }

  Result<DType> use(const std::string& name, const Shape& wanted) override {
    if (const SynthTensor* known = find(name)) {
      if (known->shape == wanted) return known->type;
      return Error{.code = ErrorCode::bad_tensor,
                   .what = fmt::format("is wanted as {} and as {}", known->shape.to_string(), wanted.to_string()),
                   .where = name};
    }
    tensors_.push_back({name, wanted, type_of(name, wanted)});
    return tensors_.back().type;
  }

  std::vector<SynthTensor> take() { return std::move(tensors_); }

 private:
  const SynthTensor* find(std::string_view name) const {
    const auto found = std::ranges::find(tensors_, name, &SynthTensor::name);
    return found == tensors_.end() ? nullptr : &*found;
  }

  // NVFP4 matrices are stored with a factor of their own; embedding rows are looked up, not multiplied.
  bool has_scale(std::string_view base) const {
    const SynthTensor* weight = find(std::string(base) + std::string(kWeight));
    return weight && weight->type == DType::nvfp4 && base != "token_embd";
  }

  DType type_of(std::string_view name, const Shape& shape) const {
    if (!is_quantizable(name, shape)) return DType::f32;
    return fitting_type(type_, shape.row_elems()).value_or(DType::f16);
  }

  const arch::DummyRow& dummy_;
  const arch::Hparams& hparams_;
  DType type_;
  std::vector<SynthTensor> tensors_;
};

// Of full-size models, where encoding every row would take minutes; speed does not see that rows repeat.
constexpr int64_t kDistinctRows = 256;

Result<void> stream(const SynthTensor& tensor, const WeightStream& values, int64_t n_distinct,
                    const GgufWriter::Sink& sink) {
  const int64_t n = tensor.shape.row_elems(), n_rows = tensor.shape.n_rows();
  const auto row_bytes = static_cast<size_t>(dtype_bytes(tensor.type, static_cast<uint64_t>(n)));
  std::vector<float> row(static_cast<size_t>(n));
  std::vector<std::byte> bytes(row_bytes * static_cast<size_t>(n_distinct));
  for (int64_t r = 0; r < n_distinct; ++r) {
    for (int64_t i = 0; i < n; ++i) row[static_cast<size_t>(i)] = values(static_cast<uint64_t>(r * n + i));
    TRY(encode_row(tensor.type, row.data(), n, nullptr, bytes.data() + row_bytes * static_cast<size_t>(r)));
  }
  for (int64_t r = 0; r < n_rows; r += n_distinct) {
    const auto left = static_cast<size_t>(std::min(n_distinct, n_rows - r));
    TRY(sink(std::span(bytes).first(row_bytes * left)));
  }
  return {};
}

}  // namespace

Result<std::vector<SynthTensor>> synth_tensors(const arch::DummyRow& dummy, DType type) {
  const std::vector<std::byte> bytes = TRY(TRY(outline(dummy)).to_bytes());
  const GgufFile file = TRY(GgufFile::parse(bytes, dummy.name()));
  const arch::Hparams hparams = TRY(arch::read_hparams(file));
  DummyTensorIndex index(dummy, hparams, type);
  for (int64_t n_ctx : {int64_t{1}, hparams.n_ctx_train})  // long contexts may take other rope factors
    TRY(arch::build_graph(index, hparams, {.n_ctx = n_ctx}));
  return index.take();
}

Result<GgufWriter> synth(const arch::DummyRow& dummy, const SynthOptions& options) {
  const std::vector<SynthTensor> tensors = TRY(synth_tensors(dummy, options.type));
  GgufWriter writer;
  arch::add_metadata(writer, dummy);
  if (is_quantized(options.type)) writer.add("general.quantization_version", kQuantizationVersion);
  for (const SynthTensor& tensor : tensors) {
    WeightStream values(tensor.name, options.seed);
    const std::string scale = tensor.name.substr(0, tensor.name.rfind('.')) + std::string(kScale);
    if (tensor.name.ends_with(kWeight) && std::ranges::find(tensors, scale, &SynthTensor::name) != tensors.end())
      values.set_factor(1 / value_range(scale).mean);
    const int64_t n_rows = tensor.shape.n_rows();
    const int64_t n_distinct = dummy.full_size.empty() ? n_rows : std::min(n_rows, kDistinctRows);
    writer.add_tensor(tensor.name, tensor.type, tensor.shape,
                      [tensor, values, n_distinct](const GgufWriter::Sink& sink) {
                        return stream(tensor, values, n_distinct, sink);
                      });
  }
  return writer;
}

}  // namespace tokamak

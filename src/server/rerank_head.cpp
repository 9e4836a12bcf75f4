#include "server/rerank_head.h"

#include <algorithm>
#include <cmath>

#include "quant/codec.h"

namespace tokamak::server {

namespace {
std::vector<float> decode(const GgufTensor& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.shape.n_elements()));
  decode_row(tensor.type, tensor.data.data(), tensor.shape.n_elements(), out.data());
  return out;
}

Error wrong_shape(const GgufTensor& tensor) {
  return {.code = ErrorCode::bad_tensor, .what = "has not the shape of a head", .where = tensor.name};
}
}  // namespace

Result<RerankHead::Linear> RerankHead::read_linear(const Model& model, const std::string& name, int64_t n_in) {
  const GgufTensor* weight = model.file().find_tensor(name + ".weight");
  if (weight == nullptr) return Linear{};
  const bool is_row = weight->shape.rank() == 1;
  if (weight->shape.rank() < 1 || weight->shape.rank() > 2 || weight->shape[weight->shape.rank() - 1] != n_in)
    return wrong_shape(*weight);
  Linear out{.n_in = n_in, .n_out = is_row ? 1 : weight->shape[0], .weight = decode(*weight), .bias = {}};
  if (const GgufTensor* bias = model.file().find_tensor(name + ".bias")) {
    if (bias->shape.n_elements() != out.n_out) return wrong_shape(*bias);
    out.bias = decode(*bias);
  }
  return out;
}

Result<RerankHead> RerankHead::read(const Model& model) {
  RerankHead head;
  const int64_t n_embd = model.hparams().n_embd;
  head.dense_ = TRY(read_linear(model, "cls", n_embd));
  head.output_ = TRY(read_linear(model, "cls.output", head.dense_.n_out > 0 ? head.dense_.n_out : n_embd));
  if (head.output_.n_out > 0) return head;
  return Error{.code = ErrorCode::unsupported,
               .what = "the model has no head that ranks documents (cls.output)",
               .where = model.name(),
               .hint = R"(use a reranker, or "method": "embedding" for the likeness of embeddings)"};
}

bool RerankHead::exists(const Model& model) { return model.file().find_tensor("cls.output.weight") != nullptr; }

std::vector<double> RerankHead::Linear::apply(std::span<const float> x) const {
  std::vector<double> y(static_cast<size_t>(n_out));
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = bias.empty() ? 0 : bias[i];
    for (size_t j = 0; j < x.size(); ++j) y[i] += static_cast<double>(weight[i * x.size() + j]) * x[j];
  }
  return y;
}

float RerankHead::score(std::span<const float> row) const {
  std::vector<float> x(row.begin(), row.end());
  if (dense_.n_out > 0) {
    const std::vector<double> hidden = dense_.apply(row);
    x.resize(hidden.size());
    std::ranges::transform(hidden, x.begin(), [](double v) { return static_cast<float>(std::tanh(v)); });
  }
  const std::vector<double> y = output_.apply(x);
  if (y.size() == 1) return static_cast<float>(y[0]);
  const double largest = *std::ranges::max_element(y);
  double sum = 0;
  for (const double v : y) sum += std::exp(v - largest);
  return static_cast<float>(std::exp(y[0] - largest) / sum);
}

}  // namespace tokamak::server

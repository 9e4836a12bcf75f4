#include "server/embeddings_pooling.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tokamak::server {

namespace {
constexpr std::array<std::string_view, 5> kNames = {"none", "mean", "cls", "last", "rank"};
constexpr double kLargest = 32760;  // of norm 0: fits 16 bits

Result<Pooling> pooling_of(const Model& model) {
  const std::string key = TRY(arch::arch_key(model.file(), "pooling_type"));
  const auto mean = static_cast<uint64_t>(Pooling::mean);
  return static_cast<Pooling>(TRY(model.file().get_u64_or(key, mean, 0, kNames.size() - 1)));
}

Result<void> check_causal(const Model& model) {
  const std::string key = TRY(arch::arch_key(model.file(), "attention.causal"));
  if (TRY(model.file().get_bool_or(key, true))) return {};
  return Error{.code = ErrorCode::unsupported,
               .what = "the model's vectors need attention to later tokens, which is not built",
               .where = model.name(),
               .hint = "use a model whose attention is causal"};
}

double norm_of(std::span<const float> vector, int64_t norm) {
  double sum = 0, largest = 0;
  for (const float x : vector) largest = std::max(largest, std::abs(static_cast<double>(x)));
  if (norm == 0) return largest / kLargest;
  if (largest == 0) return 0;
  for (const float x : vector)  // scaled by the largest, so that no power leaves the range
    sum += std::pow(std::abs(static_cast<double>(x)) / largest, static_cast<double>(norm));
  return largest * std::pow(sum, 1 / static_cast<double>(norm));
}
}  // namespace

Result<Pooling> choose_pooling(std::string_view asked, const ServerContext& context) {
  TRY(check_causal(context.model));
  if (asked == "auto") asked = context.options.pooling;
  const auto name = std::ranges::find(kNames, asked);
  if (name != kNames.end()) return static_cast<Pooling>(name - kNames.begin());
  if (asked != "auto") return bad_field("pooling", "must be auto, none, mean, cls or last");
  return pooling_of(context.model);
}

EmbeddingMode embedding_mode(Pooling pooling) {
  switch (pooling) {
    case Pooling::none:
      return EmbeddingMode::all;
    case Pooling::mean:
      return EmbeddingMode::mean;
    case Pooling::cls:
      return EmbeddingMode::cls;
    case Pooling::last:
    case Pooling::rank:
      break;
  }
  return EmbeddingMode::last;
}

void normalize(std::span<float> vector, int64_t norm) {
  if (norm < 0) return;
  const double length = norm_of(vector, norm);
  if (length == 0) return;
  for (float& x : vector) x = static_cast<float>(x / length);
}

}  // namespace tokamak::server

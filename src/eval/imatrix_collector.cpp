#include "eval/imatrix_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "arch/recipe.h"
#include "base/check.h"
#include "quantize/encode_tensor.h"

namespace tokamak {

namespace {
// Most bytes of logits that one step may make. The sums do not depend on it.
constexpr int64_t kMaxLogitBytes = int64_t{256} << 20;

bool is_of_layer(std::string_view weight) { return weight.starts_with("blk."); }

// fn(matrix, row of x) for every row of the input and every matrix that it meets.
template <class Fn>
void for_each_product(const MatmulInput& input, Fn fn) {
  const auto row = [&](int64_t r) { return input.x + r * input.row_stride_elems; };
  if (input.ids == nullptr) {  // one matrix, or one per head in turn
    for (int64_t r = 0; r < input.n_rows; ++r) fn(r % input.n_matrices, row(r));
    return;
  }
  const int64_t rows_per_token = input.n_rows / input.n_tokens;
  for (int64_t t = 0; t < input.n_tokens; ++t)
    for (int64_t u = 0; u < input.n_used; ++u)
      fn(input.ids[t * input.ids_stride_elems + u], row(t * rows_per_token + (rows_per_token == 1 ? 0 : u)));
}

// Logits of all tokens: without them the last layer would leave tokens out.
Result<void> run_chunk(Session& session, std::span<const int32_t> tokens, int64_t n_batch) {
  const int32_t seq_id = session.add_sequence();
  for (size_t begin = 0; begin < tokens.size();) {
    const size_t n = std::min(static_cast<size_t>(n_batch), tokens.size() - begin);
    const SequenceTokens part{seq_id, tokens.subspan(begin, n), Logits::all};
    if (auto logits = session.forward({&part, 1}); !logits) {
      session.free_sequence(seq_id);
      return std::move(logits.error());
    }
    begin += n;
  }
  session.free_sequence(seq_id);
  return {};
}
}  // namespace

Result<void> check_same_model(const ImatrixFile& imatrix, const GgufFile& model) {
  for (const ImatrixEntry& entry : imatrix.entries) {
    const GgufTensor* tensor = model.find_tensor(entry.name);
    if (tensor && tensor->shape.row_elems() == entry.row_elems &&
        n_matrices(tensor->shape) == static_cast<int64_t>(entry.counts.size()))
      continue;
    return Error{.code = ErrorCode::bad_argument,
                 .what = !tensor ? fmt::format("the model has no tensor {}", entry.name)
                                 : fmt::format("{} is {} in the model, and here {} x {} columns", entry.name,
                                               tensor->shape.to_string(), entry.counts.size(), entry.row_elems),
                 .where = imatrix.path,
                 .hint = "go on with an importance matrix of this model"};
  }
  return {};
}

MatmulObserver ImatrixCollector::observer() {
  return [this](const MatmulInput& input) { observe(input); };
}

void ImatrixCollector::observe(const MatmulInput& input) {
  // Slices of one tensor read the same input: the first stands for all.
  const arch::WeightRows rows = arch::parse_weight_name(input.weight);
  if (rows.begin > 0 || (!with_output_ && !is_of_layer(rows.tensor))) return;
  auto found = entries_.find(rows.tensor);
  if (found == entries_.end()) found = entries_.emplace(rows.tensor, Entry{}).first;
  Entry& entry = found->second;
  if (entry.sums.empty()) {
    entry.row_elems = input.k;
    entry.sums.resize(static_cast<size_t>(input.k * input.n_matrices));
    entry.counts.resize(static_cast<size_t>(input.n_matrices));
  }
  CHECK(entry.row_elems == input.k && static_cast<int64_t>(entry.counts.size()) == input.n_matrices, input.weight,
        entry.row_elems, entry.counts.size());
  for_each_product(input, [&](int64_t matrix, const float* x) {
    const auto k = static_cast<size_t>(input.k);
    double* sums = entry.sums.data() + static_cast<size_t>(matrix) * k;
    for (size_t i = 0; i < k; ++i) sums[i] += double{x[i]} * double{x[i]};  // the product is exact
    entry.counts[static_cast<size_t>(matrix)] += 1;
  });
}

Result<void> ImatrixCollector::merge(const ImatrixFile& earlier) {
  const double scale = earlier.counts_chunks ? kDatChunkSize : 1;
  for (const ImatrixEntry& from : earlier.entries) {
    Entry& to = entries_[from.name];
    if (to.sums.empty()) {
      to.row_elems = from.row_elems;
      to.sums.resize(from.sums.size());
      to.counts.resize(from.counts.size());
    }
    if (to.sums.size() != from.sums.size() || to.counts.size() != from.counts.size())
      return Error{
          .code = ErrorCode::bad_argument,
          .what = fmt::format("{} has {} values here and {} elsewhere", from.name, from.sums.size(), to.sums.size()),
          .where = earlier.path,
          .hint = "merge importance matrices of the same model"};
    for (size_t i = 0; i < from.sums.size(); ++i) to.sums[i] += scale * double{from.sums[i]};
    for (size_t i = 0; i < from.counts.size(); ++i) to.counts[i] += scale * double{from.counts[i]};
  }
  for (const std::string& dataset : earlier.datasets) add_dataset(dataset);
  n_chunks_ += earlier.n_chunks;
  return {};
}

void ImatrixCollector::add_dataset(const std::string& name) {
  if (std::ranges::find(datasets_, name) == datasets_.end()) datasets_.push_back(name);
}

Result<ImatrixFile> ImatrixCollector::result(uint32_t chunk_size) const {
  ImatrixFile out{.datasets = datasets_, .n_chunks = n_chunks_, .chunk_size = chunk_size};
  for (const auto& [name, entry] : entries_) {
    ImatrixEntry& to = out.entries.emplace_back();
    to.name = name;
    to.row_elems = entry.row_elems;
    to.sums.assign(entry.sums.begin(), entry.sums.end());
    to.counts.assign(entry.counts.begin(), entry.counts.end());
    if (!std::ranges::all_of(to.sums, [](float x) { return std::isfinite(x); }))
      return Error{.code = ErrorCode::bad_tensor,
                   .what = "the inputs of this matrix are not finite",
                   .where = name,
                   .hint = "--check-tensors looks for bad weights"};
  }
  return out;
}

Result<int64_t> collect_imatrix(Session& session, const TextChunks& text, ImatrixCollector& collector,
                                const CollectOptions& options) {
  const int64_t logit_bytes = session.model().hparams().n_vocab * static_cast<int64_t>(sizeof(float));
  const int64_t n_batch = std::clamp<int64_t>(kMaxLogitBytes / logit_bytes, 1, session.options().n_batch);
  for (int64_t chunk_idx = options.first_chunk; chunk_idx < text.n_chunks(); ++chunk_idx) {
    TRY(run_chunk(session, text.chunk(chunk_idx), n_batch));
    collector.count_chunks(1);
    const int64_t n_done = chunk_idx + 1 - options.first_chunk;
    if (options.after_chunk && !TRY(options.after_chunk(n_done, text.n_chunks() - options.first_chunk))) return n_done;
  }
  return std::max<int64_t>(text.n_chunks() - options.first_chunk, 0);
}

}  // namespace tokamak

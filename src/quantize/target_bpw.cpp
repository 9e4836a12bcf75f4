#include "quantize/target_bpw.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>

#include "base/thread_pool.h"
#include "quant/codec.h"
#include "quantize/encode_tensor.h"

namespace tokamak {

namespace {
// Without ternary, one-bit and FP4 types: they are for models trained for them.
constexpr auto kCandidates = std::to_array<DType>({
    DType::iq1_s, DType::iq1_m, DType::iq2_xxs, DType::iq2_xs, DType::iq2_s, DType::q2_0, DType::q2_k, DType::iq3_xxs,
    DType::q3_k,  DType::iq3_s, DType::iq4_xs,  DType::iq4_nl, DType::q4_0,  DType::q4_k, DType::q4_1, DType::q5_0,
    DType::q5_k,  DType::q5_1,  DType::q6_k,    DType::q8_0,   DType::bf16,  DType::f16,
});
constexpr int64_t kSampleElems = 128 << 10;  // per tensor
constexpr int64_t kMinSampleRows = 8;

struct Choice {
  DType type;
  uint64_t n_bytes = 0;
  double error = 0;  // times the tensor's sensitivity
};

// The choices worth having: more bytes must remove error, and faster than the next upgrade does.
std::vector<Choice> lower_hull(std::vector<Choice> choices) {
  std::ranges::sort(choices, {}, [](const Choice& c) { return std::pair(c.n_bytes, c.error); });
  std::vector<Choice> hull;
  const auto slope = [](const Choice& a, const Choice& b) {
    return (a.error - b.error) / static_cast<double>(b.n_bytes - a.n_bytes);
  };
  for (const Choice& choice : choices) {
    if (!hull.empty() && (choice.error >= hull.back().error || choice.n_bytes == hull.back().n_bytes)) continue;
    while (hull.size() >= 2 && slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), choice)) hull.pop_back();
    hull.push_back(choice);
  }
  return hull;
}

class Chooser {
 public:
  Chooser(const GgufFile& file, const MixModel& model, const QuantizeOptions& options, Plan& plan, ThreadPool& pool)
      : file_(file), model_(model), options_(options), plan_(plan), pool_(pool), hulls_(plan.tensors.size()) {
    model_.has_output = file.find_tensor("output.weight") != nullptr;
  }

  Result<void> run(const std::function<bool(double)>& progress) {
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      const PlannedTensor& planned = plan_.tensors[i];
      if (planned.is_quantizable && !planned.is_fixed)
        hulls_[i] = lower_hull(TRY(measure(planned, possible_types(source_of(planned)))));
      if (progress && !progress((i + 1.0) / static_cast<double>(plan_.tensors.size())))
        return Error{.code = ErrorCode::cancelled, .what = "cancelled; nothing was written"};
    }
    return spend();
  }

  Result<double> measure_given() {
    double sum = 0;
    for (PlannedTensor& planned : plan_.tensors) {
      planned.error = 0;
      if (planned.type == source_of(planned).type) continue;
      const std::vector<Choice> choices = TRY(measure(planned, {planned.type}));
      const double error = choices.size() > 1 ? choices[1].error : INFINITY;
      planned.error = error / sensitivity_of(planned);
      sum += error;
    }
    return sum;
  }

 private:
  const GgufTensor& source_of(const PlannedTensor& planned) const { return file_.tensors()[planned.source]; }

  double sensitivity_of(const PlannedTensor& planned) const {
    const std::string& name = source_of(planned).name;
    return sensitivity(tensor_role(name), layer_of(name).value_or(-1), model_);
  }

  bool is_possible(DType type, const GgufTensor& source, bool has_importance) const {
    const DTypeRow& row = dtype_row(type);
    return type != source.type && can_encode(type) && source.shape.row_elems() % row.block_elems == 0 &&
           (row.imatrix != Imatrix::required || has_importance) &&
           bits_per_weight(row) < bits_per_weight(dtype_row(source.type)) &&
           (!is_quantized(source.type) || options_.allow_requantize);
  }

  std::vector<DType> possible_types(const GgufTensor& source) const {
    const bool has_importance = importance_of(source.name, options_) != nullptr;
    std::vector<DType> types;
    for (DType type : kCandidates)
      if (is_possible(type, source, has_importance)) types.push_back(type);
    return types;
  }

  // Rows spread evenly over the tensor, decoded.
  struct Sample {
    std::vector<int64_t> rows;
    std::vector<float> x;           // [rows, row_elems]
    std::vector<float> importance;  // [n_mat, row_elems] or empty
    int64_t row_elems = 0, rows_per_mat = 1;
    const float* values(size_t i) const { return x.data() + static_cast<int64_t>(i) * row_elems; }
    const float* weights(size_t i) const {
      return importance.empty() ? nullptr : importance.data() + rows[i] / rows_per_mat * row_elems;
    }
  };

  Result<Sample> take_sample(const PlannedTensor& planned) const {
    const GgufTensor& source = source_of(planned);
    Sample sample{.row_elems = source.shape.row_elems()};
    const int64_t n_rows = source.shape.n_rows(), n_mat = n_matrices(source.shape);
    sample.rows_per_mat = n_rows / n_mat;
    const std::vector<float> scales = TRY(weight_scales(file_, source));
    const int64_t n = std::min(n_rows, std::max(kMinSampleRows, kSampleElems / sample.row_elems));
    if (const ImatrixEntry* entry = importance_of(source.name, options_))
      sample.importance = TRY(imatrix_means(*options_.imatrix, *entry, n_mat, sample.row_elems));
    sample.x.resize(static_cast<size_t>(n * sample.row_elems));
    const size_t row_bytes = source.data.size() / static_cast<size_t>(n_rows);
    const auto n_elems = static_cast<size_t>(sample.row_elems);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = (2 * i + 1) * n_rows / (2 * n);
      sample.rows.push_back(row);
      const std::span<float> x = std::span(sample.x).subspan(static_cast<size_t>(i * sample.row_elems), n_elems);
      decode_row(source.type, source.data.data() + static_cast<size_t>(row) * row_bytes, sample.row_elems, x.data());
      if (scales.empty()) continue;
      for (float& value : x) value *= scales[static_cast<size_t>(row / sample.rows_per_mat)];
    }
    for (float value : sample.x)
      if (!std::isfinite(value))
        return Error{.code = ErrorCode::bad_tensor,
                     .what = fmt::format("an element is {}", value),
                     .where = fmt::format("tensor {}", source.name)};
    return sample;
  }

  // Weighted squared error of one row in `type`, or of the row itself against zero (no type).
  static double row_error(const Sample& sample, size_t i, std::optional<DType> type, std::vector<std::byte>& bytes,
                          std::vector<float>& back) {
    const float* x = sample.values(i);
    const float* weights = sample.weights(i);
    back.assign(static_cast<size_t>(sample.row_elems), 0.0f);
    if (type) {
      bytes.resize(dtype_bytes(*type, static_cast<uint64_t>(sample.row_elems)));
      if (!encode_row(*type, x, sample.row_elems, weights, bytes.data())) return INFINITY;  // too large for the type
      decode_row(*type, bytes.data(), sample.row_elems, back.data());
    }
    double sum = 0;
    for (int64_t j = 0; j < sample.row_elems; ++j) {
      const double difference = static_cast<double>(x[j]) - back[static_cast<size_t>(j)];
      sum += (weights ? weights[j] : 1.0) * difference * difference;
    }
    return sum;
  }

  // The source's own type, which costs nothing, and the given ones with their errors.
  Result<std::vector<Choice>> measure(const PlannedTensor& planned, const std::vector<DType>& types) {
    const GgufTensor& source = source_of(planned);
    std::vector<Choice> choices = {{source.type, source.n_bytes, 0}};
    for (DType type : types)
      choices.push_back({type, dtype_bytes(type, static_cast<uint64_t>(source.shape.n_elements()))});
    if (choices.size() == 1) return choices;
    const Sample sample = TRY(take_sample(planned));
    const auto n_rows = static_cast<int64_t>(sample.rows.size());
    const int64_t n_tasks = static_cast<int64_t>(choices.size()) * n_rows;  // choice 0: the signal
    std::vector<double> errors(static_cast<size_t>(n_tasks));
    std::atomic<int64_t> next{0};
    pool_.run([&](int, int) {
      std::vector<std::byte> bytes;
      std::vector<float> back;
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n_tasks;) {
        const auto which = static_cast<size_t>(task / n_rows), row = static_cast<size_t>(task % n_rows);
        errors[static_cast<size_t>(task)] =
            row_error(sample, row, which == 0 ? std::nullopt : std::optional<DType>(choices[which].type), bytes, back);
      }
    });
    const auto sum_of = [&](size_t which) {
      double sum = 0;
      for (int64_t row = 0; row < n_rows; ++row)
        sum += errors[which * static_cast<size_t>(n_rows) + static_cast<size_t>(row)];
      return sum;
    };
    const double signal = sum_of(0), weight = sensitivity_of(planned);
    for (size_t which = 1; which < choices.size(); ++which)
      choices[which].error = signal > 0 ? weight * sum_of(which) / signal : 0;
    std::erase_if(choices, [](const Choice& choice) { return !std::isfinite(choice.error); });
    return choices;
  }

  void take(size_t i, const Choice& choice) {
    PlannedTensor& planned = plan_.tensors[i];
    const GgufTensor& source = source_of(planned);
    planned.type = choice.type;
    planned.error = choice.error / sensitivity_of(planned);
    planned.is_fallback = false;
    planned.scale_name.clear();
    const bool uses_imatrix = choice.type != source.type && is_quantized(choice.type);
    planned.importance = uses_imatrix ? importance_of(source.name, options_) : nullptr;
  }

  // From the smallest types up, the upgrade that removes most error per byte first, as long as it fits.
  Result<void> spend() {
    const double n_elements = static_cast<double>(plan_.n_elements(file_.tensors()));
    const auto budget = static_cast<uint64_t>(options_.target_bpw * n_elements / 8);
    std::vector<size_t> at(hulls_.size(), 0);
    for (size_t i = 0; i < hulls_.size(); ++i)
      if (!hulls_[i].empty()) take(i, hulls_[i][0]);
    uint64_t n_bytes = plan_.n_bytes(file_.tensors());
    if (n_bytes > budget)
      return Error{
          .code = ErrorCode::bad_argument,
          .what = fmt::format("the smallest types that can be used here need {:.2f} bits per weight",
                              8 * static_cast<double>(n_bytes) / n_elements),
          .where = fmt::format("--target-bpw {}", options_.target_bpw),
          .hint = options_.imatrix ? "ask for more" : "ask for more, or give --imatrix FILE: it allows smaller types"};
    struct Upgrade {
      double gain;  // error removed per byte
      size_t tensor, to;
    };
    std::vector<Upgrade> upgrades;
    for (size_t i = 0; i < hulls_.size(); ++i)
      for (size_t k = 1; k < hulls_[i].size(); ++k) {
        const Choice &from = hulls_[i][k - 1], &to = hulls_[i][k];
        upgrades.push_back({(from.error - to.error) / static_cast<double>(to.n_bytes - from.n_bytes), i, k});
      }
    // Along a hull gains fall, so a tensor's upgrades come in their order.
    std::ranges::stable_sort(upgrades, std::greater<>(), &Upgrade::gain);
    for (const Upgrade& upgrade : upgrades) {
      const Choice &from = hulls_[upgrade.tensor][at[upgrade.tensor]], &to = hulls_[upgrade.tensor][upgrade.to];
      if (n_bytes - from.n_bytes + to.n_bytes > budget) continue;
      n_bytes += to.n_bytes - from.n_bytes;
      at[upgrade.tensor] = upgrade.to;
      take(upgrade.tensor, to);
    }
    return {};
  }

  const GgufFile& file_;
  MixModel model_;
  const QuantizeOptions& options_;
  Plan& plan_;
  ThreadPool& pool_;
  std::vector<std::vector<Choice>> hulls_;  // by planned tensor; empty: its type is given
};
}  // namespace

double sensitivity(TensorRole role, int64_t layer, const MixModel& model) {
  constexpr double kEmbedding = 2, kLastLayer = 4, kOther = 0.4;
  if (role == TensorRole::output || (role == TensorRole::token_embd && !model.has_output))
    return 2.0 * static_cast<double>(std::max<int64_t>(1, model.n_layer));
  if (role == TensorRole::token_embd) return kEmbedding;
  const double among_layers = layer >= 0 && layer == model.n_layer - 1 ? kLastLayer : 1;
  switch (role) {
    case TensorRole::attn_v:
      return 2.3 * among_layers;
    case TensorRole::ffn_down:
      return 1.9 * among_layers;
    case TensorRole::ffn_up:
      return 1.2 * among_layers;
    default:
      return kOther * among_layers;
  }
}

Result<void> choose_types(const GgufFile& file, const QuantizeOptions& options, int n_threads,
                          const std::function<bool(double fraction)>& progress, Plan& plan) {
  const auto pool = TRY(ThreadPool::create(n_threads));
  plan.without_importance.clear();
  TRY(Chooser(file, TRY(read_mix_model(file)), options, plan, *pool).run(progress));
  drop_replaced_scales(file.tensors(), plan);
  return {};
}

Result<double> measure_plan(const GgufFile& file, const QuantizeOptions& options, int n_threads, Plan& plan) {
  const auto pool = TRY(ThreadPool::create(n_threads));
  return Chooser(file, TRY(read_mix_model(file)), options, plan, *pool).measure_given();
}

FileType dominant_file_type(std::span<const GgufTensor> tensors, const Plan& plan) {
  std::map<DType, int64_t> counts;
  for (const PlannedTensor& planned : plan.tensors)
    if (planned.is_quantizable) counts[planned.type] += tensors[planned.source].shape.n_elements();
  const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return most == counts.end() ? FileType::f16 : file_type_of(most->first);
}

}  // namespace tokamak

#include "quantize/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <regex>
#include <set>

#include "quant/codec.h"

namespace tokamak {

namespace {
constexpr std::string_view kWeight = ".weight";

struct TypeRule {
  std::regex pattern;
  DType type;
};

Result<TypeRule> parse_type_rule(const std::string& text) {
  constexpr std::string_view kFlag = "--tensor-type";
  const size_t equals = text.rfind('=');
  if (equals == 0 || equals == std::string::npos)
    return Error{.code = ErrorCode::bad_argument,
                 .what = "must be REGEX=TYPE",
                 .where = fmt::format("{} {}", kFlag, text),
                 .hint = "for example --tensor-type \"attn_v=Q8_0\""};
  const DType type = TRY(find_target_type(std::string_view(text).substr(equals + 1), kFlag));
  try {
    return TypeRule{std::regex(text.substr(0, equals), std::regex::optimize), type};
  } catch (const std::regex_error& error) {
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("not a regular expression: {}", error.what()),
                 .where = fmt::format("{} {}", kFlag, text)};
  }
}

bool has_any_part(std::string_view name, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [name](const std::string& part) { return name.find(part) != name.npos; });
}

// Places by tensor: roles are counted in the order of layers, then names, whatever the order in the file.
std::vector<MixPlace> find_places(std::span<const GgufTensor> tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    return std::pair(layer_of(tensors[i].name).value_or(-1), std::string_view(tensors[i].name));
  };
  std::ranges::sort(order, {}, key);
  std::vector<MixPlace> places(tensors.size());
  int64_t counts[kNumTensorRoles] = {};
  for (size_t i : order) {
    MixPlace& place = places[i];
    place.role = tensor_role(tensors[i].name);
    place.idx = counts[static_cast<size_t>(place.role)]++;
    place.layer = layer_of(tensors[i].name).value_or(0);
    place.row_elems = tensors[i].shape.row_elems();
    place.is_stack = tensors[i].shape.rank() > 2;
  }
  return places;
}

// The new name of a tensor when some layers go; nothing: the tensor goes.
std::optional<std::string> pruned_name(const std::string& name, const std::set<int64_t>& pruned) {
  const auto layer = layer_of(name);
  if (!layer || pruned.empty()) return name;
  if (pruned.contains(*layer)) return std::nullopt;
  const auto n_before = std::distance(pruned.begin(), pruned.lower_bound(*layer));
  const size_t begin = name.find("blk.") + 4, end = name.find('.', begin);
  return name.substr(0, begin) + std::to_string(*layer - n_before) + name.substr(end);
}

std::string where_of(const GgufTensor& tensor) { return fmt::format("tensor {}", tensor.name); }

class Planner {
 public:
  Planner(std::span<const GgufTensor> tensors, const MixModel& model, const QuantizeOptions& options)
      : tensors_(tensors), model_(model), options_(options) {}

  Result<Plan> run() {
    for (const std::string& text : options_.tensor_types) rules_.push_back(TRY(parse_type_rule(text)));
    TRY(read_pruned());
    find_model_facts();
    Plan plan;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      auto name = pruned_name(tensors_[i].name, pruned_);
      if (!name) continue;
      PlannedTensor planned{.source = i, .name = *std::move(name), .type = tensors_[i].type};
      TRY(choose(i, planned, plan));
      plan.tensors.push_back(std::move(planned));
    }
    if (options_.target_bpw <= 0) drop_replaced_scales(tensors_, plan);
    return plan;
  }

 private:
  Result<void> read_pruned() {
    for (int64_t layer : options_.prune_layers) {
      if (layer < 0 || layer >= model_.n_layer)
        return Error{.code = ErrorCode::bad_argument,
                     .what = fmt::format("there is no layer {}: the model has {}", layer, model_.n_layer),
                     .where = "--prune-layers"};
      pruned_.insert(layer);
    }
    if (model_.n_layer > 0 && static_cast<int64_t>(pruned_.size()) == model_.n_layer)
      return Error{.code = ErrorCode::bad_argument, .what = "no layer is left", .where = "--prune-layers"};
    return {};
  }

  void find_model_facts() {
    places_ = find_places(tensors_);
    model_.has_output = false;
    model_.n_attn_v = 0;
    for (const MixPlace& place : places_) {
      model_.has_output |= place.role == TensorRole::output;
      model_.n_attn_v += place.role == TensorRole::attn_v;
    }
    model_.has_imatrix = options_.imatrix != nullptr;
  }

  // The type wanted for a quantizable tensor, before the row length is looked at; nothing: leave it.
  std::optional<DType> wanted(const GgufTensor& tensor, const MixPlace& place, bool& is_fixed) const {
    is_fixed = true;
    for (const TypeRule& rule : rules_)
      if (std::regex_search(tensor.name, rule.pattern)) return rule.type;
    const bool is_output =
        place.role == TensorRole::output || (place.role == TensorRole::token_embd && !model_.has_output);
    if (is_output && options_.leave_output) return std::nullopt;
    if (is_output && options_.output_type) return options_.output_type;
    if (place.role == TensorRole::token_embd && options_.embedding_type) return options_.embedding_type;
    is_fixed = false;
    if (!options_.file_type) return std::nullopt;
    if (options_.pure) return file_type_row(*options_.file_type).type;
    return mixed_type(*options_.file_type, model_, place);
  }

  Result<void> choose(size_t i, PlannedTensor& planned, Plan& plan) {
    const GgufTensor& tensor = tensors_[i];
    planned.is_quantizable = is_quantizable(tensor.name, tensor.shape) && is_weight(tensor.type);
    if (!planned.is_quantizable) return {};
    const std::optional<DType> type = wanted(tensor, places_[i], planned.is_fixed);
    if (!type || *type == tensor.type) return {};
    const std::optional<DType> fitting = fitting_type(*type, tensor.shape.row_elems());
    if (!fitting)
      return Error{.code = ErrorCode::bad_argument,
                   .what = fmt::format("rows of {} elements do not fit the blocks of {} of type {}",
                                       tensor.shape.row_elems(), dtype_row(*type).block_elems, dtype_name(*type)),
                   .where = where_of(tensor),
                   .hint = fmt::format("give it another type: --tensor-type \"{}=Q8_0\"", tensor.name)};
    planned.is_fallback = *fitting != *type;
    if (*fitting == tensor.type) return {};
    planned.type = *fitting;
    find_importance(tensor, planned, plan);
    const bool is_looked_up = places_[i].role == TensorRole::token_embd;  // no product to scale
    if (planned.type == DType::nvfp4 && !is_looked_up && tensor.shape.rank() <= 3)
      planned.scale_name = scale_name_of(planned.name);
    return {};
  }

  static bool is_weight(DType type) {
    return type == DType::f32 || type == DType::f16 || type == DType::bf16 || is_quantized(type);
  }

  void find_importance(const GgufTensor& tensor, PlannedTensor& planned, Plan& plan) const {
    if (!options_.imatrix || !is_quantized(planned.type)) return;
    planned.importance = importance_of(tensor.name, options_);
    if (!options_.imatrix->find(tensor.name)) plan.without_importance.push_back(tensor.name);
  }

  std::span<const GgufTensor> tensors_;
  MixModel model_;
  const QuantizeOptions& options_;
  std::vector<TypeRule> rules_;
  std::set<int64_t> pruned_;
  std::vector<MixPlace> places_;
};

Result<void> check_source(const GgufTensor& tensor, const PlannedTensor& planned, bool allow_requantize) {
  if (is_quantized(tensor.type) && !allow_requantize)
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("is quantized already ({}): making {} of it loses quality twice",
                                     dtype_name(tensor.type), dtype_name(planned.type)),
                 .where = where_of(tensor),
                 .hint = "start from the F16, BF16 or F32 model, or allow it with --allow-requantize"};
  if (can_encode(planned.type)) return {};
  return Error{.code = ErrorCode::unsupported,
               .what = fmt::format("no encoder for type {}", dtype_name(planned.type)),
               .where = where_of(tensor),
               .hint = "choose another type"};
}

// token_embd and output are exempt: calibration does not reach the one and seldom matters for the other.
Result<void> check_importance(const GgufTensor& tensor, const PlannedTensor& planned, const QuantizeOptions& options) {
  const TensorRole role = tensor_role(tensor.name);
  const bool is_exempt = role == TensorRole::token_embd || role == TensorRole::output;
  const bool is_small_k = planned.type == DType::q2_k && options.file_type == FileType::q2_k_s;
  if (planned.importance || is_exempt || (dtype_row(planned.type).imatrix != Imatrix::required && !is_small_k))
    return {};
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("type {} {} needs an importance matrix{}", dtype_name(planned.type),
                                   is_small_k ? "in a Q2_K_S file" : "has so few bits that it",
                                   options.imatrix ? ", and the one given has no entry for this tensor" : ""),
               .where = where_of(tensor),
               .hint = "make one with `tokamak imatrix` and give it with --imatrix FILE"};
}
}  // namespace

uint64_t Plan::n_bytes(std::span<const GgufTensor> from) const {
  uint64_t n = 0;
  for (const PlannedTensor& tensor : tensors) n += tensor.n_bytes(from[tensor.source]);
  return n;
}

uint64_t Plan::n_elements(std::span<const GgufTensor> from) const {
  uint64_t n = 0;
  for (const PlannedTensor& tensor : tensors) n += static_cast<uint64_t>(from[tensor.source].shape.n_elements());
  return n;
}

const ImatrixEntry* importance_of(std::string_view name, const QuantizeOptions& options) {
  if (!options.imatrix || has_any_part(name, options.exclude)) return nullptr;
  if (!options.include.empty() && !has_any_part(name, options.include)) return nullptr;
  return options.imatrix->find(name);
}

std::string scale_name_of(std::string_view weight_name) {
  if (weight_name.ends_with(kWeight)) weight_name.remove_suffix(kWeight.size());
  return std::string(weight_name) + ".scale";
}

void drop_replaced_scales(std::span<const GgufTensor> tensors, Plan& plan) {
  std::set<std::string> replaced;
  for (const PlannedTensor& planned : plan.tensors)
    if (planned.type != tensors[planned.source].type && planned.name.ends_with(kWeight))
      replaced.insert(scale_name_of(planned.name));
  std::erase_if(plan.tensors, [&](const PlannedTensor& planned) { return replaced.contains(planned.name); });
}

Result<MixModel> read_mix_model(const GgufFile& file) {
  MixModel model;
  const std::string arch(TRY(file.get_string_or("general.architecture", "")));
  model.is_falcon = arch == "falcon";
  const auto largest = [&](std::string_view key) -> Result<int64_t> {
    const auto values = TRY(file.get_ints_or(fmt::format("{}.{}", arch, key), {}));
    return values.empty() ? 0 : std::max<int64_t>(0, *std::ranges::max_element(values));
  };
  model.n_layer = TRY(largest("block_count"));
  model.n_head = TRY(largest("attention.head_count"));
  model.n_head_kv = TRY(largest("attention.head_count_kv"));
  if (model.n_head_kv == 0) model.n_head_kv = model.n_head;
  model.n_expert = TRY(largest("expert_count"));
  return model;
}

Result<Plan> make_plan(std::span<const GgufTensor> tensors, const MixModel& model, const QuantizeOptions& options) {
  return Planner(tensors, model, options).run();
}

Result<void> check_plan(std::span<const GgufTensor> tensors, const Plan& plan, const QuantizeOptions& options) {
  for (const PlannedTensor& planned : plan.tensors) {
    const GgufTensor& tensor = tensors[planned.source];
    if (planned.type == tensor.type) continue;
    TRY(check_source(tensor, planned, options.allow_requantize));
    TRY(check_importance(tensor, planned, options));
  }
  return {};
}

}  // namespace tokamak

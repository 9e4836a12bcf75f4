#include "convert/rope_config.h"

#include "arch/hparams.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace tokamak::convert {

namespace {

constexpr double kMaxTheta = 1e12, kMaxFactor = 1e6, kMaxContext = 1e9;

// One layer type's rope, wherever it stands.
struct RopeSection {
  ConfigReader reader;
  double theta;
  std::string kind;  // rope_type
};

Error unsupported(const ConfigReader& reader, std::string_view field, std::string what) {
  return {.code = ErrorCode::unsupported, .what = std::move(what), .where = reader.where(field)};
}

Result<std::string> kind_of(const ConfigReader& reader) {
  const auto kind = TRY(reader.text("rope_type"));
  if (kind) return *kind;
  return TRY(reader.text("type")).value_or("default");
}

// rope_parameters holds theta and scaling; the older form keeps theta beside rope_scaling.
Result<RopeSection> find_rope(const ConfigReader& config, const ModelConfig& model, std::string_view layer_type) {
  double theta = TRY(config.number("rope_theta", 1, kMaxTheta)).value_or(model.family->rope_theta);
  ConfigReader reader = TRY(config.section(config.has("rope_parameters") ? "rope_parameters" : "rope_scaling"));
  if (reader.has(layer_type)) reader = TRY(reader.section(layer_type));
  theta = TRY(reader.number("rope_theta", 1, kMaxTheta)).value_or(theta);
  std::string kind = TRY(kind_of(reader));
  return RopeSection{reader, theta, std::move(kind)};
}

// How much of each head is rotated.
Result<void> read_n_rot(const ConfigReader& config, const RopeSection& rope, ModelConfig& model) {
  const arch::CheckpointFamily& family = *model.family;
  std::optional<double> share;
  for (const ConfigReader& place : {config, rope.reader}) {
    const auto given = TRY(place.number("partial_rotary_factor", 0, 1));
    if (given.value_or(1) != 1 && family.partial_rotary == 0)
      return unsupported(place, "partial_rotary_factor",
                         "rotating a part of each head is not supported in this family");
    if (given) share = given;
  }
  const auto n_rot = TRY(config.integer("rotary_dim", 2, model.head_dim));
  if (!model.has(arch::kLatentAttention) && family.partial_rotary != 0)
    model.n_rot = n_rot.value_or(
        static_cast<int64_t>(static_cast<double>(model.head_dim) * share.value_or(family.partial_rotary)));
  if (model.n_rot % 2 != 0 || model.n_rot == 0)
    return config.error("head_dim", fmt::format("{} rotated dimensions cannot be rotated in pairs", model.n_rot));
  model.add("rope.dimension_count", static_cast<uint32_t>(model.n_rot));
  const Json* sections = rope.reader.find("mrope_section");
  if (!sections || !sections->is_array() || sections->size() > 4) return {};
  std::vector<int32_t> sizes;  // in pairs; with text alone all of them turn alike
  for (const Json& item : *sections) {
    if (!item.is_number_integer() || item < 0 || item > arch::kMaxHeadDim)
      return rope.reader.error("mrope_section", "must be a list of sizes");
    sizes.push_back(item.get<int32_t>());
  }
  sizes.resize(4, 0);
  model.add("rope.dimension_sections", std::move(sizes));
  return {};
}

// Divisors of the angles. Source: Llama 3.1's model card code; low frequencies are divided by `factor`, high ones kept.
Result<std::vector<float>> llama3_factors(const RopeSection& rope, const ModelConfig& model) {
  const ConfigReader& r = rope.reader;
  const auto needed = [&](std::string_view field, double min, double max) -> Result<double> {
    const auto value = TRY(r.number(field, min, max));
    if (!value) return r.error(field, "is missing");
    return *value;
  };
  const double factor = TRY(needed("factor", 1e-6, kMaxFactor)), low = TRY(needed("low_freq_factor", 1e-6, kMaxFactor)),
               high = TRY(needed("high_freq_factor", 1e-6, kMaxFactor));
  if (high <= low) return r.error("high_freq_factor", "must be more than low_freq_factor");
  const double n_ctx =
      TRY(r.number("original_max_position_embeddings", 1, kMaxContext)).value_or(static_cast<double>(model.n_ctx));
  std::vector<float> factors;
  for (int64_t pair = 0; pair < model.n_rot / 2; ++pair) {
    const double angle = std::pow(rope.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(model.n_rot));
    const double turns = n_ctx * angle / (2 * std::numbers::pi);  // in the original context
    const double keep = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - keep) / factor + keep)));
  }
  return factors;
}

double yarn_magnitude(double scale, double mscale = 1) { return scale <= 1 ? 1 : 0.1 * mscale * std::log(scale) + 1; }

// The factor on cos and sin that an engine applies by itself: arch/architectures.h, Yarn.
double assumed_magnitude(const ModelConfig& model, double factor, double mscale_all) {
  const double log = model.family->yarn_log;
  if (log == 0 || mscale_all == 0) return yarn_magnitude(factor);
  return log == 1 ? yarn_magnitude(factor) / yarn_magnitude(factor, mscale_all) : 1;
}

Result<void> add_yarn(const RopeSection& rope, ModelConfig& model) {
  const ConfigReader& r = rope.reader;
  const double n_ctx = static_cast<double>(model.n_ctx);
  const double n_ctx_orig = TRY(r.number("original_max_position_embeddings", 1, kMaxContext)).value_or(n_ctx);
  const double factor = TRY(r.number("factor", 1e-6, kMaxFactor)).value_or(n_ctx / n_ctx_orig);
  const auto mscale = TRY(r.number("mscale", 0, 1e3)), mscale_all = TRY(r.number("mscale_all_dim", 0, 1e3));
  const auto given = TRY(r.number("attention_factor", 1e-6, 1e3));
  const auto beta_fast = TRY(r.number("beta_fast", 0, kMaxFactor)),
             beta_slow = TRY(r.number("beta_slow", 0, kMaxFactor));
  if (TRY(r.boolean("truncate")).value_or(true) != model.family->yarn_rounded)
    return unsupported(r, "truncate",
                       fmt::format("YaRN {} rounded range is not supported in this family",
                                   model.family->yarn_rounded ? "without" : "with"));
  model.add("rope.scaling.type", std::string("yarn"));
  model.add("rope.scaling.factor", static_cast<float>(factor));
  model.add("rope.scaling.original_context_length", static_cast<uint32_t>(n_ctx_orig));
  if (beta_fast.value_or(0) != 0) model.add("rope.scaling.yarn_beta_fast", static_cast<float>(*beta_fast));
  if (beta_slow.value_or(0) != 0) model.add("rope.scaling.yarn_beta_slow", static_cast<float>(*beta_slow));
  if (model.family->yarn_log != 0 && mscale_all.value_or(0) != 0)
    model.add("rope.scaling.yarn_log_multiplier", static_cast<float>(model.family->yarn_log * *mscale_all));
  double magnitude = yarn_magnitude(factor);
  if (mscale.value_or(0) != 0 && mscale_all.value_or(0) != 0)
    magnitude = yarn_magnitude(factor, *mscale) / yarn_magnitude(factor, *mscale_all);
  magnitude = given.value_or(magnitude);
  const double assumed = assumed_magnitude(model, factor, mscale_all.value_or(0));
  if (magnitude != assumed) model.add("rope.scaling.attn_factor", static_cast<float>(magnitude / assumed));
  return {};
}

Result<std::vector<float>> factor_list(const RopeSection& rope, std::string_view field, const ModelConfig& model) {
  const Json* list = rope.reader.find(field);
  const auto n = static_cast<size_t>(model.n_rot / 2);
  const auto is_factor = [](const Json& item) { return item.is_number() && item > 0; };
  if (!list || !list->is_array() || list->size() != n || !std::ranges::all_of(*list, is_factor))
    return rope.reader.error(field, fmt::format("must be a list of {} positive numbers", n));
  return list->get<std::vector<float>>();
}

// Two sets of factors, one for sequences beyond the original context. Source: Ding et al. 2024 (arXiv:2402.13753).
Result<void> add_longrope(const ConfigReader& config, const RopeSection& rope, ModelConfig& model) {
  const ConfigReader& r = rope.reader;
  const double n_ctx = static_cast<double>(model.n_ctx);
  auto n_ctx_orig = TRY(r.number("original_max_position_embeddings", 1, kMaxContext));
  if (!n_ctx_orig) n_ctx_orig = TRY(config.number("original_max_position_embeddings", 1, kMaxContext));
  const double original = n_ctx_orig.value_or(n_ctx);
  const double factor = TRY(r.number("factor", 1e-6, kMaxFactor)).value_or(n_ctx / original);
  const double usual = factor <= 1 || original <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  const double magnitude = TRY(r.number("attention_factor", 1e-6, 1e3)).value_or(usual);
  model.add("rope.scaling.type", std::string("longrope"));
  // No factor: other engines would divide the positions by it besides.
  model.add("rope.scaling.original_context_length", static_cast<uint32_t>(original));
  model.add("rope.scaling.attn_factor", static_cast<float>(magnitude));
  auto far = TRY(factor_list(rope, "long_factor", model)), near = TRY(factor_list(rope, "short_factor", model));
  model.rope_factors.push_back({"rope_factors_long.weight", std::move(far)});
  model.rope_factors.push_back({"rope_factors_short.weight", std::move(near)});
  return {};
}

Result<void> add_scaling(const ConfigReader& config, const RopeSection& rope, ModelConfig& model) {
  if (rope.kind == "default" || rope.kind == "dynamic") return {};  // a fixed "dynamic" scaling is in the base
  if (rope.kind == "yarn") return add_yarn(rope, model);
  if (rope.kind == "longrope" || rope.kind == "su") return add_longrope(config, rope, model);
  if (rope.kind == "linear") {
    const auto factor = TRY(rope.reader.number("factor", 1e-6, kMaxFactor));
    if (!factor) return rope.reader.error("factor", "is missing");
    model.add("rope.scaling.type", std::string("linear"));
    model.add("rope.scaling.factor", static_cast<float>(*factor));
    return {};
  }
  if (rope.kind == "llama3") {
    auto factors = TRY(llama3_factors(rope, model));
    model.rope_factors.push_back({"rope_freqs.weight", std::move(factors)});
    return {};
  }
  Error error = unsupported(rope.reader, "rope_type", fmt::format("rope scaling '{}' is not supported", rope.kind));
  error.hint = "supported: default, linear, yarn, llama3, longrope, dynamic with alpha";
  return error;
}

// Hunyuan: a fixed alpha stretches the base, whatever the context.
Result<double> scaled_theta(const RopeSection& rope, const ModelConfig& model) {
  if (rope.kind != "dynamic") return rope.theta;
  const auto alpha = TRY(rope.reader.number("alpha", 1e-6, kMaxFactor));
  if (!alpha)
    return Error{.code = ErrorCode::unsupported,
                 .what = "rope scaling 'dynamic' is not supported without a fixed alpha",
                 .where = rope.reader.where("rope_type")};
  const auto n_rot = static_cast<double>(model.n_rot);
  const double theta = rope.theta * std::pow(*alpha, n_rot / (n_rot - 2));
  if (!(theta > 1 && theta <= kMaxTheta)) return rope.reader.error("alpha", fmt::format("makes {} the base", theta));
  return theta;
}

// Queries grow with the position.
Result<void> read_temperature(const ConfigReader& config, const RopeSection& rope, ModelConfig& model) {
  if (const auto beta = TRY(rope.reader.number("llama_4_scaling_beta", 0, 1e6))) {
    const auto length =
        TRY(rope.reader.integer("original_max_position_embeddings", 1, static_cast<int64_t>(kMaxContext)));
    model.add("attention.temperature_scale", static_cast<float>(*beta));
    model.add("attention.temperature_length", static_cast<uint32_t>(length.value_or(model.n_ctx)));
  }
  if (model.family->windows != arch::Windows::chunks) return {};
  const auto with_default = [&](std::string_view field) -> Result<double> {
    double fallback = 0;
    for (const arch::ConfigValue& row : model.family->defaults)
      if (row.config == field) fallback = row.value;
    return TRY(config.number(field, 0, kMaxContext)).value_or(fallback);
  };
  const Json* tuned = config.find("attn_temperature_tuning");  // true, or 4 in old files
  const bool is_off = tuned && (*tuned == false || *tuned == 0);
  const double scale = is_off ? 0 : TRY(with_default("attn_scale"));
  model.add("attention.temperature_scale", static_cast<float>(scale));
  model.add("attention.temperature_length", static_cast<uint32_t>(TRY(with_default("floor_scale"))));
  return {};
}

// Per layer: is it a sliding one?
Result<std::vector<bool>> sliding_layers(const ConfigReader& config, const ModelConfig& model) {
  const arch::CheckpointFamily& family = *model.family;
  const auto n = static_cast<size_t>(model.n_layer);
  if (family.windows == arch::Windows::every_layer) return std::vector<bool>(n, true);
  std::vector<bool> sliding(n);
  if (const Json* types = config.find("layer_types")) {
    if (!types->is_array() || types->size() != n)
      return config.error("layer_types", fmt::format("must name {} layers", n));
    for (size_t i = 0; i < n; ++i) {
      const Json& type = (*types)[i];
      const char* local = family.windows == arch::Windows::chunks ? "chunked_attention" : "sliding_attention";
      if (type != local && type != "full_attention")
        return unsupported(config, "layer_types", fmt::format("layer type {} is not supported", type.dump()));
      sliding[i] = type == local;
    }
    return sliding;
  }
  if (family.window_period != 0) {
    const Json* given = config.find("sliding_window_pattern");
    if (given && given->is_string() && !given->get<std::string>().empty()) {  // EXAONE: a letter per layer
      const std::string letters = given->get<std::string>();
      for (size_t i = 0; i < n; ++i) sliding[i] = letters[i % letters.size()] == 'L';
      return sliding;
    }
    const auto period = TRY(config.integer("sliding_window_pattern", 1, 1000)).value_or(family.window_period);
    for (size_t i = 0; i < n; ++i) sliding[i] = (static_cast<int64_t>(i) + 1) % period != 0;
    return sliding;
  }
  if (family.windows == arch::Windows::chunks) {  // what has rope is chunked
    for (size_t i = 0; i < n; ++i) sliding[i] = (static_cast<int64_t>(i) + 1) % family.nope_interval != 0;
    return sliding;
  }
  if (family.nope_interval != 0) {  // what has no rope slides
    for (size_t i = 0; i < n; ++i) sliding[i] = (static_cast<int64_t>(i) + 1) % family.nope_interval == 0;
    return sliding;
  }
  const auto n_full = TRY(config.integer("max_window_layers", 0, 100000));
  int64_t first = n_full.value_or(model.n_layer);
  for (const arch::ConfigValue& row : family.defaults)
    if (row.config == "max_window_layers" && !n_full) first = static_cast<int64_t>(row.value);
  for (size_t i = 0; i < n; ++i) sliding[i] = static_cast<int64_t>(i) >= first;
  return sliding;
}

// Of sliding_window or attention_chunk_size; 0: there are none.
Result<int64_t> window_length(const ConfigReader& config, const ModelConfig& model) {
  const arch::CheckpointFamily& family = *model.family;
  const char* field = family.windows == arch::Windows::chunks ? "attention_chunk_size" : "sliding_window";
  const auto window = TRY(config.integer(field, 0, static_cast<int64_t>(kMaxContext)));
  // In these classes null is a model without windows, absence one with the default.
  if (config.is_null(field) && family.rope_by_layer_type)
    return config.error(field, "must be a number, this family has sliding layers");
  if (window || config.is_null(field)) return window.value_or(0);
  for (const arch::ConfigValue& row : family.defaults)
    if (row.config == field) return static_cast<int64_t>(row.value);
  return int64_t{0};
}
}  // namespace

Result<void> read_rope(const ConfigReader& config, ModelConfig& model) {
  if (!model.has(arch::kRope)) return {};
  const RopeSection rope = TRY(find_rope(config, model, "full_attention"));
  TRY(read_n_rot(config, rope, model));
  model.add("rope.freq_base", static_cast<float>(TRY(scaled_theta(rope, model))));
  TRY(add_scaling(config, rope, model));
  TRY(read_temperature(config, rope, model));
  if (!model.family->rope_by_layer_type) return {};
  // The sliding layers' own rope; before transformers 5 its base was rope_local_base_freq, where it had one.
  double theta = TRY(config.number("rope_local_base_freq", 1, kMaxTheta))
                     .value_or(model.family->rope_theta_local != 0 ? model.family->rope_theta_local : rope.theta);
  const ConfigReader parameters = TRY(config.section("rope_parameters"));
  const ConfigReader local = TRY(parameters.section("sliding_attention"));
  theta = TRY(local.number("rope_theta", 1, kMaxTheta)).value_or(theta);
  if (const std::string kind = TRY(kind_of(local)); kind != "default")
    return unsupported(local, "rope_type", fmt::format("rope scaling '{}' of sliding layers is not supported", kind));
  model.add("rope.freq_base_swa", static_cast<float>(theta));
  return {};
}

Result<void> read_windows(const ConfigReader& config, ModelConfig& model) {
  const arch::CheckpointFamily& family = *model.family;
  if (family.windows == arch::Windows::none) return {};
  if (family.windows == arch::Windows::if_used && !TRY(config.boolean("use_sliding_window")).value_or(false)) return {};
  const int64_t window = TRY(window_length(config, model));
  if (window == 0) return {};
  const std::vector<bool> sliding = TRY(sliding_layers(config, model));
  if (std::ranges::find(sliding, true) == sliding.end()) return {};
  model.add("attention.sliding_window", static_cast<uint32_t>(window));
  if (sliding.size() == 1)  // one flag would read as a number: every n-th layer is full
    model.add("attention.sliding_window_pattern", uint32_t{2});
  else
    model.add("attention.sliding_window_pattern", sliding);
  return {};
}

Result<void> check_nope_layers(const ConfigReader& config, const ModelConfig& model) {
  const int64_t interval = model.family->nope_interval;
  if (interval == 0) return {};
  const auto given = TRY(config.integer("no_rope_layer_interval", 1, 100000)).value_or(interval);
  const Json* flags = config.find("no_rope_layers");
  for (int64_t i = 0; i < model.n_layer; ++i) {
    const bool wanted = (i + 1) % interval != 0;
    bool has_rope = (i + 1) % given != 0;
    if (flags != nullptr && flags->is_array() && i < static_cast<int64_t>(flags->size())) {
      const Json& flag = (*flags)[static_cast<size_t>(i)];
      has_rope = flag == 1 || flag == true;
    }
    if (has_rope != wanted)
      return unsupported(config, "no_rope_layers",
                         fmt::format("layer {} {} rope; only models with every {}th layer without it are supported", i,
                                     has_rope ? "has" : "has no", interval));
  }
  return {};
}

}  // namespace tokamak::convert

#include "convert/rope_config.h"

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
  for (const ConfigReader& place : {config, reader})
    if (TRY(place.number("partial_rotary_factor", 0, 1)).value_or(1) != 1)
      return unsupported(place, "partial_rotary_factor",
                         "rotating a part of each head is not supported in this family");
  return RopeSection{reader, theta, std::move(kind)};
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
  for (int64_t pair = 0; pair < model.head_dim / 2; ++pair) {
    const double angle = std::pow(rope.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(model.head_dim));
    const double turns = n_ctx * angle / (2 * std::numbers::pi);  // in the original context
    const double keep = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - keep) / factor + keep)));
  }
  return factors;
}

struct Keys {
  ModelConfig& model;
  void add(std::string_view name, KeyValue value) {
    model.keys.push_back({fmt::format("{}.{}", model.family->architecture, name), std::move(value)});
  }
};

double yarn_magnitude(double scale, double mscale = 1) { return scale <= 1 ? 1 : 0.1 * mscale * std::log(scale) + 1; }

Result<void> add_yarn(const RopeSection& rope, ModelConfig& model) {
  const ConfigReader& r = rope.reader;
  const double n_ctx = static_cast<double>(model.n_ctx);
  const double n_ctx_orig = TRY(r.number("original_max_position_embeddings", 1, kMaxContext)).value_or(n_ctx);
  const double factor = TRY(r.number("factor", 1e-6, kMaxFactor)).value_or(n_ctx / n_ctx_orig);
  const auto mscale = TRY(r.number("mscale", 0, 1e3)), mscale_all = TRY(r.number("mscale_all_dim", 0, 1e3));
  const auto given = TRY(r.number("attention_factor", 1e-6, 1e3));
  const auto beta_fast = TRY(r.number("beta_fast", 0, kMaxFactor)),
             beta_slow = TRY(r.number("beta_slow", 0, kMaxFactor));
  if (!TRY(r.boolean("truncate")).value_or(true))
    return unsupported(r, "truncate", "YaRN without rounded range is not supported");
  Keys keys{model};
  keys.add("rope.scaling.type", std::string("yarn"));
  keys.add("rope.scaling.factor", static_cast<float>(factor));
  keys.add("rope.scaling.original_context_length", static_cast<uint32_t>(n_ctx_orig));
  if (beta_fast.value_or(0) != 0) keys.add("rope.scaling.yarn_beta_fast", static_cast<float>(*beta_fast));
  if (beta_slow.value_or(0) != 0) keys.add("rope.scaling.yarn_beta_slow", static_cast<float>(*beta_slow));
  double magnitude = yarn_magnitude(factor);
  if (mscale.value_or(0) != 0 && mscale_all.value_or(0) != 0)
    magnitude = yarn_magnitude(factor, *mscale) / yarn_magnitude(factor, *mscale_all);
  magnitude = given.value_or(magnitude);
  // The engine multiplies by 0.1 ln(factor) + 1 itself.
  if (magnitude != yarn_magnitude(factor))
    keys.add("rope.scaling.attn_factor", static_cast<float>(magnitude / yarn_magnitude(factor)));
  return {};
}

Result<void> add_scaling(const RopeSection& rope, ModelConfig& model) {
  if (rope.kind == "default") return {};
  if (rope.kind == "yarn") return add_yarn(rope, model);
  if (rope.kind == "linear") {
    const auto factor = TRY(rope.reader.number("factor", 1e-6, kMaxFactor));
    if (!factor) return rope.reader.error("factor", "is missing");
    Keys keys{model};
    keys.add("rope.scaling.type", std::string("linear"));
    keys.add("rope.scaling.factor", static_cast<float>(*factor));
    return {};
  }
  if (rope.kind == "llama3") {
    model.rope_factors = TRY(llama3_factors(rope, model));
    return {};
  }
  Error error = unsupported(rope.reader, "rope_type", fmt::format("rope scaling '{}' is not supported", rope.kind));
  error.hint = "supported: default, linear, yarn, llama3";
  return error;
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
      if (type != "sliding_attention" && type != "full_attention")
        return unsupported(config, "layer_types", fmt::format("layer type {} is not supported", type.dump()));
      sliding[i] = type == "sliding_attention";
    }
    return sliding;
  }
  if (family.window_period != 0) {
    const auto period = TRY(config.integer("sliding_window_pattern", 1, 1000)).value_or(family.window_period);
    for (size_t i = 0; i < n; ++i) sliding[i] = (static_cast<int64_t>(i) + 1) % period != 0;
    return sliding;
  }
  if (family.nope_interval != 0) {  // what has no rope slides
    for (size_t i = 0; i < n; ++i) sliding[i] = (static_cast<int64_t>(i) + 1) % family.nope_interval == 0;
    return sliding;
  }
  const auto n_full = TRY(config.integer("max_window_layers", 0, 100000));
  int64_t first = n_full.value_or(model.n_layer);
  for (const arch::ConfigDefault& row : family.defaults)
    if (row.config == "max_window_layers" && !n_full) first = static_cast<int64_t>(row.value);
  for (size_t i = 0; i < n; ++i) sliding[i] = static_cast<int64_t>(i) >= first;
  return sliding;
}

}  // namespace

Result<void> read_rope(const ConfigReader& config, ModelConfig& model) {
  if (model.head_dim % 2 != 0) return config.error("head_dim", "an odd number cannot be rotated in pairs");
  const RopeSection rope = TRY(find_rope(config, model, "full_attention"));
  Keys keys{model};
  keys.add("rope.freq_base", static_cast<float>(rope.theta));
  TRY(add_scaling(rope, model));
  if (!model.family->rope_by_layer_type) return {};
  // The sliding layers' own rope; before transformers 5 its base was rope_local_base_freq.
  constexpr double kLocalTheta = 10000;
  double theta = TRY(config.number("rope_local_base_freq", 1, kMaxTheta)).value_or(kLocalTheta);
  const ConfigReader parameters = TRY(config.section("rope_parameters"));
  const ConfigReader local = TRY(parameters.section("sliding_attention"));
  theta = TRY(local.number("rope_theta", 1, kMaxTheta)).value_or(theta);
  if (const std::string kind = TRY(kind_of(local)); kind != "default")
    return unsupported(local, "rope_type", fmt::format("rope scaling '{}' of sliding layers is not supported", kind));
  keys.add("rope.freq_base_swa", static_cast<float>(theta));
  return {};
}

Result<void> read_windows(const ConfigReader& config, ModelConfig& model) {
  const arch::CheckpointFamily& family = *model.family;
  if (family.windows == arch::Windows::none) return {};
  if (!family.rope_by_layer_type && family.windows == arch::Windows::by_layer_type &&
      !TRY(config.boolean("use_sliding_window")).value_or(false))
    return {};
  auto window = TRY(config.integer("sliding_window", 0, static_cast<int64_t>(kMaxContext)));
  // In these classes null is a model without windows, absence one with the default.
  if (config.is_null("sliding_window") && family.rope_by_layer_type)
    return config.error("sliding_window", "must be a number, this family has sliding layers");
  for (const arch::ConfigDefault& row : family.defaults)
    if (row.config == "sliding_window" && !window && !config.is_null("sliding_window"))
      window = static_cast<int64_t>(row.value);
  if (window.value_or(0) == 0) return {};
  const std::vector<bool> sliding = TRY(sliding_layers(config, model));
  if (std::ranges::find(sliding, true) == sliding.end()) return {};
  Keys keys{model};
  keys.add("attention.sliding_window", static_cast<uint32_t>(*window));
  if (sliding.size() == 1)  // one flag would read as a number: every n-th layer is full
    keys.add("attention.sliding_window_pattern", uint32_t{2});
  else
    keys.add("attention.sliding_window_pattern", sliding);
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

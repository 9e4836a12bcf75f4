#include "arch/adjust.h"

#include <cmath>

#include "arch/architectures.h"
#include "arch/keys.h"

namespace tokamak::arch {

namespace {

constexpr std::string_view kWindow = "attention.sliding_window", kPattern = "attention.sliding_window_pattern";

Keys keys_of(const GgufFile& file, const Hparams& hp) { return Keys(file, hp.family->name); }

// Windows on the layers that local_layers() names; nothing when the file has no window.
Result<void> add_windows(const GgufFile& file, Hparams& hp, int64_t period) {
  const int64_t window = TRY(keys_of(file, hp).count_or(kWindow, 0, kMaxContext));
  if (window == 0) return {};
  const std::vector<bool> local = TRY(local_layers(file, hp, period));
  for (size_t i = 0; i < hp.layers.size(); ++i)
    if (local[i]) hp.layers[i].window = window;
  return {};
}

// As if rope.scaling.* were not there.
void leave_unscaled(ir::RopeParams& rope, double theta) {
  rope = {.n_rot = rope.n_rot, .pairing = rope.pairing, .theta = theta};
}

double scale_by_width(const Hparams& hp) {
  return 1 / std::sqrt(static_cast<double>(hp.n_embd) / static_cast<double>(hp.layers[0].n_head));
}

}  // namespace

Result<std::vector<bool>> local_layers(const GgufFile& file, const Hparams& hp, int64_t period) {
  const std::string key = keys_of(file, hp).key(kPattern);
  const std::vector<int64_t> pattern = TRY(file.get_ints_or(key, {period}));
  std::vector<bool> local(static_cast<size_t>(hp.n_layer));
  if (pattern.size() != 1 && pattern.size() != local.size())
    return Error{.code = ErrorCode::bad_metadata,
                 .what = fmt::format("{} values for {} layers", pattern.size(), hp.n_layer),
                 .where = key};
  if (pattern.size() == 1 && pattern[0] < 0)
    return Error{.code = ErrorCode::bad_metadata, .what = "must not be negative", .where = key};
  for (size_t i = 0; i < local.size(); ++i) {
    const bool by_period = pattern[0] != 0 && (static_cast<int64_t>(i) + 1) % pattern[0] != 0;
    local[i] = pattern.size() == 1 ? by_period : pattern[i] != 0;
  }
  return local;
}

Result<void> adjust_windows(const GgufFile& file, Hparams& hp) {
  const Keys keys = keys_of(file, hp);
  if (!keys.has(kPattern)) return {};
  TRY(keys.size(kWindow, kMaxContext));  // a pattern needs its window
  return add_windows(file, hp, 0);
}

Result<void> adjust_phi3(const GgufFile& file, Hparams& hp) {
  if (keys_of(file, hp).has(kPattern)) return adjust_windows(file, hp);
  const int64_t window = TRY(keys_of(file, hp).count_or(kWindow, 0, kMaxContext));
  for (LayerHparams& layer : hp.layers) layer.window = window;
  return {};
}

Result<void> adjust_smollm3(const GgufFile& file, Hparams& hp) {
  TRY(adjust_windows(file, hp));
  for (size_t i = 0; i < hp.layers.size(); ++i) hp.layers[i].use_rope = (i + 1) % 4 != 0;
  return {};
}

Result<void> adjust_mistral3(const GgufFile& file, Hparams& hp) {
  const Keys keys = keys_of(file, hp);
  TRY(adjust_windows(file, hp));
  hp.temp.scale = TRY(keys.number_or("attention.temperature_scale", 0, -1e6, 1e6));
  const int64_t original = TRY(keys.size_or("rope.scaling.original_context_length", hp.n_ctx_train, kMaxContext));
  hp.temp.length = TRY(keys.size_or("attention.temperature_length", original, kMaxContext));
  for (LayerHparams& layer : hp.layers) layer.use_temp = hp.temp.scale != 0;
  return {};
}

Result<void> adjust_gemma(const GgufFile&, Hparams& hp) {
  hp.embedding_scale = std::sqrt(static_cast<double>(hp.n_embd));
  return {};
}

Result<void> adjust_gemma2(const GgufFile& file, Hparams& hp) {
  constexpr int64_t kLayersOf27B = 46;
  TRY(adjust_gemma(file, hp));
  if (hp.n_layer == kLayersOf27B) hp.attention_scale = scale_by_width(hp);
  return add_windows(file, hp, 2);
}

Result<void> adjust_gemma3(const GgufFile& file, Hparams& hp) {
  constexpr int64_t kLayersOf27B = 62;
  constexpr double kLocalTheta = 10000;  // rope base of the local layers when no key tells
  TRY(adjust_gemma(file, hp));
  if (hp.n_layer == kLayersOf27B) hp.attention_scale = scale_by_width(hp);
  TRY(add_windows(file, hp, 6));
  const double theta = TRY(keys_of(file, hp).number_or("rope.freq_base_swa", kLocalTheta, 1.0 + 1e-9, 1e12));
  const std::vector<bool> local = TRY(local_layers(file, hp, 6));
  for (size_t i = 0; i < hp.layers.size(); ++i)
    if (local[i]) leave_unscaled(hp.layers[i].rope, theta);
  return {};
}

Result<void> adjust_olmo2(const GgufFile& file, Hparams& hp) {
  TRY(add_windows(file, hp, 4));
  for (LayerHparams& layer : hp.layers)
    if (layer.window > 0) leave_unscaled(layer.rope, layer.rope.theta);
  return {};
}

Result<void> adjust_gptneox(const GgufFile& file, Hparams& hp) {
  hp.parallel = TRY(keys_of(file, hp).flag_or("use_parallel_residual", true));
  return {};
}

Result<void> adjust_parallel(const GgufFile&, Hparams& hp) {
  hp.parallel = true;
  return {};
}

Result<void> adjust_stablelm(const GgufFile& file, Hparams& hp) {
  hp.parallel = file.find_tensor("blk.0.ffn_norm.weight") == nullptr;
  return {};
}

Result<void> adjust_gpt_oss(const GgufFile& file, Hparams& hp) { return add_windows(file, hp, 2); }

Result<void> adjust_exaone4(const GgufFile& file, Hparams& hp) {
  TRY(add_windows(file, hp, 4));
  bool has_windows = false;
  for (const LayerHparams& layer : hp.layers) has_windows |= layer.window > 0;
  for (LayerHparams& layer : hp.layers) layer.use_rope = !has_windows || layer.window > 0;
  return {};
}

// Meta 2025; the chunk, the pattern and the temperature have no keys in files of other engines: these are the values of
// Scout and Maverick.
Result<void> adjust_llama4(const GgufFile& file, Hparams& hp) {
  constexpr int64_t kChunk = 8192, kExpertsOfMaverick = 128;
  const Keys keys = keys_of(file, hp);
  const int64_t chunk = TRY(keys.count_or(kWindow, kChunk, kMaxContext));
  const std::vector<bool> local = TRY(local_layers(file, hp, 4));
  hp.temp = {.scale = TRY(keys.number_or("attention.temperature_scale", 0.1, 0, 1e6)),
             .length = TRY(keys.size_or("attention.temperature_length", kChunk, kMaxContext)),
             .offset = 1};
  for (size_t i = 0; i < hp.layers.size(); ++i) {
    LayerHparams& layer = hp.layers[i];
    layer.use_rope = local[i];
    layer.chunk = local[i] ? (chunk == 0 ? kChunk : chunk) : 0;
    layer.use_temp = !local[i];
    layer.norm_rotated = local[i] && hp.moe.n_expert != kExpertsOfMaverick;
  }
  return {};
}

Result<void> adjust_deepseek2(const GgufFile& file, Hparams& hp) {
  const bool is_flash = hp.n_layer == 47 || hp.n_layer == 48;
  if (is_flash && !keys_of(file, hp).has("expert_gating_func")) hp.moe.gating = Gating::sigmoid;
  if (hp.moe.gating == Gating::softmax) hp.moe.n_group_best = 1;  // V2; V3 sums two
  return {};
}

}  // namespace tokamak::arch

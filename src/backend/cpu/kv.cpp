#include "backend/cpu/kv.h"

#include <algorithm>

#include "base/check.h"
#include "base/round_up.h"

namespace tokamak::cpu {

namespace {
constexpr uint64_t kStateAlignFloats = 16;
constexpr size_t kMinTouchAhead = size_t{64} << 20;  // bytes of a cache whose first touches are noticed
}  // namespace

Result<std::unique_ptr<CpuKv>> CpuKv::create(const KvConfig& config, Backing backing) {
  auto kv = std::make_unique<CpuKv>();
  kv->backing_ = backing;
  std::vector<KvLayerDims> layers;
  for (const KvLayerShape& layer : config.layers)
    layers.push_back({layer.n_head_kv, layer.head_dim_k, layer.head_dim_v});
  kv->storage_ = TRY(KvStorage::create(layers, config.n_pages, config.page_size, config.type, backing));
  kv->config_ = config;
  uint64_t n_floats = 0;
  for (const RecurrentLayerShape& layer : config.recurrent)
    for (int64_t elems : {layer.conv_elems, layer.recurrent_elems}) {
      kv->state_offsets_.push_back(n_floats);
      n_floats += round_up(static_cast<uint64_t>(elems * config.n_state_rows), kStateAlignFloats);
    }
  kv->states_ = TRY(Buffer::allocate(n_floats * sizeof(float), backing));
  if (backing == Backing::memory && kv->storage_.n_bytes() >= kMinTouchAhead)
    kv->touch_ahead_ = std::make_unique<TouchAhead>(kv->storage_);
  return kv;
}

uint64_t CpuKv::state_offset(ir::StateRole role, int32_t layer_idx) const {
  CHECK(role == ir::StateRole::conv || role == ir::StateRole::recurrent);
  return state_offsets_[2 * static_cast<size_t>(layer_idx) + (role == ir::StateRole::recurrent ? 1 : 0)];
}

namespace {
// The part of one row that a layer's state makes up, in the order of KvCache::read_states.
template <class Fn>
void for_each_state(const KvConfig& config, Fn fn) {
  for (size_t i = 0; i < config.recurrent.size(); ++i) {
    fn(ir::StateRole::conv, static_cast<int32_t>(i), config.recurrent[i].conv_elems);
    fn(ir::StateRole::recurrent, static_cast<int32_t>(i), config.recurrent[i].recurrent_elems);
  }
}
}  // namespace

void CpuKv::read_states(int64_t row, std::span<float> out) const {
  auto to = out.begin();
  for_each_state(config_, [&](ir::StateRole role, int32_t layer_idx, int64_t elems) {
    to = std::copy_n(states_.as<float>() + state_offset(role, layer_idx) + row * elems, elems, to);
  });
}

void CpuKv::write_states(int64_t row, std::span<const float> in) {
  auto from = in.begin();
  for_each_state(config_, [&](ir::StateRole role, int32_t layer_idx, int64_t elems) {
    std::copy_n(from, elems, states(role, layer_idx) + row * elems);
    from += elems;
  });
}

std::vector<MemoryUse> CpuKv::memory() const {
  std::vector<MemoryUse> out = {{.what = "kv cache", .n_bytes = storage_.n_bytes()}};
  if (states_.size() > 0) out.push_back({.what = "recurrent states", .n_bytes = states_.size()});
  out.push_back({.what = "activations", .n_bytes = arena_.size()});
  return out;
}

Result<void> CpuKv::reserve_arena(uint64_t n_bytes) {
  if (n_bytes > arena_.size()) arena_ = TRY(Buffer::allocate(n_bytes, backing_));
  return {};
}

size_t CpuKv::tiling(int64_t group) {
  const auto found = std::ranges::find(tilings_, group, &Tiling::group);
  if (found != tilings_.end()) return static_cast<size_t>(found - tilings_.begin());
  tilings_.push_back({.group = group, .tiles = {}});
  return tilings_.size() - 1;
}

void CpuKv::begin_step(const StepInputs& inputs) {
  sequences_.resize(inputs.sequences.size());
  int32_t last_page = -1;
  for (const auto& sequence : inputs.sequences)
    if (!sequence.pages.empty()) last_page = std::max(last_page, sequence.pages.back());
  if (touch_ahead_) touch_ahead_->use(last_page);
  for (size_t i = 0; i < sequences_.size(); ++i)
    sequences_[i] = {.pages = inputs.sequences[i].pages.data(), .n_keys = 0};
  runs_.assign(inputs.sequences.size(), {});
  for (size_t t = 0; t < inputs.positions.size(); ++t) {
    SequenceRun& run = runs_[static_cast<size_t>(inputs.seq_ids[t])];
    if (run.begin == run.end) run.begin = static_cast<int64_t>(t);
    run.end = static_cast<int64_t>(t) + 1;
    AttentionSequence& sequence = sequences_[static_cast<size_t>(inputs.seq_ids[t])];
    sequence.n_keys = std::max<int64_t>(sequence.n_keys, inputs.positions[t] + 1);
  }
  for (Tiling& tiling : tilings_) make_attention_tiles(inputs.seq_ids, tiling.group, tiling.tiles);
}

}  // namespace tokamak::cpu

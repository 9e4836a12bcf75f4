#include "backend/cpu/kv.h"

#include <algorithm>

namespace tokamak::cpu {

Result<std::unique_ptr<CpuKv>> CpuKv::create(const KvConfig& config) {
  auto kv = std::make_unique<CpuKv>();
  std::vector<KvLayerDims> layers;
  for (const KvLayerShape& layer : config.layers)
    layers.push_back({layer.n_head_kv, layer.head_dim_k, layer.head_dim_v});
  kv->storage_ = TRY(KvStorage::create(layers, config.n_pages, config.page_size, config.type));
  kv->config_ = config;
  return kv;
}

std::vector<MemoryUse> CpuKv::memory() const {
  return {{.what = "kv cache", .n_bytes = storage_.n_bytes()}, {.what = "activations", .n_bytes = arena_.size()}};
}

Result<void> CpuKv::reserve_arena(uint64_t n_bytes) {
  if (n_bytes > arena_.size()) arena_ = TRY(Buffer::allocate(n_bytes));
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
  for (size_t i = 0; i < sequences_.size(); ++i)
    sequences_[i] = {.pages = inputs.sequences[i].pages.data(), .n_keys = 0};
  for (size_t t = 0; t < inputs.positions.size(); ++t) {
    AttentionSequence& sequence = sequences_[static_cast<size_t>(inputs.seq_ids[t])];
    sequence.n_keys = std::max<int64_t>(sequence.n_keys, inputs.positions[t] + 1);
  }
  for (Tiling& tiling : tilings_) make_attention_tiles(inputs.seq_ids, tiling.group, tiling.tiles);
}

}  // namespace tokamak::cpu

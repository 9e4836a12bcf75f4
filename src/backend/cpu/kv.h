// The KV cache of one session on the CPU, with what every program of that session shares: the arena for intermediate
// values (one program runs at a time) and what attention needs to know about the step at hand.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/ops/attention.h"
#include "backend/cpu/ops/kv_cache.h"
#include "backend/cpu/ops/recurrent.h"
#include "backend/cpu/touch_ahead.h"
#include "base/buffer.h"

namespace tokamak::cpu {

class CpuKv : public KvCache {
 public:
  // Errors: those of KvStorage::create.
  static Result<std::unique_ptr<CpuKv>> create(const KvConfig& config, Backing backing);

  const KvConfig& config() const override { return config_; }
  std::vector<MemoryUse> memory() const override;
  const KvStorage& storage() const { return storage_; }
  void read_states(int64_t row, std::span<float> out) const override;
  void write_states(int64_t row, std::span<const float> in) override;
  uint64_t page_bytes() const override { return static_cast<uint64_t>(storage_.bytes_per_page()); }
  void copy_page(int64_t from, int64_t to) override { storage_.copy_page(from, to); }
  void read_page(int64_t page, std::span<std::byte> out) const override { storage_.read_page(page, out); }
  void write_page(int64_t page, std::span<const std::byte> in) override { storage_.write_page(page, in); }
  // f32 [n_state_rows, elems of the layer's state of this role].
  float* states(ir::StateRole role, int32_t layer_idx) { return states_.as<float>() + state_offset(role, layer_idx); }

  // Grows the arena; programs keep offsets, never addresses. Not while a program runs.
  Result<void> reserve_arena(uint64_t n_bytes);
  std::byte* arena() { return arena_.data(); }

  // Index of the tiles for layers whose query heads share key heads in groups of `group`.
  size_t tiling(int64_t group);

  // Before a run: sequences and tiles of this step.
  void begin_step(const StepInputs& inputs);
  std::span<const AttentionSequence> sequences() const { return sequences_; }
  std::span<const SequenceRun> runs() const { return runs_; }  // tokens of each sequence
  std::span<const AttentionTile> tiles(size_t tiling) const { return tilings_[tiling].tiles; }

 private:
  struct Tiling {
    int64_t group = 1;
    std::vector<AttentionTile> tiles;
  };
  uint64_t state_offset(ir::StateRole role, int32_t layer_idx) const;  // floats

  KvConfig config_;
  Backing backing_ = Backing::memory;
  KvStorage storage_;
  Buffer states_;                        // of all recurrent layers
  std::vector<uint64_t> state_offsets_;  // floats; conv and recurrent of layer 0, of layer 1, ...
  Buffer arena_;
  std::vector<Tiling> tilings_;
  std::vector<AttentionSequence> sequences_;
  std::vector<SequenceRun> runs_;
  std::unique_ptr<TouchAhead> touch_ahead_;  // last: it uses the storage; null where the cache is small
};

}  // namespace tokamak::cpu

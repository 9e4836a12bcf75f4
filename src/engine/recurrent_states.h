// Which recurrent state stands for which tokens. Every state is tagged with its position and the hash of the tokens
// before it; every use checks the tag. Holds no device memory; checkpoints are host copies that the session makes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace tokamak {

class RecurrentStates {
 public:
  // Rows [slot * n_snapshots, (slot + 1) * n_snapshots) of the device's states belong to the sequence in that slot.
  // At most n_checkpoints host copies per sequence; the oldest gives way.
  RecurrentStates(int64_t n_sequences, int64_t n_snapshots, size_t n_checkpoints);

  int64_t n_rows() const { return static_cast<int64_t>(slot_taken_.size()) * n_snapshots_; }

  // Where the sequence's state is now: a row, or -1 for a new sequence (zeros).
  int32_t source_row(int32_t seq_id) const;
  // First row that the next step writes. Errors: context_full when all slots are taken.
  Result<int32_t> target_row(int32_t seq_id);
  // After a step over `tokens`: up to n_snapshots states of the last positions are valid.
  void advance(int32_t seq_id, std::span<const int32_t> tokens);
  // After a step that failed half way: no state of the sequence but the empty one is valid.
  void invalidate(int32_t seq_id);
  void free_sequence(int32_t seq_id);
  // The sequence, which holds no tokens, gets the state of these: to be written to the row returned.
  // Errors: those of target_row.
  Result<int32_t> restore(int32_t seq_id, std::span<const int32_t> tokens);

  // The state for the first `n` tokens, or the nearest exact one before. Afterwards it is the current one.
  struct Rollback {
    int64_t n_tokens = 0;
    const std::vector<float>* checkpoint = nullptr;  // to be written to `row`; null: the state is in place
    int32_t row = -1;
  };
  Rollback roll_back(int32_t seq_id, int64_t n);

  // A copy of the current state, made by read(row, out of n_floats).
  template <class Read>
  void add_checkpoint(int32_t seq_id, size_t n_floats, Read read) {
    std::vector<float>* out = new_checkpoint(seq_id, n_floats);
    if (out) read(source_row(seq_id), std::span<float>(*out));
  }
  uint64_t checkpoint_bytes() const;

 private:
  struct Tag {
    int64_t n_tokens = 0;
    uint64_t hash = 0;
  };
  struct Snapshot {
    Tag tag;
    int32_t row = -1;
  };
  struct Checkpoint {
    Tag tag;
    std::vector<float> state;
  };
  struct Sequence {
    int32_t slot = -1;
    std::vector<uint64_t> prefix_hashes;  // [i]: of the first i + 1 tokens
    std::vector<Snapshot> snapshots;      // valid ones on the device; empty: the state is that of no tokens
    int32_t row = -1;                     // the current one's
    std::vector<Checkpoint> checkpoints;  // oldest first
  };
  Sequence& sequence(int32_t seq_id);
  Tag tag_at(const Sequence& sequence, int64_t n_tokens) const;
  bool is_valid(const Sequence& sequence, const Tag& tag) const;
  std::vector<float>* new_checkpoint(int32_t seq_id, size_t n_floats);

  int64_t n_snapshots_;
  size_t n_checkpoints_;
  std::vector<bool> slot_taken_;
  std::vector<Sequence> sequences_;
};

}  // namespace tokamak

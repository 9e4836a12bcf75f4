// A model on a device: weights, KV cache, compiled programs. The engine's core: tokens in, logits out.
//
// Goals: logits of a sequence depend on its tokens only, never on chunking, batch or threads.
// Non-goals: text, sampling, scheduling. One thread uses a session at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arch/recipe.h"
#include "backend/backend.h"
#include "backend/split/backend.h"
#include "base/result.h"
#include "engine/kv_pages.h"
#include "engine/model.h"
#include "engine/recurrent_states.h"

namespace tokamak {

struct SessionOptions {
  std::string backend = "cpu";        // row of the backend table
  std::string isa = "auto";           // cpu: auto, scalar, avx2, avx512, neon
  int64_t n_threads = 0;              // 0: one per usable core
  std::string activations = "int16";  // cpu: int16 or int8, docs/rationale/activations.md
  int64_t n_ctx = 0;                  // tokens of a sequence; 0: the model's, at most kDefaultContext
  int64_t n_kv = 0;                   // tokens of all sequences together; 0: n_ctx
  int64_t n_batch = 512;              // most tokens in one step
  int64_t page_size = 64;
  DType kv_type = DType::f16;
  int64_t n_programs = 16;  // compiled shapes kept
  // Of models with recurrent layers: sequences at most, states of the last positions kept for exact rollback, and host
  // copies of older ones per sequence.
  int64_t n_sequences = 4, n_snapshots = 1, n_checkpoints = 2;
  split::SplitOptions split;  // cuda: what stays on the CPU
  CompileOptions compile;
  // What the session uses instead of the backend, around it: for tests.
  std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)> wrap_backend;
  bool only_plan = false;  // for memory() alone: no weight is read, and no step can be run
};
inline constexpr int64_t kDefaultContext = 8192;

enum class Logits : uint8_t { none, last, all };
// What forward() returns for a token: logits [n_vocab], or the row after the output norm [n_embd].
enum class OutputRows : uint8_t { logits, hidden };

// A run of new tokens of one sequence.
struct SequenceTokens {
  int32_t seq_id = 0;
  std::span<const int32_t> tokens;
  Logits logits = Logits::last;
  bool only_top = false;  // step(): the best kTopLogits of its rows are enough
};

// A row of logits, or its best where they were enough and the device selects them.
struct LogitRow {
  std::span<float> all;           // [n_vocab], or empty; the caller may write to it
  std::span<const TopLogit> top;  // [kTopLogits], or empty
};

class Session {
 public:
  // Uploads the weights and reserves the cache. `progress` returning false cancels.
  // Errors: bad_argument (option out of range), out_of_memory, unsupported, bad_tensor, cancelled.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model, SessionOptions options,
                                                 const Progress& progress = {});

  const Model& model() const { return *model_; }
  const SessionOptions& options() const { return options_; }  // with defaults filled in
  Backend& backend() { return *backend_; }
  int64_t n_ctx() const { return options_.n_ctx; }

  int32_t add_sequence() { return pages_.add_sequence(); }
  // These need a sequence of this session (CHECKed).
  void free_sequence(int32_t seq_id);
  int64_t n_tokens(int32_t seq_id) const { return pages_.n_tokens(seq_id); }
  // Forgets everything after the first `n` tokens, or more: with recurrent layers only some positions have a state (the
  // last n_snapshots, ends of prompts, 0). Returns how many tokens are left; the caller feeds the others again.
  [[nodiscard]] int64_t truncate(int32_t seq_id, int64_t n);

  // The pages of the cache, for holders besides sequences.
  KvPages& pages() { return pages_; }
  const KvPages& pages() const { return pages_; }
  uint64_t page_bytes() const { return kv_->page_bytes(); }
  std::string page_layout() const { return kv_->page_layout(); }
  // Keys and values of a page: see KvCache.
  void read_page(int32_t page, std::span<std::byte> out) const { kv_->read_page(page, out); }
  void write_page(int32_t page, std::span<const std::byte> in) { kv_->write_page(page, in); }
  // Floats of the recurrent state of one sequence; 0 for models without. read_state: after all its tokens.
  int64_t state_floats() const { return states_ ? state_row_floats(kv_->config()) : 0; }
  void read_state(int32_t seq_id, std::span<float> out) const;
  // The empty sequence takes over `tokens`, computed earlier: their keys and values lie in `pages`, `state` is the
  // recurrent state after the last. Errors: context_full (no recurrent state is free); nothing is changed then.
  Result<void> attach(int32_t seq_id, std::span<const int32_t> tokens, std::span<const int32_t> pages,
                      std::span<const float> state);

  // One step over at most n_batch tokens. Returns f32 [n_outputs, n_vocab or n_embd] in batch order, valid until the
  // next call; the caller may write to it.
  // On error the sequences are as before (empty, when a device failed in recurrent layers). Errors: context_full,
  // bad_argument (token id, too many tokens, a sequence that is unknown or twice in the batch), device_failed.
  Result<std::span<float>> forward(std::span<const SequenceTokens> batch, OutputRows rows = OutputRows::logits);

  // forward() with logits row by row, in batch order, valid until the next call.
  Result<std::span<const LogitRow>> step(std::span<const SequenceTokens> batch);
  // Whether the device selected in the last step, or would have.
  bool selects_top() const { return selects_top_; }

  // Any number of tokens of one sequence in chunks of n_batch; logits of the last one. `progress` after each chunk.
  Result<std::span<const float>> prefill(int32_t seq_id, std::span<const int32_t> tokens,
                                         const Progress& progress = {});

  // The compiled program of a shape, from the cache or built now.
  Result<Program*> program(int64_t n_tokens, int64_t n_outputs, int64_t n_seqs = 1,
                           OutputRows rows = OutputRows::logits);
  // Memory for steps of n_batch tokens with up to n_outputs rows of logits, or n_batch hidden rows, so that no step
  // asks for more. Errors: out_of_memory, those of program().
  Result<void> reserve(int64_t n_outputs, int64_t n_seqs);
  // Empties that cache: for settings of the backend that are asked when a graph is compiled.
  void forget_programs() { programs_.clear(); }

  // Everything reserved, line by line. compiled_bytes: of the programs that n_programs allows, at most.
  std::vector<MemoryUse> memory() const;
  uint64_t compiled_bytes() const;

 private:
  struct CachedProgram {
    arch::ShapeClass shape;
    std::unique_ptr<Program> program;
  };

  Session(std::shared_ptr<const Model> model, SessionOptions options, std::unique_ptr<Backend> backend,
          std::unique_ptr<Weights> weights, std::unique_ptr<KvCache> kv);
  Result<void> check_sequence(int32_t seq_id) const;
  Result<void> check_batch(std::span<const SequenceTokens> batch) const;
  Result<void> extend(std::span<const SequenceTokens> batch);
  Result<void> fill_inputs(std::span<const SequenceTokens> batch);
  // Everything around the program's run, which `run` does. On error the sequences are as forward() says.
  using Run = std::function<Result<void>(Program& program, const StepInputs& inputs)>;
  Result<void> run_step(std::span<const SequenceTokens> batch, OutputRows rows, const Run& run);

  std::shared_ptr<const Model> model_;
  SessionOptions options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<KvCache> kv_;
  KvPages pages_;
  std::optional<RecurrentStates> states_;  // of models with recurrent layers
  std::list<CachedProgram> programs_;      // most recently used first
  // Inputs of the current step.
  std::vector<int32_t> tokens_, positions_, seq_ids_, slots_, out_rows_, state_src_, state_rows_;
  std::vector<SequencePages> sequences_;
  // Of the last step.
  std::vector<float> rows_;
  std::vector<TopLogit> top_;
  std::vector<uint8_t> whole_;  // rows of which everything is wanted
  std::vector<LogitRow> logit_rows_;
  bool selects_top_ = false;
};

}  // namespace tokamak

// How well a model predicts a text, and how far its predictions are from those of another form of the model.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/session.h"
#include "eval/logits_file.h"
#include "eval/statistics.h"
#include "eval/text_chunks.h"

namespace tokamak {

struct QuantileRow {
  std::string_view name;
  double fraction;
};
inline constexpr auto kDivergenceQuantiles = std::to_array<QuantileRow>({{"1 %", 0.01},
                                                                         {"5 %", 0.05},
                                                                         {"50 %", 0.5},
                                                                         {"90 %", 0.9},
                                                                         {"95 %", 0.95},
                                                                         {"99 %", 0.99},
                                                                         {"99.9 %", 0.999},
                                                                         {"max", 1.0}});

// Beside the saved logits of a base model, token by token. p: this model's probabilities, b: the base's.
struct Comparison {
  Estimate base_perplexity;
  Estimate perplexity_ratio;  // exp of the mean of ln b(next) - ln p(next); token by token, so mostly free of the
                              // spread that both perplexities share
  Estimate divergence;        // mean over positions of KL(b || p) = sum b ln(b / p), nats
  std::array<double, kDivergenceQuantiles.size()> quantiles{};  // of the divergence, in the order of the table
  Estimate same_top;  // share of positions whose most probable token is the same
  Estimate delta_p;   // mean of p(next) - b(next)
  double delta_p_rms = 0;
};

struct Evaluation {
  int64_t n_chunks = 0, n_ctx = 0;
  int64_t n_tokens = 0;  // scored
  Estimate nll;          // mean of -ln p(next), nats
  Estimate perplexity;   // exp of it
  std::optional<Comparison> comparison;
};

struct EvaluateOptions {
  LogitsWriter* save = nullptr;      // gets every row; its header's chunks are the text's. Not committed here
  const LogitsFile* base = nullptr;  // its chunks begin with the text's
  int64_t n_threads = 0;             // of the scores; 0: one per usable core
  // After every chunk, with what is known by then; false: stop with `cancelled`, unless it was the last one.
  std::function<bool(double fraction, const Evaluation& so_far)> progress;
};

// Every chunk is a sequence of its own; the first half is context, the rest is scored (n_scored). The logits of one
// chunk, at most, are in memory; of each position a few numbers are kept. Same numbers for any batch and thread count.
// Errors: those of Session::forward, LogitsWriter::write and LogitsFile::read; bad_tensor (logits that are not
// finite); cancelled.
Result<Evaluation> evaluate(Session& session, const TextChunks& text, const EvaluateOptions& options);

}  // namespace tokamak

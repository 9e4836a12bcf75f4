#include "eval/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/check.h"
#include "base/thread_pool.h"
#include "eval/row_score.h"

namespace tokamak {

namespace {
// Most bytes of logits that one step may make. The numbers do not depend on it.
constexpr int64_t kMaxLogitBytes = int64_t{256} << 20;

struct Position {
  double nll = 0, base_nll = 0, divergence = 0;
  bool is_same_top = false;
};

class Evaluator {
 public:
  Evaluator(Session& session, const TextChunks& text, const EvaluateOptions& options, std::unique_ptr<ThreadPool> pool)
      : session_(session),
        text_(text),
        options_(options),
        pool_(std::move(pool)),
        n_vocab_(static_cast<size_t>(session.model().hparams().n_vocab)),
        n_batch_(std::clamp<int64_t>(kMaxLogitBytes / static_cast<int64_t>(n_vocab_ * sizeof(float)), 1,
                                     session.options().n_batch)) {
    if (options.save) encoded_.resize(options.save->header().row_bytes() * static_cast<size_t>(n_batch_));
    if (options.base) base_rows_.resize(static_cast<size_t>(pool_->n_threads()) * n_vocab_);
  }

  Result<Evaluation> run() {
    for (int64_t chunk_idx = 0; chunk_idx < text_.n_chunks(); ++chunk_idx) {
      const int32_t seq_id = session_.add_sequence();
      auto scored = score_chunk(seq_id, chunk_idx);
      session_.free_sequence(seq_id);
      TRY(std::move(scored));
      if (options_.base) options_.base->forget(chunk_idx);
      const double fraction = static_cast<double>(chunk_idx + 1) / static_cast<double>(text_.n_chunks());
      const bool go_on = !options_.progress || options_.progress(fraction, result(chunk_idx + 1, false));
      if (!go_on && chunk_idx + 1 < text_.n_chunks())
        return Error{.code = ErrorCode::cancelled, .what = "the evaluation was cancelled"};
    }
    return result(text_.n_chunks(), true);
  }

 private:
  Result<void> score_chunk(int32_t seq_id, int64_t chunk_idx) {
    const std::span<const int32_t> tokens = text_.chunk(chunk_idx);
    const int64_t first = first_scored(text_.n_ctx), last = text_.n_ctx - 1;  // the last token has no successor
    for (int64_t begin = 0; begin < last;) {
      const bool is_context = begin < first;
      const int64_t n =
          is_context ? std::min(session_.options().n_batch, first - begin) : std::min(n_batch_, last - begin);
      const SequenceTokens part{seq_id, tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(n)),
                                is_context ? Logits::none : Logits::all};
      const std::span<const float> logits = TRY(session_.forward({&part, 1}));
      if (!is_context)
        TRY(score_rows(chunk_idx, begin - first, logits,
                       tokens.subspan(static_cast<size_t>(begin) + 1, static_cast<size_t>(n))));
      begin += n;
    }
    return {};
  }

  // Rows first_row.. of a chunk; next[i] follows row i.
  Result<void> score_rows(int64_t chunk_idx, int64_t first_row, std::span<const float> logits,
                          std::span<const int32_t> next) {
    std::vector<Position> positions(next.size());
    std::mutex mutex;
    std::optional<Error> error;  // the first row's, whatever thread sees it first
    size_t error_row = next.size();
    pool_->run([&](int thread_idx, int n_threads) {
      const WorkRange rows = split_range(static_cast<int64_t>(next.size()), thread_idx, n_threads);
      for (auto i = static_cast<size_t>(rows.begin); i < static_cast<size_t>(rows.end); ++i) {
        auto scored = score_row(chunk_idx, first_row, i, logits.subspan(i * n_vocab_, n_vocab_), next[i], thread_idx);
        if (scored) {
          positions[i] = *scored;
          continue;
        }
        const std::lock_guard lock(mutex);
        if (i < error_row) {
          error = std::move(scored.error());
          error_row = i;
        }
        return;
      }
    });
    if (error) return *std::move(error);
    for (const Position& position : positions) add(position);
    if (options_.save)
      return options_.save->write(std::span(encoded_).first(next.size() * options_.save->header().row_bytes()));
    return {};
  }

  Result<Position> score_row(int64_t chunk_idx, int64_t first_row, size_t i, std::span<const float> logits,
                             int32_t next, int thread_idx) {
    const LogNormalizer norm = normalize(logits);
    const int64_t row_idx = first_row + static_cast<int64_t>(i);
    if (!norm.is_finite)
      return Error{.code = ErrorCode::bad_tensor,
                   .what = fmt::format("the model's logits are not finite after token {} of chunk {}",
                                       row_idx + first_scored(text_.n_ctx), chunk_idx),
                   .where = session_.model().path().string(),
                   .hint = "--check-tensors looks for bad weights"};
    Position out{.nll = -norm.log_prob(logits[static_cast<size_t>(next)])};
    if (options_.save) {
      const LogitsHeader& header = options_.save->header();
      encode_logits(header, {.nll = out.nll, .top = norm.top}, logits, encoded_.data() + i * header.row_bytes());
    }
    if (options_.base) {
      const std::span<float> base = std::span(base_rows_).subspan(static_cast<size_t>(thread_idx) * n_vocab_, n_vocab_);
      const LogitsRow row = TRY(options_.base->read(chunk_idx, row_idx, base));
      out.base_nll = row.nll;
      out.is_same_top = row.top == norm.top;
      out.divergence = divergence(base, normalize(base), logits, norm);
    }
    return out;
  }

  void add(const Position& position) {
    nll_.add(position.nll);
    if (!options_.base) return;
    base_nll_.add(position.base_nll);
    log_ratio_.add(position.nll - position.base_nll);
    divergence_.add(position.divergence);
    divergences_.push_back(static_cast<float>(position.divergence));
    n_same_top_ += position.is_same_top;
    const double delta = std::exp(-position.nll) - std::exp(-position.base_nll);
    delta_p_.add(delta);
    delta_p_squared_.add(delta * delta);
  }

  Evaluation result(int64_t n_chunks, bool is_final) const {
    Evaluation out{.n_chunks = n_chunks, .n_ctx = text_.n_ctx, .n_tokens = nll_.n(), .nll = nll_.estimate()};
    out.perplexity = exp_of(out.nll);
    if (!options_.base) return out;
    Comparison& comparison = out.comparison.emplace();
    comparison.base_perplexity = exp_of(base_nll_.estimate());
    comparison.perplexity_ratio = exp_of(log_ratio_.estimate());
    comparison.divergence = divergence_.estimate();
    comparison.same_top = share_of(n_same_top_, nll_.n());
    comparison.delta_p = delta_p_.estimate();
    comparison.delta_p_rms = std::sqrt(delta_p_squared_.mean());
    if (!is_final) return out;
    std::vector<float> sorted = divergences_;
    std::ranges::sort(sorted);
    for (size_t i = 0; i < kDivergenceQuantiles.size(); ++i)
      comparison.quantiles[i] = quantile(sorted, kDivergenceQuantiles[i].fraction);
    return out;
  }

  Session& session_;
  const TextChunks& text_;
  const EvaluateOptions& options_;
  std::unique_ptr<ThreadPool> pool_;
  const size_t n_vocab_;
  const int64_t n_batch_;           // of scored positions
  std::vector<std::byte> encoded_;  // rows of a batch
  std::vector<float> base_rows_;    // one per thread
  RunningMean nll_, base_nll_, log_ratio_, divergence_, delta_p_, delta_p_squared_;
  std::vector<float> divergences_;
  int64_t n_same_top_ = 0;
};
}  // namespace

Result<Evaluation> evaluate(Session& session, const TextChunks& text, const EvaluateOptions& options) {
  CHECK(text.n_chunks() > 0 && text.n_ctx >= kMinChunkTokens, text.n_chunks(), text.n_ctx);
  const int64_t n_threads = options.n_threads == 0 ? usable_cpus() : options.n_threads;
  auto pool = TRY(ThreadPool::create(static_cast<int>(n_threads)));
  return Evaluator(session, text, options, std::move(pool)).run();
}

}  // namespace tokamak

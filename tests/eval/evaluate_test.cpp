#include "eval/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eval/eval_helpers.h"
#include "support/tiny_model.h"

namespace tokamak {
namespace {

using test::open_session;
using testing::HasSubstr;
constexpr int64_t kCtx = 21, kChunks = 3;

// The same random weights, in the given type.
std::filesystem::path model_of(DType type) { return test::write_tiny_model({.types = {type}}); }

TextChunks text_of(int64_t n_vocab = 96) {
  return *divide_tokens(test::random_tokens(kChunks * kCtx, n_vocab, 11), kCtx, kNoToken);
}

// Logits of a whole chunk, asked for token by token.
std::vector<std::vector<double>> log_probs_of(Session& session, std::span<const int32_t> tokens) {
  std::vector<std::vector<double>> out;
  const int32_t seq_id = session.add_sequence();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const SequenceTokens one{seq_id, tokens.subspan(i, 1), Logits::last};
    const auto logits = session.forward({&one, 1});
    EXPECT_TRUE(logits) << logits.error().message();
    double sum = 0;
    for (float x : *logits) sum += std::exp(double{x});
    auto& row = out.emplace_back();
    for (float x : *logits) row.push_back(double{x} - std::log(sum));
  }
  session.free_sequence(seq_id);
  return out;
}

TEST(Evaluate, PerplexityIsThatOfTheSessionsOwnLogits) {
  const auto path = model_of(DType::q8_0);
  const TextChunks text = text_of();
  const auto session = open_session(path, {.n_ctx = kCtx});
  std::vector<double> nlls;
  for (int64_t c = 0; c < kChunks; ++c) {
    const auto tokens = text.chunk(c);
    const auto log_probs = log_probs_of(*session, tokens);
    for (size_t i = kCtx / 2; i + 1 < kCtx; ++i) nlls.push_back(-log_probs[i][static_cast<size_t>(tokens[i + 1])]);
  }
  ASSERT_EQ(nlls.size(), static_cast<size_t>(kChunks * (kCtx - 1 - kCtx / 2)));
  double mean = 0, squares = 0;
  for (double x : nlls) mean += x / static_cast<double>(nlls.size());
  for (double x : nlls) squares += (x - mean) * (x - mean);
  const auto n = static_cast<double>(nlls.size());

  const auto got = evaluate(*session, text, {});
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(got->n_tokens, static_cast<int64_t>(nlls.size()));
  EXPECT_EQ(got->n_chunks, kChunks);
  EXPECT_NEAR(got->nll.value, mean, 1e-12);
  EXPECT_NEAR(got->nll.error, std::sqrt(squares / (n - 1) / n), 1e-12);
  EXPECT_NEAR(got->perplexity.value, std::exp(mean), 1e-10);
  EXPECT_NEAR(got->perplexity.error, std::exp(mean) * std::sqrt(squares / (n - 1) / n), 1e-10);
  EXPECT_FALSE(got->comparison);
}

TEST(Evaluate, NumbersDoNotDependOnBatchOrThreads) {
  const auto path = model_of(DType::q4_0);
  const TextChunks text = text_of();
  const auto wanted = evaluate(*open_session(path, {.n_ctx = kCtx}), text, {.n_threads = 1});
  ASSERT_TRUE(wanted);
  for (int64_t n_batch : {1, 4, 10, 21}) {
    const auto got = evaluate(*open_session(path, {.n_ctx = kCtx, .n_batch = n_batch}), text, {.n_threads = 3});
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_EQ(got->nll.value, wanted->nll.value) << n_batch;
    EXPECT_EQ(got->nll.error, wanted->nll.error) << n_batch;
  }
}

// Saves the logits of a model over the text.
LogitsFile saved_logits(Session& session, const TextChunks& text, LogitsType type, std::string_view name) {
  const auto path = test::scratch_file(name);
  auto writer = LogitsWriter::create(path, {.type = type,
                                            .n_vocab = session.model().hparams().n_vocab,
                                            .vocab_hash = hash_vocabulary(session.model().tokenizer()),
                                            .chunks = text});
  EXPECT_TRUE(writer) << writer.error().message();
  EXPECT_TRUE(evaluate(session, text, {.save = &*writer}));
  EXPECT_TRUE(writer->commit());
  auto file = LogitsFile::open(path);
  EXPECT_TRUE(file) << file.error().message();
  return std::move(*file);
}

TEST(Evaluate, AModelEqualsItself) {
  const auto session = open_session(model_of(DType::q8_0), {.n_ctx = kCtx});
  const TextChunks text = text_of();
  const LogitsFile base = saved_logits(*session, text, LogitsType::f32, "self.f32");
  const auto got = evaluate(*session, text, {.base = &base});
  ASSERT_TRUE(got) << got.error().message();
  const Comparison& c = got->comparison.value();
  EXPECT_EQ(c.divergence.value, 0);
  EXPECT_EQ(c.divergence.error, 0);
  for (double q : c.quantiles) EXPECT_EQ(q, 0);
  EXPECT_EQ(c.same_top.value, 1);
  EXPECT_EQ(c.perplexity_ratio.value, 1);
  EXPECT_EQ(c.perplexity_ratio.error, 0);
  EXPECT_EQ(c.delta_p.value, 0);
  EXPECT_EQ(c.base_perplexity.value, got->perplexity.value);

  const LogitsFile rounded = saved_logits(*session, text, LogitsType::u16, "self.u16");
  const auto near = evaluate(*session, text, {.base = &rounded});
  ASSERT_TRUE(near);
  // A shift of each logit by at most s diverges by at most s^2 / 2 (half the variance of the shift) to second order.
  // The logits of this model span less than 20, so s < 10 / 65535.
  EXPECT_LT(near->comparison->quantiles.back(), std::pow(10.0 / 65535, 2));
  EXPECT_GE(near->comparison->divergence.value, -1e-12);
  EXPECT_EQ(near->comparison->same_top.value, 1);
  EXPECT_EQ(near->comparison->perplexity_ratio.value, 1);
}

TEST(Evaluate, ComparisonFollowsTheFormulas) {
  const auto base_session = open_session(model_of(DType::f32), {.n_ctx = kCtx});
  const auto session = open_session(model_of(DType::q4_0), {.n_ctx = kCtx});
  const TextChunks text = text_of();
  const LogitsFile base = saved_logits(*base_session, text, LogitsType::f32, "base.f32");
  const auto got = evaluate(*session, text, {.base = &base, .n_threads = 2});
  ASSERT_TRUE(got) << got.error().message();

  double divergence = 0, log_ratio = 0, delta = 0, delta_squares = 0, highest = 0;
  int n = 0, n_same = 0;
  for (int64_t c = 0; c < kChunks; ++c) {
    const auto tokens = text.chunk(c);
    const auto b = log_probs_of(*base_session, tokens), p = log_probs_of(*session, tokens);
    for (size_t i = kCtx / 2; i + 1 < kCtx; ++i, ++n) {
      const auto next = static_cast<size_t>(tokens[i + 1]);
      double kl = 0;
      for (size_t v = 0; v < b[i].size(); ++v) kl += std::exp(b[i][v]) * (b[i][v] - p[i][v]);
      divergence += kl;
      highest = std::max(highest, kl);
      log_ratio += b[i][next] - p[i][next];
      n_same += std::ranges::max_element(b[i]) - b[i].begin() == std::ranges::max_element(p[i]) - p[i].begin();
      const double d = std::exp(p[i][next]) - std::exp(b[i][next]);
      delta += d;
      delta_squares += d * d;
    }
  }
  const Comparison& c = got->comparison.value();
  EXPECT_GT(divergence, 0);
  EXPECT_NEAR(c.divergence.value, divergence / n, 1e-12);
  EXPECT_NEAR(c.quantiles.back(), highest, 1e-6);
  EXPECT_NEAR(c.perplexity_ratio.value, std::exp(log_ratio / n), 1e-12);
  EXPECT_NEAR(c.perplexity_ratio.value, got->perplexity.value / c.base_perplexity.value, 1e-12);
  EXPECT_DOUBLE_EQ(c.same_top.value, static_cast<double>(n_same) / n);
  EXPECT_NEAR(c.delta_p.value, delta / n, 1e-12);
  EXPECT_NEAR(c.delta_p_rms, std::sqrt(delta_squares / n), 1e-12);
}

TEST(Evaluate, CancelsAfterAChunkAndTellsWhatIsKnown) {
  const auto session = open_session(model_of(DType::q8_0), {.n_ctx = kCtx});
  int64_t n_known = 0;
  const auto stop = [&](double fraction, const Evaluation& so_far) {
    n_known = so_far.n_tokens;
    return fraction < 0.5;
  };
  const auto got = evaluate(*session, text_of(), {.progress = stop});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::cancelled);
  EXPECT_EQ(n_known, 2 * n_scored(kCtx));
  // Nothing is left to stop after the last chunk.
  const auto whole =
      evaluate(*session, text_of(), {.progress = [](double fraction, const Evaluation&) { return fraction < 1; }});
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_EQ(whole->n_chunks, kChunks);
}

TEST(Evaluate, LogitsThatAreNotFiniteAreRefused) {
  auto path = model_of(DType::f32);
  std::string bytes = test::read_bytes(path);
  for (size_t i = 0; i < 4096; i += 4) bytes.replace(bytes.size() - 4096 + i, 4, "\xff\xff\xff\x7f", 4);  // ffn_down
  const auto bad = test::scratch_file("nan.gguf");
  test::write_bytes(bad, bytes);
  const auto got = evaluate(*open_session(bad, {.n_ctx = kCtx}), text_of(), {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::bad_tensor);
  EXPECT_THAT(got.error().message(), HasSubstr("not finite"));
  EXPECT_THAT(got.error().message(), HasSubstr("token 10 of chunk 0"));
}

}  // namespace
}  // namespace tokamak

#include "engine/sampling/sampler.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "base/random.h"
#include "engine/sampling/sampler_table.h"

namespace tokamak {

namespace {

Result<void> check_id(std::string_view field, int32_t token, size_t n_vocab) {
  if (token >= 0 && static_cast<size_t>(token) < n_vocab) return {};
  return Error{ErrorCode::bad_argument, fmt::format("token {} is outside the vocabulary", token), std::string(field),
               n_vocab == 0 ? "the vocabulary is empty" : fmt::format("ids go from 0 to {}", n_vocab - 1)};
}

bool in_chain(const SamplerParams& p, SamplerKind kind) {
  return std::find(p.samplers.begin(), p.samplers.end(), kind) != p.samplers.end();
}

// What the history must remember for the samplers that are on and in the chain.
History::Windows windows_of(const SamplerParams& p) {
  const bool penalties = p.repeat_penalty != 1 || p.frequency_penalty != 0 || p.presence_penalty != 0;
  return {.penalties = penalties && in_chain(p, SamplerKind::penalties) ? p.repeat_last_n : 0,
          .dry = p.dry_multiplier != 0 && in_chain(p, SamplerKind::dry) ? p.dry_penalty_last_n : 0};
}

std::vector<LogitBias> all_biases(const SamplerParams& params, const SamplerVocab& vocab) {
  std::vector<LogitBias> biases = params.logit_bias;
  for (int32_t token : params.suppress_tokens) biases.push_back({token, kForbidden});
  if (params.ignore_eos)
    for (int32_t token : vocab.end_of_generation) biases.push_back({token, kForbidden});
  return biases;
}

}  // namespace

Sampler::Sampler(SamplerParams params, SamplerVocab vocab)
    : params_(std::move(params)),
      vocab_(std::move(vocab)),
      biases_(all_biases(params_, vocab_)),
      top_(find_top_need()),
      seed_(params_.seed < 0 ? entropy_seed() : static_cast<uint64_t>(params_.seed)),
      history_(windows_of(params_), params_.dry_sequence_breakers, vocab_.text) {
  reset();
}

Result<Sampler> Sampler::create(SamplerParams params, SamplerVocab vocab) {
  params = TRY(validate(std::move(params)));
  for (const LogitBias& bias : params.logit_bias) TRY(check_id("logit_bias", bias.token, vocab.n_vocab));
  for (int32_t token : params.suppress_tokens) TRY(check_id("suppress_tokens", token, vocab.n_vocab));
  for (int32_t token : vocab.end_of_generation) TRY(check_id("end of generation", token, vocab.n_vocab));
  return Sampler(std::move(params), std::move(vocab));
}

void Sampler::accept(int32_t token) {
  if (token >= 0 && static_cast<size_t>(token) < vocab_.n_vocab) history_.accept(token);
}

void Sampler::reset() {
  history_.clear();
  mirostat_ = {.version = static_cast<int>(params_.mirostat),
               .target = params_.mirostat_tau,
               .rate = params_.mirostat_eta,
               .limit = 2 * params_.mirostat_tau};
  adaptive_p_ = {.target = params_.adaptive_target, .decay = params_.adaptive_decay};
  adaptive_p_.reset();
}

void Sampler::apply_bias() {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const LogitBias& bias : biases_) {
    float& logit = candidates_.logits()[static_cast<size_t>(bias.token)];
    if (logit != kForbidden) logit = bias.bias == kForbidden ? kForbidden : std::clamp(logit + bias.bias, -kMax, kMax);
  }
}

Sampler::TopNeed Sampler::find_top_need() const {
  for (const LogitBias& bias : biases_)
    if (bias.bias != kForbidden) return {.why_all = "logit_bias"};
  size_t n = 0;
  for (SamplerKind kind : params_.samplers) {
    const SamplerRow& row = sampler_row(kind);
    if (!takes_part(row, params_)) continue;
    if (kind != SamplerKind::top_k) return {.why_all = row.name};
    n = std::max(static_cast<size_t>(params_.top_k), min_keep(params_));
    break;  // whatever follows sees the list only
  }
  if (n == 0 && !params_.greedy()) return {.why_all = params_.mirostat != 0 ? "mirostat" : "no top_k"};
  n = std::max<size_t>(n, 1) + biases_.size();
  if (n > kTopLogits) return {.why_all = "a large top_k"};
  return {.n = n, .why_all = {}};
}

Result<SampledToken> Sampler::sample(std::span<const float> logits, uint64_t position) {
  CHECK(logits.size() == vocab_.n_vocab, logits.size(), vocab_.n_vocab);
  TRY(candidates_.load(logits));
  apply_bias();
  return choose_token(position);
}

Result<SampledToken> Sampler::sample_top(std::span<const TopLogit> top, uint64_t position) {
  CHECK(n_top() > 0 && top.size() == kTopLogits, n_top(), top.size());
  TRY(candidates_.load_top(top));
  for (const LogitBias& bias : biases_) candidates_.remove(bias.token);
  return choose_token(position);
}

Result<SampledToken> Sampler::choose_token(uint64_t position) {
  if (candidates_.max_logit() == kForbidden)
    return Error{ErrorCode::no_token_left, "every token is forbidden", fmt::format("sampling at position {}", position),
                 "loosen logit_bias, suppress_tokens or the grammar"};

  SamplerStep step{params_, candidates_, history_, vocab_, seed_, position};
  for (SamplerKind kind : params_.samplers)
    if (const SamplerRow& row = sampler_row(kind); takes_part(row, params_)) row.apply(step);
  if (params_.greedy()) {
    candidates_.keep_top(1);
    candidates_.softmax();
    return SampledToken{candidates_.list()[0].id, 1, 0};
  }
  const size_t choice = choose(uniform(seed_, position, kChoiceStream));
  const Candidate& chosen = candidates_.list()[choice];
  return SampledToken{chosen.id, chosen.prob, std::log(chosen.prob)};
}

size_t Sampler::choose(double u) {
  return params_.mirostat != 0 ? mirostat_.choose(candidates_, u) : adaptive_p_.choose(candidates_, u);
}

Logprobs Sampler::last_logprobs(size_t n, int32_t chosen) const {
  Logprobs out{.chosen = kForbidden, .top = {}};
  for (const Candidate& c : last_candidates()) {
    if (c.id == chosen) out.chosen = std::log(c.prob);
    if (c.prob > 0) out.top.push_back({c.id, std::log(c.prob)});
  }
  n = std::min(n, out.top.size());
  std::partial_sort(out.top.begin(), out.top.begin() + static_cast<ptrdiff_t>(n), out.top.end(),
                    [](const TokenLogprob& a, const TokenLogprob& b) {
                      return a.logprob > b.logprob || (a.logprob == b.logprob && a.id < b.id);
                    });
  out.top.resize(n);
  return out;
}

Logprobs top_logprobs(std::span<const float> logits, size_t n, int32_t chosen) {
  Logprobs out;
  const int32_t best = argmax(logits);
  if (best < 0) return {.chosen = kForbidden};
  const double max = logits[static_cast<size_t>(best)];
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - max);
  const double log_sum = max + std::log(sum);
  std::vector<Candidate> top;
  select_top(logits, n, top);
  for (const Candidate& c : top) out.top.push_back({c.id, static_cast<float>(c.logit - log_sum)});
  if (chosen >= 0 && static_cast<size_t>(chosen) < logits.size())
    out.chosen = static_cast<float>(logits[static_cast<size_t>(chosen)] - log_sum);
  return out;
}

}  // namespace tokamak

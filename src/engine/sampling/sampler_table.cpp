#include "engine/sampling/sampler_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.h"
#include "engine/sampling/infill.h"

namespace tokamak {

namespace {

// Penalised logits stay finite: only a bias or a mask forbids a token.
float finite(double logit) {
  constexpr double kMax = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(logit, -kMax, kMax));
}

// In nats.
double entropy(std::span<const Candidate> list) {
  double sum = 0;
  for (const Candidate& c : list)
    if (c.prob > 0) sum -= c.prob * std::log(static_cast<double>(c.prob));
  return sum;
}

// logit > 0 ? logit / repeat : logit * repeat (Keskar et al. 2019, arXiv:1909.05858, with the usual care for signs),
// then minus count * frequency + presence (OpenAI API reference).
void apply_penalties(SamplerStep& step) {
  const SamplerParams& p = step.params;
  const auto counts = step.history.n_seen();
  step.candidates.update(step.history.seen(), [&](size_t i, float& logit) {
    const double repeated = logit > 0 ? logit / p.repeat_penalty : logit * p.repeat_penalty;
    logit = finite(repeated - counts[i] * p.frequency_penalty - p.presence_penalty);
  });
}

// Minus multiplier * base^(length - allowed) for a token that continues a repetition of `length` tokens.
// Source: p-e-w 2024, "DRY: a modern repetition penalty" (text-generation-webui, pull request 5677).
void apply_dry(SamplerStep& step) {
  const SamplerParams& p = step.params;
  const History::Repeats& repeats = step.history.repeats(static_cast<size_t>(p.dry_allowed_length));
  step.candidates.update(repeats.tokens, [&](size_t i, float& logit) {
    const double excess = static_cast<double>(repeats.lengths[i]) - static_cast<double>(p.dry_allowed_length);
    logit = finite(logit - p.dry_multiplier * std::pow(p.dry_base, excess));
  });
}

// Source: Tang et al. 2024, "Top-n-sigma: not all logits are you need" (arXiv:2411.07641).
void apply_top_n_sigma(SamplerStep& step) {
  Candidates& candidates = step.candidates;
  double sum = 0, sum_squares = 0;
  size_t n = 0;
  const float best = candidates.max_logit();
  const auto add = [&](float logit) {
    if (logit == kForbidden) return;
    const double below = static_cast<double>(logit) - best;  // small numbers, so the squares lose nothing
    sum += below;
    sum_squares += below * below;
    ++n;
  };
  if (candidates.is_dense())
    for (float logit : candidates.logits()) add(logit);
  else
    for (const Candidate& c : candidates.list()) add(c.logit);
  if (n == 0) return;
  const double mean = sum / static_cast<double>(n);
  const double sigma = std::sqrt(std::max(0.0, sum_squares / static_cast<double>(n) - mean * mean));
  candidates.keep_at_least(finite(best - step.params.top_n_sigma * sigma), min_keep(step.params));
}

void apply_top_k(SamplerStep& step) {
  step.candidates.keep_top(std::max(static_cast<size_t>(step.params.top_k), min_keep(step.params)));
}

// Source: Meister et al. 2022, "Locally typical sampling" (arXiv:2202.00666), section 4.
void apply_typical(SamplerStep& step) {
  step.candidates.softmax();
  const double expected = entropy(step.candidates.list());
  for (Candidate& c : step.candidates.list())
    c.key = c.prob > 0 ? static_cast<float>(std::abs(-std::log(static_cast<double>(c.prob)) - expected))
                       : std::numeric_limits<float>::infinity();
  step.candidates.keep_by_key(step.params.typical_p, min_keep(step.params));
}

// Source: Holtzman et al. 2019, "The curious case of neural text degeneration" (arXiv:1904.09751).
void apply_top_p(SamplerStep& step) {
  step.candidates.softmax();
  step.candidates.keep_by_prob(step.params.top_p, min_keep(step.params));
}

// p >= min_p * p_best is logit >= logit_best + ln(min_p): no probabilities needed.
// Source: Nguyen et al. 2024, "Turning up the heat" (arXiv:2407.01082).
void apply_min_p(SamplerStep& step) {
  const float threshold = finite(step.candidates.max_logit() + std::log(step.params.min_p));
  step.candidates.keep_at_least(threshold, min_keep(step.params));
}

// "Exclude top choices": of the tokens with probability >= threshold only the least probable stays.
// Source: p-e-w 2024 (text-generation-webui, pull request 6335).
void apply_xtc(SamplerStep& step) {
  const SamplerParams& p = step.params;
  if (uniform(step.seed, step.position, kXtcStream) >= p.xtc_probability) return;
  Candidates& candidates = step.candidates;
  candidates.softmax();
  const auto list = candidates.list();
  const auto n_top = static_cast<size_t>(
      std::count_if(list.begin(), list.end(), [&](const Candidate& c) { return c.prob >= p.xtc_threshold; }));
  if (n_top < 2 || list.size() - (n_top - 1) < min_keep(p)) return;
  candidates.sort_prefix(n_top);
  candidates.drop_front(n_top - 1);
}

// logit / T. With a range, T moves between T - range and T + range with the entropy relative to that of a uniform
// choice, raised to an exponent. T = 0 keeps the best alone.
void apply_temperature(SamplerStep& step) {
  const SamplerParams& p = step.params;
  Candidates& candidates = step.candidates;
  double temperature = p.temperature;
  if (p.dynatemp_range > 0 && candidates.size() > 1) {
    candidates.softmax();
    const double relative = entropy(candidates.list()) / std::log(static_cast<double>(candidates.size()));
    const double low = std::max(0.0, p.temperature - p.dynatemp_range), high = p.temperature + p.dynatemp_range;
    temperature = low + (high - low) * std::pow(std::clamp(relative, 0.0, 1.0), p.dynatemp_exponent);
  }
  if (temperature == 1) return;
  if (temperature <= 0) return candidates.keep_top(1);
  const double best = candidates.max_logit();  // relative to the best, so that a tiny T cannot overflow it
  candidates.update_all([&](float& logit) { logit = finite((logit - best) / temperature); });
}

void apply_infill(SamplerStep& step) { infill(step.candidates, step.vocab); }

// Comes last and chooses, wherever the chain names it: see Sampler.
void apply_adaptive_p(SamplerStep&) {}

bool idle_penalties(const SamplerParams& p) {
  return p.repeat_penalty == 1 && p.frequency_penalty == 0 && p.presence_penalty == 0;
}
bool idle_dry(const SamplerParams& p) { return p.dry_multiplier == 0 || p.dry_penalty_last_n == 0; }
bool idle_top_n_sigma(const SamplerParams& p) { return p.top_n_sigma <= 0; }
bool idle_top_k(const SamplerParams& p) { return p.top_k <= 0; }
bool idle_typical(const SamplerParams& p) { return p.typical_p >= 1; }
bool idle_top_p(const SamplerParams& p) { return p.top_p >= 1; }
bool idle_min_p(const SamplerParams& p) { return p.min_p <= 0; }
bool idle_xtc(const SamplerParams& p) { return p.xtc_probability <= 0 || p.xtc_threshold > 0.5; }
bool idle_temperature(const SamplerParams& p) { return p.dynatemp_range <= 0 && p.temperature == 1; }
bool never_idle(const SamplerParams&) { return false; }
bool always_idle(const SamplerParams&) { return true; }

constexpr auto kRows = std::to_array<SamplerRow>({
    // kind, letter, name, alias, with greedy, with Mirostat, idle, function
    {SamplerKind::penalties, 'e', "penalties", "", true, true, idle_penalties, apply_penalties},
    {SamplerKind::dry, 'd', "dry", "", true, true, idle_dry, apply_dry},
    {SamplerKind::top_n_sigma, 's', "top_n_sigma", "", false, false, idle_top_n_sigma, apply_top_n_sigma},
    {SamplerKind::top_k, 'k', "top_k", "", false, false, idle_top_k, apply_top_k},
    {SamplerKind::typ_p, 'y', "typ_p", "typical_p", false, false, idle_typical, apply_typical},
    {SamplerKind::top_p, 'p', "top_p", "", false, false, idle_top_p, apply_top_p},
    {SamplerKind::min_p, 'm', "min_p", "", false, false, idle_min_p, apply_min_p},
    {SamplerKind::xtc, 'x', "xtc", "", false, false, idle_xtc, apply_xtc},
    {SamplerKind::temperature, 't', "temperature", "temp", false, true, idle_temperature, apply_temperature},
    {SamplerKind::infill, 'i', "infill", "", true, false, never_idle, apply_infill},
    {SamplerKind::adaptive_p, 'a', "adaptive_p", "", false, false, always_idle, apply_adaptive_p},
});

constexpr bool rows_match_enum() {
  if (kRows.size() != static_cast<size_t>(SamplerKind::count_)) return false;
  for (size_t i = 0; i < kRows.size(); ++i)
    if (static_cast<size_t>(kRows[i].kind) != i) return false;
  return true;
}
static_assert(rows_match_enum());

}  // namespace

std::span<const SamplerRow> sampler_rows() { return kRows; }

bool takes_part(const SamplerRow& row, const SamplerParams& params) {
  const bool runs_all =
      !params.greedy() || std::ranges::find(params.samplers, SamplerKind::infill) != params.samplers.end();
  return (runs_all || row.with_greedy) && (params.mirostat == 0 || row.with_mirostat) && !row.is_idle(params);
}

size_t min_keep(const SamplerParams& params) { return static_cast<size_t>(std::max<int64_t>(params.min_keep, 1)); }

}  // namespace tokamak

#include "engine/sampling/mirostat.h"

#include <algorithm>
#include <cmath>

namespace tokamak {

namespace {

// Exponent of the Zipf law that the best tokens follow: least squares over the first 100, equation 30 of the paper.
double zipf_exponent(std::span<const Candidate> best_first) {
  constexpr size_t kMost = 100;
  double products = 0, squares = 0;
  for (size_t i = 0; i + 1 < std::min(best_first.size(), kMost); ++i) {
    if (best_first[i + 1].prob <= 0) break;
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * std::log(static_cast<double>(best_first[i].prob) / best_first[i + 1].prob);
    squares += t * t;
  }
  return squares > 0 ? products / squares : 1.0;
}

// How many tokens version 1 keeps so that the expected surprise is `limit` bits.
size_t zipf_top_k(double exponent, double limit, size_t n) {
  const double epsilon = exponent - 1, n_tokens = static_cast<double>(n);
  // epsilon / (1 - n^-epsilon) tends to 1 / ln n
  const double ratio = std::abs(epsilon) < 1e-9 ? 1 / std::log(n_tokens) : epsilon / (1 - std::pow(n_tokens, -epsilon));
  const double k = std::pow(ratio * std::exp2(limit), 1 / exponent);
  if (!(k < n_tokens)) return n;  // also NaN, from a flat distribution
  return static_cast<size_t>(std::max(1.0, std::round(k)));
}

}  // namespace

size_t draw(std::span<const Candidate> list, double u) {
  double sum = 0;
  for (const Candidate& c : list) sum += c.prob;
  const double target = u * sum;
  double reached = 0;
  size_t last = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].prob <= 0) continue;
    last = i;
    reached += list[i].prob;
    if (reached > target) return i;
  }
  return last;  // rounding of u * sum
}

size_t Mirostat::choose(Candidates& candidates, double u) {
  candidates.softmax();
  for (Candidate& c : candidates.list()) c.key = c.prob;  // the distribution before the removal
  if (version == 1) {
    candidates.sort_prefix(100);
    candidates.keep_top(zipf_top_k(zipf_exponent(candidates.list()), limit, candidates.size()));
  } else {
    // -log2 p <= limit is logit >= best + ln(p_least / p_best)
    candidates.sort_prefix(1);
    const Candidate& best = candidates.list().front();
    const double threshold = best.logit - limit * std::log(2.0) - std::log(static_cast<double>(best.prob));
    candidates.keep_at_least(static_cast<float>(std::max(threshold, -double{std::numeric_limits<float>::max()})), 1);
  }
  candidates.softmax();
  const size_t choice = draw(candidates.list(), u);
  const double surprise = -std::log2(std::max(static_cast<double>(candidates.list()[choice].key), 1e-30));
  limit -= rate * (surprise - target);
  return choice;
}

}  // namespace tokamak

#include "engine/sampling/infill.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tokamak {

namespace {

constexpr size_t kMostTexts = 256;
constexpr float kLeastProb = 0.2f;

bool more_probable(const Candidate& a, const Candidate& b) {
  return a.prob > b.prob || (a.prob == b.prob && a.id < b.id);
}

double sum_of(const std::vector<Candidate>& list) {
  double sum = 0;
  for (const Candidate& c : list) sum += c.prob;
  return sum;
}

void keep_best(std::vector<Candidate>& list, size_t n) {
  n = std::min(n, list.size());
  std::partial_sort(list.begin(), list.begin() + static_cast<ptrdiff_t>(n), list.end(), more_probable);
  list.resize(n);
}

// `list` is best first. Texts without bytes join nothing.
void join_alike(std::vector<Candidate>& list, const TokenText& text_of) {
  if (!text_of) return;
  std::vector<std::string> texts;
  for (const Candidate& c : list) texts.push_back(text_of(c.id));
  for (size_t i = 0; i < list.size(); ++i) {
    if (texts[i].empty()) continue;
    for (size_t k = i + 1; k < list.size(); ++k) {
      if (texts[k].empty() || !(texts[k].starts_with(texts[i]) || texts[i].starts_with(texts[k]))) continue;
      list[i].prob += list[k].prob;
      list[k].prob = 0;
      texts[k].clear();
    }
  }
  std::erase_if(list, [](const Candidate& c) { return c.prob <= 0; });
}

// The most probable end token that neither a bias nor a mask forbids, as a list of its own; empty: there is none.
std::vector<Candidate> best_end(const Candidates& candidates, const SamplerVocab& vocab) {
  std::vector<Candidate> out;
  for (const int32_t id : vocab.end_of_generation) {
    const Candidate end{.id = id, .logit = candidates.logits()[static_cast<size_t>(id)], .prob = 1, .key = 0};
    if (end.logit == kForbidden) continue;
    if (out.empty() || end.logit > out[0].logit) out = {end};
  }
  return out;
}

}  // namespace

void infill(Candidates& candidates, const SamplerVocab& vocab) {
  candidates.softmax();
  std::vector<Candidate> ends, texts;
  for (const Candidate& c : candidates.list()) {
    const bool is_end = std::ranges::find(vocab.end_of_generation, c.id) != vocab.end_of_generation.end();
    if (c.prob > 0) (is_end ? ends : texts).push_back(c);
  }
  const double p_ends = sum_of(ends);
  if (p_ends * static_cast<double>(candidates.size()) > sum_of(texts)) return candidates.replace(std::move(ends));

  keep_best(texts, kMostTexts);
  join_alike(texts, vocab.text);
  keep_best(texts, texts.size());
  const Candidate best = texts.front();  // not empty: the probabilities sum to 1, and the ends have less than half
  std::erase_if(texts, [](const Candidate& c) { return c.prob < kLeastProb; });
  if (texts.empty() && ends.empty()) ends = best_end(candidates, vocab);
  if (texts.empty() && ends.empty()) texts = {best};
  const double least = (sum_of(texts) + p_ends) / static_cast<double>(texts.size() + 1);
  std::erase_if(texts, [&](const Candidate& c) { return c.id != best.id && c.prob < least; });
  texts.insert(texts.end(), ends.begin(), ends.end());
  for (Candidate& c : texts) c.logit = std::log(c.prob);
  candidates.replace(std::move(texts));
}

}  // namespace tokamak

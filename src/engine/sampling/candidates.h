// The tokens that may still be chosen, as the samplers narrow them down.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "backend/top_logits.h"
#include "base/result.h"

namespace tokamak {

inline constexpr float kForbidden = -std::numeric_limits<float>::infinity();

struct Candidate {
  int32_t id;
  float logit;
  float prob;  // after softmax()
  float key;   // scratch of one filter
};

// Largest logit; ties go to the lowest id, so that every order is total. -1 if all are -infinity.
int32_t argmax(std::span<const float> logits);
// The k best, best first, without those that are -infinity; ties by lowest id. Reuses the memory of `out`.
void select_top(std::span<const float> logits, size_t k, std::vector<Candidate>& out);

// Starts dense (one logit per token id, as the model gives them) and becomes a list when a filter first removes
// tokens, so that a vocabulary of 262k is copied once and never sorted. Memory is kept from step to step.
class Candidates {
 public:
  // Copies the logits. Errors: device_failed for NaN or +infinity, which no healthy model yields.
  Result<void> load(std::span<const float> logits);
  // Only the best of them, as Program::run_top gives them: a list, as keep_top() would leave it. Errors: as load().
  Result<void> load_top(std::span<const TopLogit> top);

  bool is_dense() const { return dense_; }
  std::span<float> logits() { return logits_; }              // dense only, by id
  std::span<const float> logits() const { return logits_; }  // by id; as they were when the list was made
  std::span<Candidate> list();                               // makes the list if dense; no entry is -infinity
  std::span<const Candidate> final_list() const { return list_; }
  size_t size() { return list().size(); }
  float max_logit();  // -infinity if none is left

  // f(index into ids, logit) for those of `ids` (ascending, unique) that are still there. Probabilities are stale.
  template <class F>
  void update(std::span<const int32_t> ids, F f);
  // f(logit) for all.
  template <class F>
  void update_all(F f);

  // Of a list: without this token.
  void remove(int32_t id);

  // The logit of every candidate becomes f(candidate).
  template <class F>
  void rescore(F f);
  // These are left, with the logits they bear.
  void replace(std::vector<Candidate> list);

  // Fill Candidate::prob with softmax(logit); a no-op when up to date. Sums in f64 in list order.
  void softmax();
  // The first n entries become the n best, best first.
  void sort_prefix(size_t n);
  void keep_top(size_t n);
  // Keeps logit >= threshold, but never fewer than min_keep of the best.
  void keep_at_least(float threshold, size_t min_keep);
  // Keeps the fewest entries in ascending (key, id) whose prob reaches `sum`, at least min_keep. Call softmax() first.
  void keep_by_key(double sum, size_t min_keep);
  // The same with the best first.
  void keep_by_prob(double sum, size_t min_keep);
  void drop_front(size_t n);

 private:
  void make_list(float threshold);
  void truncate(size_t n);

  std::vector<float> logits_;
  std::vector<Candidate> list_;
  bool dense_ = true;
  bool probs_valid_ = false;
  size_t n_sorted_ = 0;  // leading entries that are the best of all, in order
};

template <class F>
void Candidates::update(std::span<const int32_t> ids, F f) {
  if (dense_) {
    for (size_t i = 0; i < ids.size(); ++i)
      if (logits_[static_cast<size_t>(ids[i])] != kForbidden) f(i, logits_[static_cast<size_t>(ids[i])]);
    return;
  }
  for (Candidate& c : list_) {
    const auto at = std::lower_bound(ids.begin(), ids.end(), c.id);
    if (at != ids.end() && *at == c.id) f(static_cast<size_t>(at - ids.begin()), c.logit);
  }
  probs_valid_ = false;
  n_sorted_ = 0;
}

template <class F>
void Candidates::update_all(F f) {
  for (Candidate& c : list()) f(c.logit);
  probs_valid_ = false;
}

template <class F>
void Candidates::rescore(F f) {
  for (Candidate& c : list()) c.logit = f(c);
  probs_valid_ = false;
  n_sorted_ = 0;
}

}  // namespace tokamak

#include "engine/sampling/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tokamak {

namespace {
constexpr size_t kBlock = 64;  // logits looked at together

bool better(const Candidate& a, const Candidate& b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); }
bool smaller_key(const Candidate& a, const Candidate& b) { return a.key < b.key || (a.key == b.key && a.id < b.id); }

// Lanes that the compiler may keep in vector registers; a maximum does not depend on the order.
float max_of(std::span<const float> x) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, kForbidden);
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes)
    for (size_t k = 0; k < kLanes; ++k) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
  for (; i < x.size(); ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

bool is_healthy(float logit) { return logit <= std::numeric_limits<float>::max(); }
Error unhealthy(int64_t id, float logit) {
  return {ErrorCode::device_failed, fmt::format("the logit of token {} is {}", id, logit), "sampling",
          "the model file or the backend is broken; try --backend reference"};
}

// Sorts ever longer prefixes until their probabilities reach `sum`; returns the length to keep.
template <class Less>
size_t prefix_reaching(std::span<Candidate> list, double sum, size_t min_keep, Less less) {
  double reached = 0;
  size_t n_sorted = 0;
  for (size_t step = 64; n_sorted < list.size(); step *= 4) {
    const size_t end = std::min(list.size(), n_sorted + step);
    const auto begin = list.begin() + static_cast<ptrdiff_t>(n_sorted),
               middle = list.begin() + static_cast<ptrdiff_t>(end);
    if (end < list.size()) std::nth_element(begin, middle, list.end(), less);
    std::sort(begin, middle, less);
    for (; n_sorted < end; ++n_sorted) {
      reached += list[n_sorted].prob;
      if (reached >= sum && n_sorted + 1 >= min_keep) return n_sorted + 1;
    }
  }
  return list.size();
}
}  // namespace

int32_t argmax(std::span<const float> logits) {
  const float best = max_of(logits);
  if (best == kForbidden) return -1;
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), best) - logits.begin());
}

void select_top(std::span<const float> logits, size_t k, std::vector<Candidate>& out) {
  out.clear();
  k = std::min(k, logits.size());
  if (k == 0) return;
  // A heap of the k best so far, its worst on top. Ids ascend, so an equal logit never displaces an earlier one, and
  // a block whose maximum does not beat the worst is skipped whole.
  float worst = kForbidden;
  for (size_t start = 0; start < logits.size(); start += kBlock) {
    const auto block = logits.subspan(start, std::min(kBlock, logits.size() - start));
    if (max_of(block) <= worst) continue;
    for (size_t i = 0; i < block.size(); ++i) {
      if (!(block[i] > worst)) continue;
      if (out.size() == k) {
        std::pop_heap(out.begin(), out.end(), better);
        out.pop_back();
      }
      out.push_back({static_cast<int32_t>(start + i), block[i], 0, 0});
      std::push_heap(out.begin(), out.end(), better);
      if (out.size() == k) worst = out.front().logit;
    }
  }
  std::sort_heap(out.begin(), out.end(), better);
}

Result<void> Candidates::load(std::span<const float> logits) {
  logits_.assign(logits.begin(), logits.end());
  list_.clear();
  dense_ = true;
  probs_valid_ = false;
  n_sorted_ = 0;
  unsigned bad = 0;
  for (float x : logits_) bad |= !is_healthy(x);
  if (bad == 0) return {};
  const auto first = std::ranges::find_if_not(logits_, is_healthy);
  return unhealthy(first - logits_.begin(), *first);
}

Result<void> Candidates::load_top(std::span<const TopLogit> top) {
  logits_.clear();
  list_.clear();
  dense_ = false;
  probs_valid_ = false;
  n_sorted_ = 0;
  for (const TopLogit& best : top) {
    if (best.id < 0 || best.logit == kForbidden) break;
    if (!is_healthy(best.logit)) return unhealthy(best.id, best.logit);
    list_.push_back({best.id, best.logit, 0, 0});
  }
  n_sorted_ = list_.size();
  return {};
}

void Candidates::make_list(float threshold) {
  list_.clear();
  for (size_t id = 0; id < logits_.size(); ++id)
    if (logits_[id] >= threshold && logits_[id] != kForbidden)
      list_.push_back({static_cast<int32_t>(id), logits_[id], 0, 0});
  dense_ = false;
  probs_valid_ = false;
  n_sorted_ = 0;
}

std::span<Candidate> Candidates::list() {
  if (dense_) make_list(kForbidden);
  return list_;
}

float Candidates::max_logit() {
  if (dense_) return max_of(logits_);
  if (n_sorted_ > 0) return list_[0].logit;
  float best = kForbidden;
  for (const Candidate& c : list_) best = std::max(best, c.logit);
  return best;
}

void Candidates::softmax() {
  list();
  if (probs_valid_) return;
  const float best = max_logit();
  double sum = 0;
  for (Candidate& c : list_) {
    c.prob = std::exp(c.logit - best);
    sum += c.prob;
  }
  const auto scale = static_cast<float>(1.0 / sum);
  for (Candidate& c : list_) c.prob *= scale;
  probs_valid_ = true;
}

void Candidates::remove(int32_t id) {
  const auto at = std::ranges::find(list_, id, &Candidate::id);
  if (at == list_.end()) return;
  if (at - list_.begin() < static_cast<ptrdiff_t>(n_sorted_)) --n_sorted_;
  list_.erase(at);
  probs_valid_ = false;
}

void Candidates::replace(std::vector<Candidate> list) {
  list_ = std::move(list);
  dense_ = false;
  probs_valid_ = false;
  n_sorted_ = 0;
}

void Candidates::sort_prefix(size_t n) {
  list();
  n = std::min(n, list_.size());
  if (n <= n_sorted_) return;
  const auto begin = list_.begin() + static_cast<ptrdiff_t>(n_sorted_),
             middle = list_.begin() + static_cast<ptrdiff_t>(n);
  if (n < list_.size()) std::nth_element(begin, middle, list_.end(), better);
  std::sort(begin, middle, better);
  n_sorted_ = n;
}

void Candidates::truncate(size_t n) {
  if (n >= list_.size()) return;
  list_.resize(n);
  n_sorted_ = std::min(n_sorted_, n);
  probs_valid_ = false;
}

void Candidates::keep_top(size_t n) {
  constexpr size_t kHeapLimit = 1024;  // above it, selecting within a list is faster than a heap
  if (dense_ && n <= kHeapLimit) {
    select_top(logits_, n, list_);
    dense_ = false;
    probs_valid_ = false;
    n_sorted_ = list_.size();
    return;
  }
  sort_prefix(n);
  truncate(n);
}

void Candidates::keep_at_least(float threshold, size_t min_keep) {
  if (dense_) {
    size_t n_kept = 0;
    for (float x : logits_) n_kept += x >= threshold;
    if (n_kept < min_keep) return keep_top(min_keep);
    return make_list(threshold);
  }
  const auto below = [&](const Candidate& c) { return c.logit < threshold; };
  const auto n_kept = list_.size() - static_cast<size_t>(std::count_if(list_.begin(), list_.end(), below));
  if (n_kept < min_keep) return keep_top(min_keep);
  if (n_kept == list_.size()) return;
  std::erase_if(list_, below);  // keeps the order, so the sorted prefix stays one
  n_sorted_ = std::min(n_sorted_, n_kept);
  probs_valid_ = false;
}

void Candidates::keep_by_key(double sum, size_t min_keep) {
  const size_t n = prefix_reaching(list(), sum, min_keep, smaller_key);
  n_sorted_ = 0;
  truncate(n);
}

void Candidates::keep_by_prob(double sum, size_t min_keep) {
  if (n_sorted_ == list().size()) {  // as after top_k: nothing to sort
    double reached = 0;
    for (size_t i = 0; i < list_.size(); ++i) {
      reached += list_[i].prob;
      if (reached >= sum && i + 1 >= min_keep) return truncate(i + 1);
    }
    return;
  }
  const size_t n = prefix_reaching(list_, sum, min_keep, better);
  truncate(n);
  n_sorted_ = n;
}

void Candidates::drop_front(size_t n) {
  list_.erase(list_.begin(), list_.begin() + static_cast<ptrdiff_t>(n));
  n_sorted_ -= std::min(n_sorted_, n);
  probs_valid_ = false;
}

}  // namespace tokamak

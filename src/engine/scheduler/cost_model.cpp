#include "engine/scheduler/cost_model.h"

#include <algorithm>
#include <cmath>

namespace tokamak::scheduler {

namespace {
constexpr int64_t kFirstChunk = 16;  // tokens, before anything was measured
// A step that took longer than expected counts at once, one that was faster little by little: the bound on gaps is
// broken by the slow ones.
constexpr double kUp = 0.7, kDown = 0.1;
constexpr int kColdSteps =
    3;  // the first ones touch weights and memory for the first time: each replaces the one before
}  // namespace

double CostModel::prefill_work(int64_t n, int64_t depth) const {
  const auto tokens = static_cast<double>(n);
  return tokens + depth_cost_ * tokens * (static_cast<double>(depth) + tokens / 2);
}

int64_t CostModel::tokens_within(double seconds, int64_t depth) const {
  if (seconds_per_work_ == 0) return kFirstChunk;
  const double work = std::max(seconds, 0.0) / seconds_per_work_;
  // The n with n * (1 + depth_cost * depth) + depth_cost / 2 * n^2 = work.
  const double linear = 1 + depth_cost_ * static_cast<double>(depth), square = depth_cost_ / 2;
  const double n = square == 0
                       ? work / linear
                       : 2 * work / (linear + std::sqrt(linear * linear + 4 * square * work));  // no cancellation
  return static_cast<int64_t>(std::min(n, 1e9));
}

double CostModel::decode_seconds(int64_t n_decode) const {
  const auto n = static_cast<double>(n_decode);
  if (n_decode == 0) return 0;
  return sequence_seconds_ == 0 ? n * seconds_per_work_ : step_seconds_ + n * sequence_seconds_;
}

void CostModel::learn(const StepWork& work, double seconds) {
  const auto n = static_cast<double>(work.n_decode);
  if (n_cold_ < kColdSteps && work.prefill > 0) {
    ++n_cold_;
    seconds_per_work_ = seconds / (n + work.prefill);
    return;
  }
  if (sequence_seconds_ == 0 && work.prefill == 0) {  // which part is which, later steps will tell
    step_seconds_ = seconds / 2;
    sequence_seconds_ = seconds / 2 / n;
    return;
  }
  const bool decode_known = sequence_seconds_ > 0 && n > 0;
  const double step = decode_known ? step_seconds_ : 0, sequences = decode_known ? n * sequence_seconds_ : 0;
  const double prefill = (work.prefill + (decode_known ? 0 : n)) * seconds_per_work_;
  // Normalised least mean squares: the larger a part's share, the more of the error is its own, so small prompts beside
  // many streams say little about the cost of large ones.
  const double error = seconds - step - sequences - prefill;
  const double rate = (error > 0 ? kUp : kDown) * error / (step * step + sequences * sequences + prefill * prefill);
  step_seconds_ *= 1 + rate * step;
  sequence_seconds_ *= 1 + rate * sequences;
  seconds_per_work_ *= 1 + rate * prefill;
}

}  // namespace tokamak::scheduler

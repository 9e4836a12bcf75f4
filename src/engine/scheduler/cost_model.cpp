#include "engine/scheduler/cost_model.h"

#include <algorithm>
#include <cmath>

namespace tokamak::scheduler {

namespace {
constexpr int64_t kFirstChunk = 16;  // tokens, before anything was measured
// A step that took longer than expected counts at once, one that was faster little by little: the bound on gaps is
// broken by the slow ones.
constexpr double kUp = 0.7, kDown = 0.1;

double follow(double estimate, double sample) {
  if (estimate == 0) return sample;
  return estimate + (sample > estimate ? kUp : kDown) * (sample - estimate);
}
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
  if (n_decode_ == 0 || n_decode == 0) return 0;
  return decode_seconds_ * std::max(1.0, static_cast<double>(n_decode) / static_cast<double>(n_decode_));
}

void CostModel::learn(const StepWork& work, double seconds) {
  if (work.prefill == 0) {
    const bool alike = work.n_decode == n_decode_;
    decode_seconds_ = alike ? follow(decode_seconds_, seconds) : seconds;
    n_decode_ = work.n_decode;
    return;
  }
  const double rest = std::max(seconds - decode_seconds(work.n_decode), 0.0);
  seconds_per_work_ = follow(seconds_per_work_, std::max(rest / work.prefill, 1e-12));
}

}  // namespace tokamak::scheduler

// Means with their errors, and quantiles, of values that come one by one.
// Errors are standard errors of the mean of independent values; neighbouring tokens are not quite independent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tokamak {

struct Estimate {
  double value = 0, error = 0;  // error: one standard error, 0 below two values
};

// Sums in f64, in the order of the calls.
class RunningMean {
 public:
  void add(double x) {
    ++n_;
    const double step = x - mean_;
    mean_ += step / static_cast<double>(n_);
    squares_ += step * (x - mean_);
  }
  int64_t n() const { return n_; }
  double mean() const { return mean_; }
  // sqrt(sum (x - mean)^2 / (n - 1) / n).
  Estimate estimate() const;

 private:
  // Welford 1962: no cancellation of large sums.
  int64_t n_ = 0;
  double mean_ = 0, squares_ = 0;
};

// exp of an estimated mean: the error grows with the value (first order).
Estimate exp_of(Estimate mean);

// Share of `n_hits` among `n`, with the error of a binomial: sqrt(p (1 - p) / (n - 1)).
Estimate share_of(int64_t n_hits, int64_t n);

// Between the two nearest of `sorted` (ascending, not empty), linearly. fraction in 0..1.
double quantile(std::span<const float> sorted, double fraction);

}  // namespace tokamak

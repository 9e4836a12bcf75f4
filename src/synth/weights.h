// Random weights that are the same bytes on every platform: integers from a counter, scaled by powers of two.
#pragma once

#include <cstdint>
#include <string_view>

namespace tokamak {

// Where a tensor's values lie: mean + spread * a bell of standard deviation 0.8, never more than 4 away.
struct ValueRange {
  double mean = 0, spread = 0;
};
// By the tensor's name: norm weights around 1, decay rates around -1, biases wide enough to be noticed.
ValueRange value_range(std::string_view tensor);

// Value `index` of a tensor: a function of its name, its place and the seed only.
class WeightStream {
 public:
  WeightStream(std::string_view tensor, uint64_t seed);
  float operator()(uint64_t index) const;
  // The values are multiplied by it; a power of two.
  void set_factor(double factor) { factor_ = factor; }

 private:
  ValueRange range_;
  uint64_t key_;
  double factor_ = 1;
};

}  // namespace tokamak

// How long a step will take, learnt from the steps so far.
#pragma once

#include <cstdint>

namespace tokamak::scheduler {

// Tokens of a step in units of one prompt token at position 0: attention makes later ones dearer.
struct StepWork {
  int64_t n_decode = 0;  // sequences that get one token
  double prefill = 0;
};

class CostModel {
 public:
  // depth_cost: what each earlier position adds to the cost of a token.
  explicit CostModel(double depth_cost) : depth_cost_(depth_cost) {}

  // Of n tokens that follow `depth` others.
  double prefill_work(int64_t n, int64_t depth) const;
  // Most tokens behind `depth` others that are expected to take at most `seconds`; before anything was measured, few.
  int64_t tokens_within(double seconds, int64_t depth) const;
  // Of a step that only decodes. 0 before anything was measured.
  double decode_seconds(int64_t n_decode) const;
  double prefill_seconds(double work) const { return work * seconds_per_work_; }

  void learn(const StepWork& work, double seconds);

 private:
  double depth_cost_;
  double seconds_per_work_ = 0;  // 0: not measured
  // A step that decodes: once, and for each sequence. 0: not measured.
  double step_seconds_ = 0, sequence_seconds_ = 0;
  int n_cold_ = 0;  // steps with prompts seen, up to a few
};

}  // namespace tokamak::scheduler

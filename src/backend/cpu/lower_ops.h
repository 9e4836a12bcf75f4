// What the lowering files of the non-matmul ops share.
#pragma once

#include <span>
#include <vector>

#include "backend/cpu/lower.h"
#include "backend/cpu/ops/ops.h"

namespace tokamak::cpu {

// A kernel over items, of which every token has the same number.
template <class Args>
struct RowStep : Step {
  Kernel<Args> kernel = nullptr;
  Args args;              // all but the addresses of what moves
  std::vector<Ref> refs;  // [0] is written, the others are read
  void (*bind)(Args& args, std::span<const Ref> refs, const RunContext& context) = nullptr;
  int64_t items_per_token = 1;

  void run(const RunContext& context, int thread_idx, int n_threads) const override {
    const WorkRange tokens = split_range(n_split, thread_idx, n_threads);
    if (tokens.begin == tokens.end) return;
    Args bound = args;
    bind(bound, refs, context);
    kernel(bound, tokens.begin * items_per_token, tokens.end * items_per_token);
  }
};

// Completes a RowStep of n_items over a value whose first dimension counts tokens.
template <class Args>
void divide_by_tokens(RowStep<Args>& step, const ir::Value& value, int64_t n_items) {
  step.split = Split::tokens;
  step.n_split = value.shape[0];
  step.items_per_token = n_items / value.shape[0];
  step.writes = {step.refs[0]};
  step.reads.assign(step.refs.begin() + 1, step.refs.end());
}

}  // namespace tokamak::cpu

// What the lowering files of the non-matmul ops share.
#pragma once

#include <span>
#include <vector>

#include "backend/cpu/lower.h"
#include "backend/cpu/ops/ops.h"
#include "backend/lowering/attributes.h"
#include "base/check.h"

namespace tokamak::cpu {

// Where a kernel finds an operand: in memory that moves with the program, or in a decoded weight.
struct Operand {
  Rows rows;                        // geometry; its ref is none for weights
  const float* constant = nullptr;  // first element, for weights and views of them
};
Operand operand(const Lowering& lowering, ir::ValueId id);

// Addresses of a step's operands during a run.
struct Pointers {
  std::span<const Operand> operands;
  const RunContext& context;

  size_t size() const { return operands.size(); }
  float* operator[](size_t i) const {
    // Kernels write operand 0 only, which is no constant.
    if (operands[i].constant) return const_cast<float*>(operands[i].constant);
    return context.f32(operands[i].rows.ref);
  }
  int32_t* i32(size_t i) const { return reinterpret_cast<int32_t*>((*this)[i]); }
};

// A kernel over items, of which every token has the same number.
template <class Args>
struct RowStep : Step {
  Kernel<Args> kernel = nullptr;
  Args args;                      // all but the addresses of what moves
  std::vector<Operand> operands;  // [0] is written, the others are read
  void (*bind)(Args& args, const Pointers& pointers) = nullptr;
  int64_t items_per_token = 1;

  void run(const RunContext& context, int thread_idx, int n_threads) const override {
    const WorkRange tokens = split_range(n_split, thread_idx, n_threads);
    if (tokens.begin == tokens.end) return;
    Args bound = args;
    bind(bound, Pointers{operands, context});
    kernel(bound, tokens.begin * items_per_token, tokens.end * items_per_token);
  }
};

// Reads and writes of a step: operands[0] is the result.
template <class S>
void set_accesses(S& step) {
  step.writes.push_back(step.operands[0].rows.ref);
  for (size_t i = 1; i < step.operands.size(); ++i) step.reads.push_back(step.operands[i].rows.ref);
}

// Completes a RowStep of n_items over a value whose first dimension counts tokens. Operands that lie in memory and
// that several tokens share make the step wait for all threads: say so with `shared`.
template <class Args>
void divide_by_tokens(RowStep<Args>& step, const ir::Value& value, int64_t n_items, bool shared = false) {
  step.split = shared ? Split::other : Split::tokens;
  step.n_split = value.shape.rank() == 1 ? 1 : value.shape[0];  // one row is no tokens
  step.items_per_token = n_items / step.n_split;
  set_accesses(step);
}

}  // namespace tokamak::cpu

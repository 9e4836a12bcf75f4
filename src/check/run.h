// Runs a case on a backend.
#pragma once

#include <string>
#include <vector>

#include "check/case.h"

namespace tokamak::check {

struct RunOptions {
  bool fusion = true;
  int n_timed_runs = 0;              // after the first run: more of them, profiled
  const ir::Graph* graph = nullptr;  // instead of the case's own: the same with other outputs
};

struct RunOutcome {
  std::vector<std::vector<float>> outputs;  // of the graph
  std::vector<float> states;                // [n_state_rows, ...] afterwards
  std::vector<std::vector<float>> values;   // of every slot of the cache afterwards, by layer that has one
  std::vector<uint16_t> rules;              // of the groups that steps run; UINT16_MAX for single ops
  std::vector<StepReport> steps;            // seconds: of the fastest timed run
  std::string damage;                       // a sentinel or a constant that the run has overwritten; empty: none
};

// Errors: those of the backend; unsupported when it has no kernel for an op of the case.
Result<RunOutcome> run_case(const Case& c, Backend& backend, const RunOptions& options);
// Compiles and runs nothing.
Result<RunOutcome> compile_case(const Case& c, Backend& backend, const RunOptions& options);

}  // namespace tokamak::check

// Statistics of fused operations: which rules of docs/reference/fusion_rules.md fired in the graphs of a device.
#pragma once

#include <cstdint>
#include <string>

namespace tokamak {

struct FusionCount {
  std::string graph;      // "llama 32 tokens 1 outputs"
  std::string label;      // "RMS_NORM+MUL"; empty with count 0 for a graph in which nothing was fused
  uint64_t count = 0;     // fused groups, summed over n_graphs
  uint64_t n_graphs = 0;  // graphs of that name that were compiled
};

}  // namespace tokamak

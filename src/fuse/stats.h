// Per device: is fusion on, and how often did each rule fire?
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace tokamak::fuse {

struct StatsRow {
  std::string graph;      // Graph::name
  std::string label;      // fusion label
  uint64_t count = 0;     // groups, summed over n_graphs
  uint64_t n_graphs = 0;  // how many graphs of that name were recorded: count / n_graphs is the count per graph
};

// Thread-safe.
class Stats {
 public:
  bool enabled() const { return enabled_; }  // fusion itself; default on
  void set_enabled(bool on) { enabled_ = on; }
  bool collecting() const { return collecting_; }  // default on
  void set_collecting(bool on) { collecting_ = on; }

  // Counts the fused groups of a compiled graph; nothing while not collecting. Call once per compiled graph. A line for
  // the log (debug) per label: how many, of how many nodes, first and last node of the first.
  void record(const ir::Graph& graph);
  // Sorted by graph, then label. Graphs without a fusion have one row with an empty label and count 0.
  std::vector<StatsRow> rows() const;
  void reset();

 private:
  struct PerGraph {
    uint64_t n_graphs = 0;
    std::map<std::string, uint64_t, std::less<>> counts;
  };
  std::atomic<bool> enabled_ = true, collecting_ = true;
  mutable std::mutex mutex_;
  std::map<std::string, PerGraph, std::less<>> graphs_;
};

}  // namespace tokamak::fuse

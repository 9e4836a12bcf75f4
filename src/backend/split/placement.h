// What lies where: every part of a model on one of several devices.
//
// Children are listed with the fastest first; the last is the host, whose memory has no limit here. A part is the
// embedding, a layer, a layer's experts, or the output: what is moved as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace tokamak::split {

struct Part {
  // none: a node without weights and states, which follows its neighbours.
  enum class Kind : uint8_t { none, embedding, layer, experts, output } kind = Kind::none;
  int32_t layer_idx = -1;  // of layer and experts
  friend bool operator==(const Part&, const Part&) = default;
};

// By node. States decide by their layer, weights by their names in the file ("blk.3.ffn_up_exps.weight"); weights that
// no layer owns belong to the embedding before the first layer, to the output behind the last, between them to the
// layer of the node before.
std::vector<Part> parts_of(const ir::Graph& graph);
int64_t n_layers(std::span<const Part> parts);

// By part, the index of its child.
struct Placement {
  size_t embedding = 0, output = 0;
  std::vector<size_t> layers, experts, states;  // states: keys, values and recurrent states of a layer

  size_t at(const Part& part) const;  // not of none
};

struct Children {
  size_t n = 1;
  std::function<bool(size_t child, ir::NodeId node)> can_run;
};

// Bytes that each part takes on a child.
struct PartBytes {
  uint64_t embedding = 0, output = 0, activations = 0;
  std::vector<uint64_t> layers, experts, states;  // layers: without experts
};

struct Accelerator {
  uint64_t budget = 0;  // bytes that may be taken
  PartBytes parts;
};

inline constexpr int64_t kAuto = -1;
struct PlacementOptions {
  int64_t n_gpu_layers = kAuto;  // the last ones, and the output with them; more than there are: all
  int64_t n_cpu_moe = kAuto;     // experts of so many first layers stay on the host
};

// The placement that leaves as much as fits on the accelerators. Of what does not fit, first the embedding goes to the
// host, then the experts of the first, the second, ... layer, then whole layers in the same order; layers that stay are
// laid over the accelerators in order. A number that is given is kept to. Errors: out_of_memory, saying what would fit.
Result<Placement> place(std::span<const Accelerator> accelerators, const PlacementOptions& options);

// "31 of 48 layers' experts on the CPU: 22.1 GiB do not fit in the 8.0 GiB of GPU memory that are free"; empty when the
// host has nothing.
std::string describe(const Placement& placement, std::span<const Accelerator> accelerators);

}  // namespace tokamak::split

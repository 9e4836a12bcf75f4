// What all programs of one session share on a device: the arena for intermediate values (one program runs at a time),
// and the way in and out.
#pragma once

#include "backend/cuda/device.h"

namespace tokamak::cuda {

class Workspace {
 public:
  explicit Workspace(Device& device) : device_(device) {}

  // Grows what is too small. Addresses change then: captured graphs of an earlier epoch() are stale. Not while a
  // program runs. Errors: out_of_memory.
  Result<void> reserve(uint64_t arena_bytes, uint64_t input_bytes, uint64_t output_bytes);
  uint64_t epoch() const { return epoch_; }

  std::byte* arena() const { return arena_.data(); }
  const std::byte* inputs() const { return inputs_.data(); }      // on the device
  std::byte* host_inputs() const { return host_inputs_.data(); }  // the same, pinned
  std::byte* host_outputs() const { return host_outputs_.data(); }
  uint64_t device_bytes() const { return arena_.size() + inputs_.size(); }
  // What the driver has taken for captured graphs: about 2 KiB a launch on an H200, in steps of 2 MiB, which it keeps
  // for later ones.
  uint64_t graph_bytes() const { return graph_bytes_; }
  void count_graph(uint64_t n_bytes);
  uint64_t host_bytes() const { return host_inputs_.size() + host_outputs_.size(); }

  // From the first work of a run until its end was waited for: a run that failed in the middle leaves it set, and the
  // next one waits before it touches what lies here.
  bool is_busy = false;

 private:
  Device& device_;
  DeviceBuffer arena_, inputs_;
  PinnedBuffer host_inputs_, host_outputs_;
  uint64_t epoch_ = 0, graph_bytes_ = 0;
};

}  // namespace tokamak::cuda

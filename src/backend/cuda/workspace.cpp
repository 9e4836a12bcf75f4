#include "backend/cuda/workspace.h"

namespace tokamak::cuda {

Result<void> Workspace::reserve(uint64_t arena_bytes, uint64_t input_bytes, uint64_t output_bytes) {
  if (arena_bytes <= arena_.size() && input_bytes <= inputs_.size() && output_bytes <= host_outputs_.size()) return {};
  TRY(device_.finish("running"));
  ++epoch_;
  if (arena_bytes > arena_.size()) {
    arena_ = {};
    arena_ = TRY(device_.allocate("activations", arena_bytes));
  }
  if (input_bytes > inputs_.size()) {
    inputs_ = {};  // until there is room on both sides, so that what fails here is tried again
    host_inputs_ = TRY(device_.allocate_pinned(input_bytes));
    inputs_ = TRY(device_.allocate("step inputs", input_bytes));
  }
  if (output_bytes > host_outputs_.size()) host_outputs_ = TRY(device_.allocate_pinned(output_bytes));
  return {};
}

void Workspace::count_graph(uint64_t n_bytes) {
  graph_bytes_ += n_bytes;
  device_.count("captured graphs", n_bytes);
}

}  // namespace tokamak::cuda

// A cut graph, compiled: the children's programs run one after the other.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/split/cut.h"
#include "backend/split/kv.h"

namespace tokamak::split {

// Where boundary values lie in one block of memory: values that are alive at the same time lie apart.
struct BoundaryPlan {
  std::vector<uint64_t> offsets;  // by boundary value
  uint64_t n_bytes = 0;
};
BoundaryPlan plan_boundary(std::span<const BoundaryValue> boundary);

class SplitProgram : public Program {
 public:
  struct Piece {
    std::unique_ptr<Program> program;
    std::string device;
    bool on_host = false;
    std::vector<SegmentOutput> outputs;
    std::vector<uint64_t> output_bytes;
    uint64_t received_bytes = 0;  // boundary values that it reads
  };
  // Errors: out_of_memory.
  static Result<std::unique_ptr<SplitProgram>> create(std::string name, std::vector<Piece> pieces,
                                                      std::vector<BoundaryValue> boundary, SplitKv& kv);

  Result<void> run(const StepInputs& inputs, std::span<const std::span<float>> outputs) override;
  // Where the last piece makes the logits and nothing else.
  bool selects_top() const override;
  Result<void> run_top(const StepInputs& inputs, std::span<TopLogit> top, std::span<const uint8_t> whole,
                       std::span<float> rows) override;
  const ir::Graph& graph() const override { return graph_; }
  // The steps of all pieces in order, their device in the note, and before each piece what passes the boundary and the
  // time that its run takes besides its steps.
  std::vector<StepReport> steps() const override;
  void set_profiling(bool on) override;

 private:
  // run_piece(piece, its inputs, its outputs) for one after the other.
  template <class RunPiece>
  Result<void> run_pieces(const StepInputs& inputs, std::span<const std::span<float>> outputs, RunPiece run_piece);

  ir::Graph graph_;
  std::vector<Piece> pieces_;
  std::vector<BoundaryValue> boundary_;
  BoundaryPlan plan_;
  SplitKv* kv_ = nullptr;
  std::vector<std::span<const std::byte>> values_;  // of the boundary, in the current run
  std::vector<std::span<float>> piece_outputs_;
  bool profiling_ = false;
  std::vector<double> seconds_;  // by piece, summed over profiled runs
  uint64_t n_profiled_ = 0;
};

}  // namespace tokamak::split

#include "backend/split/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/round_up.h"

namespace tokamak::split {

namespace {
constexpr uint64_t kAlignment = 64;
}  // namespace

BoundaryPlan plan_boundary(std::span<const BoundaryValue> boundary) {
  BoundaryPlan plan;
  for (const BoundaryValue& value : boundary) {
    uint64_t at = 0;
    for (bool moved = true; moved;) {  // past every value in the way, until none is
      moved = false;
      for (size_t i = 0; i < plan.offsets.size(); ++i) {
        const BoundaryValue& other = boundary[i];
        const bool apart = other.last_reader < value.made_by || value.last_reader < other.made_by;
        if (apart || plan.offsets[i] + other.n_bytes <= at || at + value.n_bytes <= plan.offsets[i]) continue;
        at = round_up(plan.offsets[i] + other.n_bytes, kAlignment);
        moved = true;
      }
    }
    plan.offsets.push_back(at);
    plan.n_bytes = std::max(plan.n_bytes, at + value.n_bytes);
  }
  return plan;
}

Result<std::unique_ptr<SplitProgram>> SplitProgram::create(std::string name, std::vector<Piece> pieces,
                                                           std::vector<BoundaryValue> boundary, SplitKv& kv) {
  auto out = std::make_unique<SplitProgram>();
  std::vector<const ir::Graph*> graphs;
  for (const Piece& piece : pieces) graphs.push_back(&piece.program->graph());
  out->graph_ = unite(std::move(name), graphs);
  out->pieces_ = std::move(pieces);
  out->boundary_ = std::move(boundary);
  out->plan_ = plan_boundary(out->boundary_);
  out->kv_ = &kv;
  out->values_.resize(out->boundary_.size());
  out->seconds_.resize(out->pieces_.size());
  size_t n_outputs = 0;
  for (const Piece& piece : out->pieces_) n_outputs = std::max(n_outputs, piece.outputs.size());
  out->piece_outputs_.reserve(n_outputs);
  TRY(kv.reserve_boundary(out->plan_.n_bytes));
  return out;
}

template <class RunPiece>
Result<void> SplitProgram::run_pieces(const StepInputs& inputs, std::span<const std::span<float>> outputs,
                                      RunPiece run_piece) {
  using Clock = std::chrono::steady_clock;
  StepInputs with_boundary = inputs;
  with_boundary.boundary = values_;
  for (size_t p = 0; p < pieces_.size(); ++p) {
    Piece& piece = pieces_[p];
    piece_outputs_.clear();
    for (size_t i = 0; i < piece.outputs.size(); ++i) {
      const auto [output, boundary] = piece.outputs[i];
      std::span<float> span;
      if (output >= 0 && outputs.empty()) continue;  // only its best are wanted
      if (output >= 0)
        span = outputs[static_cast<size_t>(output)];
      else
        span = {reinterpret_cast<float*>(kv_->boundary() + plan_.offsets[static_cast<size_t>(boundary)]),
                piece.output_bytes[i] / sizeof(float)};
      CHECK(span.size_bytes() == piece.output_bytes[i], p, i);
      if (boundary >= 0) values_[static_cast<size_t>(boundary)] = std::as_bytes(span);
      piece_outputs_.push_back(span);
    }
    const auto start = Clock::now();
    TRY(run_piece(*piece.program, with_boundary, piece_outputs_));
    if (profiling_) seconds_[p] += std::chrono::duration<double>(Clock::now() - start).count();
  }
  if (profiling_) ++n_profiled_;
  return {};
}

Result<void> SplitProgram::run(const StepInputs& inputs, std::span<const std::span<float>> outputs) {
  return run_pieces(inputs, outputs, [](Program& piece, const StepInputs& in, std::span<const std::span<float>> out) {
    return piece.run(in, out);
  });
}

bool SplitProgram::selects_top() const {
  const Piece& last = pieces_.back();
  return last.outputs.size() == 1 && last.outputs[0].output_idx == 0 && last.program->selects_top();
}

Result<void> SplitProgram::run_top(const StepInputs& inputs, std::span<TopLogit> top, std::span<const uint8_t> whole,
                                   std::span<float> rows) {
  const Program* last = pieces_.back().program.get();
  return run_pieces(inputs, {}, [&](Program& piece, const StepInputs& in, std::span<const std::span<float>> out) {
    return &piece == last ? piece.run_top(in, top, whole, rows) : piece.run(in, out);
  });
}

void SplitProgram::set_profiling(bool on) {
  profiling_ = on;
  for (Piece& piece : pieces_) piece.program->set_profiling(on);
}

std::vector<StepReport> SplitProgram::steps() const {
  std::vector<StepReport> out;
  size_t n_groups = 0;  // of the pieces before: unite() has put the groups one behind the other
  for (size_t p = 0; p < pieces_.size(); ++p) {
    const Piece& piece = pieces_[p];
    std::vector<StepReport> steps = piece.program->steps();
    double inside = 0;
    for (StepReport& step : steps) {
      inside += step.seconds;
      for (size_t& group : step.groups) group += n_groups;
      step.note = "on the " + piece.device + (step.note.empty() ? "" : "; " + step.note);
      step.on_host = piece.on_host;
    }
    const double seconds = n_profiled_ > 0 ? seconds_[p] / static_cast<double>(n_profiled_) : 0;
    uint64_t sent = 0;
    for (size_t i = 0; i < piece.outputs.size(); ++i) sent += piece.output_bytes[i];
    out.push_back({.what = "into and out of a part",
                   .label = "boundary",
                   .kernel = "host copy",
                   .note = "on the " + piece.device,
                   .on_host = true,
                   .bytes = static_cast<double>(piece.received_bytes + sent),
                   .seconds = std::max(0.0, seconds - inside),
                   .n_runs = n_profiled_});
    std::ranges::move(steps, std::back_inserter(out));
    n_groups += piece.program->graph().groups.size();
  }
  return out;
}

}  // namespace tokamak::split

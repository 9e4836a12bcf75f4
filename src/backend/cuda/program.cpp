#include "backend/cuda/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "backend/cuda/profile.h"
#include "backend/cuda/sampling/top_logits.h"
#include "base/check.h"
#include "base/log.h"
#include "base/round_up.h"

namespace tokamak::cuda {

namespace {
constexpr uint64_t kAlignment = 256;

uint64_t int_bytes(int64_t n) { return static_cast<uint64_t>(n) * sizeof(int32_t); }

using Clock = std::chrono::steady_clock;
double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Kernels that write states where they are kept run for all sequences at once.
void check_state_rows(const StepInputs& in, int64_t n_snapshots) {
  for (size_t reader = 0; reader < in.state_src.size(); ++reader)
    for (size_t writer = 0; writer < in.state_rows.size(); ++writer) {
      const int64_t snapshot = int64_t{in.state_src[reader]} - in.state_rows[writer];
      CHECK(reader == writer || in.state_src[reader] < 0 || snapshot < 0 || snapshot >= n_snapshots, reader, writer);
    }
}
}  // namespace

InputLayout::InputLayout(const ir::Graph& graph) {
  uint64_t at = 0;
  const auto place = [&at](int64_t n) {
    const uint64_t here = at;
    at += round_up(int_bytes(n), uint64_t{16});
    return here;
  };
  for (const ir::Value& value : graph.values) {
    if (value.kind != ir::ValueKind::input) continue;
    if (value.input_role == ir::InputRole::boundary) {
      const int64_t n = value.shape.n_elements();
      boundary.push_back({value.boundary_idx, place(n), int_bytes(n)});
      n_tokens = std::max(n_tokens, value.shape[0]);
    } else {
      sizes[static_cast<size_t>(value.input_role)] = value.shape.n_elements();
    }
  }
  for (const ir::Node& node : graph.nodes)
    if (node.attrs.has(ir::Attr::n_snapshots))
      n_snapshots = std::max(n_snapshots, node.attrs.integer(ir::Attr::n_snapshots));
  n_tokens = std::max(n_tokens, *std::ranges::max_element(sizes));
  for (size_t role = 0; role < sizes.size(); ++role) roles[role] = place(sizes[role]);
  page_begin = place(n_tokens);
  n_keys = place(n_tokens);
  run_begin = place(n_tokens);
  run_end = place(n_tokens);
  pages = at;
}

Address InputLayout::address(const ir::Value& input) const {
  if (input.input_role != ir::InputRole::boundary) return address(input.input_role);
  const auto found = std::ranges::find(boundary, input.boundary_idx, &Boundary::boundary_idx);
  CHECK(found != boundary.end(), input.name);
  return at(found->offset);
}

int64_t InputLayout::fill(const StepInputs& inputs, std::byte* out) const {
  const auto copy = [out](uint64_t offset, std::span<const int32_t> from) {
    if (!from.empty()) std::memcpy(out + offset, from.data(), from.size_bytes());
  };
  for (size_t role = 0; role < roles.size(); ++role) {
    if (sizes[role] == 0) continue;
    const std::span<const int32_t> from = input_of(inputs, static_cast<ir::InputRole>(role));
    CHECK(static_cast<int64_t>(from.size()) == sizes[role], ir::kInputRoles[role], from.size());
    copy(roles[role], from);
  }
  check_state_rows(inputs, n_snapshots);
  for (const Boundary& b : boundary) {
    const std::span<const std::byte> from = inputs.boundary[static_cast<size_t>(b.boundary_idx)];
    CHECK(from.size() == b.n_bytes, b.boundary_idx, from.size());
    std::memcpy(out + b.offset, from.data(), from.size());
  }
  auto* begins = reinterpret_cast<int32_t*>(out + page_begin);
  auto* keys = reinterpret_cast<int32_t*>(out + n_keys);
  auto* run_begins = reinterpret_cast<int32_t*>(out + run_begin);
  auto* run_ends = reinterpret_cast<int32_t*>(out + run_end);
  const auto n_seqs = std::min(inputs.sequences.size(), static_cast<size_t>(n_tokens));  // fewer where none is read
  int32_t n_pages = 0;
  for (size_t s = 0; s < n_seqs; ++s) {
    begins[s] = n_pages;
    keys[s] = run_begins[s] = run_ends[s] = 0;
    copy(pages + int_bytes(n_pages), inputs.sequences[s].pages);
    n_pages += static_cast<int32_t>(inputs.sequences[s].pages.size());
  }
  int32_t longest = 1;
  for (size_t t = 0; t < inputs.positions.size(); ++t) {
    const auto seq = static_cast<size_t>(inputs.seq_ids[t]);
    longest = std::max(longest, inputs.positions[t] + 1);
    if (seq >= n_seqs) continue;
    keys[seq] = std::max(keys[seq], inputs.positions[t] + 1);
    if (run_begins[seq] == run_ends[seq]) run_begins[seq] = static_cast<int32_t>(t);
    run_ends[seq] = static_cast<int32_t>(t) + 1;
  }
  return div_round_up(int64_t{longest}, kKeyChunk);
}

CudaProgram::~CudaProgram() {
  for (auto& [chunks, captured] : captured_) drop(captured);
}

void CudaProgram::drop(Captured& captured) {
  if (captured.graph) kv_.device().note(cudaGraphExecDestroy(std::exchange(captured.graph, nullptr)));
}

Result<void> CudaProgram::set_steps(std::vector<Step> steps, std::vector<OutputCopy> outputs,
                                    std::vector<DeviceBuffer> constants, uint64_t arena_bytes) {
  steps_ = std::move(steps);
  constants_ = std::move(constants);
  outputs_ = std::move(outputs);
  arena_bytes_ = arena_bytes;
  for (OutputCopy& output : outputs_) {
    output.host_offset = output_bytes_;
    output_bytes_ += round_up(output.n_bytes, kAlignment);
  }
  add_top_step();
  seconds_.assign(steps_.size(), 0);
  // Pages that several sequences share are listed by each; run() grows the inputs when they share many.
  const int64_t n_pages = 4 * kv_.config().n_pages + inputs_.n_tokens;
  return kv_.workspace().reserve(arena_bytes_, inputs_.bytes_for(n_pages), output_bytes_);
}

// Its results go straight to the host's memory.
void CudaProgram::add_top_step() {
  if (outputs_.size() != 1) return;
  const ir::Value& logits = graph_.values[graph_.outputs[0]];
  if (logits.dtype != DType::f32 || logits.shape.rank() != 2) return;
  const int64_t n_rows = logits.shape[0], n_vocab = logits.shape[1];
  const uint64_t scratch = round_up(arena_bytes_, kAlignment);
  arena_bytes_ = scratch + top_logits_scratch(n_rows);
  top_offset_ = output_bytes_;
  top_bytes_ = static_cast<uint64_t>(n_rows) * kTopLogits * sizeof(TopLogit);
  output_bytes_ += round_up(top_bytes_, kAlignment);
  has_top_ = true;
  const auto launch = [this, n_rows, n_vocab, scratch](const RunContext& context) {
    return launch_top_logits({.logits = context.at(outputs_[0].from),
                              .n_rows = n_rows,
                              .n_vocab = n_vocab,
                              .scratch = context.arena + scratch,
                              .top = reinterpret_cast<TopLogit*>(kv_.workspace().host_outputs() + top_offset_)},
                             context.stream);
  };
  steps_.push_back({.report = {.what = logits.name,
                               .label = "TOP",
                               .kernel = "top_logits",
                               .note = "samplers besides greedy that come before top_k take all logits instead",
                               .bytes = static_cast<double>(outputs_[0].n_bytes)},
                    .launch = launch});
}

Result<void> CudaProgram::launch_steps(const RunContext& context, bool with_top) const {
  for (const Step& step : steps_of(with_top))
    if (const cudaError_t status = step.launch(context); status != cudaSuccess)
      return check_cuda(status, step.report.what + " (" + step.report.kernel + ")");
  return {};
}

Result<void> CudaProgram::capture(Captured& captured, const RunContext& context, bool with_top) {
  drop(captured);
  captured.epoch = kv_.workspace().epoch();
  TRY(check_cuda(cudaStreamBeginCapture(context.stream, cudaStreamCaptureModeThreadLocal), "capturing a graph"));
  const auto launched = launch_steps(context, with_top);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(context.stream, &graph);
  auto made = !launched ? launched : check_cuda(ended, "capturing a graph");
  if (made) made = instantiate(captured, graph);
  if (graph) kv_.device().note(cudaGraphDestroy(graph));
  return made;
}

// Where the driver has no memory left for it, launches are made one by one as before.
Result<void> CudaProgram::instantiate(Captured& captured, cudaGraph_t graph) {
  Device& device = kv_.device();
  const uint64_t n_free = device.free_bytes();
  cudaError_t status = cudaGraphInstantiate(&captured.graph, graph, 0);
  if (status != cudaSuccess) captured.graph = nullptr;
  if (captured.graph) status = cudaGraphUpload(captured.graph, device.stream());
  if (status == cudaSuccess) {
    kv_.workspace().count_graph(n_free - std::min(n_free, device.free_bytes()));
    return {};
  }
  drop(captured);
  if (status != cudaErrorMemoryAllocation) return check_cuda(status, "instantiating a graph");
  cudaGetLastError();
  log_line(LogLevel::warning, fmt::format("{}: no GPU memory is left for a graph of its launches, so every run makes "
                                          "them one by one (keep more layers on the CPU with --n-gpu-layers)",
                                          graph_.name));
  return {};
}

Result<RunContext> CudaProgram::start(const StepInputs& inputs, bool with_top, Timing& timing) {
  timing.begin = Clock::now();
  Device& device = kv_.device();
  Workspace& workspace = kv_.workspace();
  TRY(device.use());
  if (std::exchange(workspace.is_busy, true)) TRY(device.finish(graph_.name));
  int64_t n_pages = 0;
  for (const SequencePages& sequence : inputs.sequences) n_pages += static_cast<int64_t>(sequence.pages.size());
  const uint64_t input_bytes = inputs_.bytes_for(n_pages);
  TRY(workspace.reserve(arena_bytes_, input_bytes, output_bytes_));
  const int64_t n_chunks = inputs_.fill(inputs, workspace.host_inputs());
  const RunContext context{
      .arena = workspace.arena(),
      .inputs = workspace.inputs(),
      .n_key_chunks = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n_chunks))),
      .stream = device.stream(),
  };
  TRY(check_cuda(cudaMemcpyAsync(const_cast<std::byte*>(context.inputs), workspace.host_inputs(), input_bytes,
                                 cudaMemcpyHostToDevice, context.stream),
                 "sending the step's inputs"));
  Captured& captured = captured_[{context.n_key_chunks, with_top}];
  if (profiling_) {
    TRY(profile_steps(steps_of(with_top), context, device, seconds_));
    ++n_profiled_;
    n_profiled_top_ += with_top ? 1 : 0;
  } else if (captured.graph && captured.epoch == workspace.epoch()) {
    timing.is_steady = true;
    TRY(check_cuda(cudaGraphLaunch(captured.graph, context.stream), "launching a graph"));
  } else {
    TRY(launch_steps(context, with_top));
    if (captured.has_run && captured.epoch != workspace.epoch()) timing.to_capture = &captured;
    captured.has_run = true;
  }
  return context;
}

// Part of an output, from byte `first` on, to the host.
Result<void> CudaProgram::fetch(const RunContext& context, const Address& from, uint64_t first, uint64_t host_offset,
                                uint64_t n_bytes) {
  return check_cuda(cudaMemcpyAsync(kv_.workspace().host_outputs() + host_offset, context.at<std::byte>(from) + first,
                                    n_bytes, cudaMemcpyDeviceToHost, context.stream),
                    "fetching the outputs");
}

Result<void> CudaProgram::finish(const RunContext& context, bool with_top, Timing& timing) {
  timing.queued = Clock::now();
  Result<void> captured;
  if (timing.to_capture) captured = capture(*timing.to_capture, context, with_top);  // while the device works
  TRY(kv_.device().finish(graph_.name));
  kv_.workspace().is_busy = false;
  timing.finished = Clock::now();
  return captured;
}

void CudaProgram::note_end(const Timing& timing) {
  if (!timing.is_steady) return;
  const Clock::time_point end = Clock::now();
  run_seconds_ += seconds_between(timing.begin, end);
  host_seconds_ += seconds_between(timing.begin, timing.queued) + seconds_between(timing.finished, end);
  ++n_steady_;
}

Result<void> CudaProgram::run(const StepInputs& inputs, std::span<const std::span<float>> outputs) {
  CHECK(outputs.size() == outputs_.size(), outputs.size());
  Timing timing;
  const RunContext context = TRY(start(inputs, false, timing));
  for (const OutputCopy& output : outputs_) TRY(fetch(context, output.from, 0, output.host_offset, output.n_bytes));
  TRY(finish(context, false, timing));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    CHECK(outputs[i].size_bytes() == outputs_[i].n_bytes, i);
    std::memcpy(outputs[i].data(), kv_.workspace().host_outputs() + outputs_[i].host_offset, outputs_[i].n_bytes);
  }
  note_end(timing);
  return {};
}

Result<void> CudaProgram::run_top(const StepInputs& inputs, std::span<TopLogit> top, std::span<const uint8_t> whole,
                                  std::span<float> rows) {
  CHECK(has_top_ && top.size_bytes() == top_bytes_ && whole.size() * kTopLogits == top.size(), top.size());
  Timing timing;
  const RunContext context = TRY(start(inputs, true, timing));
  const OutputCopy& logits = outputs_[0];
  const uint64_t row_bytes = logits.n_bytes / whole.size();
  uint64_t n_fetched = 0;
  for (size_t r = 0; r < whole.size(); ++r) {
    if (!whole[r]) continue;
    TRY(fetch(context, logits.from, r * row_bytes, logits.host_offset + n_fetched, row_bytes));
    n_fetched += row_bytes;
  }
  CHECK(n_fetched == rows.size_bytes(), n_fetched, rows.size());
  TRY(finish(context, true, timing));
  const std::byte* host = kv_.workspace().host_outputs();
  std::memcpy(top.data(), host + top_offset_, top_bytes_);
  if (n_fetched > 0) std::memcpy(rows.data(), host + logits.host_offset, n_fetched);
  note_end(timing);
  return {};
}

RunTimes CudaProgram::run_times() const {
  if (n_steady_ == 0) return {};
  const auto n = static_cast<double>(n_steady_);
  return {.seconds = run_seconds_ / n, .host_seconds = host_seconds_ / n, .n_runs = n_steady_};
}

std::vector<StepReport> CudaProgram::steps() const {
  std::vector<StepReport> out;
  for (size_t i = 0; i < steps_of(n_profiled_top_ > 0).size(); ++i) {
    const bool is_top = has_top_ && i + 1 == steps_.size();
    out.push_back(steps_[i].report);
    out.back().n_runs = is_top ? n_profiled_top_ : n_profiled_;
    if (out.back().n_runs > 0) out.back().seconds = seconds_[i] / static_cast<double>(out.back().n_runs);
  }
  return out;
}

}  // namespace tokamak::cuda

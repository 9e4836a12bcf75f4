#include "check/run.h"

#include <algorithm>
#include <set>

namespace tokamak::check {

namespace {

// A graph of the case on a backend: program, weights and output buffers.
struct Compiled {
  std::unique_ptr<Weights> weights;
  std::unique_ptr<Program> program;
  std::vector<GuardedBytes> outputs;

  static Result<Compiled> make(const Case& c, const ir::Graph& graph, Backend& backend, KvCache& kv, bool fusion) {
    Compiled out;
    out.weights = TRY(backend.load(graph, c.lookup(), {}));
    out.program = TRY(backend.compile(graph, *out.weights, kv, {.fusion = fusion}));
    for (ir::ValueId id : graph.outputs)
      out.outputs.emplace_back(static_cast<size_t>(graph.value(id).shape.n_elements()) * sizeof(float));
    return out;
  }

  Result<void> run(const StepData& step) {
    std::vector<std::span<float>> spans;
    for (GuardedBytes& output : outputs) spans.push_back(output.floats());
    return program->run(step.view(), spans);
  }

  void read(std::vector<std::vector<float>>& out, std::string& damage) const {
    for (const GuardedBytes& output : outputs) {
      out.emplace_back(output.floats().begin(), output.floats().end());
      if (!output.is_intact()) damage = "wrote beyond the ends of output " + std::to_string(out.size() - 1);
    }
  }
};

// A rule has fired when a step runs its group. The reference matches rules too, for statistics, and runs their members.
void find_rules(const Program& program, RunOutcome& out) {
  std::set<size_t> run;
  for (const StepReport& step : program.steps()) run.insert(step.groups.begin(), step.groups.end());
  for (const size_t group : run) out.rules.push_back(program.graph().groups[group].rule);
}

// Reports hold means over all runs so far; the fastest single run of each step is what the others were delayed from.
Result<std::vector<StepReport>> time_steps(Compiled& compiled, const StepData& step, int n_runs) {
  compiled.program->set_profiling(true);
  std::vector<StepReport> fastest;
  std::vector<double> sums;
  for (int i = 0; i < n_runs; ++i) {
    TRY(compiled.run(step));
    const std::vector<StepReport> steps = compiled.program->steps();
    if (i == 0) fastest = steps;
    sums.resize(steps.size());
    for (size_t k = 0; k < steps.size(); ++k) {
      const double sum = steps[k].seconds * static_cast<double>(steps[k].n_runs);
      fastest[k].seconds = i == 0 ? sum : std::min(fastest[k].seconds, sum - sums[k]);
      sums[k] = sum;
    }
  }
  return fastest;
}

}  // namespace

Result<RunOutcome> run_case(const Case& c, Backend& backend, const RunOptions& options) {
  RunOutcome out;
  const std::unique_ptr<KvCache> kv = TRY(backend.make_kv(c.kv));
  const size_t row = static_cast<size_t>(state_row_floats(c.kv));
  const auto n_rows = static_cast<int64_t>(row == 0 ? 0 : c.states.size() / row);
  for (int64_t r = 0; r < n_rows; ++r)
    kv->write_states(r, std::span(c.states).subspan(static_cast<size_t>(r) * row, row));
  if (c.fill) {
    Compiled fill = TRY(Compiled::make(c, *c.fill, backend, *kv, false));
    TRY(fill.run(c.all_slots));
  }
  Compiled main = TRY(Compiled::make(c, options.graph ? *options.graph : c.graph, backend, *kv, options.fusion));
  find_rules(*main.program, out);
  TRY(main.run(c.step));
  main.read(out.outputs, out.damage);
  out.states.resize(c.states.size());
  for (int64_t r = 0; r < n_rows; ++r)
    kv->read_states(r, std::span(out.states).subspan(static_cast<size_t>(r) * row, row));
  if (c.probe) {
    Compiled probe = TRY(Compiled::make(c, *c.probe, backend, *kv, false));
    TRY(probe.run(c.all_slots));
    probe.read(out.values, out.damage);
  }
  if (options.n_timed_runs > 0) out.steps = TRY(time_steps(main, c.step, options.n_timed_runs));
  if (out.damage.empty()) out.damage = c.damage();
  return out;
}

Result<RunOutcome> compile_case(const Case& c, Backend& backend, const RunOptions& options) {
  RunOutcome out;
  const std::unique_ptr<KvCache> kv = TRY(backend.make_kv(c.kv));
  const Compiled main = TRY(Compiled::make(c, options.graph ? *options.graph : c.graph, backend, *kv, options.fusion));
  find_rules(*main.program, out);
  out.steps = main.program->steps();
  return out;
}

}  // namespace tokamak::check

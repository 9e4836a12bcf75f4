// explain: what a compiled model does, step by step, and how close each step comes to what the machine can do.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "backend/cpu/isa.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "chat/message.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/limits_json.h"
#include "cli/loading.h"
#include "engine/limit_share.h"
#include "engine/limits.h"
#include "fuse/matcher.h"

namespace tokamak::cli {

namespace {
// A step, or all steps that differ in their layer only.
struct Line {
  StepReport report;  // sums over `count` steps
  int64_t count = 1;
};

// Of the device, and of the processor where steps of a program run on both.
struct Limits {
  DeviceLimits device;
  std::optional<DeviceLimits> host;
  const DeviceLimits& of(const StepReport& step) const { return step.on_host && host ? *host : device; }
};

struct Phase {
  std::string_view name;  // decode or prefill
  int64_t n_tokens, depth;
  std::vector<StepReport> steps;
  std::vector<fuse::StatsRow> fusion;       // groups of the program by label
  std::map<std::string, int64_t> declined;  // groups that the fusion table knows and the backend has no kernel for
  RunTimes whole;
  std::string device;
  std::optional<DeviceLimits> limits;  // of a device with its own
};

// Groups of the fusion table that no step of the program runs as one, by label.
std::map<std::string, int64_t> declined_groups(const Program& program) {
  const std::vector<ir::Group>& groups = program.graph().groups;
  std::vector<ir::Group> run;
  for (const StepReport& step : program.steps())
    for (const size_t group : step.groups) run.push_back(groups[group]);
  ir::Graph matched = program.graph();
  fuse::fuse(matched, {}, true);
  std::map<std::string, int64_t> out;
  for (const ir::Group& group : matched.groups) {
    if (group.rule == UINT16_MAX) continue;
    if (std::ranges::find(run, group) == run.end()) ++out[fuse::group_label(matched, group)];
  }
  return out;
}

// "blk.12.attn_q" -> "blk.*.attn_q".
std::string without_layer(std::string_view what) {
  std::string out;
  for (size_t i = 0; i < what.size(); ++i) {
    out += what[i];
    if (!out.ends_with("blk.")) continue;
    out += '*';
    while (i + 1 < what.size() && std::isdigit(static_cast<unsigned char>(what[i + 1]))) ++i;
  }
  return out;
}

// Steps with equal key(step) become one line, in order of first appearance.
template <class Key>
std::vector<Line> merge(const std::vector<StepReport>& steps, Key key) {
  std::vector<Line> lines;
  std::map<std::string, size_t> places;
  for (const StepReport& step : steps) {
    const auto [place, is_new] = places.try_emplace(key(step), lines.size());
    if (is_new) {
      lines.push_back({step, 1});
      continue;
    }
    Line& line = lines[place->second];
    ++line.count;
    line.report.bytes += step.bytes;
    line.report.operations += step.operations;
    line.report.seconds += step.seconds;
  }
  return lines;
}

std::vector<std::string> row_of(const Line& line, const Limits& limits, double total_seconds) {
  const StepReport& r = line.report;
  const LimitShare share = share_of(r, limits.of(r));
  const double seconds = std::max(r.seconds, 1e-12);
  return {std::to_string(line.count),
          r.what,
          r.label,
          r.kernel,
          human_bytes(static_cast<uint64_t>(std::max(r.bytes, 0.0))),
          fmt::format("{:.1f}", r.seconds * 1e6),
          fmt::format("{:.0f}%", 100 * r.seconds / total_seconds),
          fmt::format("{:.1f}", r.bytes / seconds * 1e-9),
          fmt::format("{:.1f}", r.operations / seconds * 1e-9),
          fmt::format("{:.0f}% {}", 100 * share.value, share.limit),
          r.note};
}

void print_phase(const Phase& phase, const Limits& limits, bool every_layer) {
  double total = 0;
  for (const StepReport& step : phase.steps) total += step.seconds;
  print(fmt::format("\n{} of {} token{} at depth {}: {:.2f} ms, {} steps\n", phase.name, phase.n_tokens,
                    phase.n_tokens == 1 ? "" : "s", phase.depth, total * 1e3, phase.steps.size()));
  const std::vector<std::string> heading = {"n",    "what", "op",   "kernel",   "bytes", "us",
                                            "time", "GB/s", "GOPS", "of limit", "note"};
  std::vector<std::vector<std::string>> rows = {heading};
  const auto key = [&](const StepReport& s) {
    return (every_layer ? s.what : without_layer(s.what)) + " " + s.label + " " + s.kernel + " " + s.note;
  };
  for (Line line : merge(phase.steps, key)) {
    if (line.count > 1) line.report.what = without_layer(line.report.what);
    rows.push_back(row_of(line, limits, total));
  }
  print(text_table(rows, "><<<>>>>>><"));
  rows = {{"n", "op", "bytes", "us", "time"}};
  for (const Line& line : merge(phase.steps, [](const StepReport& s) { return s.label; }))
    rows.push_back({std::to_string(line.count), line.report.label,
                    human_bytes(static_cast<uint64_t>(std::max(line.report.bytes, 0.0))),
                    fmt::format("{:.1f}", line.report.seconds * 1e6),
                    fmt::format("{:.0f}%", 100 * line.report.seconds / total)});
  print("\nby op\n" + text_table(rows, "><>>>"));
  if (phase.whole.n_runs > 0)
    print(fmt::format("\na run as a whole: {:.3f} ms, of which the host works {:.3f} ms ({:.1f}%)\n",
                      phase.whole.seconds * 1e3, phase.whole.host_seconds * 1e3,
                      100 * phase.whole.host_seconds / phase.whole.seconds));
  std::string fused;
  for (const fuse::StatsRow& row : phase.fusion)
    if (!row.label.empty())
      fused += fmt::format("{}{} {}", fused.empty() ? "" : ", ", row.label, row.count / row.n_graphs);
  print("\nfused groups: " + (fused.empty() ? "none" : fused) + "\n");
  std::string declined;
  for (const auto& [label, n] : phase.declined)
    declined += fmt::format("{}{} {}", declined.empty() ? "" : ", ", label, n);
  if (!declined.empty()) print("run one by one, though the fusion table knows them: " + declined + "\n");
}

Json phase_json(const Phase& phase, const Limits& limits) {
  Json steps = Json::array();
  for (const StepReport& s : phase.steps) {
    const LimitShare share = share_of(s, limits.of(s));
    steps.push_back({{"what", s.what},
                     {"op", s.label},
                     {"kernel", s.kernel},
                     {"note", s.note},
                     {"bytes", s.bytes},
                     {"operations", s.operations},
                     {"seconds", s.seconds},
                     {"share_of_limit", share.value},
                     {"limit", share.limit}});
  }
  Json fusion = Json::object();
  for (const fuse::StatsRow& row : phase.fusion)
    if (!row.label.empty()) fusion[row.label] = row.count / row.n_graphs;
  Json json = {{"name", phase.name},          {"n_tokens", phase.n_tokens},  {"depth", phase.depth},
               {"fusion", std::move(fusion)}, {"not_fused", phase.declined}, {"steps", std::move(steps)}};
  if (phase.whole.n_runs > 0)
    json["whole_run"] = {{"seconds", phase.whole.seconds}, {"host_seconds", phase.whole.host_seconds}};
  return json;
}

// A session of its own, so that its cache has just the depth that attention's costs are counted for.
Result<Phase> profile(const Arguments& arguments, const std::shared_ptr<const Model>& model, std::string_view name,
                      int64_t n_tokens) {
  const SettingValues& values = arguments.values;
  const int64_t depth = values.integer("--depth");
  SessionOptions options = TRY(session_options(values, *model));
  options.n_ctx = depth + n_tokens;
  const std::unique_ptr<Session> session = TRY(open_session(model, std::move(options), values));
  const int32_t seq_id = session->add_sequence();
  const std::vector<int32_t> tokens(static_cast<size_t>(std::max(depth, n_tokens)), 1);
  if (depth > 0) TRY(session->prefill(seq_id, std::span(tokens).first(static_cast<size_t>(depth))));
  const SequenceTokens step{seq_id, std::span(tokens).first(static_cast<size_t>(n_tokens)), Logits::last, true};
  for (int64_t i = 0; i <= values.integer("--repetitions"); ++i) {
    TRY(session->program(n_tokens, 1))->set_profiling(i > 0);  // the first run touches memory for the first time
    CHECK(session->truncate(seq_id, depth) == depth, depth);   // the prefill left a state there
    TRY(session->step({&step, 1}));
  }
  Program& program = *TRY(session->program(n_tokens, 1));
  program.set_profiling(false);
  Backend& backend = session->backend();
  const std::optional<DeviceLimits> limits = TRY(backend.measure_limits());
  for (int64_t i = 0; limits && i < 3 + values.integer("--repetitions"); ++i) {  // whole runs: RunTimes
    CHECK(session->truncate(seq_id, depth) == depth, depth);
    TRY(session->step({&step, 1}));
  }
  Phase phase{
      name,  n_tokens, depth, program.steps(), {}, declined_groups(program), program.run_times(), backend.description(),
      limits};
  for (fuse::StatsRow& row : session->backend().fusion_stats().rows())
    if (row.graph == program.graph().name) phase.fusion.push_back(std::move(row));
  return phase;
}

bool has_host_steps(const Phase& phase) {
  return std::ranges::any_of(phase.steps, [](const StepReport& step) { return step.on_host; });
}
}  // namespace

Result<int> explain_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  TRY(check_no_more_words(arguments));
  if (values.is_set("--dump-ir")) return TRY(print_ir(arguments)), 0;
  const std::shared_ptr<const Model> model = TRY(open_model(arguments));
  const int64_t n_threads = values.integer("--threads") == 0 ? usable_cpus() : values.integer("--threads");
  const std::string isa =
      values.text("--isa") == "auto" ? std::string(cpu::isa_name(cpu::best_isa())) : values.text("--isa");
  const std::vector<Phase> phases = {TRY(profile(arguments, model, "decode", 1)),
                                     TRY(profile(arguments, model, "prefill", values.integer("--batch")))};
  const std::optional<DeviceLimits>& device = phases[0].limits;
  Limits limits;
  if (!device || std::ranges::any_of(phases, has_host_steps))
    limits.host = TRY(measure_limits(isa, static_cast<int>(n_threads)));
  limits.device = device ? *device : *limits.host;
  if (values.flag("--json")) {
    Json json = {
        {"model", model->name()}, {"isa", isa}, {"threads", n_threads}, {"limits", limits_json(limits.device)}};
    if (device && limits.host) json["host_limits"] = limits_json(*limits.host);
    for (const Phase& phase : phases) json["phases"].push_back(phase_json(phase, limits));
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return 0;
  }
  const std::string where = device ? phases[0].device : fmt::format("{}, {} threads", isa, n_threads);
  print(fmt::format("{}, {}\n", model->name(), where));
  if (device)
    print(
        fmt::format("limits of the device: {}, {:.1f} us a step\n", limits_text(*device), device->step_seconds * 1e6));
  if (limits.host) print(fmt::format("limits of this machine: {}\n", limits_text(*limits.host)));
  for (const Phase& phase : phases) print_phase(phase, limits, values.flag("--verbose"));
  print(
      "\n'of limit' is the larger of the shares of memory and compute speed. Steps are timed one by one, so their sum\n"
      "is more than a run takes; data that stays in a cache can be read faster than the memory limit.\n");
  return 0;
}

}  // namespace tokamak::cli

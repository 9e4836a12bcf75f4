// check-ops perf, support and grad.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/cpu/isa.h"
#include "base/thread_pool.h"
#include "chat/message.h"
#include "check/grad.h"
#include "check/run.h"
#include "check/support.h"
#include "cli/check_ops.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/limits_json.h"
#include "engine/limit_share.h"
#include "engine/limits.h"

namespace tokamak::cli {

namespace {

// The steps of a case that belong to its op.
StepReport own_steps(const std::vector<StepReport>& steps, const std::string& op) {
  StepReport sum;
  for (const StepReport& step : steps) {
    if (step.label != op) continue;
    sum.kernel = step.kernel;
    sum.bytes += step.bytes;
    sum.operations += step.operations;
    sum.seconds += step.seconds;
  }
  return sum;
}

Result<DeviceLimits> limits_of(const CheckOptions& options, Backend& backend) {
  if (const auto limits = TRY(backend.measure_limits())) return *limits;
  const std::string isa =
      options.backend.isa == "auto" ? std::string(cpu::isa_name(cpu::best_isa())) : options.backend.isa;
  const int64_t n_threads = options.backend.n_threads == 0 ? usable_cpus() : options.backend.n_threads;
  return measure_limits(isa, static_cast<int>(n_threads));
}

}  // namespace

Result<int> check_ops_perf(const Arguments& arguments) {
  const CheckOptions options = TRY(check_options(arguments.values));
  const std::vector<check::Recipe> recipes = TRY(wanted_recipes(check::perf_recipes(), options));
  const std::unique_ptr<Backend> backend = TRY(make_backend(options.backend_name, options.backend));
  const DeviceLimits limits = TRY(limits_of(options, *backend));
  std::vector<std::vector<std::string>> rows = {{"case", "kernel", "us", "GB/s", "GOPS", "of limit"}};
  Json cases = Json::array();
  ProgressBar progress("check-ops", !arguments.values.flag("--json"));
  for (size_t i = 0; i < recipes.size(); ++i) {
    if (!progress.update(static_cast<double>(i) / static_cast<double>(recipes.size())))
      return Error{.code = ErrorCode::cancelled, .what = "the measurement was cancelled"};
    const check::Case c = TRY(check::make_case(recipes[i], options.seed));
    const auto run = check::run_case(
        c, *backend, {.fusion = false, .n_timed_runs = static_cast<int>(arguments.values.integer("--repetitions"))});
    if (!run) {
      if (run.error().code != ErrorCode::unsupported) return run.error();
      rows.push_back({recipes[i].name(), "unsupported", "", "", "", ""});
      cases.push_back({{"case", recipes[i].name()}, {"unsupported", true}});
      continue;
    }
    StepReport step = own_steps(run->steps, recipes[i].subject);
    step.seconds = std::max(step.seconds, 1e-12);
    const LimitShare share = share_of(step, limits);
    rows.push_back({recipes[i].name(), step.kernel, fmt::format("{:.1f}", step.seconds * 1e6),
                    fmt::format("{:.2f}", step.bytes / step.seconds * 1e-9),
                    fmt::format("{:.1f}", step.operations / step.seconds * 1e-9),
                    fmt::format("{:.0f}% {}", 100 * share.value, share.limit)});
    cases.push_back({{"case", recipes[i].name()},
                     {"kernel", step.kernel},
                     {"seconds", step.seconds},
                     {"bytes", step.bytes},
                     {"operations", step.operations},
                     {"share_of_limit", share.value},
                     {"limit", share.limit}});
  }
  progress.clear();
  if (arguments.values.flag("--json")) {
    const Json json = {{"backend", options.backend_name},
                       {"description", backend->description()},
                       {"limits", limits_json(limits)},
                       {"cases", cases}};
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return 0;
  }
  print(fmt::format("{}\nlimits of this machine: {}\n", backend->description(), limits_text(limits)));
  print(text_table(rows, "<<>>>>"));
  print("Data that stays in a cache between runs can be read faster than the memory limit.\n");
  return 0;
}

std::string support_page() {
  std::vector<check::BackendSupport> backends;
  for (const BackendRow& row : backend_table()) {
    const auto backend = row.make({.isa = "scalar", .n_threads = 1});
    if (backend) backends.push_back({std::string(row.name), check::support_of(**backend)});
  }
  return check::support_markdown(backends);
}

Result<int> check_ops_support(const Arguments& arguments) {
  const CheckOptions options = TRY(check_options(arguments.values));
  const std::unique_ptr<Backend> backend = TRY(make_backend(options.backend_name, options.backend));
  std::vector<std::vector<std::string>> rows = {{"op or rule", "type", "kernel on " + options.backend_name}};
  Json json = Json::array();
  for (const check::Support& row : check::support_of(*backend)) {
    const std::string type = row.dtype ? std::string(dtype_name(*row.dtype)) : "";
    if (!options.op.empty() && row.subject != options.op) continue;
    if (options.filter && !std::regex_search(row.subject + " " + type, *options.filter)) continue;
    rows.push_back({row.subject, type, row.text()});
    json.push_back({{"subject", row.subject},
                    {"type", type},
                    {"is_rule", row.is_rule},
                    {"tried", row.n_tried},
                    {"supported", row.n_supported}});
  }
  if (arguments.values.flag("--json"))
    print(Json{{"backend", options.backend_name}, {"rows", json}}.dump(2) + "\n");
  else
    print(text_table(rows, "<<<"));
  return 0;
}

Result<int> check_ops_grad(const Arguments& arguments) {
  const CheckOptions options = TRY(check_options(arguments.values));
  const std::vector<check::Recipe> recipes = TRY(wanted_recipes(check::grad_recipes(), options));
  const std::unique_ptr<Backend> reference = TRY(make_backend("reference", {}));
  std::vector<std::vector<std::string>> rows = {{"case", "elements", "asymmetry", "verdict"}};
  Json cases = Json::array();
  int64_t n_failed = 0;
  for (const check::Recipe& recipe : recipes) {
    const check::GradReport report = check::check_gradients(recipe, options.seed, *reference);
    n_failed += report.passed() ? 0 : 1;
    rows.push_back({report.name, std::to_string(report.n_elements), fmt::format("{:.2e}", report.asymmetry),
                    report.passed() ? "ok" : "FAILED: " + report.why});
    cases.push_back({{"case", report.name},
                     {"elements", report.n_elements},
                     {"asymmetry", report.asymmetry},
                     {"passed", report.passed()}});
  }
  if (arguments.values.flag("--json")) {
    print(Json{{"limit", check::kMaxAsymmetry}, {"cases", cases}}.dump(2) + "\n");
  } else {
    print(text_table(rows, "<>><"));
    print(fmt::format("{} cases, {} failed; limit {:.0e}. Fused groups are left out: a rule has no backward form.\n",
                      recipes.size(), n_failed, check::kMaxAsymmetry));
  }
  return n_failed == 0 ? 0 : 1;
}

}  // namespace tokamak::cli

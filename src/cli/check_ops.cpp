// check-ops: every op and every fusion rule on a backend, against the reference.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "chat/message.h"
#include "check/check.h"
#include "check/recipes.h"
#include "cli/check_ops.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/loading.h"
#include "engine/backends.h"

namespace tokamak::cli {

Result<CheckOptions> check_options(const SettingValues& values) {
  CheckOptions out;
  out.backend_name = values.text("--backend");
  out.backend = {.isa = values.text("--isa"),
                 .n_threads = values.integer("--threads"),
                 .activations = values.text("--activations")};
  const int64_t seed = values.integer("--seed");
  out.seed = seed < 0 ? 1 : static_cast<uint64_t>(seed);
  out.op = values.text("--op");
  out.every = values.integer("--every");
  const std::string& pattern = values.text("--filter");
  try {
    if (!pattern.empty()) out.filter = std::regex(pattern);
  } catch (const std::regex_error&) {
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("'{}' is no regular expression", pattern),
                 .where = "--filter"};
  }
  return out;
}

Result<std::vector<check::Recipe>> wanted_recipes(std::vector<check::Recipe> all, const CheckOptions& options) {
  std::vector<check::Recipe> out;
  for (check::Recipe& recipe : all) {
    if (!options.op.empty() && recipe.subject != options.op) continue;
    if (options.filter && !std::regex_search(recipe.name(), *options.filter)) continue;
    out.push_back(std::move(recipe));
  }
  if (out.empty())
    return Error{.code = ErrorCode::bad_argument,
                 .what = "no case is left",
                 .where = options.op.empty() ? "--filter" : "--op " + options.op,
                 .hint = "`tokamak check-ops support` lists the ops and fusion labels"};
  std::vector<check::Recipe> some;
  for (size_t i = 0; i < out.size(); i += static_cast<size_t>(options.every)) some.push_back(std::move(out[i]));
  return some;
}

std::string reproduce(std::string_view mode, const std::string& name, const CheckOptions& options) {
  std::string pattern;
  for (char c : name)
    pattern += std::string_view("+.()|*").find(c) == std::string_view::npos ? std::string(1, c) : std::string("\\") + c;
  std::string out =
      fmt::format("tokamak check-ops {} --backend {} --seed {}", mode, options.backend_name, options.seed);
  if (options.backend.isa != "auto") out += " --isa " + options.backend.isa;
  if (options.backend.n_threads != 0) out += fmt::format(" --threads {}", options.backend.n_threads);
  if (options.backend.activations != "int16") out += " --activations " + options.backend.activations;
  return out + " --filter '^" + pattern + "$'";
}

namespace {

using check::CaseReport;
using check::Verdict;

check::Arithmetic arithmetic_of(const CheckOptions& options) {
  if (options.backend_name == "cuda") return check::kCudaArithmetic;
  return {.max_code = options.backend.activations == "int8" ? 127.0 : 127.0 * 128};
}

struct Totals {
  std::array<int64_t, check::kVerdicts.size()> n = {};
  std::map<std::string, int64_t> unsupported, not_fused;  // by op or label
  int64_t of(Verdict v) const { return n[static_cast<size_t>(v)]; }
};

std::string list_of(const std::map<std::string, int64_t>& counts) {
  std::string out;
  for (const auto& [name, n] : counts) out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", name, n);
  return out;
}

Json to_json(const CaseReport& report, const CheckOptions& options) {
  Json json = {{"case", report.name}, {"verdict", check::kVerdicts[static_cast<size_t>(report.verdict)]}};
  if (!report.why.empty()) json["why"] = report.why;
  if (report.verdict == Verdict::failed) json["command"] = reproduce("test", report.name, options);
  json["share_of_bound"] = report.share;
  json["nmse"] = report.nmse;
  return json;
}

Result<int> test(const Arguments& arguments) {
  const CheckOptions options = TRY(check_options(arguments.values));
  const std::vector<check::Recipe> recipes = TRY(wanted_recipes(check::all_recipes(), options));
  const std::unique_ptr<Backend> backend = TRY(make_backend(options.backend_name, options.backend));
  const std::unique_ptr<Backend> reference = TRY(make_backend("reference", {}));
  const bool as_json = arguments.values.flag("--json");
  const auto start = std::chrono::steady_clock::now();
  Totals totals;
  Json cases = Json::array();
  ProgressBar progress("check-ops", !as_json);
  for (size_t i = 0; i < recipes.size(); ++i) {
    if (!progress.update(static_cast<double>(i) / static_cast<double>(recipes.size())))
      return Error{.code = ErrorCode::cancelled, .what = "the check was cancelled"};
    const CaseReport report = check::check_case(recipes[i], options.seed, *backend, *reference, arithmetic_of(options));
    ++totals.n[static_cast<size_t>(report.verdict)];
    if (report.verdict == Verdict::unsupported) ++totals.unsupported[recipes[i].subject];
    if (report.verdict == Verdict::not_fused) ++totals.not_fused[recipes[i].subject];
    if (as_json) cases.push_back(to_json(report, options));
    if (as_json || report.verdict != Verdict::failed) continue;
    progress.clear();
    print(fmt::format("FAILED {}: {}\n       {}\n", report.name, report.why, reproduce("test", report.name, options)));
  }
  progress.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (as_json) {
    Json json = {{"backend", options.backend_name},
                 {"description", backend->description()},
                 {"seed", options.seed},
                 {"seconds", seconds}};
    for (size_t v = 0; v < check::kVerdicts.size(); ++v) json["totals"][check::kVerdicts[v]] = totals.n[v];
    json["cases"] = std::move(cases);
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } else {
    if (!totals.unsupported.empty()) print("unsupported: " + list_of(totals.unsupported) + "\n");
    if (!totals.not_fused.empty()) print("right but not fused: " + list_of(totals.not_fused) + "\n");
    print(fmt::format("{}: {}\n{} cases: {} passed, {} failed, {} unsupported, {} not fused; seed {}, {:.1f} s\n",
                      options.backend_name, backend->description(), recipes.size(), totals.of(Verdict::passed),
                      totals.of(Verdict::failed), totals.of(Verdict::unsupported), totals.of(Verdict::not_fused),
                      options.seed, seconds));
  }
  return totals.of(Verdict::failed) == 0 ? 0 : 1;
}

struct Mode {
  std::string_view name;
  Result<int> (*run)(const Arguments& arguments);
  std::string_view meaning;
};
constexpr auto kModes = std::to_array<Mode>({
    {"test", test, "compares each case with the reference, within a bound that follows from the arithmetic"},
    {"perf", check_ops_perf, "bytes and operations per second of the sizes of real models, and the share of the limit"},
    {"support", check_ops_support, "which ops, types and fusion rules have kernels"},
    {"grad", check_ops_grad, "compares backward forms with finite differences, on the reference backend"},
});

}  // namespace

std::string check_ops_notes(bool) {
  std::string out = "Modes:\n";
  for (const Mode& mode : kModes) out += fmt::format("  {:<8} {}\n", mode.name, mode.meaning);
  return out;
}

Result<int> check_ops_command(const Arguments& arguments) {
  TRY(check_no_more_words(arguments, 1));
  catch_interrupts();
  const std::string_view wanted = arguments.words.empty() ? "test" : std::string_view(arguments.words[0]);
  std::string known;
  for (const Mode& mode : kModes) {
    if (mode.name == wanted) return mode.run(arguments);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", mode.name);
  }
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("there is no mode '{}'", wanted),
               .where = "check-ops",
               .hint = "known: " + known};
}

}  // namespace tokamak::cli

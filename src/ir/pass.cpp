#include "ir/pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "ir/text.h"
#include "ir/verify.h"

namespace tokamak::ir {

namespace {

constexpr std::string_view kBuild = "build";

const Pass* find_pass(std::span<const Pass> passes, std::string_view name) {
  for (const Pass& pass : passes)
    if (pass.name == name) return &pass;
  return nullptr;
}

Result<void> check_options(std::span<const Pass> passes, const PassOptions& options) {
  std::string names(kBuild);
  for (const Pass& pass : passes) names += ", " + pass.name;
  const auto wrong = [&](std::string what, std::string_view name) {
    return Error{.what = std::move(what), .where = fmt::format("pass \"{}\"", name), .hint = "passes: " + names};
  };
  for (const std::string& name : options.disabled) {
    const Pass* pass = find_pass(passes, name);
    if (name == kBuild || (pass && pass->is_required)) return wrong("cannot be switched off", name);
    if (!pass) return wrong("does not exist", name);
  }
  const std::string& dump = options.dump_after;
  if (!dump.empty() && dump != kBuild && !find_pass(passes, dump)) return wrong("does not exist", dump);
  return {};
}

Error in_pass(std::string_view pass, Error error) {
  error.where = fmt::format("pass {}: {}", pass, error.where);
  return error;
}

Result<void> verify_and_dump(const Graph& graph, std::string_view pass, const PassOptions& options) {
  if (auto ok = verify(graph); !ok) return in_pass(pass, ok.error());
  if (options.dump_after == pass && options.dump_sink) options.dump_sink(to_text(graph));
  return {};
}

}  // namespace

Result<std::vector<PassReport>> run_passes(Graph& graph, std::span<const Pass> passes, const PassOptions& options) {
  using Clock = std::chrono::steady_clock;
  TRY(check_options(passes, options));
  TRY(verify_and_dump(graph, kBuild, options));
  std::vector<PassReport> reports;
  for (const Pass& pass : passes) {
    const bool disabled = std::ranges::find(options.disabled, pass.name) != options.disabled.end();
    const auto& run = disabled ? pass.when_disabled : pass.run;
    const auto start = Clock::now();
    if (run)
      if (auto ok = run(graph); !ok) return in_pass(pass.name, ok.error());
    reports.push_back({pass.name, std::chrono::duration<double>(Clock::now() - start).count(), disabled});
    TRY(verify_and_dump(graph, pass.name, options));
  }
  return reports;
}

}  // namespace tokamak::ir

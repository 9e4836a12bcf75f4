// selftest: does every kernel compute the right thing on this machine?
#include "cli/selftest.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "chat/message.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/loading.h"

namespace tokamak::cli {

namespace {
using cpu::Isa;

// Scalar, and what the flag asks for. Errors: bad_argument when the machine lacks it.
Result<std::vector<Isa>> wanted_isas(const std::string& flag) {
  std::vector<Isa> isas = {Isa::scalar};
  for (const cpu::IsaRow& row : cpu::kIsas)
    if (row.isa != Isa::scalar && cpu::isa_available(row.isa) && (flag == "auto" || flag == row.name))
      isas.push_back(row.isa);
  if (flag != "auto" && flag != "scalar" && isas.size() == 1)
    return Error{.code = ErrorCode::bad_argument, .what = "this machine cannot run " + flag, .where = "--isa"};
  return isas;
}

std::string missing_text(const cpu::IsaRow& row) {
  return fmt::format("{}: not checked, this CPU or build lacks it (it needs {})", row.name, row.needs);
}

std::vector<std::string> row_of(const CheckResult& check) {
  return {check.name, check.isa, fmt::format("{:.2e}", check.meter.error()), fmt::format("{:.2e}", check.meter.bound()),
          check.passed()    ? "ok"
          : check.same_bits ? "FAILED"
                            : "FAILED: other bits than scalar"};
}

Json to_json(const std::vector<CheckResult>& checks, double seconds) {
  Json json = {{"seconds", seconds}};
  for (const cpu::IsaRow& row : cpu::kIsas)
    if (!cpu::isa_available(row.isa)) json["missing"].push_back(row.name);
  for (const CheckResult& check : checks)
    json["checks"].push_back({{"name", check.name},
                              {"isa", check.isa},
                              {"error", check.meter.error()},
                              {"bound", check.meter.bound()},
                              {"same_bits", check.same_bits},
                              {"passed", check.passed()}});
  return json;
}
}  // namespace

Result<int> selftest_command(const Arguments& arguments) {
  using Clock = std::chrono::steady_clock;
  TRY(check_no_more_words(arguments, 0));
  const std::vector<Isa> isas = TRY(wanted_isas(arguments.values.text("--isa")));
  const auto start = Clock::now();
  std::vector<CheckResult> checks = check_matmul_kernels(isas);
  for (auto& part : {check_op_kernels(isas), TRY(check_models(isas))})
    checks.insert(checks.end(), part.begin(), part.end());
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const auto n_failed = std::ranges::count_if(checks, [](const CheckResult& check) { return !check.passed(); });
  if (arguments.values.flag("--json")) {
    print(to_json(checks, seconds).dump(2) + "\n");
  } else {
    std::vector<std::vector<std::string>> rows = {{"kernel", "isa", "error", "bound", "verdict"}};
    for (const CheckResult& check : checks) rows.push_back(row_of(check));
    print(text_table(rows, "<<>><"));
    for (const cpu::IsaRow& row : cpu::kIsas)
      if (!cpu::isa_available(row.isa)) print(missing_text(row) + "\n");
    print(fmt::format("{} checks, {} failed, {:.1f} s; errors are against f64, at the element nearest to its bound\n",
                      checks.size(), n_failed, seconds));
  }
  return n_failed == 0 ? 0 : 1;
}

}  // namespace tokamak::cli

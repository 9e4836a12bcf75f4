// What the modes of check-ops share.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/settings.h"
#include "check/recipes.h"
#include "cli/command.h"
#include "engine/backends.h"

namespace tokamak::cli {

struct CheckOptions {
  std::string backend_name;
  BackendOptions backend;
  uint64_t seed = 1;
  std::string op;                    // name or label; empty: all
  std::optional<std::regex> filter;  // of the names of cases
  int64_t every = 1;                 // only each n-th of what is left
};
// Errors: bad_argument (a filter that is no regular expression).
Result<CheckOptions> check_options(const SettingValues& values);
// Errors: bad_argument when none is left.
Result<std::vector<check::Recipe>> wanted_recipes(std::vector<check::Recipe> all, const CheckOptions& options);
Result<int> check_ops_perf(const Arguments& arguments);
Result<int> check_ops_support(const Arguments& arguments);
Result<int> check_ops_grad(const Arguments& arguments);
// docs/reference/support.md.
std::string support_page();
// The command that runs one case again.
std::string reproduce(std::string_view mode, const std::string& name, const CheckOptions& options);

}  // namespace tokamak::cli

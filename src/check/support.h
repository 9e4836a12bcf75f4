// Which ops, types and fusion rules a backend has kernels for: found by compiling the cases of the check.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "check/case.h"

namespace tokamak::check {

// Of the cases of one op and type, or of one rule and type, that were tried.
struct Support {
  std::string subject;  // op, or the rule's label in the table
  std::optional<DType> dtype;
  bool is_rule = false;
  int64_t n_tried = 0, n_supported = 0;  // of a rule: compiled and fused

  // "yes", "no", or "3 of 4".
  std::string text() const;
};

// In the order of the tables. Runs nothing.
std::vector<Support> support_of(Backend& backend);

struct BackendSupport {
  std::string name;
  std::vector<Support> rows;  // of support_of: the same subjects for every backend
};
// docs/reference/support.md.
std::string support_markdown(std::span<const BackendSupport> backends);

}  // namespace tokamak::check

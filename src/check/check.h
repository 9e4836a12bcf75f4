// The op check: a recipe's case on a backend against the reference, and fused against unfused.
#pragma once

#include <string>

#include "check/bounds.h"
#include "check/case.h"

namespace tokamak::check {

enum class Verdict : uint8_t {
  passed,
  failed,
  unsupported,  // the backend has no kernel for an op of the case: not checked
  not_fused,    // right, but the backend ran the rule's ops one by one: it has no kernel for the rule
  count_,
};
inline constexpr auto kVerdicts = std::to_array<std::string_view>({"passed", "failed", "unsupported", "not fused"});
static_assert(kVerdicts.size() == static_cast<size_t>(Verdict::count_));

struct CaseReport {
  std::string name;
  Verdict verdict = Verdict::passed;
  std::string why;   // of anything but passed
  double share = 0;  // largest |got - wanted| / bound
  double nmse = 0;   // largest of outputs and states, to the reference
};

// Same recipe and seed, same numbers. Both backends may be used for many cases, one at a time.
CaseReport check_case(const Recipe& recipe, uint64_t seed, Backend& backend, Backend& reference,
                      const Arithmetic& arithmetic);

}  // namespace tokamak::check

// Recorded fusion counts as a file, and what differs from it. The columns are those of published baselines, with the
// file's name where they have the family's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/fusion_run.h"

namespace tokamak {

// The whole file: a heading in comments, then model, moe, mode, label and count, padded, one row per line, sorted.
std::string fusion_csv(std::string_view device, std::vector<FusionRow> rows);

// Lines that start with # and empty ones are left out. Errors: bad_file, naming the line (not five columns, a number
// that is none, a mode that is none, the same key twice).
Result<std::vector<FusionRow>> parse_fusion_csv(std::string_view text, std::string_view name);

// One sentence per difference, in both directions: another count, a row that only the baseline has, a row that only the
// run has. Empty: equal.
std::vector<std::string> differences(const std::vector<FusionRow>& baseline, const std::vector<FusionRow>& run);

}  // namespace tokamak

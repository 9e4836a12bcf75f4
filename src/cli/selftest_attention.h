// The attention kernels' part of selftest.
#pragma once

#include <vector>

#include "backend/cpu/ops/ops.h"
#include "cli/selftest.h"

namespace tokamak::cli {

void check_attention(const cpu::OpSet& ops, ErrorMeter& meter, std::vector<float>& out);
// With the keys split over work items.
void check_attention_merge(const cpu::OpSet& ops, ErrorMeter& meter, std::vector<float>& out);

}  // namespace tokamak::cli

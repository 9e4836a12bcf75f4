// selftest of the op kernels that have a file of their own: routing and recurrent ones. `out` gets the kernel's bits.
#pragma once

#include <vector>

#include "backend/cpu/ops/ops.h"
#include "cli/selftest.h"

namespace tokamak::cli {

using Out = std::vector<float>;

void check_soft_max(const cpu::OpSet& ops, ErrorMeter& meter, Out& out);
void check_sum_rows(const cpu::OpSet& ops, ErrorMeter& meter, Out& out);
void check_argsort(const cpu::OpSet& ops, ErrorMeter& meter, Out& out);
void check_mask_groups(const cpu::OpSet& ops, ErrorMeter& meter, Out& out);
void check_add_id(const cpu::OpSet& ops, ErrorMeter& meter, Out& out);
void check_route(const cpu::OpSet& ops, ErrorMeter& meter, Out& out);
void check_weighted_sum(const cpu::OpSet& ops, ErrorMeter& meter, Out& out);
void check_ssm_conv(const cpu::OpSet& ops, ErrorMeter& meter, Out& out);
void check_conv_state(const cpu::OpSet& ops, ErrorMeter& meter, Out& out);
void check_delta_net(const cpu::OpSet& ops, ErrorMeter& meter, Out& out);

}  // namespace tokamak::cli

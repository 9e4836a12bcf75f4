#include "engine/limit_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace tokamak {

namespace {
using Rate = double DeviceLimits::*;

struct KernelRow {
  std::string_view prefix;
  Rate rate;
};
// The first row that fits; f32 where none does. Quantized types multiply integer codes, but on tensor cores halves.
constexpr auto kKernels = std::to_array<KernelRow>({{"gemm_f", &DeviceLimits::f32_ops_per_second},
                                                    {"gemm_bf", &DeviceLimits::f32_ops_per_second},
                                                    {"gemm_", &DeviceLimits::int8_ops_per_second}});
constexpr auto kTensorKernels = std::to_array<KernelRow>({{"gemm_", &DeviceLimits::f16_ops_per_second},
                                                          {"columns_", &DeviceLimits::f16_ops_per_second},
                                                          {"attention_prefill", &DeviceLimits::f16_ops_per_second},
                                                          {"attention_decode", &DeviceLimits::f16_ops_per_second},
                                                          {"kv_write+attention", &DeviceLimits::f16_ops_per_second},
                                                          {"matvec_f", &DeviceLimits::f32_ops_per_second},
                                                          {"matvec_bf", &DeviceLimits::f32_ops_per_second},
                                                          {"matvec_", &DeviceLimits::int8_ops_per_second}});

Rate rate_of(std::string_view kernel, bool has_tensor_cores) {
  const std::span<const KernelRow> rows =
      has_tensor_cores ? std::span<const KernelRow>(kTensorKernels) : std::span<const KernelRow>(kKernels);
  const auto row = std::ranges::find_if(rows, [&](const KernelRow& r) { return kernel.starts_with(r.prefix); });
  return row == rows.end() ? &DeviceLimits::f32_ops_per_second : row->rate;
}
}  // namespace

LimitShare share_of(const StepReport& report, const DeviceLimits& limits) {
  if (report.seconds <= 0) return {};
  const Rate rate = rate_of(report.kernel, limits.f16_ops_per_second > 0);
  const double memory = (limits.step_seconds + report.bytes / limits.read_bytes_per_second) / report.seconds;
  const double compute = report.operations / report.seconds / (limits.*rate);
  if (compute > memory) return {compute, std::ranges::find(kRates, rate, &RateRow::rate)->name};
  return {memory, "memory"};
}

std::string limits_text(const DeviceLimits& limits) {
  std::string out = fmt::format("reads {:.1f} GB/s", limits.read_bytes_per_second * 1e-9);
  for (const RateRow& row : kRates)
    if (limits.*row.rate > 0) out += fmt::format(", {} {:.0f} GOPS", row.name, limits.*row.rate * 1e-9);
  return out;
}

}  // namespace tokamak

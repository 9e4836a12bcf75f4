// How close a step comes to what the machine can do.
#pragma once

#include <string_view>

#include "backend/backend.h"
#include "engine/limits.h"

namespace tokamak::cli {

struct LimitShare {
  double value = 0;  // of the limit that binds, 0..1
  std::string_view limit = "memory";
};

// Matmuls of quantized types multiply integer codes and are held against the int8 limit, all others against f32.
inline LimitShare share_of(const StepReport& report, const DeviceLimits& limits) {
  if (report.seconds <= 0) return {};
  const std::string_view kernel = report.kernel;
  const bool is_integer =
      kernel.starts_with("gemm_") && !kernel.starts_with("gemm_f") && !kernel.starts_with("gemm_bf");
  const double peak = is_integer ? limits.int8_ops_per_second : limits.f32_ops_per_second;
  const double memory = (limits.step_seconds + report.bytes / limits.read_bytes_per_second) / report.seconds;
  const double compute = report.operations / report.seconds / peak;
  if (compute > memory) return {compute, is_integer ? "int8" : "f32"};
  return {memory, "memory"};
}

}  // namespace tokamak::cli

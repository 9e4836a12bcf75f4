// How close a step comes to what the machine can do.
#pragma once

#include <string>
#include <string_view>

#include "backend/backend.h"

namespace tokamak {

// The arithmetic that a device has limits for, by name.
struct RateRow {
  std::string_view name;
  double DeviceLimits::*rate;
};
inline constexpr RateRow kRates[] = {{"f16", &DeviceLimits::f16_ops_per_second},
                                     {"int8", &DeviceLimits::int8_ops_per_second},
                                     {"f32", &DeviceLimits::f32_ops_per_second}};

struct LimitShare {
  double value = 0;  // of the limit that binds, 0..1
  std::string_view limit = "memory";
};

// A step is held against the time for its bytes, and against the rate of the arithmetic that its kernel's name stands
// for: int8, f16 or f32. Without a time: 0 of memory.
LimitShare share_of(const StepReport& report, const DeviceLimits& limits);

// "reads 4366.7 GB/s, f16 989000 GOPS, int8 .. GOPS, f32 .. GOPS": what the device has.
std::string limits_text(const DeviceLimits& limits);

}  // namespace tokamak

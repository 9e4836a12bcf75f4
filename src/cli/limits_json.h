// What a device can do at most, for machines.
#pragma once

#include <nlohmann/json.hpp>

#include "backend/backend.h"
#include "chat/message.h"

namespace tokamak::cli {

inline Json limits_json(const DeviceLimits& limits) {
  return {{"read_bytes_per_second", limits.read_bytes_per_second},
          {"int8_ops_per_second", limits.int8_ops_per_second},
          {"f32_ops_per_second", limits.f32_ops_per_second},
          {"f16_ops_per_second", limits.f16_ops_per_second}};
}

}  // namespace tokamak::cli
